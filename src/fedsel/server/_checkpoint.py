"""The checkpoint of a server: all that it must know to go on, and how it ends a round.

As bytes it is one file, replaced as a whole after every round, or a row of a database.
"""

from __future__ import annotations

import hashlib
import io
import json
import operator
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.errors import InvalidArgument, check_count, check_kind, check_vectors
from fedsel.measuring import Measurement
from fedsel.mechanisms._reports import Totals
from fedsel.preparation import GivenPreparation, Plan, PlanState, Preparation, PublicMeans
from fedsel.preparation._plan import Stage
from fedsel.recipe import Recipe
from fedsel.server._folder import CheckpointError
from fedsel.server._measuring import (
    Answered,
    Measuring,
    measurements,
    run_of,
    tally_of,
    with_round,
)
from fedsel.server._step import ServerState, StepRule, step
from fedsel.solutions import entry
from fedsel.solutions._privacy import THETA
from fedsel.solutions._solution import Solution
from fedsel.wire import (
    Batch,
    Intent,
    ModelQuestion,
    ReportFormat,
    Request,
    Verdict,
    check_sendable,
    decode_recipe,
    encode_recipe,
)
from fedsel.wire._contract import Shuffled
from fedsel.wire._report import RUN_BYTES

_MAGIC = b"FSCP"
_HEAD = struct.Struct("<4sI32s")
_VERSION = 2
_READ = (1, 2)
"""Version 1 had no average and no λ: its runs go on as they were begun. Rounds that prepare came
later, as did purpose and recipient; they are in a checkpoint only where a run has some."""
_NOTHING_STATED = Intent()
Purpose = Stage | Literal["measuring", "asking"]
"""What a round is for: to train or prepare, to measure the model, or to ask people."""
_AT_SERVER = ("averaging", "reg", "spread", "centre", "measure")
"""The fields of a recipe for the server alone; earlier versions of files lack the last ones."""
SEAL_BYTES = _HEAD.size
"""The head of a checkpoint: it holds the SHA-256 of the rest, and so stands for all of it."""


class Counts(NamedTuple):
    """What became of many reports. Early and conflicting ones count as rejected."""

    accepted: int = 0
    rejected: int = 0
    duplicate: int = 0
    late: int = 0

    @classmethod
    def of(cls, verdicts: Sequence[object]) -> Counts:
        """Count the verdicts in a sequence."""
        count = verdicts.count
        rejected = count(Verdict.REJECTED) + count(Verdict.EARLY) + count(Verdict.CONFLICT)
        return cls(count(Verdict.ACCEPTED), rejected, count(Verdict.DUPLICATE), count(Verdict.LATE))

    def plus(self, other: Counts) -> Counts:
        """Add two counts."""
        return Counts(*map(operator.add, self, other))


def judge_round(number: int | None, open_round: int, finished: bool = False) -> Verdict:
    """Judge a report by its round; None stands for bytes that are no report of the run.

    ACCEPTED leaves the sender to be judged: it may report once in the round.

    >>> judge_round(2, 3), judge_round(3, 3), judge_round(3, 3, finished=True)
    (<Verdict.LATE: 'late'>, <Verdict.ACCEPTED: 'accepted'>, <Verdict.EARLY: 'early'>)
    """
    if number is None:
        return Verdict.REJECTED
    if number < open_round:
        return Verdict.LATE
    return Verdict.EARLY if number > open_round or finished else Verdict.ACCEPTED


def judge_rounds(
    batch: Batch, open_round: int, finished: bool = False
) -> tuple[NDArray[np.bool_], int]:
    """Which of n reports are of the open round (n,), and how many are late: as `judge_round`."""
    late = int(np.count_nonzero(batch.valid & (batch.round < open_round)))
    return batch.valid & (batch.round == open_round) & (not finished), late


@final
@dataclass(frozen=True)
class RoundRecord:
    """What became of the reports of a round.

    ``late`` ones were for a round that was over; ``rejected`` ones were malformed, for no round
    of this run, not invited, or too many.
    """

    round: int
    epoch: int
    accepted: int
    rejected: int
    duplicate: int
    late: int

    @property
    def counts(self) -> Counts:
        """The counts by themselves."""
        return Counts(self.accepted, self.rejected, self.duplicate, self.late)


def _shown(value: object) -> str:
    text = repr(float(value) if isinstance(value, Fraction) else value)
    return text if len(text) <= 100 else text[:97] + "…"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a server needs to go on: recipe, run, rounds in an epoch, state, and the record.

    And, where the first rounds prepare, their plan and what was learnt in them, or the preparation
    that is ``given`` in their place; the intent that requests state, where they do; how a relay
    shuffles the reports, where one does; and which rounds measure the model (``measuring``), and
    what was ``answered`` in them. A run whose solution answers a question has answers alone.
    """

    recipe: Recipe
    run: bytes
    rounds_per_epoch: int
    state: ServerState
    records: Sequence[RoundRecord]
    plan: Plan | None = None
    intent: Intent = _NOTHING_STATED
    given: GivenPreparation | None = None
    shuffled: Shuffled | None = None
    measuring: Measuring | None = None
    asks: bool = False
    answered: tuple[Answered, ...] = ()

    @classmethod
    def begin(
        cls,
        recipe: Recipe,
        *,
        weights: ArrayLike | None = None,
        rounds_per_epoch: int = 1,
        plan: Plan | None = None,
        intent: Intent = _NOTHING_STATED,
        given: GivenPreparation | None = None,
        measuring: Measuring | None = None,
        asks: bool = False,
    ) -> Self:
        """The checkpoint before the first round of a new run, with these weights or zeros.

        A run that ``asks`` a question about people has no weights.

        >>> from fedsel import Recipe, PublicFacts, resolve_auto
        >>> recipe = resolve_auto(Recipe(epsilon=1.0), PublicFacts(dim=8, clients=100, rounds=2))
        >>> begun = Checkpoint.begin(recipe, rounds_per_epoch=2)
        >>> begun.round, begun.finished, len(begun.run)
        (0, False, 16)
        """
        check_kind("recipe", recipe, Recipe)
        recipe.require("averaging")
        recipe = check_sendable(recipe).with_unused_zeroed
        check_count("rounds_per_epoch", rounds_per_epoch, most=(1 << 32) // recipe.epochs)
        trained = 0 if entry(recipe.solution).answers else recipe.build().dim
        start = _start(weights, trained)
        plan = _checked(plan, recipe, rounds_per_epoch)
        return cls(
            recipe,
            secrets.token_bytes(RUN_BYTES),
            rounds_per_epoch,
            ServerState.begin(start, plan),
            (),
            plan,
            intent,
            given,
            measuring=measuring,
            asks=asks,
        )

    def check_same(self, other: Checkpoint) -> None:
        """Refuse to resume with another task than the checkpoint's; name the changes."""
        for was, now in zip(self._lasting(), other._lasting(), strict=True):
            changed = [name for name in {**was, **now} if was.get(name) != now.get(name)]
            if changed:
                first, *more = changed
                allowed = f"{_shown(was.get(first))}, as in the checkpoint" + "".join(
                    f"; {name} was {_shown(was.get(name))}, is {_shown(now.get(name))}"
                    for name in more
                )
                value = now.get(first)
                shown = float(value) if isinstance(value, Fraction) else value
                raise InvalidArgument(first, shown, allowed)

    def _lasting(self) -> tuple[dict[str, Any], ...]:
        """What must not change while the run goes on: what was given, and what follows from it."""
        plan = {} if self.plan is None else {f"plan.{k}": v for k, v in vars(self.plan).items()}
        known, given = plan.get("plan.known"), self.given
        public = {} if known is None else {"public_mean": f"{known.values} on the scale [−1, 1]"}
        if given is not None:
            public[given.argument] = str(given)
        # How a recipe was come to is not kept.
        recipe = replace(self.recipe, theta=THETA, requested_solution=None)
        counts = {"rounds_per_epoch": self.rounds_per_epoch}
        return public, {**counts, **vars(recipe), **vars(self.intent)}, plan

    @property
    def round(self) -> int:
        """The round that reports are collected for."""
        return len(self.records)

    @property
    def epoch(self) -> int:
        """The epoch of this round."""
        return self.round // self.rounds_per_epoch

    @property
    def finished(self) -> bool:
        """Whether all rounds of all epochs are over."""
        return self.epoch >= self.recipe.epochs

    @property
    def stage(self) -> Purpose:
        """What this round is for: see `stage_of`."""
        return self.stage_of(self.round)

    def stage_of(self, number: int) -> Purpose:
        """What a round is for.

        "training", to learn a "spread", an "origin" or a "centre", "measuring" the model, or
        "asking" people.
        """
        if self.asks:
            return "asking"
        if self.question_of(number) is not None:
            return "measuring"
        return "training" if self.plan is None else self.plan.stage(number)

    def question_of(self, number: int) -> int | None:
        """The number of the question about the model that a round asks; None if it asks none."""
        if self.measuring is None:
            return None
        return self.measuring.number(number % self.rounds_per_epoch, self.rounds_per_epoch)

    def recipe_of(self, number: int) -> Recipe:
        """The recipe of a round's reports."""
        question = self.question_of(number)
        if question is None or self.measuring is None:
            return self.recipe
        return self.measuring.recipes[question]

    def solution_of(self, number: int) -> Solution:
        """The solution of a round's reports."""
        return self.recipe_of(number).build().in_round(number)

    def format_of(self, number: int) -> ReportFormat:
        """The format of a round's reports."""
        return self._formats[self.question_of(number)]

    @cached_property
    def _formats(self) -> dict[int | None, ReportFormat]:
        """The formats of all rounds, by the number of the question; None for training."""
        known: dict[int | None, Recipe] = {None: self.recipe}
        if self.measuring is not None:
            known.update(enumerate(self.measuring.recipes))
        return {n: ReportFormat.of(r.build(), run_of(self.run, n)) for n, r in known.items()}

    def round_of(self, report: object) -> int | None:
        """The round of a report; None if it is none, or in the format of other rounds."""
        for question, form in self._formats.items():
            number = form.round_of(report)
            if number is not None:
                return number if self.question_of(number) == question else None
        return None

    @property
    def question(self) -> ModelQuestion | None:
        """What this round asks about the model; None if it asks nothing."""
        number = self.question_of(self.round)
        if number is None or self.measuring is None or self.finished:
            return None
        first = [one for one in self.answered if (one.epoch, one.number) == (self.epoch, 0)]
        spread = tally_of(first[0], self.measuring.recipes[0]) if first else None
        return self.measuring.measured.question(number, self.state.model, spread)

    @property
    def sent(self) -> NDArray[np.float64]:
        """The weights that devices of this round get: those to train, or the model to measure."""
        measures = self.question_of(self.round) is not None
        return self.state.model if measures else self.state.weights

    @cached_property
    def measurements(self) -> dict[int, Measurement]:
        """What clients have said about the model in each epoch."""
        return {} if self.measuring is None else measurements(self.measuring, self.answered)

    @property
    def preparation(self) -> Preparation | None:
        """What devices do with their records, as far as it is known; None if nothing is."""
        return self.state.preparation if self.given is None else self.given.preparation

    def request(self) -> Request:
        """What devices of this round are asked, beside the weights."""
        self._check_open()
        question = self.question_of(self.round)
        run, epoch = run_of(self.run, question), self.epoch if question is None else 0
        return Request(run, epoch, self.round, self.recipe_of(self.round), self.intent)

    def advanced(self, totals: Totals, counts: Counts) -> Checkpoint:
        """The checkpoint after this round with these reports: a pure function.

        A round without reports changes no weight, nor does one that prepares, measures or asks.
        """
        self._check_open()
        records = (*self.records, RoundRecord(self.round, self.epoch, *counts))
        question = self.question_of(self.round)
        if question is not None or self.asks:
            answered = with_round(self.answered, self.epoch, question or 0, totals, self.question)
            state = replace(self.state, rounds=self.state.rounds + 1)
            return replace(self, state=state, records=records, answered=answered)
        rule, solution = StepRule.of(self.recipe), self.solution_of(self.round)
        state = step(self.state, rule, solution, totals, plan=self.plan)
        return replace(self, state=state, records=records)

    def _check_open(self) -> None:
        if self.finished:
            raise InvalidArgument("round", self.round, "an earlier one: the run is over")

    def encode(self) -> bytes:
        """The checkpoint in bytes, with its SHA-256 in front."""
        body = io.BytesIO()
        fields = [astuple(r) for r in self.records]
        average: dict[str, Any] = {"average": self.state.average} if self.recipe.averaging else {}
        np.savez(
            body,
            recipe=np.frombuffer(encode_recipe(self.recipe), dtype=np.uint8),
            server=np.array([getattr(self.recipe, name) for name in _AT_SERVER]),
            run=np.frombuffer(self.run, dtype=np.uint8),
            rounds_per_epoch=np.array(self.rounds_per_epoch, dtype=np.int64),
            weights=self.state.weights,
            **average,
            **self._preparing(),
            **self._stated(),
            **self._by_relay(),
            **self._asking(),
            records=np.array(fields, dtype=np.int64).reshape(-1, 6),
        )
        content = body.getvalue()
        return _HEAD.pack(_MAGIC, _VERSION, hashlib.sha256(content).digest()) + content

    def _preparing(self) -> dict[str, Any]:
        given, learnt = self.given, self.state.learnt
        if given is not None:
            parts = given.preparation.to_dict()
            matrix = {"mixing": given.preparation.mixing} if parts.pop("mixing", None) else {}
            about = {"rows": given.rows, "digest": given.digest, "preparation": parts}
            text = json.dumps(about).encode()
            return {"given": np.frombuffer(text, dtype=np.uint8), **matrix}
        if self.plan is None or learnt is None:
            return {}
        known = {"plan": self.plan.to_dict(), "preparation": learnt.preparation.to_dict()}
        if self.plan.known is not None:
            known["known"] = self.plan.known.to_dict()
        text = json.dumps(known).encode()
        return {
            "preparing": np.frombuffer(text, dtype=np.uint8),
            "prepared_total": learnt.total,
            "prepared_reports": np.array(learnt.reports, dtype=np.int64),
        }

    def _stated(self) -> dict[str, Any]:
        if not self.intent:
            return {}
        return {"intent": np.frombuffer(self.intent.encode(), dtype=np.uint8)}

    def _by_relay(self) -> dict[str, Any]:
        if self.shuffled is None:
            return {}
        text = json.dumps(self.shuffled.to_dict()).encode()
        return {"shuffled": np.frombuffer(text, dtype=np.uint8)}

    def _asking(self) -> dict[str, Any]:
        if self.measuring is None and not self.asks:
            return {}
        plan = None if self.measuring is None else self.measuring.to_dict()
        about = {"measuring": plan, "answered": [one.about() for one in self.answered]}
        sums = {f"answers_{place}": one.sums for place, one in enumerate(self.answered)}
        return {"asking": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **sums}

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """The checkpoint of these bytes; anything else is refused."""
        content = data[_HEAD.size :]
        head = _HEAD.unpack(data[: _HEAD.size]) if len(data) >= _HEAD.size else None
        if head is None or head[0] != _MAGIC or head[2] != hashlib.sha256(content).digest():
            raise CheckpointError("the checkpoint is damaged: restore a backup, or start a new run")
        if head[1] not in _READ:
            raise CheckpointError(
                f"the checkpoint has version {head[1]}, of which this fedsel reads {_READ}:"
                " open it with the version of fedsel that wrote it"
            )
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            recipe = decode_recipe(arrays["task" if head[1] == 1 else "recipe"].tobytes())
            known = [] if head[1] == 1 else arrays["server"].tolist()
            own = dict(zip(_AT_SERVER, [*known, *[0.0] * len(_AT_SERVER)], strict=False))
            records = tuple(RoundRecord(*row) for row in arrays["records"].tolist())
            weights = arrays["weights"]
            average = arrays["average"] if own["averaging"] else weights
            plan, learnt = _prepared(arrays)
            stated = arrays["intent"].tobytes() if "intent" in arrays else _NOTHING_STATED.encode()
            return cls(
                recipe=replace(recipe, **own),
                run=arrays["run"].tobytes(),
                rounds_per_epoch=int(arrays["rounds_per_epoch"]),
                state=ServerState(weights, average, len(records), learnt=learnt),
                records=records,
                plan=plan,
                intent=Intent.decode(stated),
                given=_given(arrays),
                shuffled=_shuffled(arrays),
                **_asking(arrays),
            )


def _asking(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    if "asking" not in arrays:
        return {}
    about = json.loads(arrays["asking"].tobytes())
    plan = about["measuring"]
    answered = tuple(
        Answered.of(one, arrays[f"answers_{place}"]) for place, one in enumerate(about["answered"])
    )
    measuring = None if plan is None else Measuring.of_dict(plan)
    return {"measuring": measuring, "asks": plan is None, "answered": answered}


def _shuffled(arrays: Mapping[str, NDArray[Any]]) -> Shuffled | None:
    if "shuffled" not in arrays:
        return None
    return Shuffled.of_dict(json.loads(arrays["shuffled"].tobytes()))


def _start(weights: ArrayLike | None, dim: int) -> NDArray[np.float64]:
    start = np.zeros(dim) if weights is None else check_vectors("weights", weights, ndim=1)
    if start.shape != (dim,):
        raise InvalidArgument("weights", start.shape, f"of shape ({dim},)")
    return start.astype(np.float64)


def _checked(plan: Plan | None, recipe: Recipe, rounds_per_epoch: int) -> Plan | None:
    if not isinstance(plan, Plan):
        if plan is not None or recipe.spread or recipe.centre:
            raise InvalidArgument("plan", plan, "the plan of the recipe, from fedsel.auto.plan_run")
        return None
    dim = recipe.build().dim
    if plan.dim != dim or plan.rounds >= rounds_per_epoch:
        actual = f"{plan.rounds} rounds of dim = {plan.dim}"
        allowed = f"fewer than {rounds_per_epoch} rounds of dim = {dim}"
        raise InvalidArgument("plan", actual, allowed)
    return plan


def _given(arrays: Mapping[str, Any]) -> GivenPreparation | None:
    if "given" not in arrays:
        return None
    about = json.loads(arrays["given"].tobytes())
    matrix = {"mixing": arrays["mixing"]} if "mixing" in arrays else {}
    preparation = Preparation.of_dict({**about["preparation"], **matrix})
    return GivenPreparation(preparation, about["rows"], about["digest"])


def _prepared(arrays: Mapping[str, Any]) -> tuple[Plan | None, PlanState | None]:
    if "preparing" not in arrays:
        return None, None
    known = json.loads(arrays["preparing"].tobytes())
    means = PublicMeans.of_dict(known["known"]) if "known" in known else None
    plan = Plan(**{**known["plan"], "loose": tuple(known["plan"]["loose"]), "known": means})
    preparation = Preparation.of_dict(known["preparation"])
    reports = int(arrays["prepared_reports"])
    return plan, PlanState(preparation, arrays["prepared_total"], reports)
