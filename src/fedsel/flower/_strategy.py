"""The strategy, which asks nodes for reports, averages them, steps the model, and can restart."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from fedsel.errors import Epsilon, InvalidArgument, check_count, check_finite, check_positive
from fedsel.flower._messages import (
    ARRAYS,
    CONFIG,
    RECORD,
    content_bytes,
    report_of,
)
from fedsel.flower._session import (
    EmptyRounds,
    NoReports,
    Session,
    refusal_name,
)
from fedsel.measuring import Measurement
from fedsel.recipe import AUTO, RECOMMENDED, Auto, Recipe
from fedsel.server import RoundRecord
from fedsel.server._plan import ServerPlan, check_classes, recipe_asked
from fedsel.server._step import History
from fedsel.statements._runs import TRUST_ON_FLOWER, RunStatement
from fedsel.tracking import Callbacks, Run, Tracking
from fedsel.wire import Intent, RecordPipeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
Start = Literal["random", "trained"]
_POLL = 0.5


class FedSelStrategy(Strategy):
    """Train from the private reports of nodes that run `FedSelMod`.

    Parameters
    ----------
    epsilon
        ε of a node over all epochs. A node that reports in every epoch spends all of it.
    nodes
        The planned number of nodes, from which automatic parameters follow.
    solution
        The name of a private solution.
    epochs, rounds_per_epoch
        Each node is asked once in an epoch. The rounds of an epoch share the nodes.
    learning_rate
        α of w ← w − α·scale·mean. "auto" (`fedsel.auto`) is divided by the scale.
    scale
        The public divisor of updates, for all arrays or by name. For an app with one local step of
        η, a scale of η makes reports describe the gradient.
    norm
        The public norm of a record of a linear model. None: nothing is known about the model.
        Reports then hold the direction of an update, and α is the rate of a network.
    records_per_node
        The number of records of a node, if ``norm`` is given. The mean of many gradients is shorter
        than one gradient, and so is the automatic ρ.
    feature_range
        Public bounds (low, high) of the records, or "private" if none are known. Nodes run
        ``FedSelMod(records=…)`` and train on `prepared` records. The first rounds learn where the
        records lie (``spread`` and ``centre``, shares of an epoch's rounds). ``norm`` must be 1, or
        None for a network. None: nodes prepare their records themselves.
    features
        The entries of a record. None: the number of bounds, or one fewer than the parameters.
    public_mean
        Published means of features, {number: mean} or an array with NaN for unknown ones. No round
        learns the centre of these features. Needs ``feature_range``.
    public_rows
        Records (m, d) that belong to nobody, without labels. They give the bounds that are private
        and the preparation of records; all rounds train. Needs ``feature_range``.
    start
        What the initial arrays are: "random", or "trained" on public data. From a trained start
        the automatic steps of a network are smaller.
    folder
        The folder of the checkpoint, from which a new strategy resumes. None: a temporary folder.
    min_nodes, patience
        A round waits for ``min_nodes``, the first for all, but at most ``patience`` seconds.
    max_empty_rounds
        `NoReports` ends the run after this many consecutive rounds without a report, and at the end
        of a run without any report. None: the run goes on.
    purpose, recipient
        Short texts for nodes: why reports are collected, and who gets the result. Policies of nodes
        may require them, and ledgers keep them.
    callbacks
        Called at the start, after every round and at the end (`fedsel.tracking`).
    measure, classes
        The share of the nodes that measure the model in the last rounds of each epoch and train in
        no round, and how many classes it tells apart (0: it predicts numbers on [−1, 1]). Nodes run
        ``FedSelMod(scores=…)``; `measurements` has what they say.
    **recipe
        Further fields of `fedsel.Recipe`. ``reg`` is the λ of w ← w − α·scale·λ·w at the server,
        for solutions whose server decays the weights.

    Notes
    -----
    ``history`` holds accuracy, ε and bits by round, ``records`` the counts of reports by round,
    ``refusals`` the reasons of nodes that refused, ``reply_bytes`` the sizes of replies. The ε of a
    round is the most that a node has released: epochs without a report cost nothing.
    """

    def __init__(
        self,
        *,
        epsilon: Epsilon,
        nodes: int,
        solution: str = RECOMMENDED,
        epochs: int = 1,
        rounds_per_epoch: int = 1,
        learning_rate: float | Auto = AUTO,
        scale: float | Mapping[str, float] = 1.0,
        norm: float | None = None,
        records_per_node: int | None = None,
        feature_range: tuple[Any, Any] | Literal["private"] | None = None,
        features: int | None = None,
        public_mean: Any = None,
        public_rows: Any = None,
        start: Start = "random",
        folder: str | Path | None = None,
        min_nodes: int = 1,
        patience: float = 60.0,
        max_empty_rounds: int | None = 3,
        purpose: str = "",
        recipient: str = "",
        callbacks: Callbacks | None = None,
        measure: float = 0.0,
        classes: int | None = None,
        **recipe: Any,
    ) -> None:
        self.callbacks = callbacks
        self.classes = None if classes is None else check_classes(classes)
        Tracking(callbacks)  # what is wrong with them is said now
        self.intent = Intent(purpose, recipient)
        asked = recipe_asked(
            recipe,
            solution=solution,
            epsilon=epsilon,
            epochs=epochs,
            learning_rate=learning_rate,
            measure=measure,
        )
        if measure and classes is None:
            allowed = "how many classes the model tells apart, or 0 for numbers, with measure"
            raise InvalidArgument("classes", None, allowed)
        if start not in get_args(Start):
            raise InvalidArgument("start", start, " or ".join(map(repr, get_args(Start))))
        self.planned = ServerPlan(
            asked,
            nodes,
            rounds_per_epoch,
            norm,
            records_per_node,
            feature_range,
            features,
            public_mean,
            public_rows=public_rows,
            trained=start == "trained",
        )
        self.scale = scale
        for name, value in scale.items() if isinstance(scale, Mapping) else [("scale", scale)]:
            check_positive(name if name == "scale" else f"scale[{name!r}]", value)
        self.folder = None if folder is None else Path(folder)
        self.min_nodes = check_count("min_nodes", min_nodes, most=nodes)
        self.patience = float(check_finite("patience", patience))
        if self.patience < 0:
            raise InvalidArgument("patience", patience, "a number of seconds ≥ 0")
        self.max_empty_rounds = (
            None if max_empty_rounds is None else check_count("max_empty_rounds", max_empty_rounds)
        )
        self.refusals: Counter[str] = Counter()
        self.reply_bytes: Counter[int] = Counter()
        self._judged: dict[int, tuple[float, float]] = {}
        self._session: Session | None = None
        self._place = self.folder
        self._empty_rounds = EmptyRounds()

    # --- the recipe -----------------------------------------------------------------------------

    def recipe_of(self, dim: int, scales: Iterable[float] = (1.0,)) -> Recipe:
        """Return the recipe for a model of d = ``dim`` parameters, with numbers for "auto"."""
        return self.planned.recipe_of(dim, scales)

    def _open(self, arrays: ArrayRecord) -> Session:
        before = self._session
        if before is not None and not before.server.closed:
            return before
        if self._place is None:
            self._place = Path(tempfile.mkdtemp(prefix="fedsel-"))
            weakref.finalize(self, shutil.rmtree, self._place, ignore_errors=True)
        self._session = session = Session.open(
            arrays, self.scale, self.planned, self._place, self.intent, self.classes
        )
        if before is not None:
            session.asked, session.epoch = before.asked, before.epoch
        return session

    @property
    def session(self) -> Session:
        """The state of a run that has begun."""
        if self._session is None:
            raise InvalidArgument("strategy", "not started", "started first")
        return self._session

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run, complete with all automatic choices."""
        return self.session.server.recipe

    @property
    def arrays(self) -> ArrayRecord:
        """The current model: the average over the rounds if the recipe has one."""
        return self.session.model

    @property
    def preparing(self) -> RecordPipeline | None:
        """Bounds of the records and their preparation so far; None without bounds."""
        return self.session.preparing

    def prepared(self, X: Any) -> NDArray[np.float32]:
        """Prepare raw records X (n, d) for the model: in ``evaluate_fn`` and for predictions."""
        if self.preparing is None:
            raise InvalidArgument("feature_range", None, "set: nodes prepare records themselves")
        return self.preparing.records(X)

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
        """Run all rounds, or ``num_rounds`` of them, from the checkpoint if there is one.

        Flower counts rounds from 1 at each start; ``history`` continues counting. ``evaluate_fn``
        evaluates the model on the server's own data; ``history`` keeps "accuracy" and "loss".
        """
        if not isinstance(initial_arrays, ArrayRecord):
            given = type(initial_arrays).__name__
            raise InvalidArgument("initial_arrays", given, "an ArrayRecord: ArrayRecord([w, b, …])")
        server = self._open(initial_arrays).server
        self._empty_rounds = EmptyRounds()
        begun = server.round
        left = server.recipe.epochs * server.rounds_per_epoch - begun
        if begun:
            log(logging.INFO, "Going on from the checkpoint: %d rounds are done", begun)
        rounds = left if num_rounds is None else min(left, check_count("num_rounds", num_rounds))
        tracking = Tracking(self.callbacks if rounds else None)
        privacy, nodes = server.solution.privacy, self.planned.nodes
        run = Run.of("FedSelStrategy", server.recipe, privacy, rounds=rounds, nodes=nodes)
        tracking.start(run)

        def judge(number: int, arrays: ArrayRecord) -> MetricRecord | None:
            metrics = None if evaluate_fn is None else evaluate_fn(begun + number, arrays)
            if metrics is not None:
                scores = (metrics.get("accuracy", math.nan), metrics.get("loss", math.nan))
                self._judged[begun + number] = (float(scores[0]), float(scores[1]))
            if number and tracking:  # the round is in the checkpoint
                norm = float(np.linalg.norm(self.session.model_vector))
                tracking.round(self.history.rounds[-1], norm, metrics)
            return metrics

        with server:
            result = super().start(
                grid,
                self.arrays,
                rounds,
                timeout,
                train_config,
                evaluate_config,
                judge,
            )
        heard = any(record.accepted for record in server.records)
        if left and server.finished and not heard and self.max_empty_rounds is not None:
            raise NoReports(f"the run is over without a single report; {self._empty_rounds}")
        result.arrays = self.arrays
        tracking.end(self.history)
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Make a message for each node of the round: request, scales, model, the app's config."""
        session = self._open(arrays)
        if session.server.finished:
            log(logging.WARNING, "all rounds are over: nobody is asked")
            return []
        cohort = session.cohort(self._present(grid))
        config["server-round"] = server_round
        record = RecordDict({ARRAYS: session.arrays, CONFIG: config, RECORD: session.question()})
        return [Message(record, message_type=MessageType.TRAIN, dst_node_id=n) for n in cohort]

    def _present(self, grid: Grid) -> list[int]:
        """Wait for the expected nodes, and return those that are connected."""
        expected = self.planned.nodes if self.session.server.round == 0 else self.min_nodes
        until = time.monotonic() + self.patience
        while True:
            nodes = sorted(grid.get_node_ids())
            if len(nodes) >= expected or time.monotonic() >= until:
                return nodes
            time.sleep(_POLL)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the reports and step the model; count and drop everything else."""
        del server_round  # the server counts through restarts
        server, refused = self.session.server, Counter[str]()
        if server.finished:
            return None, None
        for reply in replies:
            if reply.has_error():
                refused[refusal_name(reply.error.reason)] += 1
            else:
                size, report = _read(reply)
                self.reply_bytes[size] += 1
                server.receive(reply.metadata.src_node_id, report)
        self.refusals += refused
        heard = refused.total() + sum(server.counts)
        silent = max(0, self.session.invited - heard)
        record = server.step()
        empty = self._empty_rounds
        if warning := empty.add(record, self.session.invited, refused, silent):
            log(logging.WARNING, "%s", warning)
        if self.max_empty_rounds is not None and empty.rounds >= self.max_empty_rounds:
            raise NoReports(f"no report in {empty.rounds} rounds in a row; {empty}")
        metrics = {
            "reports": record.accepted,
            "refused": refused.total(),
            "silent": silent,
            "rejected": record.rejected,
            "duplicate": record.duplicate,
            "late": record.late,
            "epsilon": self.history.rounds[-1].epsilon,
        }
        return self.arrays, MetricRecord(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask no node: metrics of private data are not private. ``measure`` asks in its rounds."""
        del server_round, arrays, config, grid
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return nothing: no node was asked."""
        del server_round, replies
        return None

    # --- results --------------------------------------------------------------------------------

    @property
    def records(self) -> list[RoundRecord]:
        """How many reports of each round were accepted, rejected, duplicate or late."""
        return list(self.session.server.records)

    @property
    def measurements(self) -> dict[int, Measurement]:
        """What nodes have said about the model in each epoch, with intervals."""
        return self.session.server.measurements

    @property
    def history(self) -> History:
        """All rounds so far and the weights; rounds before a restart have no accuracy.

        ``history.central()`` is the guarantee if a shuffler were used.
        """
        return self.session.history(self._judged)

    @property
    def statement(self) -> RunStatement:
        """What nodes have released in each epoch, and whom they trust; ``to_html()`` renders it."""
        server = self.session.server
        return RunStatement.of(server, refusals=self.refusals, trust=TRUST_ON_FLOWER)

    def plot_history(self, axes: Axes | None = None) -> Axes:
        """Draw accuracy against rounds, or bits sent if there is no ``evaluate_fn``."""
        from fedsel._internal import plotting

        label = f"{self.recipe.solution}, ε = {float(self.recipe.epsilon or 0):g}"
        return plotting.history(self.history.rounds, label, axes, self.recipe.solution)

    def summary(self) -> None:
        """Log the recipe and the plan of the run."""
        recipe = self.recipe
        rate = float(recipe.learning_rate)
        log(logging.INFO, "\t├──> %s, d = %d, α = %.4g", recipe.solution, recipe.dim, rate)
        log(logging.INFO, "\t├──> ε = %s a report, %d epochs", recipe.charge, recipe.epochs)
        plan, public = self.session.server.plan, self.session.server.given
        if public is not None:
            log(logging.INFO, "\t├──> %d public rows prepare records", public.rows)
        if plan is not None:
            counts = (plan.spread_rounds, plan.centre_rounds)
            log(logging.INFO, "\t├──> first, %d rounds learn spreads, %d the centre", *counts)
            if plan.known is not None:
                given = int(plan.known.given.sum())
                log(logging.INFO, "\t├──> public means of %d features", given)
        counts = (self.planned.nodes, self.planned.batch)
        log(logging.INFO, "\t└──> %d nodes planned, %d a round", *counts)


def _read(reply: Message) -> tuple[int, object]:
    """Return size and report of a reply. No content of a reply raises an error."""
    try:
        return content_bytes(reply), report_of(reply.content)
    except Exception:
        return 0, None
