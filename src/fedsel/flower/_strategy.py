"""The strategy: asks nodes for reports, averages them, steps the model, survives a restart."""

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
from typing import TYPE_CHECKING, Any, Literal

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
    RecordPipeline,
    content_bytes,
    report_of,
)
from fedsel.flower._session import (
    NoReports,
    Session,
    Silence,
    fates_of,
    in_words,
    refusal_name,
    released,
)
from fedsel.recipe import AUTO, RECOMMENDED, Auto, Recipe
from fedsel.server import RoundRecord
from fedsel.server._history import History, Round
from fedsel.server._planned import Planned, recipe_asked
from fedsel.statements._runs import TRUST_ON_FLOWER, RunStatement
from fedsel.wire import Intent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
_POLL = 0.5


class FedSelStrategy(Strategy):
    """Train from private reports: what nodes with `FedSelMod` send.

    Parameters
    ----------
    epsilon
        ε of a node over all epochs: a node that reports in each spends it.
    nodes
        How many are planned. What is automatic follows from it, and the first round waits for so
        many, at most ``patience`` seconds.
    solution
        A private solution by name: the recommended one, or one of the paper's.
    epochs, rounds_per_epoch
        In every epoch a node is asked once; its rounds share the nodes.
    learning_rate
        α of w ← w − α·scale·mean; with scale 1 and α = 1 the mean of the nodes' models. "auto"
        (`fedsel.auto`) is divided by the scale.
    scale
        What updates are divided by before they are reported, for all arrays or by name. Public;
        where an app makes one local step of η, η makes a report one on the gradient.
    norm
        The norm of a record of a linear model, where it is public: automatic ρ and α are for such.
        None: nothing is known of the model. Then ρ is None, a report tells a direction whatever the
        length of the update, and α is that of a network.
    records_per_node
        How many records a node holds, as planned, where ``norm`` is given: the mean of many
        gradients is shorter than one, and so is the automatic ρ.
    feature_range
        (low, high), public bounds of the records, or "private": nobody knows any. Nodes have
        ``FedSelMod(records=…)`` and train on `prepared` records; the first rounds learn where these
        lie (`fedsel.preparation`): ``spread`` and ``centre`` are the shares of an epoch's rounds,
        automatic for a linear model. ``norm`` is 1 then, or None for a network. None: nodes prepare
        records themselves.
    features
        The entries of a record. None: as many as there are bounds, or, for bounds that are two
        numbers, one fewer than the model's parameters: a linear one of two classes.
    public_mean
        None, or published means of features, in their units: {number of the feature: mean}, or an
        array with NaN where none is known. They tell the centre of these features, and no round
        learns it. Needs ``feature_range``.
    folder
        Where the checkpoint is kept after every round. A strategy that is started again on it goes
        on with the round that was not finished. While `start` runs, the folder is its alone. None:
        a temporary folder.
    min_nodes
        A round waits for so many, at most ``patience`` seconds; then it takes who is there.
    patience
        Seconds that a round waits for nodes.
    max_empty_rounds
        So many rounds in a row without a report end the run with `NoReports`, and so does the end
        of a run that has had none at all. None: it goes on whatever nodes say.
    purpose, recipient
        What for, and who gets what is learnt. Nodes are told, may insist on it in their policies,
        and keep it in their ledgers. Short texts; empty: nothing is said.
    **recipe
        Further fields of `fedsel.Recipe`: averaging, rho, mu, k, clip, momentum, ratio, seed,
        words, spread, centre, and reg, the λ of w ← w − α·scale·λ·w by the server: for FJ, J, RJ,
        RC and UJ.

    Notes
    -----
    After `start`, ``history`` tells accuracy, ε and bits by round, ``records`` what became of the
    reports, ``refusals`` why nodes said no, ``reply_bytes`` how often a reply had so many bytes.
    ε is what a node has released at most: of the epochs that had reports.
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
        folder: str | Path | None = None,
        min_nodes: int = 1,
        patience: float = 60.0,
        max_empty_rounds: int | None = 3,
        purpose: str = "",
        recipient: str = "",
        **recipe: Any,
    ) -> None:
        self.intent = Intent(purpose, recipient)
        asked = recipe_asked(
            recipe, solution=solution, epsilon=epsilon, epochs=epochs, learning_rate=learning_rate
        )
        self.planned = Planned(
            asked,
            nodes,
            rounds_per_epoch,
            norm,
            records_per_node,
            feature_range,
            features,
            public_mean,
        )
        self.scale = scale
        for name, value in scale.items() if isinstance(scale, Mapping) else [("scale", scale)]:
            check_positive(name if name == "scale" else f"scale[{name!r}]", value)
        self.folder = None if folder is None else Path(folder)
        self.min_nodes = check_count("min_nodes", min_nodes, most=nodes)
        self.patience = float(check_finite("patience", patience))
        self.max_empty_rounds = (
            None if max_empty_rounds is None else check_count("max_empty_rounds", max_empty_rounds)
        )
        self.refusals: Counter[str] = Counter()
        self.reply_bytes: Counter[int] = Counter()
        self._judged: dict[int, tuple[float, float]] = {}
        self._session: Session | None = None
        self._place = self.folder
        self._silence = Silence()
        self._told: set[str] = set()

    # --- the recipe -----------------------------------------------------------------------------

    @property
    def epochs(self) -> int:
        """How often each node is asked."""
        return self.planned.asked.epochs

    @property
    def nodes(self) -> int:
        """How many nodes are planned."""
        return self.planned.nodes

    @property
    def batch(self) -> int:
        """How many nodes are planned for a round."""
        return self.planned.batch

    @property
    def rounds_per_epoch(self) -> int:
        """How many rounds share the nodes of an epoch."""
        return self.planned.rounds_per_epoch

    def recipe_of(self, dim: int, scales: Iterable[float] = (1.0,)) -> Recipe:
        """The recipe for a model of d = ``dim`` parameters: numbers where "auto" was."""
        return self.planned.recipe_of(dim, scales)

    def _open(self, arrays: ArrayRecord) -> Session:
        before = self._session
        if before is not None and not before.server.closed:
            return before
        if self._place is None:
            self._place = Path(tempfile.mkdtemp(prefix="fedsel-"))
            weakref.finalize(self, shutil.rmtree, self._place, ignore_errors=True)
        self._session = session = Session.open(
            arrays, self.scale, self.planned, self._place, self.intent
        )
        if before is not None:
            session.asked, session.epoch = before.asked, before.epoch
        return session

    @property
    def session(self) -> Session:
        """The state of a run that has begun."""
        if self._session is None:
            raise InvalidArgument("strategy", "not started", "started before it is asked")
        return self._session

    @property
    def recipe(self) -> Recipe:
        """What nodes are asked for, and what is done with their reports."""
        return self.session.server.recipe

    @property
    def arrays(self) -> ArrayRecord:
        """The model as it is now: the average over the rounds, if the recipe has one."""
        return self.session.model

    @property
    def preparing(self) -> RecordPipeline | None:
        """Bounds of the records and what has been learnt about them; None without bounds."""
        return self.session.preparing

    def prepared(self, X: Any) -> NDArray[np.float32]:
        """Raw records X (n, d) as the model takes them: for ``evaluate_fn`` and predictions."""
        if self.preparing is None:
            raise InvalidArgument("feature_range", None, "given: nodes prepare records themselves")
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
        """Run all rounds, or ``num_rounds`` of them, from the checkpoint where there is one.

        Flower counts rounds from 1 in each start; ``history`` counts through. ``evaluate_fn``
        judges the model on the server's own data: its metrics "accuracy" and "loss" are kept.
        """
        server = self._open(initial_arrays).server
        self._silence, self._told = Silence(), set()
        begun = server.round
        left = self.epochs * self.rounds_per_epoch - begun
        if begun:
            log(logging.INFO, "Going on from the checkpoint: %d rounds are done", begun)

        def judge(number: int, arrays: ArrayRecord) -> MetricRecord | None:
            metrics = None if evaluate_fn is None else evaluate_fn(begun + number, arrays)
            if metrics is not None:
                scores = (metrics.get("accuracy", math.nan), metrics.get("loss", math.nan))
                self._judged[begun + number] = (float(scores[0]), float(scores[1]))
            return metrics

        with server:
            result = super().start(
                grid,
                self.arrays,
                left if num_rounds is None else min(left, check_count("num_rounds", num_rounds)),
                timeout,
                train_config,
                evaluate_config,
                judge,
            )
        heard = any(record.accepted for record in server.records)
        if left and server.finished and not heard and self.max_empty_rounds is not None:
            raise NoReports(f"the run is over without a single report; {self._silence}")
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
        record = RecordDict({ARRAYS: session.arrays, CONFIG: config, RECORD: session.question()})
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
        self._listen(record, refused, silent)
        metrics = {
            "reports": record.accepted,
            "refused": refused.total(),
            "silent": silent,
            "rejected": record.rejected,
            "duplicate": record.duplicate,
            "late": record.late,
            "epsilon": float(released(server.records, self.recipe.charge)[-1]),
        }
        return self.arrays, MetricRecord(metrics)

    def _listen(self, record: RoundRecord, refused: Counter[str], silent: int) -> None:
        """Warn of nodes that do not report; after several rounds without a report, end the run.

        Of single nodes once for each reason, and whenever fewer than half of those asked report.
        """
        silence, asked = self._silence, self.session.invited
        silence.add(record, asked, refused, silent)
        fates, warning = fates_of(record, refused, silent), ""
        if silence.rounds:
            warning = f"No report in round {record.round + 1}, nothing is learnt; {silence}"
        elif 2 * record.accepted < asked or set(refused) - self._told:
            counts = f"{record.accepted} of {asked} nodes reported in round {record.round + 1}"
            warning = f"{counts}; the others: {in_words(fates)}"
        if warning:
            log(logging.WARNING, "%s", warning)  # as it is now: a handler may format it later
        self._told |= set(refused)
        if self.max_empty_rounds is not None and silence.rounds >= self.max_empty_rounds:
            raise NoReports(f"no report in {silence.rounds} rounds in a row; {silence}")

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
        """All rounds so far, those before a restart without accuracy, and the weights.

        ``history.central()`` is the central guarantee if a shuffler had stood between.
        """
        session = self.session
        records, bits = session.server.records, session.server.solution.bits
        spent = released(records, self.recipe.charge)
        rounds = [
            Round(
                r.round + 1,
                r.epoch,
                float(epsilon),
                bits * r.accepted,
                r.accepted,
                *self._judged.get(r.round + 1, (math.nan, math.nan)),
            )
            for r, epsilon in zip(records, spent, strict=True)
        ]
        return History(
            rounds,
            session.model_vector,
            fewest_reports=min((r.accepted for r in records if r.accepted), default=0),
            epochs_heard=len({r.epoch for r in records if r.accepted}),
            privacy=session.server.solution.privacy,
        )

    @property
    def statement(self) -> RunStatement:
        """What nodes have released, by epoch, and who must be trusted; ``to_html()`` is a page."""
        server = self.session.server
        return RunStatement.of(server, refusals=self.refusals, trust=TRUST_ON_FLOWER)

    def plot_history(self, axes: Axes | None = None) -> Axes:
        """Accuracy against rounds, or bits sent where nobody judged."""
        from fedsel._internal import plotting

        label = f"{self.recipe.solution}, ε = {float(self.recipe.epsilon or 0):g}"
        return plotting.history(self.history.rounds, label, axes, self.recipe.solution)

    def summary(self) -> None:
        """Log what nodes are asked for."""
        recipe = self.recipe
        rate = float(recipe.learning_rate)
        log(logging.INFO, "\t├──> %s, d = %d, α = %.4g", recipe.solution, recipe.dim, rate)
        log(logging.INFO, "\t├──> ε = %s a report, %d epochs", recipe.charge, recipe.epochs)
        plan = self.session.server.plan
        if plan is not None:
            counts = (plan.spread_rounds, plan.centre_rounds)
            log(logging.INFO, "\t├──> first, %d rounds learn spreads, %d the centre", *counts)
            if plan.known is not None:
                given = int(plan.known.given.sum())
                log(logging.INFO, "\t├──> public means of %d features", given)
        log(logging.INFO, "\t└──> %d nodes planned, %d a round", self.nodes, self.batch)


def _read(reply: Message) -> tuple[int, object]:
    """Bytes and report of a reply; whatever a node has made up raises nothing here."""
    try:
        return content_bytes(reply), report_of(reply.content)
    except Exception:
        return 0, None
