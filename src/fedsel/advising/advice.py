"""Advice: every solution worth considering, by what it would give, from public quantities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from fedsel._internal.progress import note
from fedsel.advising.asked import Asked
from fedsel.advising.candidates import left_out, outlooks
from fedsel.advising.moments import Updates, moments
from fedsel.advising.outlook import Outlook, flat, impossible, reason, split
from fedsel.advising.simulation import LEAST_ROUNDS, Check, simulate
from fedsel.advising.sufficiency import GOAL
from fedsel.auto import FEWEST_ROUNDS, resolve_auto
from fedsel.auto._run_plan import noise_of_mean
from fedsel.errors import Epsilon, InvalidArgument
from fedsel.mechanisms import FullGradient, OneSymbol
from fedsel.recipe import Recipe
from fedsel.solutions import RandomDirections, Solution
from fedsel.solutions._fresh import codewords_for

if TYPE_CHECKING:
    from fedsel.advising.central import CentralAdvice

_WORK = 6e7
"""What a simulation of one solution may cost: a few seconds."""
_MOST_ROUNDS = 200


@final
@dataclass(frozen=True)
class Advice:
    """The outlooks by rank, a recommendation with its reason, and what to be warned of.

    ``without_privacy`` is the alignment of all updates where they leave as they are.
    ``one_epoch`` is the best alignment where all of ε goes to one epoch. ``spread`` and ``centre``
    are the shares of the rounds that would learn these of the records, where declared ranges are
    loose or not symmetric about zero (`fedsel.preparation`); 0 where it would be noise.
    ``centre_error`` is the norm of the noise in a centre that is learnt so, over a record's.
    A report of FJ chooses among so many ``codewords``. ``central`` is there where a central goal
    was given: then ``epsilon`` is the local ε that it allows the recommended solution, if reports
    are shuffled.
    """

    dim: int
    clients: int
    batch: int
    epsilon: float
    epochs: int
    sparse: bool
    agreement: float
    norm: float
    clip: float
    outlooks: tuple[Outlook, ...]
    recommended: str
    reason: str
    usable: bool
    without_privacy: float
    one_epoch: float
    warnings: tuple[str, ...]
    spread: float = 0.0
    centre: float = 0.0
    regression: bool = False
    centre_error: float = 0.0
    codewords: int = 1
    central: CentralAdvice | None = None

    @property
    def rounds(self) -> int:
        return self.epochs * self.asked.rounds

    @property
    def asked(self) -> Asked:
        """The public quantities, without ε."""
        return Asked(**{name: getattr(self, name) for name in Asked.__dataclass_fields__})

    @property
    def updates(self) -> Updates:
        """The model behind the numbers."""
        return self.asked.updates

    @property
    def preparation(self) -> str:
        """What to do about the place of the records, in a sentence."""
        rounds = math.ceil(self.clients / self.batch)
        if not self.centre:
            few = f"an epoch of {rounds} rounds is too short" if rounds < FEWEST_ROUNDS else ""
            return (
                f"{few.capitalize() or 'The clients are too few'} to learn the records' centre or"
                " spread in: declare ranges that are as narrow and as symmetric about zero as is"
                " known, or give public rows or means."
            )
        return (
            f"Where declared ranges are not symmetric about zero, let the clients of"
            f" {self._first(self.centre, rounds)} tell the records' centre, which noise then moves"
            f" by about {self.centre_error:.2g} of a record's norm{self._of_spreads(rounds)}."
            " Public rows tell both without a round, public means the centre."
        )

    def _of_spreads(self, rounds: int) -> str:
        if not self.spread:
            return "; they are too few to tell spreads as well"
        return f"; where ranges are loose, those of {self._first(self.spread, rounds)} their spread"

    def _first(self, share: float, rounds: int) -> str:
        """The first rounds of an epoch, and how many clients that are."""
        count = math.ceil(share * rounds - 1e-9)
        clients = min(self.clients, count * self.batch)
        return f"the first {count} of {rounds} rounds ({clients:,}, {share:.0%})"

    @property
    def codebook(self) -> str:
        """What a report of FJ chooses from, in a sentence."""
        return (
            f"A report of FJ chooses among {self.codewords:,} codewords of its own, so that the"
            " mean of all reports does not bend."
        )

    def __getitem__(self, name: str) -> Outlook:
        """The outlook of a solution by its name."""
        for outlook in self.outlooks:
            if outlook.name == name:
                return outlook
        raise InvalidArgument("name", name, ", ".join(o.name for o in self.outlooks))

    def check(self, seed: int = 0, advance: Callable[[str], object] = str) -> tuple[Check, ...]:
        """Simulate rounds of each solution and compare their alignment with the computed one.

        A round has ``batch`` reports, fewer where that would take long; ``advance`` is called with
        each name before its turn.

        >>> from fedsel import advise
        >>> advice = advise(dim=50, clients=1_000, batch=50, epsilon=2.0)
        >>> all(check.agrees for check in advice.check())
        True
        """
        checks: list[Check] = []
        with note("checking advice by simulation", len(self.outlooks)) as tell:
            for outlook in self.outlooks:
                advance(outlook.name)
                checks.append(self._check_one(outlook, checks, seed))
                tell(1)
        return tuple(checks)

    def _check_one(self, outlook: Outlook, checks: list[Check], seed: int) -> Check:
        same = (c for c in checks if c.name == outlook.takes != outlook.name)
        if known := next(same, None):
            return replace(known, name=outlook.name)
        cost = _cost(outlook.solution)
        reports = min(self.batch, max(1, int(_WORK / LEAST_ROUNDS / cost)))
        rounds = min(_MOST_ROUNDS, max(LEAST_ROUNDS, int(_WORK / cost / reports)))
        check = simulate(outlook.solution, self.updates, outlook.moments, reports, rounds, seed)
        return replace(check, name=outlook.name)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        content = {name: v for name, v in vars(self).items() if name != "outlooks"}
        content["central"] = None if self.central is None else self.central.as_dict()
        content["rounds"], content["warnings"] = self.rounds, list(self.warnings)
        content["preparation"], content["codebook"] = self.preparation, self.codebook
        return {**content, "outlooks": [o.as_dict() for o in self.outlooks]}


def _cost(candidate: Solution) -> float:
    """About how many entries the simulation of one report touches."""
    if not isinstance(candidate.mechanism, OneSymbol):
        return 4.0 * candidate.dim
    products = isinstance(candidate.transform, RandomDirections)
    return candidate.dim + candidate.transform.size * (candidate.dim / 400 if products else 20)


def advice_for(
    asked: Asked, epsilon_of: Callable[[str], Epsilon], *, one_epoch_instead: bool = True
) -> Advice:
    """Advice where ``epsilon_of`` tells the ε of each solution, in total over all epochs.

    ``one_epoch_instead``: whether one epoch could have all of it in place of several.
    """
    found = outlooks(asked, epsilon_of)
    best = found[0]
    one, loss = best.alignment_all, ""
    if asked.epochs > 1 and one_epoch_instead:
        once = outlooks(replace(asked, epochs=1), epsilon_of)[0]
        one, loss = once.alignment_all, split(best, once, asked.epochs)
    plain = moments(Solution("NP", asked.dim, FullGradient()), asked.updates)
    epsilon = epsilon_of(best.name)
    automatic = resolve_auto(Recipe(epsilon=epsilon, epochs=asked.epochs), asked.setting)
    waiting = max(1.0, float(automatic.centre) * asked.clients)
    noise = noise_of_mean(automatic, automatic.build(), waiting) if automatic.centre else 0.0
    skipped = [f"{name} is left out: {why}." for name, why in left_out(asked.dim).items()]
    warnings = [
        *impossible(best, asked.clients, asked.epochs),
        *flat(found, asked.dim, asked.batch),
        *skipped,
        *([loss] if loss else []),
    ]
    return Advice(
        **vars(asked),
        epsilon=float(epsilon),
        outlooks=found,
        recommended=best.name,
        reason=reason(found),
        usable=best.alignment_all >= GOAL,
        without_privacy=plain.alignment(asked.clients),
        one_epoch=one,
        warnings=tuple(warnings),
        spread=float(automatic.spread),
        centre=float(automatic.centre),
        centre_error=math.sqrt(asked.dim * noise),
        codewords=codewords_for(automatic.charge, asked.dim),
    )
