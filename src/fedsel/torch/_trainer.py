"""Federated training of any module, its updates reported by any solution."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader, Dataset

from fedsel._internal.progress import note
from fedsel.advising import warn_about_clients
from fedsel.data.partition import Clients, by_groups
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.measuring import Measurement, measuring_clients
from fedsel.preparation import Preparation
from fedsel.server._step import Course, ServerState
from fedsel.simulation import Round, Simulation, Training
from fedsel.simulation._account import charge
from fedsel.simulation._measuring import told_apart
from fedsel.simulation._rounds import Evaluate, check_evaluate
from fedsel.statements._fits import warn_about_seed
from fedsel.torch import _state
from fedsel.torch._gradients import ClientUpdates
from fedsel.torch._inputs import Inputs, ModuleJudge, outputs_of, width_of
from fedsel.torch._measuring import classes_told, measured_module
from fedsel.torch._records import LEFT_OUT, Records, records_of
from fedsel.torch._settings import Settings
from fedsel.torch._state import PLAYED, Progress
from fedsel.tracking import Callbacks, Tracking


@dataclass(frozen=True, eq=False)
class _Run:
    """A fit in progress, and what it needs beside its simulation."""

    name: str
    simulation: Simulation
    records: Records
    clients: int
    judge: ModuleJudge | None
    inputs: Inputs | None
    known: Preparation | None
    before: Preparation | None
    facts: dict[str, str]
    begun: int  # rounds that an earlier process has played
    trains: NDArray[np.int64]
    measures: NDArray[np.int64]
    partition: Clients | None


@final
class FederatedTrainer(Settings):
    """Train a module in place on private reports of its clients.

    Parameters
    ----------
    module
        Any module without batch norm, dropout (unless it is in evaluation mode) and buffers that a
        forward pass changes. Frozen parameters stay as they are.
    loss
        loss(outputs, targets), the mean over the first dimension.
    epsilon
        Total ε of a client over all epochs; None for solutions without privacy.
    solution
        A name, as for `fedsel.solution`, or a Solution of d = the trainable parameters.
    learning_rate
        α of the server's step, or "auto": `fedsel.auto.learning_rate`.
    batch
        Clients of a round: a count, or a share (float) of all.
    epochs
        How often each client reports.
    local
        None reports the gradient (one local step, as in the paper); `Local` the difference of the
        weights after local training.
    reg
        λ of an ℓ2 regulariser, added by the clients (with FJ, J, UJ, RJ and RC by the server).
    clip_scale
        Factors of the clip by parameter or submodule, such as {"0.weight": 0.1}: a client divides
        by them before it reports, the server multiplies.
    averaging
        A power p > 0 takes the average of the weights over the rounds, t^p in round t; "auto" is 3
        with the automatic learning rate, else 0.
    norm
        The norm of a record, as far as it is public: the automatic ρ is four fifths of that of a
        softmax gradient on such records.
    start
        What the parameters are that the first `fit` finds: "random", or "trained" on public data,
        and so worth keeping. From a trained start the steps are smaller, and the module moves only
        as far as the reports show that it lowers the loss (`fedsel.server._step.Course`). "auto" is
        "trained" where some parameters are frozen and the weights of all layers that are not have
        grown beyond those of a new layer; else "random".
    feature_range
        Public bounds of the inputs, (low, high): numbers, or arrays of an input's shape. Clients
        clip to them and scale to [-1, 1]; the module's parameters at the start are taken as those
        for such inputs, and after `fit` they are those for raw ones. None trains on inputs as they
        are.
    centre, spread
        The share of the rounds in which clients report on their record in place of a gradient, from
        which the server learns where and how wide the records lie; later clients train on
        clip(x/spread) − centre. "auto" is a tenth and a twentieth where ``feature_range`` is not
        symmetric about zero and may be too wide, and the reports are enough; else 0.
    public_mean
        None, or published means of the inputs' entries, in their units: an array of an input's
        shape with NaN where none is known, or {number of the entry in the flattened input: mean}.
        They tell the centre of these entries, and no round learns it. Needs ``feature_range``.
    public_rows
        None, or inputs (m, …) that belong to nobody, without targets. They tell centre, spread,
        size and geometry of the inputs, and all rounds train. Needs ``feature_range`` and a module
        whose first layer can take that up, as ``centre`` does.
    chunk
        Clients whose updates are held at a time, and test records that are judged at a time; by
        default what fits into 64 MiB.
    seed
        None draws every report from the operating system: for models that may be released. A number
        repeats a simulation, and warns: anyone who has it can undo the noise. Results then
        depend on it alone, up to the rounding of torch's own sums.
    device
        Where gradients are computed; by default where the module is.
    residual_directory
        A folder for the residuals (clients × d) that solutions with accumulation keep if epochs >
        1; without it, they must fit into 1 GiB of memory.
    **recipe
        Further fields of `fedsel.Recipe`: rho, mu, k, clip, momentum, words, …, and ``measure``,
        the share of the clients that report on the trained module instead of training it.

    Attributes
    ----------
    history
        What happened, by round.
    recipe
        What was used, with a number for everything automatic.
    solution
        What clients report by.
    preparation
        What was learnt about the records (`fedsel.preparation.Preparation`), on their public scale;
        None without ``feature_range``. A further `fit` goes on with it.
    measurement
        What the clients that measured say about the module after the last round
        (`fedsel.measuring.Measurement`); None without ``measure``.
    spent
        The largest ε that one record has spent in all fits of this process up to this one, as far
        as records were recognised. It is not pickled. `fedsel.FitAccount` counts all fits.

    Examples
    --------
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch...>
    >>> X = torch.randn(400, 3)
    >>> y = (X[:, 0] > 0).long()
    >>> trainer = FederatedTrainer(nn.Linear(3, 2), nn.functional.cross_entropy, solution="NP")
    >>> trainer.fit(X, y, eval_set=(X, y)).history.accuracy > 0.9
    True
    """

    spent: float
    measurement: Measurement | None = None
    _progress: Progress | None = None
    _resumes = False
    _reached: tuple[NDArray[np.float64], ServerState] | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        eval_set: Any = None,
        *,
        evaluate: Evaluate = "epochs",
        callbacks: Callbacks | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Self:
        """Train on clients: rows of X, or groups of rows with the same value in ``groups``.

        X and y are arrays or tensors; or X is a map-style Dataset, or a DataLoader of one, of items
        (x, y) or (x, y, group), which are read when a client's round comes. ``eval_set``, a pair
        (X, y) or a Dataset, judges the model after rounds, epochs or at the end. ``callbacks`` are
        called after every round (`fedsel.tracking`), ``advance`` with the number of rounds done.

        The module's parameters are where training starts and ends. If it is interrupted, they are
        the model after the last whole round.
        """
        tracking = Tracking(callbacks)
        check_evaluate(evaluate)
        run = self._begin(X, y, groups, eval_set)
        planned = run.simulation.training.planned_rounds(run.clients) - run.begun
        with nullcontext(advance) if advance else note("training", planned) as done:
            try:
                for _ in self._played(run, evaluate, tracking, publish=bool(tracking)):
                    done(1)
            finally:
                self._publish(run)
        return self

    def rounds(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        eval_set: Any = None,
        *,
        evaluate: Evaluate = "rounds",
        callbacks: Callbacks | None = None,
    ) -> Iterator[Round]:
        """Train as `fit` does, one round for each step of your own loop.

        After each round the module holds the model, and `history`, `statement` and `state_dict`
        speak of the rounds so far. You may leave the loop at any time.

        >>> X = torch.randn(400, 3)
        >>> trainer = FederatedTrainer(nn.Linear(3, 2), epsilon=2.0, batch=100)
        >>> for record in trainer.rounds(X, (X[:, 0] > 0).long()):
        ...     if record.round == 2:
        ...         break
        >>> record.reports, trainer.statement.total
        (100, 2.0)
        """
        tracking = Tracking(callbacks)
        check_evaluate(evaluate)
        run = self._begin(X, y, groups, eval_set)
        return self._played(run, evaluate, tracking, publish=True)

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs: tensors and plain values, for ``torch.save``.

        It holds the trainable parameters, and of the last run what it needs to go on: the server's
        state, the order of clients and the history. It holds no record, but two things that are not
        for release: the seed, and the residuals that clients keep if the solution accumulates over
        several epochs.
        """
        return _state.saved(self)

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Take up a state of a trainer with the same settings and module.

        If its run was not over, the next `fit` or `rounds` goes on with it, and needs the same
        clients. With the same seed the result is the same, to the bit.
        """
        _state.restore(self, state)
        return self

    # --- a run ----------------------------------------------------------------------------------

    def _begin(self, X: Any, y: Any, groups: Any, eval_set: Any) -> _Run:
        """Check everything, and decide everything from public facts, before ε is spent."""
        dtype = next(self.module.parameters()).dtype
        # Whole numbers, too, are on a scale.
        records = records_of(X, y, dtype, floats=self.feature_range is not None)
        if groups is not None and records.groups is not None:
            raise InvalidArgument("groups", "groups beside those of X", "given once")
        groups = records.groups if groups is None else groups
        if groups is not None and len(groups) != len(records):
            raise InvalidArgument(
                "groups", f"{len(groups)} values", f"one a record: {len(records)}"
            )
        if self.asked.measure:
            classes_told(self.loss, width_of(self.module, records.like[0]))
        partition = None if groups is None else by_groups(groups)
        updates = ClientUpdates(
            self.module,
            self.loss,
            records,
            partition=partition,
            local=self.local,
            # λ is public: clients must not add it where it would decide ties.
            reg=0.0 if self.solution.decays_at_server else self.asked.reg,
            clip_scale=self.clip_scale,
            chunk=self.chunk,
            device=self.device,
        )
        everyone, past = updates.clients, self._progress if self._resumes else None
        clients = everyone - measuring_clients(self.asked.measure, everyone)
        batch = self._batch(clients)
        before = self.preparation if past is None else past.before
        like = records.like[0]
        inputs = self._inputs(like)
        rounds = self.solution.epochs * -(-clients // batch)
        classes, reports = outputs_of(self.module, like), self.solution.epochs * clients
        facts, told = self._decide(batch, rounds, classes, inputs, before, reports)
        known = before or told or (None if inputs is None else inputs.unprepared)
        public = {"clients": clients, "rounds": rounds, "groups": partition is not None}
        described = {n: _state.text_of(v) for n, v in {**public, **vars(self.recipe)}.items()}
        if past is not None:
            _state.check_same(past.facts, described, "these records give")
        judge, test = None, None
        if eval_set is not None:
            test = _evaluation(eval_set, dtype, floats=self.feature_range is not None)
            of = (self.module, self.loss, self.recipe.reg, test, inputs, known)
            judge = ModuleJudge(*of, chunk=updates.chunk)
        classifies = self.loss is nn.functional.cross_entropy
        classifies |= isinstance(self.loss, nn.CrossEntropyLoss)
        if classifies and getattr(self.loss, "ignore_index", LEFT_OUT) == LEFT_OUT:
            _check_classes("y", records, classes)
            _check_classes("eval_set", test, classes)
        self._grouped = partition is not None
        # Fits of one trainer add up, and public rows compensate for some noise.
        if self.local is None and not self.history.epochs_heard and told is None:
            warn_about_clients(
                self.solution,
                facts,
                clients=clients,
                epochs=self.solution.epochs,
                classes=facts.classes if classifies else None,
                grouped=self._grouped,
            )
        training = Training(
            self.solution,
            float(self.recipe.learning_rate),
            batch,
            reg=self.recipe.reg,
            averaging=float(self.recipe.averaging),
            seed=self.seed,
            plan=self._plan,
        )
        if inputs is not None and known is not None:
            updates = updates.on_scale(inputs, known)
        start = self._start(inputs) if past is None else past.state
        simulation = Simulation(training, updates, start, self.residual_directory)
        if past is not None:
            simulation.resume(past.order, past.past, past.residual)
        name = secrets.token_hex(8) if past is None else past.run
        run = (name, simulation, records, clients, judge, inputs, known, before, described)
        apart = told_apart(np.arange(everyone), self.asked.measure, simulation.order)
        return _Run(*run, simulation.state.rounds, *apart, partition)

    def _played(
        self, run: _Run, evaluate: Evaluate, tracking: Tracking, *, publish: bool
    ) -> Iterator[Round]:
        """Charge the run, play its rounds, and remember after each how far it has come."""
        simulation, training = run.simulation, run.simulation.training
        planned = training.planned_rounds(run.clients)
        if tracking:
            tracking.start(training.run_of("FederatedTrainer", run.clients, self.recipe))
        if self.seed is not None:
            warn_about_seed("seed", self.solution.privacy)
        epochs = self.solution.epochs
        left = epochs - run.begun * epochs // planned  # an epoch that was begun counts as a whole
        privacy, goes_on = replace(self.solution.privacy, epochs=left), PLAYED.get(run.name)
        self.spent = charge(run.records.digests, privacy, goes_on=goes_on == run.begun)
        self._resumes = False
        try:
            for row in simulation.rounds(run.trains, run.judge, evaluate=evaluate):
                PLAYED[run.name] = max(PLAYED.get(run.name, 0), row.round)
                self._progress = Progress(
                    run.name,
                    run.facts,
                    simulation.order,
                    simulation.state,
                    simulation.past,
                    run.before,
                    simulation.stage.residual,
                    finished=row.round == planned,
                )
                over = row.round == planned
                if publish or (over and len(run.measures)):
                    self._publish(run)
                if over and len(run.measures):
                    self.measurement = self._measured(run)
                if tracking:
                    tracking.round(row, float(np.linalg.norm(self.history.weights)))
                yield row
        finally:
            if tracking:
                tracking.end(self.history)

    def _batch(self, clients: int) -> int:
        """The clients of a round."""
        share = isinstance(self.batch, float)
        return max(1, round(self.batch * clients)) if share else int(self.batch)

    def _measured(self, run: _Run) -> Measurement | None:
        """What the clients that did not train say about the module, which is trained."""
        return measured_module(
            self.module,
            self.loss,
            run.records,
            run.partition,
            run.measures,
            Fraction(self.recipe.epsilon or 0),
            seed=self.seed,
        )

    def _publish(self, run: _Run) -> None:
        """Let module, history and preparation be those after the rounds so far."""
        if run.simulation.state.rounds == run.begun:  # nothing was spent
            return
        self.history = run.simulation.history
        weights = self.history.weights
        if run.inputs is not None and run.known is not None:
            self.preparation = self.history.preparation or run.known
            weights = run.inputs.folded(weights, self.preparation)
        self.layout.write(self.module, weights)
        if self._keeps_start:
            self._reached = self.layout.read(self.module), run.simulation.state

    def _start(self, inputs: Inputs | None) -> ServerState:
        """The state that training begins with: the module's parameters, or where it was."""
        weights, course = self.layout.read(self.module), None
        if self._reached is not None and np.array_equal(weights, self._reached[0]):
            # The module holds what the reports confirm: training goes on from where it was.
            weights, course = self._reached[1].average, self._reached[1].course
        elif inputs is not None and self.preparation is not None:
            weights = inputs.unfolded(weights, self.preparation)  # an earlier fit folded them
        state = ServerState.begin(weights)
        return replace(state, course=resumed(course, weights)) if self._keeps_start else state

    def __getstate__(self) -> dict[str, Any]:
        # Whether a record was fitted before is private, and no ε covers it; so are residuals.
        dropped = ("spent", "_progress", "_resumes")
        return {name: value for name, value in vars(self).items() if name not in dropped}


def _evaluation(eval_set: Any, dtype: torch.dtype, *, floats: bool) -> Records:
    X, y = eval_set, None
    if not isinstance(eval_set, Dataset | DataLoader):
        if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
            counted = isinstance(eval_set, tuple | list)
            given = f"{len(eval_set)} parts" if counted else type(eval_set).__name__
            raise InvalidArgument("eval_set", given, "(X, y) or a Dataset")
        X, y = eval_set
    return records_of(X, y, dtype, floats=floats, name="eval_set")


def _check_classes(name: str, records: Records | None, outputs: int) -> None:
    """Refuse targets that are no number of an output: torch would find them in mid-training."""
    ends = None if records is None else records.classes
    if ends is not None and not 0 <= ends[0] <= ends[1] < outputs:
        raise InvalidData(
            f"{name}: every class must be a number from 0 to {outputs - 1}: the module has"
            f" {outputs} outputs"
        )


def resumed(course: Course | None, weights: NDArray[np.float64]) -> Course:
    """The course of a training that begins at these weights, an earlier one's average if any."""
    return Course(weights) if course is None else replace(course, in_weights=course.in_average)
