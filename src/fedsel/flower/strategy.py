"""The strategy: asks nodes for reports, averages them, steps the model, survives a restart."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from fedsel.budget import Budget, hyper_parameters_free
from fedsel.device import Reason
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_epsilon,
    check_finite,
    check_positive,
)
from fedsel.flower.messages import (
    ARRAYS,
    CONFIG,
    RECORD,
    content_bytes,
    report_of,
)
from fedsel.flower.session import Session
from fedsel.server import RoundRecord
from fedsel.simulation import History, Round
from fedsel.simulation.rates import public_rate
from fedsel.solutions import solution as named_solution
from fedsel.wire import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
_POLL = 0.5
_KNOWN = {reason.value: reason.name for reason in Reason}
_FURTHER = ("k", "clip", "momentum", "ratio", "seed", "rho", "words")


class FedSelStrategy(Strategy):
    """Train from private reports: what nodes with `FedSelMod` send.

    Parameters
    ----------
    solution : a private solution by name, such as "RJ" (with ``rho``) or "PS-PM".
    epsilon : ε of a node over all epochs: a node that reports in each spends it.
    nodes : how many are planned. μ = "auto" and the learning rate "auto" follow from it, and the
        first round waits for so many, at most ``patience`` seconds.
    epochs, rounds_per_epoch : in every epoch a node is asked once; its rounds share the nodes.
    learning_rate : α of w ← w − α·scale·mean; with scale 1 and α = 1 the mean of the nodes' models.
        "auto": `fedsel.simulation.rates.public_rate`, divided by the scale.
    scale : what updates are divided by before they are clipped and reported, for all arrays or by
        name. Public; where an app makes one local step of η, η makes a report one on the gradient.
    folder : where the checkpoint is kept after every round. A strategy that is started again on it
        goes on with the round that was not finished. None: a temporary folder.
    mu : the share of ε′ for the selection; "auto" is hyper-parameters-free, from ``nodes``.
    min_nodes : a round waits for so many, at most ``patience`` seconds; then it takes who is there.
    **task : further fields of `fedsel.wire.Task`: rho, k, clip, momentum, ratio, seed, words.

    After `start`, ``history`` tells accuracy, ε and bits by round, ``records`` what became of the
    reports, ``refusals`` why nodes said no, ``reply_bytes`` how often a reply had so many bytes.
    """

    def __init__(
        self,
        *,
        epsilon: Epsilon,
        nodes: int,
        solution: str = "RJ",
        epochs: int = 1,
        rounds_per_epoch: int = 1,
        learning_rate: float | Literal["auto"] = "auto",
        scale: float | Mapping[str, float] = 1.0,
        folder: str | Path | None = None,
        mu: float | Literal["auto"] = "auto",
        min_nodes: int = 1,
        patience: float = 60.0,
        **task: Any,
    ) -> None:
        self.name, self.epsilon = solution, check_epsilon("epsilon", epsilon)
        self.nodes = check_count("nodes", nodes)
        self.epochs = check_count("epochs", epochs)
        self.rounds_per_epoch = check_count("rounds_per_epoch", rounds_per_epoch, most=self.nodes)
        self.learning_rate: float | Literal["auto"] = learning_rate
        if learning_rate != "auto":
            self.learning_rate = check_positive("learning_rate", learning_rate)
        self.scale = scale
        for name, value in scale.items() if isinstance(scale, Mapping) else [("scale", scale)]:
            check_positive(name if name == "scale" else f"scale[{name!r}]", value)
        self.mu, self.folder = mu, None if folder is None else Path(folder)
        self.min_nodes = check_count("min_nodes", min_nodes, most=self.nodes)
        self.patience = float(check_finite("patience", patience))
        self.further = task
        self._check()
        self.refusals: Counter[str] = Counter()
        self.reply_bytes: Counter[int] = Counter()
        self._judged: dict[int, tuple[float, float]] = {}
        self._session: Session | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def _check(self) -> None:
        """Tell now what is wrong, not when nodes are there; k needs the model's size."""
        for name, value in self.further.items():
            if name not in _FURTHER:
                raise InvalidArgument(name, value, f"left out, or one of {', '.join(_FURTHER)}")
        small = {**self.further, "k": 1, "words": None}
        share = 0.1 if self.mu == "auto" else self.mu
        told = Task(self.name, epsilon=self.epsilon, epochs=self.epochs, dim=2, mu=share, **small)
        assert told.solution.privacy.ratio is not None  # noqa: S101 - else the line above refuses

    # --- the task -------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """How many nodes are planned for a round."""
        return max(1, self.nodes // self.rounds_per_epoch)

    def task_of(self, dim: int, scales: Iterable[float] = (1.0,)) -> Task:
        """The task for a model of d = ``dim`` parameters, hyper-parameters-free where "auto"."""
        given = {"epsilon": self.epsilon, "epochs": self.epochs, **self.further}
        name, mu = self.name, self.mu
        if mu == "auto":
            per_epoch = Budget(self.epsilon, self.epochs, 0.0).per_epoch
            mu = hyper_parameters_free(dim, self.batch, per_epoch)
            # Where nothing is left for the selection, the flat solution takes its place.
            name = named_solution(name, dim=dim, mu="auto", batch=self.batch, **given).name
        task = Task(name, dim=dim, mu=mu, **given)
        rate = self.learning_rate
        if rate == "auto":
            spread = math.sqrt(float(np.mean(np.square(list(scales)))))
            rounds = self.epochs * self.rounds_per_epoch
            rate = public_rate(task.solution, batch=self.batch, rounds=rounds) / spread
        return replace(task, learning_rate=rate)

    def _open(self, arrays: ArrayRecord) -> Session:
        if self._session is None:
            if self.folder is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="fedsel-")
            folder = Path(self._temporary.name) if self._temporary else self.folder
            assert folder is not None  # noqa: S101 - one of the two
            self._session = Session.open(
                arrays, self.scale, self.task_of, folder, self.rounds_per_epoch
            )
        return self._session

    @property
    def session(self) -> Session:
        """The state of a run that has begun."""
        if self._session is None:
            raise InvalidArgument("strategy", "not started", "started before it is asked")
        return self._session

    @property
    def task(self) -> Task:
        """What nodes are asked for."""
        return self.session.server.task

    @property
    def arrays(self) -> ArrayRecord:
        """The model as it is now."""
        return self.session.arrays

    # --- rounds ---------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run all rounds, or ``num_rounds`` of them, from the checkpoint where there is one.

        Flower counts rounds from 1 in each start; ``history`` counts through. ``evaluate_fn``
        judges the model on the server's own data: its metrics "accuracy" and "loss" are kept.
        """
        server = self._open(initial_arrays).server
        begun = server.round
        left = self.epochs * self.rounds_per_epoch - begun
        if begun:
            log(logging.INFO, "Going on from the checkpoint: %d rounds are done", begun)

        def judge(number: int, arrays: ArrayRecord) -> MetricRecord | None:
            metrics = None if evaluate_fn is None else evaluate_fn(begun + number, arrays)
            if metrics is not None:
                told = (metrics.get("accuracy", math.nan), metrics.get("loss", math.nan))
                self._judged[begun + number] = (float(told[0]), float(told[1]))
            return metrics

        result = super().start(
            grid,
            self.arrays,
            left if num_rounds is None else min(left, check_count("num_rounds", num_rounds)),
            timeout,
            train_config,
            evaluate_config,
            judge,
        )
        result.arrays = self.arrays
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message to each node of the round: request, scales, model and the app's config."""
        session = self._open(arrays)
        if session.server.finished:
            log(logging.WARNING, "all rounds are over: nobody is asked")
            return []
        cohort = session.cohort(self._present(grid))
        config["server-round"] = server_round
        record = RecordDict({ARRAYS: self.arrays, CONFIG: config, RECORD: session.question()})
        return [Message(record, message_type=MessageType.TRAIN, dst_node_id=n) for n in cohort]

    def _present(self, grid: Grid) -> list[int]:
        """The nodes that are there, after a wait for those that are expected."""
        expected = self.nodes if self.session.server.round == 0 else self.min_nodes
        until = time.monotonic() + self.patience
        while True:
            nodes = sorted(grid.get_node_ids())
            if len(nodes) >= expected or time.monotonic() >= until:
                return nodes
            time.sleep(_POLL)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the reports and step; what is no report of this round is counted and dropped."""
        del server_round  # the server counts through restarts
        server, refused = self.session.server, 0
        if server.finished:
            return None, None
        for reply in replies:
            if reply.has_error():
                # Only sentences that we know: a node may send any text.
                self.refusals[_KNOWN.get(str(reply.error.reason), "OTHER")] += 1
                refused += 1
            else:
                size, report = _read(reply)
                self.reply_bytes[size] += 1
                server.receive(reply.metadata.src_node_id, report)
        heard = refused + sum(server.counts)
        silent = max(0, self.session.invited - heard)
        record = server.step()
        spent = Fraction(self.task.charge) * (record.epoch + 1)
        metrics = {
            "reports": record.accepted,
            "refused": refused,
            "silent": silent,
            "rejected": record.rejected,
            "duplicate": record.duplicate,
            "late": record.late,
            "epsilon": float(spent),
        }
        return self.arrays, MetricRecord(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nobody is asked: metrics of private data are not private."""
        del server_round, arrays, config, grid
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """There is nothing to aggregate."""
        del server_round, replies
        return None

    # --- what is left behind --------------------------------------------------------------------

    @property
    def records(self) -> list[RoundRecord]:
        """What became of the reports of each round."""
        return list(self.session.server.records)

    @property
    def history(self) -> History:
        """All rounds so far, those before a restart without accuracy, and the weights."""
        session = self.session
        cost, bits = float(self.task.charge), session.server.solution.bits
        rounds = [
            Round(
                r.round + 1,
                r.epoch,
                (r.epoch + 1) * cost,
                bits * r.accepted,
                r.accepted,
                *self._judged.get(r.round + 1, (math.nan, math.nan)),
            )
            for r in session.server.records
        ]
        return History(rounds, session.weights)

    def plot_history(self, axes: Axes | None = None) -> Axes:
        """Accuracy against rounds, or bits sent where nobody judged."""
        from fedsel.sklearn import plots

        return plots.history(self.history.rounds, f"{self.task.name}, ε = {self.epsilon}", axes)

    def summary(self) -> None:
        """Log what nodes are asked for."""
        task = self.task
        log(logging.INFO, "\t├──> %s, d = %d, α = %.4g", task.name, task.dim, task.learning_rate)
        log(logging.INFO, "\t├──> ε = %s a report, %d epochs", task.charge, task.epochs)
        log(logging.INFO, "\t└──> %d nodes planned, %d a round", self.nodes, self.batch)


def _read(reply: Message) -> tuple[int, object]:
    """Bytes and report of a reply; whatever a node has made up raises nothing here."""
    try:
        return content_bytes(reply), report_of(reply.content)
    except Exception:
        return 0, None
