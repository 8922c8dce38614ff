"""The audit of all mechanisms: a grid of cases, each certified, attacked and measured."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedsel import (
    Certificate,
    InvalidArgument,
    Solution,
    TwoStage,
    amplify,
    audit,
    certify,
    mechanism,
    solution,
)
from fedsel.mechanisms import (
    ONE_SYMBOL,
    SELECTIONS,
    VALUES,
    Mechanism,
    OneSymbol,
    ReportMechanism,
    Selection,
    Value,
)
from fedsel.sampling import simulated
from fedsel.solutions import best_blocks
from reproduction.audit.shuffled import attack_shuffled, worst_attack

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DIMENSIONS = (2, 10, 100)
LARGE_DIMENSIONS = (1_000, 100_000)
"""Dimensions that are certified but not attacked: experiments say little about rare outputs."""
MOST_ATTACKED = 1_000
TWO_STAGE_EPSILONS = (2.0,)
SHUFFLED_EPSILONS = (1.0,)
SHUFFLED_NAMES = ("J", "UJ", "EXP-Duchi", "PE-Duchi", "PS-Duchi")
"""Mechanisms with few outputs, so that all multisets of reports can be enumerated."""
SHUFFLED_REPORTS = (2, 4, 8)
SHUFFLED_DIMENSION = 2
SHUFFLED_DELTA = Fraction(1, 100)
"""A δ so large that an experiment sees events beyond it."""
TOPS: tuple[float, ...] = (0.1, 0.3)
ANSWERS = range(2, 1 + (1 << 16))
"""How many answers a question of BR may have."""
MOST_ANSWERS_TRIED = 4
"""All answers are alike but for their names."""
VALUE_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Case:
    """One mechanism at one dimension; ``attack`` says whether it is also attacked by experiment.

    ``reports`` is the number of shuffled reports, if they are shuffled. BR is a solution, as its
    blocks are part of its law: ``d`` counts its answers, ``k`` those in a block.
    """

    name: str
    mechanism: Mechanism | Solution
    epsilon: float
    d: int | None = None
    k: int | None = None
    attack: bool = True
    reports: int | None = None

    def seed(self, seed: int) -> int:
        """The seed of this case, so that its result does not depend on other cases."""
        text = f"{seed} {self.mechanism!r} {self.d}"
        text += "" if self.reports is None else f" {self.reports}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


@dataclass(frozen=True)
class Row:
    """The audit's result for one case.

    For shuffled ``reports`` all ε are central ones at ``delta``: ``claimed`` is proved for all
    inputs, ``exact`` is the loss for the worst inputs tried, by enumerating all multisets.
    """

    mechanism: str
    d: int | None
    k: int | None
    epsilon: float
    claimed: float
    exact: float
    lower_bound: float | None
    variance: float | None
    measured_variance: float | None
    holds: bool
    published: bool
    reports: int | None = None
    delta: float = 0.0

    @property
    def name(self) -> str:
        """The mechanism, and the number of its shuffled reports.

        >>> Row("J", 2, 1, 2, 1.5, 1.4, 1.3, None, None, True, False, 4, 0.01).name
        'J, 4 shuffled'
        """
        shuffled = "" if self.reports is None else f", {self.reports} shuffled"
        return f"{self.mechanism}{shuffled}"

    @property
    def sound(self) -> bool:
        """Whether the claim holds, unless published, and no experiment contradicts the exact ε."""
        consistent = self.lower_bound is None or self.lower_bound <= self.exact
        return consistent and (self.holds or self.published)

    @property
    def verdict(self) -> str:
        if self.lower_bound is not None and self.lower_bound > self.exact:
            return "REFUTED BY EXPERIMENT"
        if self.published and not self.holds:
            return f"published, true ε = {self.exact:.6g}"
        return "holds" if self.holds else "FAILS"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def default_cases(
    epsilons: Sequence[float] = EPSILONS,
    dimensions: Sequence[int] = DIMENSIONS,
    tops: Sequence[float] = TOPS,
    large: Sequence[int] = LARGE_DIMENSIONS,
    value_epsilons: Sequence[float] = VALUE_EPSILONS,
    two_stage_epsilons: Sequence[float] = TWO_STAGE_EPSILONS,
    shuffled_epsilons: Sequence[float] = SHUFFLED_EPSILONS,
) -> list[Case]:
    """Every private mechanism over the grid, once for each distinct (d, k, ε).

    Some of them are also audited with a few shuffled reports, at another dimension.
    """
    cases: dict[tuple[Any, ...], Case] = {}

    def add(
        name: str, epsilon: float, d: int | None = None, k: float | None = 0.1, attack: bool = True
    ) -> None:
        target = mechanism(name, epsilon=epsilon, k=k)
        count = None if d is None else _top(target, d)
        if target.private:
            key = (name, d, count, float(target.claimed))
            cases.setdefault(key, Case(name, target, float(target.claimed), d, count, attack))

    for name in SELECTIONS:
        for d in (*dimensions, *large):
            for k in tops:
                for epsilon in epsilons:
                    add(name, epsilon, d, k, attack=d in dimensions and d <= MOST_ATTACKED)
    for name in ONE_SYMBOL:
        for d, epsilon in itertools.product((*dimensions, *large), epsilons):
            add(name, epsilon, d, None, attack=d in dimensions and d <= MOST_ATTACKED)
    for name in VALUES:
        for epsilon in value_epsilons:
            add(name, epsilon)
    for selection, value in itertools.product(("EXP", "PE", "PS"), VALUES):
        for d, epsilon in itertools.product(dimensions, two_stage_epsilons):
            add(f"{selection}-{value}", epsilon, d, tops[0], attack=d <= MOST_ATTACKED)
    for d, epsilon in itertools.product(dimensions, epsilons):
        if d in ANSWERS:
            case = _question(d, epsilon)
            cases[case.name, d, case.k, epsilon] = case
    small = itertools.product(SHUFFLED_NAMES, shuffled_epsilons, SHUFFLED_REPORTS)
    return [*cases.values(), *(_shuffled_case(*case) for case in small)]


def _question(answers: int, epsilon: float) -> Case:
    """BR with the blocks that it takes by itself."""
    made = solution("BR", epsilon=epsilon, dim=answers)
    blocks = best_blocks(Fraction(epsilon), answers)
    name = "BR, subsets" if blocks.points is None else "BR, cyclotomic"
    return Case(
        name, made, float(made.claimed), answers, blocks.block_size, answers <= MOST_ATTACKED
    )


def _shuffled_case(name: str, epsilon: float, reports: int) -> Case:
    target = mechanism(name, epsilon=epsilon, k=1)
    k = _top(target, SHUFFLED_DIMENSION)
    return Case(name, target, float(target.claimed), SHUFFLED_DIMENSION, k, reports=reports)


def _top(target: Mechanism, d: int) -> int | None:
    """The k of a mechanism at d dimensions, if it has one."""
    parts: Iterable[Any] = target.parts
    return next((part.top(d) for part in parts if hasattr(part, "k")), None)


def run(
    cases: Sequence[Case],
    *,
    trials: int = 1_000_000,
    seed: int = 0,
    jobs: int = 1,
    advance: Callable[[Row], object] = id,
) -> list[Row]:
    """Audit all cases, ``jobs`` at a time; ``advance`` is called after each."""
    if not cases:
        raise InvalidArgument("cases", cases, "at least one case")

    def one(case: Case) -> Row:
        row = examine(case, trials=trials, seed=case.seed(seed))
        advance(row)
        return row

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(one, cases))


def examine(case: Case, *, trials: int, seed: int) -> Row:
    """Certify one case, attack it, and measure its variance."""
    if case.reports is not None:
        return _examine_shuffled(case, case.reports, trials=trials, seed=seed)
    certificate = certify(case.mechanism, case.d)
    bound, inputs, law = None, None, case.mechanism
    if isinstance(law, Solution):
        inputs, law = list(np.eye(MOST_ANSWERS_TRIED, law.dim)[: law.dim]), law.mechanism
    if case.attack:
        found = audit(case.mechanism, d=case.d, inputs=inputs, trials=trials, seed=seed)
        bound = found.lower_bound
    theory, measured = (
        _variance(case.mechanism, case.d, trials, seed) if case.attack else (None, None)
    )
    return Row(
        mechanism=case.name,
        d=case.d,
        k=case.k,
        epsilon=case.epsilon,
        claimed=float(certificate.claimed),
        exact=certificate.exact,
        lower_bound=bound,
        variance=theory,
        measured_variance=measured,
        holds=certificate.holds,
        published=law.published,
    )


def _examine_shuffled(case: Case, reports: int, *, trials: int, seed: int) -> Row:
    """The proved ε of shuffled reports, the exact ε for the worst inputs, and an attack."""
    target, d, delta = case.mechanism, case.d, float(SHUFFLED_DELTA)
    if not isinstance(target, ReportMechanism) or d is None:
        raise InvalidArgument("case", case, "one of reports on vectors")
    proved = amplify(target, d, reports=reports, delta=delta).epsilon
    attack = worst_attack(target, d, reports, SHUFFLED_DELTA)
    found = attack_shuffled(
        target,
        attack,
        reports=reports,
        delta=delta,
        claimed=proved,
        trials=trials,
        pilot=max(2, trials // 10),
        seed=seed,
    )
    return Row(
        mechanism=case.name,
        d=d,
        k=case.k,
        epsilon=case.epsilon,
        claimed=proved,
        exact=attack.epsilon,
        lower_bound=found.lower_bound,
        variance=None,
        measured_variance=None,
        holds=Certificate(target, d, proved, attack.growth).holds,
        published=False,
        reports=reports,
        delta=delta,
    )


def _variance(
    target: Mechanism | Solution, d: int | None, trials: int, seed: int
) -> tuple[float | None, float | None]:
    """Variance of the decoded value at its worst input, in theory and measured."""
    who = simulated.cohort(trials, seed=seed, first=trials)
    if isinstance(target, Selection | OneSymbol | Solution):
        return None, None
    if isinstance(target, Value):
        symbols = simulated.perturb(target, [target.worst_input], who)
        return target.worst_variance, float(np.var(target.decode(symbols)))
    if isinstance(target, TwoStage) and isinstance(target.value, Value) and d is not None:
        worst = target.value.worst_input
        reports = simulated.report(target, np.full((1, d), worst * target.clip), who)
        sent = reports.symbol[reports.slot >= 0]
        scale = target.clip**2
        return scale * target.value.worst_variance, scale * float(np.var(target.value.decode(sent)))
    raise InvalidArgument("mechanism", target, "a Selection, a Value or a TwoStage")


def all_sound(rows: Iterable[Row]) -> bool:
    return all(row.sound for row in rows)
