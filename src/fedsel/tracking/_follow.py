"""Follow a run that a service leads, by what it publishes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import fields
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

from fedsel.device._connection import SECONDS, Connection, Ended, Ending, Reply
from fedsel.errors import check_positive
from fedsel.server import RoundRecord
from fedsel.server._step import History
from fedsel.tracking._callbacks import Callbacks, Run, Tracking

_MOST_BYTES = 1 << 30
_PARAMETERS = (
    *("solution", "dim", "epochs", "rounds_per_epoch", "rounds", "clients", "learning_rate"),
    *("averaging", "loss", "purpose", "recipient"),
)


def follow(
    url: str,
    callbacks: Callbacks,
    *,
    every: float = 1.0,
    patience: float = SECONDS,
    ca: str | Path | None = None,
) -> History:
    """Call back for every round of the service at ``url``, until its run is over.

    Rounds that are over already come first. The service is asked ``every`` few seconds; after
    ``patience`` seconds without an answer `fedsel.device.Ended` is raised. This reads what
    everybody can read: it needs no invitation, and whatever happens here, the service goes on.
    ``ca`` is a file of certificates to trust.
    """
    check_positive("every", every)
    connection = Connection(url, ca=ca, patience=check_positive("patience", patience))
    return follow_over(connection, callbacks, every)


def follow_over(connection: Connection, callbacks: Callbacks, every: float) -> History:
    """Follow a run over a connection, which is closed at the end."""
    tracking = Tracking(callbacks)
    try:
        task = _asked(connection, "/v1/task").values
        tracking.start(_run(task))
        seen, done, finished = 0, None, False
        while not finished:
            if _asked(connection, "/v1/rounds/open").values.get("round") == done:
                time.sleep(every)
                continue
            now = _asked(connection, "/v1/rounds").values
            done, finished = now.get("round"), bool(now.get("finished"))
            history, metrics = _history(task, now)
            for row, measured in list(zip(history.rounds, metrics, strict=True))[seen:]:
                tracking.round(row, metrics=measured)
            seen = len(metrics)
        history.weights = np.frombuffer(_asked(connection, "/v1/model").body, "<f8")
    finally:
        connection.close()
    tracking.end(history)
    return history


def _asked(connection: Connection, path: str) -> Reply:
    reply = connection.ask(path, _MOST_BYTES)
    if reply.status != HTTPStatus.OK:
        raise connection.not_understood(reply)
    return reply


def _run(task: Mapping[str, Any]) -> Run:
    """The run that a service announces."""
    try:
        each, total = float(task["epsilon_per_report"]), float(task["epsilon"])
        statement = f"ε = {each:.6g} a report, {total:.6g} in total, which each device charges"
        known = {key: task[key] for key in _PARAMETERS if task.get(key) not in (None, "")}
        return Run(str(task["name"]), int(task["rounds"]), total, statement, known)
    except (KeyError, TypeError, ValueError) as error:
        raise Ended(Ending.NOT_UNDERSTOOD, "not the announcement of a task") from error


def _history(
    task: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[History, list[dict[str, float]]]:
    """The rounds that are over, and all that was measured on the service's public test set."""
    try:
        rows = [dict(row) for row in now["rounds"]]
        metrics = [dict(row["measured"] or {}) for row in rows]
        records = [RoundRecord(*(row[field.name] for field in fields(RoundRecord))) for row in rows]
        unknown = math.nan
        scores = {
            one.round + 1: (measured.get("accuracy", unknown), measured.get("loss", unknown))
            for one, measured in zip(records, metrics, strict=True)
        }
        found = History.of_records(records, task["epsilon_per_report"], task["bits"], scores)
    except (KeyError, TypeError, ValueError) as error:
        raise Ended(Ending.NOT_UNDERSTOOD, "not the rounds of a run") from error
    return found, metrics
