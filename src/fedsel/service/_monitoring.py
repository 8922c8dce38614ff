"""What an operator watches: logs, figures for Prometheus, and the model on a public test set."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel._internal.models import LinearModel, MulticlassModel
from fedsel.device import RawRecords
from fedsel.errors import InvalidArgument
from fedsel.server._checkpoint import Checkpoint
from fedsel.service._task import Task
from fedsel.simulation._judges import (
    EvaluationSet,
    Judge,
    LinearJudge,
    MulticlassJudge,
    RegressionJudge,
)

with needed("service", "fedsel.service"):
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from fedsel.service._collector import Collector

LOG = logging.getLogger("fedsel.service")
Level = Literal["debug", "info", "warning", "error"]


def log_event(event: str, *, level: Level = "info", **values: Any) -> None:
    """Write that something happened, with public values alone: no client's name, token, address."""
    number = logging.getLevelNamesMapping()[level.upper()]
    if LOG.isEnabledFor(number):
        LOG.log(number, event, extra={"values": values})


class JSONLines(logging.Formatter):
    """One object a line: time, level, event and values.

    >>> record = logging.LogRecord("fedsel.service", 20, "", 0, "round closed", (), None)
    >>> record.created, record.values = 0.0, {"round": 3}
    >>> JSONLines().format(record)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "event": "round closed", "round": 3}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; of an error its kind and place, not its text."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.created % 1 * 1000):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "values", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                code = trace.tb_frame.f_code
                line["at"] = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: str) -> None:
    """Write lines of JSON to standard error: ours, and what uvicorn warns of."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    for name, least in (("fedsel.service", level), ("uvicorn", "warning")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least.upper())


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """A public test set of a task: records X (n, d) and targets y (n,) as its schema has them."""

    task: Task
    X: NDArray[np.float64]
    y: NDArray[np.float64]

    @classmethod
    def of(cls, task: Task) -> Self | None:
        """The test set of a task; None if it has none. A file that does not fit is refused."""
        if task.evaluation is None:
            return None
        if task.schema is None:
            allowed = "omitted: it is for tasks with a schema"
            raise InvalidArgument("evaluation", task.evaluation, allowed)
        path, label = task.evaluation["data"], task.evaluation.get("label")
        try:
            parts = RawRecords.read(path, label).suited(task.schema, task.loss).arranged()
        except InvalidArgument as error:
            raise InvalidArgument("evaluation", path, f"a test set ({error})") from None
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        if not len(y):
            raise InvalidArgument("evaluation", path, "a test set with labels that the task knows")
        return cls(task, X, y)

    def measured(self, state: Checkpoint) -> dict[str, float]:
        """Accuracy (R² of a regression) and loss of the model as it is at a checkpoint."""
        preparing, schema = self.task.preparing(state), self.task.schema
        if preparing is None or schema is None:
            raise InvalidArgument("schema", None, "set, because there is a test set")
        X, loss = preparing.records(self.X), self.task.loss
        if schema.target_range is not None:
            judge: Judge = RegressionJudge(X, self.y, LinearModel(loss, reg=0.0))
        elif schema.rows > 1:
            classes = self.y.astype(np.int64)
            judge = MulticlassJudge(X, classes, schema.rows, MulticlassModel(loss, reg=0.0))
        else:
            test = EvaluationSet(X, (2 * self.y - 1).astype(np.int8))
            judge = LinearJudge(test, LinearModel(loss, reg=0.0))
        scores, losses = judge(state.state.average[None, :])
        name = "accuracy" if schema.target_range is None else "r2"
        return {name: float(next(iter(scores))), "loss": float(next(iter(losses)))}


Figure = tuple[str, str, float]
"""A gauge: its name, what it means, and its value."""
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@final
class Metrics:
    """Figures for Prometheus: of the runs, as the database has them, and of this process.

    ``runs`` has the collectors of those that have started, ``more`` what else some have to say.
    """

    def __init__(self) -> None:
        self.runs: dict[str, Collector[Any]] = {}
        self.more: dict[str, Callable[[], Iterable[Figure]]] = {}
        self._worker = str(os.getpid())
        self._registry = CollectorRegistry()
        self._registry.register(cast(Any, self))
        about: dict[str, Any] = {"registry": self._registry}
        worker = ["worker", "run", "route"]
        self._requests = Counter(
            "fedsel_requests", "Requests that were answered", [*worker, "status"], **about
        )
        self._seconds = Histogram(
            "fedsel_request_seconds",
            "From a request to its answer",
            worker,
            buckets=_SECONDS,
            **about,
        )
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, run: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        pair = self._known.get((run, route, status))
        if pair is None:  # to look labels up takes longer than to count
            pair = (
                self._requests.labels(self._worker, run, route, str(status)),
                self._seconds.labels(self._worker, run, route),
            )
            self._known[run, route, status] = pair
        pair[0].inc()
        pair[1].observe(seconds)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The figures of the runs, read when they are asked for; the same at every process."""
        families: dict[str, Any] = {}
        for run, collector in self.runs.items():
            more = self.more.get(run, tuple)()
            gauges = [(GaugeMetricFamily, *figure, dict[str, str]()) for figure in more]
            for kind, name, about, value, labels in (*_figures(collector), *gauges):
                if name not in families:
                    families[name] = kind(f"fedsel_{name}", about, labels=["run", *labels])
                families[name].add_metric([run, *labels.values()], value)
        yield from families.values()


def _figures(collector: Collector[Any]) -> Iterator[tuple[Any, str, str, float, dict[str, str]]]:
    """The figures of a run: kind, name, meaning, value and labels of each."""
    gauge, counter, snapshot = GaugeMetricFamily, CounterMetricFamily, collector.run.snapshot
    yield gauge, "round", "The open round", snapshot.round, {}
    yield gauge, "rounds", "Rounds of the run in all", snapshot.rounds, {}
    began = "When the open round began"
    yield gauge, "round_opened_seconds", began, collector.status.opened, {}
    for name, count in snapshot.ended.plus(collector.counts)._asdict().items():
        about = "Reports of the run by their outcome"
        yield counter, "reports", about, count, {"outcome": name}
    for name, value in snapshot.measured.items():
        yield gauge, name, "Of the model on the test set", value, {}
    yield gauge, "waiting", "Reports that wait here", collector.waiting, {}
    yield counter, "commits", "Groups committed here", collector.commits, {}
    available = int(collector.available)
    yield gauge, "store_available", "Whether the store answers here", available, {}
