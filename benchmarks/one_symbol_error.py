"""How far the error of one report is above that of PrivUnit, the best of all directions.

A client reports a random unit vector x; the server decodes the one report. What is reported has a
public length, so that its mean squared error is E‖report‖² − 2·E⟨report, x⟩ + 1, and given x and
the codebook the inner product is the lift of the law times the sum U_k of the k largest scores:
no report needs to be drawn. E U_k is

- an integral over order statistics where the scores are those of one orthonormal basis (RJ with one
  rotation, d a power of two);
- else a mean over random x and many codebooks, until its standard error changes the error by less
  than --precision; both codebooks and vectors differ between batches, and the error is theirs.

Two ratios to PrivUnit's exact error (with the exact measure of its cap) are given:

- decoded: as the server decodes it. The scale assumes normal scores, and where few dimensions meet
  a large ε that is too short: a report is then shrunk, which lowers the error of one report;
- unbiased: with the scale that makes the mean over all x and codebooks x itself, as PrivUnit has
  it: what counts in the mean of many reports. It depends on the direction of a report alone.

Compared are RJ as the automatic recipe of one round has it (the union of as many rotations as ε
needs), RJ with one rotation (bases=None) and RC (8·d random directions). Dimensions that are no
power of two show what padding costs.

Example:
    python benchmarks/one_symbol_error.py --plot docs/images/one_symbol_error.png
    python benchmarks/one_symbol_error.py --quick --json
    python benchmarks/one_symbol_error.py --markdown
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import integrate, special

from fedsel import Recipe, Solution, solution
from fedsel._internal.progress import Bar
from fedsel.auto._numbers import bases_for
from fedsel.mechanisms import SignedSampling
from fedsel.pages import palette
from fedsel.solutions import RandomDirections, Transform
from fedsel.solutions._baselines import PrivUnit

Doubles = NDArray[np.float64]
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
POWERS, PADDED = (16, 32, 64, 128, 256, 512, 1024), (100, 300, 700)
QUICK_EPSILONS, QUICK_DIMENSIONS = (0.25, 2.0, 12.0), (16, 100, 128)
AUTOMATIC, SINGLE, RANDOM = "RJ", "RJ, one rotation", "RC"
KINDS = (AUTOMATIC, SINGLE, RANDOM)
FRESH = (2, 4, 8, 16, 33, 64, 65, 80, 100, 128, 129, 300, 512, 1024)
SEED = 2026
CODEBOOKS = {AUTOMATIC: 24, SINGLE: 24, RANDOM: 6}
"""At least so many, each with vectors of its own; those of RC are slow to make."""
SCORES = 1 << 20
"""Of one codebook, roughly."""
MOST_VECTORS = 1 << 18
GOAL = 1.05


class Row(NamedTuple):
    """The error of one report, over PrivUnit's."""

    solution: str
    d: int
    epsilon: float
    codewords: int
    k: int
    privunit: float
    decoded: float
    unbiased: float
    mean: float
    standard_error: float


class Law(NamedTuple):
    """k, the lift of the top k, the size of a report; PrivUnit's error, and ∂(ratio)/∂U_k."""

    k: int
    lift: float
    unit: float
    privunit: float
    sensitivity: float


class Wanted(NamedTuple):
    """How many codebooks at least, and the largest standard error of a ratio."""

    codebooks: int
    precision: float


class Sums(NamedTuple):
    """E U_k and its standard error, for several k."""

    values: Doubles
    errors: Doubles


def compared(kind: str, epsilon: float, d: int) -> Solution:
    """The solution for vectors of norm 1."""
    if kind == RANDOM:
        return solution("RC", epsilon=epsilon, dim=d, rho=1.0)
    bases = bases_for(Recipe("RJ", epsilon=epsilon), d, 1) if kind == AUTOMATIC else None
    return solution("RJ", epsilon=epsilon, dim=d, rho=1.0, bases=bases)


def exact_top_sum(k: int, d: int) -> float:
    """E U_k of the d entries of a random unit vector: half-normal magnitudes over a norm."""

    def share(z: float) -> float:
        density = math.sqrt(2 / math.pi) * math.exp(-z * z / 2)
        return float(z * density * special.bdtr(k - 1, d - 1, 2 * special.ndtr(-z)))

    total, _ = integrate.quad(share, 0, 12, epsabs=1e-12, epsrel=1e-10, limit=500)
    norm = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
    return d * total / norm


def inner_products(transform: Transform, x: Doubles) -> Doubles:
    """Of every vector (n, d) with every codeword: (n, M)."""
    if isinstance(transform, RandomDirections):
        return transform.scores(x).astype(np.float64)
    return transform.values(x)


def top_sums(
    transform: Transform, tops: Sequence[int], scales: Sequence[float], wanted: Wanted
) -> Sums:
    """E U_k for each k, and its standard error, over random unit vectors and codebooks.

    A standard error times its scale is at most wanted.precision.
    """
    rng, places = np.random.default_rng(SEED), np.asarray(tops) - 1
    vectors = max(4, min(512, SCORES // transform.size))
    found: list[Doubles] = []
    while True:
        x = rng.standard_normal((vectors, transform.dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        products = inner_products(replace(transform, seed=len(found)), x)  # type: ignore[call-arg]
        sums = np.cumsum(-np.sort(-np.abs(products), axis=1), axis=1)
        found.append(sums[:, places].mean(axis=0))
        if len(found) < wanted.codebooks:
            continue
        errors = np.std(found, axis=0, ddof=1) / math.sqrt(len(found))
        if (errors * scales).max() <= wanted.precision or len(found) * vectors > MOST_VECTORS:
            return Sums(np.mean(found, axis=0), errors)


def rows_of(kind: str, d: int, epsilons: Sequence[float], precision: float) -> list[Row]:
    """The errors at each ε; those with codebooks of one size share their random vectors."""
    made = {epsilon: compared(kind, epsilon, d) for epsilon in epsilons}
    rows = []
    for size in dict.fromkeys(s.transform.size for s in made.values()):
        mine = [(e, s) for e, s in made.items() if s.transform.size == size]
        laws = [law_of(e, s) for e, s in mine]
        transform = mine[0][1].transform
        if kind != RANDOM and size == d:
            values = [exact_top_sum(law.k, d) for law in laws]
            sums = Sums(np.array(values), np.zeros(len(laws)))
        else:
            scales = [law.sensitivity for law in laws]
            wanted = Wanted(CODEBOOKS[kind], precision)
            sums = top_sums(transform, [law.k for law in laws], scales, wanted)
        for (epsilon, _), law, value, error in zip(mine, laws, *sums, strict=True):
            along = law.unit * law.lift * value
            unbiased = (law.unit * transform.length / along) ** 2 - 1
            decoded = (law.unit * transform.length) ** 2 - 2 * along + 1
            best = law.privunit
            rows.append(
                Row(
                    solution=kind,
                    d=d,
                    epsilon=epsilon,
                    codewords=size,
                    k=law.k,
                    privunit=best,
                    decoded=decoded / best,
                    unbiased=unbiased / best,
                    mean=along,
                    standard_error=law.sensitivity * error,
                )
            )
    return sorted(rows, key=lambda row: row.epsilon)


def law_of(epsilon: float, made: Solution) -> Law:
    """What of a solution's law its error depends on."""
    mechanism, transform = cast("SignedSampling", made.mechanism), made.transform
    best = PrivUnit(Fraction(epsilon), made.dim).error
    k, lift = mechanism.top(transform.size), mechanism.lift(transform.size)
    unit = float(made.alphabet.units[0])
    # By how much a unit of U_k changes the error over PrivUnit's: unbiased, which is the larger.
    sensitivity = 2 * unit * lift * (unit * transform.length) ** 2 / best
    return Law(k, lift, unit, best, sensitivity)


def measure(epsilons: Sequence[float], dimensions: Sequence[int], precision: float) -> list[Row]:
    """Every cell, with progress on stderr."""
    rows = []
    with Bar(len(KINDS) * sum(dimensions)) as bar:
        for d in dimensions:
            for kind in KINDS:
                bar.update(f"{kind}, d = {d}")
                rows += rows_of(kind, d, epsilons, precision)
                bar.update(advance=d)
    return rows


def cell(rows: Sequence[Row], kind: str, d: int, epsilon: float) -> Row:
    return next(row for row in rows if (row.solution, row.d, row.epsilon) == (kind, d, epsilon))


def axes_of(rows: Sequence[Row]) -> tuple[list[int], list[float]]:
    return list(dict.fromkeys(row.d for row in rows)), sorted({row.epsilon for row in rows})


def tables(rows: Sequence[Row]) -> list[Table]:
    """Both ratios, for each solution."""
    dimensions, epsilons = axes_of(rows)
    found = []
    for kind in KINDS:
        table = Table("d", title=f"{kind}: error over PrivUnit's, as decoded / unbiased")
        for epsilon in epsilons:
            table.add_column(f"ε = {epsilon:g}", justify="right")
        for d in dimensions:
            here = [cell(rows, kind, d, epsilon) for epsilon in epsilons]
            table.add_row(f"{d}", *(f"{row.decoded:.3f} / {row.unbiased:.3f}" for row in here))
        found.append(table)
    return found


def markdown(rows: Sequence[Row]) -> str:
    """The table of benchmarks/one_symbol_error.md: RJ as decoded / unbiased."""
    dimensions, epsilons = axes_of(rows)
    lines = ["| d | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |"]
    lines.append("|---" * (1 + len(epsilons)) + "|")
    for d in sorted(dimensions):
        here = [cell(rows, AUTOMATIC, d, epsilon) for epsilon in epsilons]
        cells = [f"{row.decoded:.2f} / {row.unbiased:.2f}" for row in here]
        lines.append(f"| {d} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> list[str]:
    """Which cells are above the goal, and how sure all are."""
    lines = []
    for kind in KINDS:
        mine = [row for row in rows if row.solution == kind]
        for name in ("decoded", "unbiased"):
            above = [row for row in mine if getattr(row, name) > GOAL]
            worst = max(mine, key=lambda row: getattr(row, name))
            lines.append(
                f"{kind}, {name}: {len(above)} of {len(mine)} cells above {GOAL}; the largest is "
                f"{getattr(worst, name):.3f} (d = {worst.d}, ε = {worst.epsilon:g})"
            )
    surest = max(row.standard_error for row in rows)
    return [*lines, f"standard errors are at most {surest:.4f}"]


def draw(rows: Sequence[Row], file: Path) -> None:
    """The unbiased ratio over ε, a panel for each solution; padded dimensions dashed."""
    from matplotlib.figure import Figure

    dimensions, epsilons = axes_of(rows)
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    panels = figure.subplots(1, len(KINDS), sharex=True, sharey=True)
    order = sorted(dimensions)
    for axes, kind in zip(panels, KINDS, strict=True):
        axes.axhspan(0.9, GOAL, color=palette.PALE, alpha=0.4, linewidth=0)
        for place, d in enumerate(order):
            padded = d & (d - 1) != 0
            here = [cell(rows, kind, d, epsilon) for epsilon in epsilons]
            axes.plot(
                epsilons,
                [row.unbiased for row in here],
                label=f"d = {d}" + (", padded" if padded else ""),
                color=_colour(place / max(1, len(order) - 1)),
                linestyle="--" if padded else "-",
                marker="o",
                markersize=3,
            )
        axes.set_title(kind, fontsize=10)
        axes.set_xscale("log", base=2)
        named = [e for e in epsilons if e not in (6.0, 10.0)]  # no room for all
        axes.set_xticks(named, labels=[f"{e:g}" for e in named], fontsize=8)
        axes.minorticks_off()
        axes.set_ylim(0.97, 1.5)
        axes.set_xlabel("ε of the report")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("error of one unbiased report over PrivUnit's")
    panels[0].legend(fontsize=8, loc="upper left", title="green: within 5 %", title_fontsize=8)
    figure.savefig(file, dpi=110)


def _colour(share: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.92 * share)


def of_fresh_bases() -> str:
    """FJ's error over PrivUnit's: reports have one length, and their mean is the vector."""
    lines = []
    for d in FRESH:
        ratios = []
        for epsilon in EPSILONS:
            best = PrivUnit(Fraction(epsilon), d).scale ** 2 - 1
            ratios.append((solution("FJ", epsilon=epsilon, dim=d).noise ** 2 - 1) / best)
        lines.append(f"| {d} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three ε, three d")
    parser.add_argument(
        "--precision", type=float, default=0.002, help="standard error of a ratio, at most"
    )
    parser.add_argument("--json", action="store_true", help="print all rows as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs")
    parser.add_argument("--fresh", action="store_true", help="the table of FJ, from its law alone")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to write the figure")
    options = parser.parse_args()
    if options.fresh:
        print(of_fresh_bases())
        return
    epsilons = QUICK_EPSILONS if options.quick else EPSILONS
    dimensions = QUICK_DIMENSIONS if options.quick else POWERS + PADDED
    rows = measure(epsilons, dimensions, options.precision)
    if options.plot:
        draw(rows, options.plot)
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
        return
    if options.markdown:
        print(markdown(rows))
    else:
        for table in tables(rows):
            Console().print(table)
    for line in summary(rows):
        print(line)


if __name__ == "__main__":
    main()
