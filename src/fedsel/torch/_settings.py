"""What a trainer is asked to do, what follows from it and from public facts, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from fedsel._internal.settings import check_omitted
from fedsel.auto import PublicFacts, PublicRecords, plan_run
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_finite, check_positive
from fedsel.preparation import Plan, Preparation
from fedsel.preparation._plan import ON_RECORDS
from fedsel.recipe import AUTO, RECOMMENDED, Auto, Recipe
from fedsel.simulation import History
from fedsel.solutions import Privacy, Solution
from fedsel.statements._fits import SEED_UNDOES, PrivacyStatement, fit_statement
from fedsel.torch._gradients import Local
from fedsel.torch._inputs import NEEDED, Inputs, Loss
from fedsel.torch._modules import Layout, check_module, seems_trained
from fedsel.torch._state import digest_of, digest_of_frozen, text_of

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


class Settings:
    """The arguments of a trainer, and the recipe that follows from them and from public facts."""

    history: History
    recipe: Recipe
    solution: Solution
    preparation: Preparation | None
    _grouped = False
    _keeps_start = False
    _public_means = 0
    _public_rows = 0
    _preparing = 0

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
        public_rows: Any = None,
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
        if self.asked.measure and self._composed is not None:
            allowed = "0 with a composed solution: give it by its name"
            raise InvalidArgument("measure", self.asked.measure, allowed)
        self.feature_range, self.preparation = feature_range, None
        self.public_mean, self.public_rows = public_mean, public_rows
        if feature_range is None:
            rows = None if public_rows is None else "rows"
            allowed = "omitted without feature_range, the public bounds of the inputs"
            check_omitted(allowed, public_mean=public_mean, public_rows=rows)
        if public_rows is not None:
            allowed = "omitted with public_rows, which give the centre"
            check_omitted(allowed, public_mean=public_mean)
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
        self,
        batch: int,
        rounds: int,
        classes: int,
        inputs: Inputs | None = None,
        before: Preparation | None = None,
        reports: int = 1,
    ) -> tuple[PublicFacts, Preparation | None]:
        """Fix the solution and all numbers of a run, from public quantities alone.

        ``before`` is what earlier runs have learnt about the records, ``reports`` the number of
        reports of this one. With the facts comes what public rows tell.
        """
        if not self.history.epochs_heard:  # later it was trained here
            kept = seems_trained(self.module) if self.start == AUTO else self.start == "trained"
            self._keeps_start = kept
        records, begins = None, before is None
        if inputs is not None:
            given = self.public_mean is not None and begins
            records = PublicRecords(
                inputs.scale,
                inputs.means(self.public_mean) if given else None,
                self._rows(inputs) if begins else None,
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
        self._preparing = 0 if self._plan is None else self._plan.rounds
        told = None if records is None or records.rows is None else records.known(run, reports)
        return run.facts, told

    def _rows(self, inputs: Inputs) -> Any:
        """The public rows on the scale of the inputs, if there are some."""
        if self.public_rows is None:
            return None
        if self._keeps_start:
            allowed = "omitted from a trained start, whose first layer knows its inputs as they are"
            raise InvalidArgument("public_rows", "rows", allowed)
        rows = inputs.rows(self.public_rows)
        self._public_rows = len(rows)
        return rows

    @property
    def _epochs(self) -> int:
        """The epochs in which clients have reported or will; a run may have been broken off."""
        return self.history.epochs_heard or self.solution.epochs

    @property
    def privacy(self) -> Privacy:
        """The exact ε of a report, and of all reports of a client in the last or the next fit."""
        known = replace(self.solution.privacy, epochs=self._epochs)
        if self._preparing:
            note = f"{known.note}; clients of the first {self._preparing} rounds {ON_RECORDS}"
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
            prepared=self._preparing > 0,
            public_means=self._public_means,
            public_rows=self._public_rows,
            fewest_reports=self.history.fewest_reports,
            epochs=self._epochs,
        )

    @property
    def communication(self) -> Communication:
        """What one client sends in one round."""
        return Communication(self.solution.bits, 32 * self.layout.dim)

    @property
    def rate(self) -> float:
        """α, as it was used or would be."""
        return float(self.recipe.learning_rate)

    def _inputs(self, like: torch.Tensor) -> Inputs | None:
        """The public scale of inputs (1, …), if there is one."""
        if self.feature_range is None:
            return None
        inputs = Inputs.of(self.feature_range, self.module, self.layout, like)
        if not inputs.foldable:
            self._refuse_preparing(NEEDED.format("the centre"))
        return inputs

    def _described(self) -> dict[str, str]:
        """What another trainer must have in common to go on with a run of this one."""
        shapes = dict(zip(self.layout.names, map(tuple, self.layout.shapes), strict=True))
        own = ("batch", "norm", "start", "seed", "local", "clip_scale", "feature_range")
        return {
            "module": repr(shapes),
            "frozen parameters": digest_of_frozen(self.module),
            "loss": getattr(self.loss, "__qualname__", type(self.loss).__qualname__),
            **{name: text_of(value) for name, value in vars(self.asked).items()},
            **{name: text_of(getattr(self, name)) for name in (*own, "public_mean", "_composed")},
            "public_rows": digest_of(self.public_rows),
        }
