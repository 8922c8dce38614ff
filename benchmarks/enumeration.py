"""Enumerate the exact law of what devices ship, and compare it with what the ledger charges.

A case is a solution as `Client` builds it, a few inputs, and one or two epochs. `Solution.encode`
itself runs on every draw that matters: residual, momentum, transform and clip included. The largest
ratio of the probabilities of any transcript under any two inputs must be at most e^(charge ·
epochs); they are compared in rationals. First comes every private name of the registry, with one
report and with two, then compositions that have no name, then random cases until there are --leaves
leaves. A leaf is a path through the draws of `encode` with its own probability.

Exit status 1 if one ratio exceeds its charge.

Example: python benchmarks/enumeration.py --leaves 5000000 --json
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction

from fedsel import (
    Feedback,
    FlatPicks,
    Recipe,
    Rotated,
    Solution,
    TwoStage,
    certify_by_enumeration,
)
from fedsel._internal.exact import exceeds_exp, log
from fedsel._internal.progress import note
from fedsel.mechanisms import Duchi, Exponential, OptimalWindow, PerturbedSampling, Piecewise
from fedsel.recipe import solution as build
from fedsel.solutions import RandomDirections, entries, entry, names

Vector = tuple[float, ...]
# Extremes of rank and value in both directions, ties, zeros of both signs, what is subnormal, and
# what overflows in a sum.
ENTRIES = (0.0, -0.0, 1e-45, 0.1, -0.1, 0.3, -0.7, 0.7, 1.0, -1.0, 5.0, -5.0, 9.0, 3e38, -3e38)
GRID: tuple[Vector, ...] = (
    (5.0, 0.1),
    (-5.0, 9.0),
    (0.1, -5.0),
    (0.0, -0.0),
    (0.7, 0.7),
    (-0.7, 0.7),
    (1e-45, 0.0),
    (3e38, -3e38),
)
MANY_SYMBOLS = 60


@dataclass(frozen=True)
class Case:
    """A solution in one of its rounds, the inputs of a client, and how often it reports."""

    kind: str
    solution: Solution
    inputs: tuple[Vector, ...]
    epochs: int = 1


@dataclass(frozen=True)
class Finding:
    """What the enumeration of a case gave: the exact ``ratio``, None where it is infinite."""

    case: Case
    charge: Fraction
    ratio: Fraction | None
    leaves: int

    @property
    def exceeds(self) -> bool:
        """Whether the transcripts lose more than is charged for them: decided in rationals."""
        return self.ratio is None or exceeds_exp(self.ratio, self.charge)

    @property
    def used(self) -> float:
        """The exact loss as a share of the charge."""
        return float("inf") if self.ratio is None else log(self.ratio) / float(self.charge)


@dataclass
class Row:
    """What was found for one kind of solution."""

    kind: str
    cases: int = 0
    inputs: int = 0
    leaves: int = 0
    used: float = 0.0
    exceeding: int = 0
    seconds: float = 0.0
    worst: str = field(default="", repr=False)

    def add(self, found: Finding, seconds: float) -> None:
        self.cases += 1
        self.inputs += len(found.case.inputs) ** found.case.epochs
        self.leaves += found.leaves
        self.exceeding += found.exceeds
        self.seconds += seconds
        if found.used >= self.used:
            self.used, self.worst = found.used, found.case.solution.name


def examine(case: Case) -> Finding:
    """Enumerate a case; its charge is what a ledger takes for so many reports."""
    leaves = 0

    def advance(more: int) -> None:
        nonlocal leaves
        leaves += more

    charge = case.solution.privacy.charge
    if charge is None:
        raise ValueError(f"{case.solution.name} charges nothing: it is not private")
    found = certify_by_enumeration(case.solution, case.inputs, case.epochs, advance=advance)
    return Finding(case, charge * case.epochs, found.ratio, leaves)


# --- cases ------------------------------------------------------------------------------------


def kind_of(made: Solution) -> str:
    """The row of the table that a solution of the registry belongs to."""
    known = entry(made.name)
    if known.family == "one-symbol":
        return made.name
    if known.selection is not None:
        return "two stages"
    if known.projected:
        return "flat, -RP"
    return "flat" if made.alphabet.picks == 1 else "flat, several picks"


def named(
    name: str, inputs: Sequence[Vector], epochs: int = 1, number: int = 0, **given: object
) -> Case:
    """A name of the registry, for ε in all of its epochs."""
    made = build(name, epochs=epochs, **given).in_round(number)  # type: ignore[arg-type]
    return Case(kind_of(made), made, tuple(inputs), epochs)


def private_names() -> list[str]:
    """Every name of the registry that a device would report with."""
    return [n for n in names() if build(n, epsilon=1.0, dim=2, k=1).privacy.charge is not None]


def systematic() -> Iterator[Case]:
    """Every private name with one report and with two, several picks, and what has no name."""
    common = {"k": 1, "momentum": 0.5, "ratio": 1.0, "words": 4, "rho": 1.0, "clip": 0.8}
    for name in private_names():
        yield named(name, GRID, epsilon=1.0, dim=2, **common)
        two = named(name, GRID[:3], 2, epsilon=2.0, dim=2, **common)
        many = two.solution.alphabet.symbols >= MANY_SYMBOLS
        yield named(name, GRID[: 2 if many else 5], 2, epsilon=2.0, dim=2, **common)
    corners = [(5.0, 5.0, 5.0), (-5.0, -5.0, -5.0), (0.0, 0.3, -5.0), (0.7, -0.7, 0.7)]
    for name, epsilon in itertools.product(("Duchi", "OW", "RS-Duchi", "RS-OW"), (5.0, 8.0, 12.0)):
        yield named(name, corners, epsilon=epsilon, dim=3, **common)
    one_symbol = [known.name for known in entries() if known.family == "one-symbol"]
    for name, rho in itertools.product(one_symbol, (None, 0.3)):
        signs = [
            *itertools.product((3e38, -3e38), repeat=3),
            *itertools.product((0.0, 0.7), repeat=3),
        ]
        for number in range(3):
            given = {**common, "rho": rho, "words": 8}
            yield named(name, signs, epsilon=1.5, dim=3, number=number, **given)
    yield from composed()


def composed() -> Iterator[Case]:
    """Compositions without a name: momentum with other transforms, and several picks."""
    feedback = Feedback(accumulate=True, momentum=2.0)
    mechanisms = (
        TwoStage(PerturbedSampling(0.5, k=1), Duchi(1.0), clip=0.8),
        TwoStage(Exponential(0.5), OptimalWindow(2.0), clip=0.8),
        TwoStage(PerturbedSampling(0.5, k=2), Piecewise(1.0, grid=3), clip=0.8),
        FlatPicks(Duchi(0.7), picks=2, clip=0.8),
        FlatPicks(Piecewise(1.5, grid=3), picks=2, clip=0.8),
    )
    inputs = ((5.0, 0.1, -0.3), (-5.0, 9.0, 9.0), (0.0, 0.0, 0.0))
    for mechanism in mechanisms:
        several = Rotated(3, seed=1, rotations=2, bases=2)
        for transform in (None, Rotated(3, seed=1), several, RandomDirections(3, words=4, seed=2)):
            made = Solution("own", 3, mechanism, 2, transform, feedback)  # type: ignore[arg-type]
            yield Case("own compositions", made, inputs, 2)


def sampled(seed: int) -> Iterator[Case]:
    """Random solutions and inputs, without end."""
    rng, known = random.Random(seed), private_names()
    while True:
        name, dim, epochs = rng.choice(known), rng.choice((1, 2, 2, 3, 4)), rng.choice((1, 1, 2))
        recipe = Recipe(
            name,
            epsilon=round(10 ** rng.uniform(-2, 1.2), 4) * epochs,
            dim=dim,
            epochs=epochs,
            mu=rng.choice((0.1, 0.5, 0.9)),
            k=rng.randint(1, dim),
            clip=rng.choice((0.05, 0.8, 1.0, 7.0)),
            momentum=rng.choice((0.0, 0.5, 2.0, -1.0)),
            ratio=rng.choice((0.4, 1.0)),
            rho=rng.choice((None, 0.2, 3.0)),
            words=rng.choice((1, 4, 8)),
            seed=rng.randrange(1 << 32),
            bases=rng.choice((None, 1, 3)),
        )
        made = recipe.build().in_round(rng.randrange(100))
        many, picks = made.alphabet.symbols >= MANY_SYMBOLS, made.alphabet.picks
        if picks > (1 if many else 3):
            continue  # the leaves of one law are the product over its pairs
        count = 2 if many and epochs == 2 else rng.randint(2, 5)
        inputs = [tuple(rng.choice(ENTRIES) for _ in range(dim)) for _ in range(count)]
        yield Case(kind_of(made), made, tuple(dict.fromkeys(inputs)), epochs)


# --- the command ------------------------------------------------------------------------------


def run(leaves: int, seed: int) -> tuple[list[Row], list[Finding]]:
    """All systematic cases, then random ones until there are so many leaves; the rows, and what
    exceeds its charge."""
    rows: dict[str, Row] = {}
    exceeding: list[Finding] = []
    done = 0
    with note("enumerating", leaves) as advance:
        for random_one, case in itertools.chain(
            zip(itertools.repeat(False), systematic()), zip(itertools.repeat(True), sampled(seed))
        ):
            if random_one and done >= leaves:
                break
            start = time.perf_counter()
            found = examine(case)
            row = rows.setdefault(case.kind, Row(case.kind))
            row.add(found, time.perf_counter() - start)
            if found.exceeds:
                exceeding.append(found)
            done += found.leaves
            advance(found.leaves)
    return list(rows.values()), exceeding


def main(arguments: Sequence[str] | None = None) -> int:
    """Enumerate and report; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--leaves", type=int, default=5_000_000, help="at least so many")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows, exceeding = run(options.leaves, options.seed)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "exceeding": len(exceeding)}))
    else:
        show(rows)
    for found in exceeding:
        case = found.case
        print(
            f"{case.solution!r} on {case.inputs}, {case.epochs} epochs: loses {found.used:.6f} of "
            f"the charge {float(found.charge):.6g}",
            file=sys.stderr,
        )
    return 1 if exceeding else 0


def show(rows: Sequence[Row]) -> None:
    """The table."""
    total = Row("all")
    print(f"{'':20}{'cases':>8}{'inputs':>9}{'leaves':>12}{'s':>8}  loss/charge  exceed")
    for row in rows:
        for name in ("cases", "inputs", "leaves", "exceeding", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(row, name))
        total.used = max(total.used, row.used)
    for row in (*rows, total):
        print(
            f"{row.kind:20}{row.cases:8,}{row.inputs:9,}{row.leaves:12,}{row.seconds:8.1f}"
            f"{row.used:13.9f}{row.exceeding:8,}"
        )


if __name__ == "__main__":
    sys.exit(main())
