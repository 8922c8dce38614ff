"""The expected accuracy of each solution, from public quantities, and a check by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel._internal.progress import note
from fedsel.advising._moments import Moments, Updates, has_moments, moments
from fedsel.advising._sufficiency import GOAL, Prospect, prospect, too_large, wanted_clients
from fedsel.auto import Model, PublicFacts, learning_rate, radius
from fedsel.auto._rounds import MOST_CLIENTS
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_finite,
    check_float,
    check_positive,
)
from fedsel.preparation._plan import OCTAVES
from fedsel.recipe import solution
from fedsel.sampling import simulated
from fedsel.solutions import Solution, entry
from fedsel.solutions._privacy import Budget, hyper_parameters_free
from fedsel.solutions._registry import own_entries

MOST_DIMENSIONS = 1 << 24


@dataclass(frozen=True)
class Asked:
    """The public quantities of `fedsel.advise`, without ε. All rounds of an epoch are equal.

    ``drop_out`` and ``dishonest`` concern a relay: the share of the clients that do not report in
    an epoch, and the share of n_min that may work for the service.
    """

    dim: int
    clients: int
    batch: int
    epochs: int
    sparse: bool
    agreement: float
    norm: float
    clip: float
    regression: bool
    drop_out: float
    dishonest: float

    def __post_init__(self) -> None:
        check_count("dim", self.dim, least=2, most=MOST_DIMENSIONS)
        check_count("clients", self.clients, most=MOST_CLIENTS)
        check_count("batch", self.batch, most=self.clients)
        check_count("epochs", self.epochs)
        if not isinstance(self.sparse, bool):
            raise InvalidArgument("sparse", self.sparse, "True or False")
        if not 0 < check_finite("agreement", self.agreement) <= 1:
            raise InvalidArgument("agreement", self.agreement, "in (0, 1]")
        for name in ("drop_out", "dishonest"):
            if not 0 <= check_float(name, getattr(self, name)) < 1:
                raise InvalidArgument(name, getattr(self, name), "a share in [0, 1)")
        for name in ("norm", "clip"):
            if not 1e-9 <= check_positive(name, getattr(self, name)) <= 1e9:
                raise InvalidArgument(name, getattr(self, name), "in 1e-9 … 1e9")

    @property
    def rounds_per_epoch(self) -> int:
        return math.ceil(self.clients / self.batch)

    @property
    def rounds(self) -> int:
        """The rounds of all epochs."""
        return self.epochs * self.rounds_per_epoch

    @property
    def reports(self) -> int:
        """The reports of the smallest round."""
        return self.clients // self.rounds_per_epoch

    def in_rounds(self, rounds: int) -> Self:
        """Return a copy with another number of rounds per epoch."""
        return replace(self, batch=math.ceil(self.clients / rounds))

    @property
    def model(self) -> Model:
        return "regression" if self.regression else "linear"

    @property
    def updates(self) -> Updates:
        """The model of the clients' updates."""
        length = radius(self.norm, model=self.model)
        return Updates(self.dim, length, float(self.agreement), self.sparse)

    @property
    def facts(self) -> PublicFacts:
        """The public facts for `fedsel.auto`, with declared ranges assumed loose and offset."""
        facts = (self.dim, self.batch, self.rounds, self.norm)
        return PublicFacts(*facts, model=self.model, offset=True, loose=OCTAVES)

    def prospect(self, solution: Solution) -> Prospect:
        """Return the prospect of all reports of a solution together."""
        reports = self.clients * self.epochs
        return prospect(solution, self.updates, reports=reports, rounds=self.rounds)


@final
@dataclass(frozen=True)
class Outlook:
    """The expected accuracy of one solution.

    ``takes`` is the solution that runs under this name: a flat one if μ = 0. ``epsilon_per_report``
    and ``epsilon_total`` are exact. ``noise`` is the noise of a round's mean over its signal.
    ``alignment_round`` and ``alignment_all`` are the cosines of the mean of a round, and of all
    reports, with the true mean update. ``clients_needed`` for `GOAL` is None if no number is
    enough. ``mu`` and ``k`` are None for solutions without them.
    """

    rank: int
    name: str
    takes: str
    epsilon_per_report: float
    epsilon_total: float
    mu: float | None
    k: int | None
    bits: int
    noise: float
    alignment_round: float
    alignment_all: float
    clients_needed: int | None
    learning_rate: float
    note: str
    solution: Solution = field(repr=False, compare=False)
    moments: Moments = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers by name, for JSON."""
        hidden = ("solution", "moments")
        return {name: v for name, v in vars(self).items() if name not in hidden}


def reason(outlooks: tuple[Outlook, ...]) -> str:
    """Compare the best solution with the next, and with the best of the paper's."""
    best, following = outlooks[0], outlooks[1]
    others = ("one-symbol", "own")
    paper = next((o for o in outlooks if entry(o.name).family not in others), best)
    text = f"{best.name} aligns {best.alignment_all:.2g} with the true mean over all reports"
    text += f", {following.name} {following.alignment_all:.2g}"
    if paper not in (best, following):
        text += f", the best of the paper's ({paper.name}) {paper.alignment_all:.2g}"
    if "words" in entry(best.name).uses:
        text += "; FJ costs a device far less, d·log d in place of d·M products"
    return text + "."


def warn_about_alignment(best: Outlook, clients: int, epochs: int) -> list[str]:
    """Warn if no solution can work, and say how many clients would be needed."""
    if best.alignment_all >= GOAL:
        return []
    wanted = wanted_clients(Prospect(best.alignment_all, best.clients_needed), epochs=1)
    return [
        f"No solution can work: the best, {best.name}, would align {best.alignment_all:.2g} with "
        f"the true mean, over all {clients * epochs:,} reports; a usable model needs {wanted}."
    ]


def warn_about_selection(outlooks: tuple[Outlook, ...], dim: int, batch: int) -> list[str]:
    """Warn about two-stage solutions that have no ε left for the selection."""
    fallen = sorted(o.name for o in outlooks if o.takes != o.name)
    if not fallen:
        return []
    needed = math.sqrt(dim * math.log(dim) / batch)
    return [
        f"μ = 0 for {', '.join(fallen)}: a value needs ε′ of √(d ln d / n) = {needed:.3g} at "
        "least, nothing is left for the selection, and flat PM takes their place."
    ]


def warn_about_epochs(best: Outlook, once: Outlook, epochs: int) -> list[str]:
    """Warn if all of ε in one epoch (``once``) would do better than several epochs."""
    if best.alignment_all >= once.alignment_all:
        return []
    growth = best.moments.noise(1) / once.moments.noise(1)
    return [
        f"ε split over {epochs} epochs loses: the noise of a report grows {growth:.3g}-fold and "
        f"{epochs} times the reports make up for √{epochs} = {math.sqrt(epochs):.3g} of it. All of "
        f"ε in one epoch aligns {once.alignment_all:.2g} ({once.name}), split "
        f"{best.alignment_all:.2g} ({best.name})."
    ]


NAMES = ("FJ", "RC", "J", "UJ", "PM", "HM", "PS-PM", "PE-PM", "EXP-PM", "PM-RP")
"""Our candidates. If two align alike, to two digits, the earlier one ranks first. FJ and RC assume
nothing about the shape of updates, and FJ costs less. RJ is omitted because it biases the mean of
many updates."""
HANDICAP = 0.95
"""A factor on the alignment of J and UJ, which relies on the assumed shape of updates."""


def candidates() -> tuple[str, ...]:
    """Return the names of the candidates: ours, and those that users registered."""
    return (*NAMES, *(known.name for known in own_entries()))


def left_out(asked: Asked) -> dict[str, str]:
    """Return the solutions that are too large for this dimension or not understood, and why."""
    found = {name: why for name in NAMES if (why := too_large(name, asked.dim))}
    for known in own_entries():
        built = candidate(known.name, 1.0, asked)
        if not has_moments(built):
            found[known.name] = "advice cannot compute what it reports; fedsel run measures it"
        elif not built.privacy.within_budget:
            found[known.name] = "its ε is not proved to be within the budget"
    return found


def candidate(name: str, epsilon: Epsilon, asked: Asked) -> Solution:
    """Build a solution for a total ε, or the flat one that replaces it."""
    return solution(
        name,
        epsilon=epsilon,
        dim=asked.dim,
        epochs=asked.epochs,
        mu="auto",
        clip=asked.clip,
        batch=asked.batch,
        rho=asked.updates.length if entry(name).directions else None,
    )


def outlooks(asked: Asked, epsilon_of: Callable[[str], Epsilon]) -> tuple[Outlook, ...]:
    """Return an outlook for each solution, by rank; ``epsilon_of`` returns its total ε."""
    skipped, listed = left_out(asked), candidates()
    found = []
    with note("computing what each solution can do", len(listed)) as advance:
        for name in listed:
            if name not in skipped:
                found.append(_outlook(name, epsilon_of(name), asked))
            advance(1)
    found.sort(key=lambda o: (-float(f"{_safely(o):.2g}"), listed.index(o.name)))
    return tuple(replace(o, rank=i) for i, o in enumerate(found, 1))


def _safely(outlook: Outlook) -> float:
    known = entry(outlook.name)
    assumes = known.family == "one-symbol" and not known.means
    return outlook.alignment_all * (HANDICAP if assumes else 1.0)


def _outlook(name: str, epsilon: Epsilon, asked: Asked) -> Outlook:
    built, batch = candidate(name, epsilon, asked), asked.batch
    estimate, whole = moments(built, asked.updates), asked.prospect(built)
    enough, mu = whole.reports_needed, None
    if entry(name).family == "two-stage":
        per_epoch = Budget(epsilon, asked.epochs, 0.0).per_epoch
        mu = hyper_parameters_free(asked.dim, batch, per_epoch)
    return Outlook(
        rank=0,
        name=name,
        takes=built.name,
        epsilon_per_report=built.privacy.per_report,
        epsilon_total=built.privacy.total,
        mu=mu,
        k=built.mechanism.favoured(built.transform.size),
        bits=built.bits,
        noise=estimate.noise(batch),
        alignment_round=estimate.alignment(batch),
        alignment_all=whole.alignment,
        clients_needed=None if enough is None else math.ceil(enough / asked.epochs),
        learning_rate=learning_rate(built, asked.facts),
        note=f"μ = 0: {built.name} takes its place" if built.name != name else "",
        solution=built,
        moments=estimate,
    )


TOLERANCE = 0.05
"""The relative tolerance of a measured alignment. The normal approximation of entries, from which
the computed one follows, is coarse in few dimensions."""
FALSE_ALARM = 1e-9
"""The probability that a check differs by more by chance, by Student's law."""
LEAST_ROUNDS = 24
_AT_ONCE = 1 << 22
"""Entries of updates in memory at a time."""


@final
@dataclass(frozen=True)
class Check:
    """The computed and the simulated alignment of the mean of ``reports`` reports of a solution."""

    name: str
    reports: int
    rounds: int
    computed: float
    measured: float
    error: float

    @property
    def agrees(self) -> bool:
        """Whether the two agree within tolerance and chance."""
        return abs(self.measured - self.computed) <= TOLERANCE * self.computed + self.chance

    @property
    def chance(self) -> float:
        """The largest plausible error of the measured alignment by chance."""
        with needed("simulation", "advice"):
            from scipy.special import stdtrit

        return self.error * float(stdtrit(self.rounds - 1, 1 - FALSE_ALARM / 2))


def simulate(
    solution: Solution, updates: Updates, estimate: Moments, reports: int, rounds: int, seed: int
) -> Check:
    """Measure the alignment over ``rounds`` rounds, each with its own direction and reports.

    The alignment is mean⟨m, u⟩/√mean‖m‖² over the rounds' means m; its standard error is also
    returned.
    """
    along, squared = np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        along[t], squared[t] = _round(solution, updates, reports, seed, t)
    top, root = float(along.mean()), math.sqrt(float(squared.mean()))
    # The error of the ratio, by linearisation in the two means.
    parts = (along - top) / root - top * (squared - root**2) / (2 * root**3)
    error = float(parts.std(ddof=1)) / math.sqrt(rounds)
    return Check(solution.name, reports, rounds, estimate.alignment(reports), top / root, error)


def _round(
    solution: Solution, updates: Updates, reports: int, seed: int, t: int
) -> tuple[float, float]:
    """Return ⟨m, u⟩ and ‖m‖² of one round's mean m."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, t))))
    solution = solution.in_round(t)
    totals = solution.totals()
    s, a = updates.support, updates.agreement
    places = generator.permutation(updates.dim)[:s] if updates.sparse else slice(s)
    common = generator.standard_normal(s)
    common /= np.linalg.norm(common)
    step = max(1, _AT_ONCE // updates.dim)
    for first in range(0, reports, step):
        n = min(step, reports - first)
        rows = np.zeros((n, updates.dim), dtype=np.float32)
        rows[:, places] = updates.length * _directions(common, a, n, generator)
        who = simulated.cohort(n, seed=seed, epoch=t, first=first)
        totals.add(simulated.report(solution, rows, who))
    mean = solution.expand(totals.mean())
    u = np.zeros(updates.dim)
    u[places] = common
    return float(mean @ u), float(mean @ mean)


def _directions(
    u: NDArray[np.float64], a: float, n: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw a·u + √(1−a²)·z for n clients, z uniform among the directions orthogonal to u."""
    z = generator.standard_normal((n, len(u)))
    z -= np.outer(z @ u, u)
    z *= math.sqrt(1 - a * a) / np.linalg.norm(z, axis=1, keepdims=True)
    z += a * u
    return z
