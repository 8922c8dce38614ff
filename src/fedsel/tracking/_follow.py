"""Follow a run that a service leads, by what it publishes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

from fedsel.device._connection import SECONDS, Connection, Ended, Ending, Reply
from fedsel.errors import check_positive
from fedsel.server._step import History, Round
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
    tracking = Tracking(callbacks)
    check_positive("every", every)
    connection = Connection(url, ca=ca, patience=check_positive("patience", patience))
    try:
        task = _asked(connection, "/v1/task").values
        tracking.start(_run(task))
        rounds, done, finished = list[Round](), None, False
        while not finished:
            if _asked(connection, "/v1/rounds/open").values.get("round") == done:
                time.sleep(every)
                continue
            now = _asked(connection, "/v1/rounds").values
            done, finished = now.get("round"), bool(now.get("finished"))
            for row, metrics in _closed(task, now)[len(rounds) :]:
                rounds.append(row)
                tracking.round(row, metrics=metrics)
        weights = np.frombuffer(_asked(connection, "/v1/model").body, "<f8")
    finally:
        connection.close()
    heard = [row for row in rounds if row.reports]
    fewest = min((row.reports for row in heard), default=0)
    epochs = len({row.epoch for row in heard})
    history = History(rounds, weights, fewest_reports=fewest, epochs_heard=epochs)
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


def _closed(
    task: Mapping[str, Any], now: Mapping[str, Any]
) -> list[tuple[Round, Mapping[str, object]]]:
    """The rounds that are over, with all that was measured on the service's public test set."""
    found: list[tuple[Round, Mapping[str, object]]] = []
    heard = set[int]()
    try:
        for record in now["rounds"]:
            number, epoch, reports = record["round"] + 1, record["epoch"], record["accepted"]
            metrics = dict(record["measured"] or {})
            if reports:
                heard.add(epoch)
            spent, bits = len(heard) * task["epsilon_per_report"], task["bits"] * reports
            scores = (metrics.get("accuracy", math.nan), metrics.get("loss", math.nan))
            found.append((Round(number, epoch, spent, bits, reports, *scores), metrics))
    except (KeyError, TypeError, ValueError) as error:
        raise Ended(Ending.NOT_UNDERSTOOD, "not the rounds of a run") from error
    return found
