"""Federated training of any module, its updates reported by any solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedsel.advising import warn_about_clients
from fedsel.auto import PublicFacts, PublicRecords, plan_run
from fedsel.data.partition import by_groups
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_finite, check_positive
from fedsel.preparation import Plan, Preparation
from fedsel.preparation._plan import ON_RECORDS
from fedsel.recipe import AUTO, RECOMMENDED, Auto, Recipe
from fedsel.server._step import Course, ServerState
from fedsel.simulation import History, Simulation, Training
from fedsel.simulation._account import spend
from fedsel.solutions import Privacy, Solution
from fedsel.statements._fits import SEED_UNDOES, PrivacyStatement, fit_statement, warn_about_seed
from fedsel.torch._gradients import ClientUpdates, Local
from fedsel.torch._inputs import NEEDED, Inputs, Loss, ModuleJudge, as_tensor, outputs_of
from fedsel.torch._modules import Layout, check_module, seems_trained

Start = Literal["random", "trained"]


@dataclass(frozen=True)
class Communication:
    """What one client sends in one round, beside the whole gradient in float32."""

    bits: int
    full_bits: int

    @property
    def saving(self) -> float:
        """How many times shorter a report is than the gradient."""
        return self.full_bits / self.bits if self.bits else math.inf


class FederatedTrainer:
    """Train a module in place on private reports of its clients.

    Parameters
    ----------
    module
        Any module without buffers, batch norm and dropout. Frozen parameters stay as they are.
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
    chunk
        Clients whose updates are held at a time; by default what fits into 64 MiB.
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
        Further fields of `fedsel.Recipe`: rho, mu, k, clip, momentum, words, …

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

    history: History
    spent: float
    recipe: Recipe
    solution: Solution
    preparation: Preparation | None
    _grouped = False
    _keeps_start = False
    _public_means = 0

    def __init__(
        self,
        module: nn.Module,
        loss: Loss = nn.functional.cross_entropy,
        *,
        epsilon: Epsilon | None = None,
        solution: str | Solution = RECOMMENDED,
        learning_rate: float | Auto = AUTO,
        batch: int | float = 0.01,
        epochs: int = 1,
        local: Local | None = None,
        reg: float = 0.0,
        clip_scale: Mapping[str, float] | None = None,
        averaging: float | Auto = AUTO,
        norm: float = 1.0,
        start: Start | Auto = AUTO,
        feature_range: Any = None,
        centre: float | Auto = AUTO,
        spread: float | Auto = AUTO,
        public_mean: Any = None,
        chunk: int | None = None,
        seed: int | None = None,
        device: torch.device | str | None = None,
        residual_directory: Path | None = None,
        **recipe: Any,
    ) -> None:
        check_module(module)
        self.module, self.loss, self.layout = module, loss, Layout(module)
        if isinstance(batch, float) and not 0 < check_finite("batch", batch) <= 1:
            raise InvalidArgument("batch", batch, "a share in (0, 1] or a count ≥ 1")
        self.batch = batch if isinstance(batch, float) else check_count("batch", batch)
        self.local, self.clip_scale, self.chunk = local, clip_scale, chunk
        self.layout.scales(clip_scale)
        self.norm = check_positive("norm", norm)
        if start not in (AUTO, *get_args(Start)):
            raise InvalidArgument("start", start, f"one of {', '.join((AUTO, *get_args(Start)))}")
        self.start = start
        self._reached: tuple[NDArray[np.float64], ServerState] | None = None
        self.seed = None if seed is None else check_count("seed", seed, least=0)
        self.device, self.residual_directory = device, residual_directory
        self._composed = solution if isinstance(solution, Solution) else None
        parameters = {"learning_rate": learning_rate, "averaging": averaging, "reg": reg, **recipe}
        parameters |= {"centre": centre, "spread": spread}
        if self._composed is None:
            parameters |= {"solution": solution, "epsilon": epsilon}
        elif self._composed.dim != self.layout.dim or self._composed.epochs != epochs:
            actual = f"dim = {self._composed.dim}, epochs = {self._composed.epochs}"
            allowed = f"dim = {self.layout.dim}, epochs = {epochs}"
            raise InvalidArgument("solution", actual, allowed)
        else:
            parameters |= {"solution": "NP"}  # what is automatic in it, a composed solution has
        self.asked = Recipe.of({**parameters, "epochs": epochs})
        self.feature_range, self.preparation = feature_range, None
        self.public_mean = public_mean
        if public_mean is not None and feature_range is None:
            allowed = "omitted without feature_range, the public bounds of the inputs"
            raise InvalidArgument("public_mean", public_mean, allowed)
        self._plan: Plan | None = None
        self.history = History()
        if feature_range is None:
            self._refuse_preparing("without feature_range, the public bounds of the inputs")
        if self._composed is not None:
            self._refuse_preparing("with a composed solution: give it by its name")
        # Refuse wrong names and parameters before there is any data.
        self._decide(batch=1000, rounds=100, classes=2)

    def _refuse_preparing(self, where: str) -> None:
        for name in ("centre", "spread"):
            if getattr(self.asked, name) not in (AUTO, 0.0):
                raise InvalidArgument(name, getattr(self.asked, name), f"0 {where}")

    def _decide(
        self, batch: int, rounds: int, classes: int, inputs: Inputs | None = None
    ) -> PublicFacts:
        """Fix the solution and all numbers of the run, from public quantities alone."""
        if not self.history.rounds:  # later it was trained here
            kept = seems_trained(self.module) if self.start == AUTO else self.start == "trained"
            self._keeps_start = kept
        records, begins = None, self.preparation is None
        if inputs is not None:
            given = self.public_mean is not None and begins
            records = PublicRecords(
                inputs.scale,
                inputs.means(self.public_mean) if given else None,
                # What is known is not learnt again.
                learnable=inputs.foldable and self._composed is None and begins,
            )
            if records.means is not None:
                self._public_means = int(records.means.given.sum())
        facts = PublicFacts(
            dim=self.layout.dim,
            clients=batch,
            rounds=rounds,
            norm=self.norm,
            classes=max(2, classes),
            model="network",
            trained=self._keeps_start,
            features=None if inputs is None else inputs.features,
        )
        run = plan_run(self.asked, facts, records, solution=self._composed)
        self.recipe, self.solution, self._plan = run.recipe, run.solution, run.preparation
        return run.facts

    @property
    def privacy(self) -> Privacy:
        """The exact ε of a report and of all reports of a client."""
        known = self.solution.privacy
        if self._plan is not None and self._plan.rounds:
            note = f"{known.note}; clients of the first {self._plan.rounds} rounds {ON_RECORDS}"
            known = replace(known, note=note)
        if self.seed is None or math.isinf(known.per_report):
            return known
        return replace(known, note=f"{known.note}; it does not hold against {SEED_UNDOES}")

    @property
    def statement(self) -> PrivacyStatement:
        """What a fit costs a client, what is covered and what is not; ``to_html()`` is a page."""
        return fit_statement(
            self.solution,
            released="the parameters of the module, history without eval_set, and predictions",
            grouped=self._grouped,
            seeded=self.seed is not None,
            prepared=self._plan is not None and self._plan.rounds > 0,
            public_means=self._public_means,
            fewest_reports=self.history.fewest_reports,
        )

    @property
    def communication(self) -> Communication:
        """What one client sends in one round."""
        return Communication(self.solution.bits, 32 * self.layout.dim)

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        *,
        evaluate: Literal["rounds", "epochs", "end"] = "epochs",
        advance: Callable[[int], object] | None = None,
    ) -> Self:
        """Train on clients: rows of X, or groups of rows with the same value in ``groups``.

        ``eval_set`` = (X, y) judges the model after rounds, epochs or at the end; ``advance`` is
        called after each round. The module's parameters are where training starts and ends.
        """
        if groups is not None and len(groups) != len(X):
            raise InvalidArgument("groups", f"{len(groups)} values", f"one a record: {len(X)}")
        partition = None if groups is None else by_groups(groups)
        self._grouped = partition is not None

        if self.feature_range is not None:  # whole numbers, too, are on a scale
            dtype = next(self.module.parameters()).dtype
            X = as_tensor("X", X, dtype).to(dtype)
        updates = ClientUpdates(
            self.module,
            self.loss,
            X,
            y,
            partition=partition,
            local=self.local,
            # λ is public: clients must not add it where it would decide ties.
            reg=0.0 if self.solution.decays_at_server else self.asked.reg,
            clip_scale=self.clip_scale,
            chunk=self.chunk,
            device=self.device,
        )
        share = isinstance(self.batch, float)
        batch = max(1, round(self.batch * updates.clients)) if share else int(self.batch)
        rounds = self.solution.epochs * -(-updates.clients // batch)
        inputs = self._inputs(updates.X)
        facts = self._decide(batch, rounds, outputs_of(self.module, updates.X), inputs)
        known = self.preparation or (None if inputs is None else inputs.unprepared)

        # What is wrong with eval_set is said before anything is spent.
        reg = self.recipe.reg
        judge = None
        if eval_set is not None:
            judge = ModuleJudge(self.module, self.loss, reg, eval_set, inputs, known)
        if self.local is None and not self.history.rounds:  # fits of one trainer add up
            classifies = self.loss is nn.functional.cross_entropy
            classifies |= isinstance(self.loss, nn.CrossEntropyLoss)
            warn_about_clients(
                self.solution,
                facts,
                clients=updates.clients,
                epochs=self.solution.epochs,
                classes=facts.classes if classifies else None,
                grouped=self._grouped,
            )
        if self.seed is not None:
            warn_about_seed("seed", self.solution.privacy)
        self.spent = spend(updates.X.detach().cpu().numpy(), self.solution.privacy)
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
            updates = updates.on_scale(inputs, known.records(inputs.records(updates.X)))
        start = self._start(inputs)
        run = Simulation(training, updates, start, self.residual_directory)
        self.history = run.play(None, judge, evaluate=evaluate, advance=advance)
        weights = self.history.weights
        if inputs is not None and known is not None:
            self.preparation = self.history.preparation or known
            weights = inputs.folded(weights, self.preparation)
        self.layout.write(self.module, weights)
        if self._keeps_start:
            self._reached = self.layout.read(self.module), run.state
        return self

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

    def _inputs(self, X: torch.Tensor) -> Inputs | None:
        if self.feature_range is None:
            return None
        inputs = Inputs.of(self.feature_range, self.module, self.layout, X)
        if not inputs.foldable:
            self._refuse_preparing(NEEDED.format("the centre"))
        return inputs

    def __getstate__(self) -> dict[str, Any]:
        # Whether a record was fitted before is private, and no ε covers it.
        return {name: value for name, value in vars(self).items() if name != "spent"}

    @property
    def rate(self) -> float:
        """α, as it was used or would be."""
        return float(self.recipe.learning_rate)


def resumed(course: Course | None, weights: NDArray[np.float64]) -> Course:
    """The course of a training that begins at these weights, an earlier one's average if any."""
    return Course(weights) if course is None else replace(course, in_weights=course.in_average)
