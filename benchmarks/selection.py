"""How long one client's private choice of a dimension takes, and how that grows with d.

Four implementations of EXP, PE and PS at ε₁ = 0.2 and k = 0.1 d, on standard normal vectors:

- literal: the paper's appendix line by line in plain Python, EXP with the O(d²) of its Sect. 4.2;
- numpy: the same mechanisms for one vector as numpy does them best, in O(d);
- device: fedsel on one vector with the operating system's entropy;
- kernel: fedsel on n vectors in one call, on one thread; the time is that of one client.

Whatever depends on public parameters alone (laws, tables, the sum of EXP) is built before the
clock starts, for all four. Each timed batch is a mean over many draws on different vectors,
because fedsel's samplers take a random number of passes; the result is the fastest of several
batches, because the machine may be busy. Batches of the four take turns.

Writes selection.csv (`clients`: how many clients one call serves) and selection.png, and prints
the times, their ratios at d = 10 000 and the slopes of log(time) over log(d).

Example:
    python benchmarks/selection.py --out results
    python benchmarks/selection.py --out results --quick --json
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel._internal.random import SystemEntropy, philox_key
from fedsel.mechanisms import BOTTOM, Exponential, PerturbedEncoding, PerturbedSampling, Selection
from fedsel.mechanisms._drawing import draw_dimension
from fedsel.pages import palette
from fedsel.sampling._kernels import native, ranks_of
from reproduction.measures.literal import literal_exp, literal_pe, literal_ps

Vector = NDArray[np.float64]

EPSILON = 0.2
TOP = 0.1
SEED = 2020
DIMENSIONS = (10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
QUICK_DIMENSIONS = (10, 100, 1000, 3162, 10_000)
ENTRIES = 2_000_000
"""n · d of the kernel's clients, roughly."""
LITERAL_LIMIT = {"EXP": 10_000, "PE": 100_000, "PS": 100_000}
"""The largest d for plain Python."""

BATCH_SECONDS = 0.02
"""A batch draws at least for so long, ..."""
BATCH_DRAWS = 64
"""... and at least so often, where the number of passes is random."""
REPEATS = 7

COMPARED_AT = 10_000
RATIOS = (("literal", "kernel"), ("literal", "device"), ("numpy", "kernel"))
RATIO_TARGETS = {
    ("EXP", "literal/kernel"): 100.0,
    ("PE", "literal/kernel"): 20.0,
    ("PS", "literal/kernel"): 20.0,
}
SLOPE_FROM = 1000
SLOPE_TARGET = 1.1
SLOPE_TARGET_FOR = ("device", "kernel")

MECHANISMS: dict[str, Selection] = {
    "EXP": Exponential(EPSILON),
    "PE": PerturbedEncoding(EPSILON, TOP),
    "PS": PerturbedSampling(EPSILON, TOP),
}
IMPLEMENTATIONS = ("literal", "numpy", "device", "kernel")


class Row(NamedTuple):
    """One measured time: a line of the CSV file."""

    mechanism: str
    implementation: str
    d: int
    seconds: float
    clients: int


class Batch(NamedTuple):
    """A piece of work to time: ``run`` draws for ``draws`` clients, ``clients`` in each call."""

    run: Callable[[], None]
    draws: int
    clients: int


# The same for one vector with numpy. A rank counts from the smallest, 0 … d−1.


def numpy_exp(r: Vector, cumulative: Vector, rng: np.random.Generator) -> int:
    """EXP: a rank by the cumulative probabilities, then the dimension that holds it."""
    rank = min(int(np.searchsorted(cumulative, rng.random(), side="right")), len(r) - 1)
    return int(np.argpartition(np.abs(r), rank)[rank])


def numpy_pe(r: Vector, k: int, epsilon: float, rng: np.random.Generator) -> int:
    """PE: all bits flipped at once."""
    d = len(r)
    p = math.exp(epsilon) / (math.exp(epsilon) + 1)
    top = np.argpartition(np.abs(r), d - k)[d - k :]
    toss = rng.random(d)
    perturbed = toss < 1 - p
    perturbed[top] = toss[top] < p
    chosen = np.flatnonzero(perturbed)
    if len(chosen) == 0:
        return BOTTOM
    return int(chosen[rng.integers(len(chosen))])


def numpy_ps(r: Vector, k: int, epsilon: float, rng: np.random.Generator) -> int:
    """PS: top or not, then one of them."""
    d = len(r)
    parted = np.argpartition(np.abs(r), d - k)
    growth = math.exp(epsilon)
    if rng.random() < growth * k / (d - k + growth * k):
        return int(parted[d - k + rng.integers(k)])
    return int(parted[rng.integers(d - k)])


def literal_draw(mechanism: str, d: int) -> Callable[[list[float]], int]:
    """A draw for one vector in plain Python, with everything public prepared."""
    rng = random.Random(SEED)
    k = MECHANISMS[mechanism].top(d)
    if mechanism == "EXP":
        total = sum(math.exp(EPSILON * j / (d - 1)) for j in range(1, d + 1))
        return lambda r: literal_exp(r, EPSILON, total, rng)
    if mechanism == "PE":
        return lambda r: literal_pe(r, k, EPSILON, rng)
    return lambda r: literal_ps(r, k, EPSILON, rng)


def numpy_draw(mechanism: str, d: int) -> Callable[[Vector], int]:
    """A draw for one vector with numpy, with everything public prepared."""
    rng = np.random.default_rng(SEED)
    k = MECHANISMS[mechanism].top(d)
    if mechanism == "EXP":
        weights = np.exp(EPSILON * np.arange(d) / (d - 1))
        cumulative = np.cumsum(weights / weights.sum())
        return lambda r: numpy_exp(r, cumulative, rng)
    if mechanism == "PE":
        return lambda r: numpy_pe(r, k, EPSILON, rng)
    return lambda r: numpy_ps(r, k, EPSILON, rng)


def device_draw(mechanism: str, d: int) -> Callable[[Vector], int]:
    """A draw for one vector as fedsel's devices do it."""
    law = MECHANISMS[mechanism].law(d)
    entropy = SystemEntropy()
    return lambda r: draw_dimension(law, np.abs(r), entropy)


def enough_draws(seconds: float, least: int) -> int:
    """How many draws of the given time a batch has."""
    return max(least, math.ceil(BATCH_SECONDS / seconds))


def one_by_one(draw: Callable[[Any], int], vectors: Sequence[Any], least: int) -> Batch:
    """Draw for one client after another, each with the next vector."""
    draw(vectors[0])
    start = perf_counter()
    draw(vectors[0])
    draws = enough_draws(perf_counter() - start, least)
    rows = [vectors[i % len(vectors)] for i in range(draws)]

    def run() -> None:
        for row in rows:
            draw(row)

    return Batch(run, draws, clients=1)


def in_one_call(mechanism: str, vectors: NDArray[np.float64]) -> Batch:
    """Draw for all clients in one call of the kernel, in as many epochs as it needs."""
    n, d = vectors.shape
    law = ranks_of(MECHANISMS[mechanism].law(d))
    key, clients, chosen = philox_key(SEED), np.arange(n), np.empty(n, dtype=np.int64)
    start = perf_counter()
    native.draw_dimensions(law, vectors, key, 0, clients, chosen)
    epochs = math.ceil(enough_draws((perf_counter() - start) / n, BATCH_DRAWS) / n)

    def run() -> None:
        for epoch in range(epochs):
            native.draw_dimensions(law, vectors, key, epoch, clients, chosen)

    return Batch(run, epochs * n, clients=n)


def measure(mechanism: str, vectors: NDArray[np.float64], advance: Callable[[], None]) -> list[Row]:
    """The time of one client by every implementation; ``advance`` is called after each repeat."""
    d = vectors.shape[1]
    batches = {}
    if d <= LITERAL_LIMIT[mechanism]:
        lists = vectors[:BATCH_DRAWS].tolist()
        batches["literal"] = one_by_one(literal_draw(mechanism, d), lists, least=1)
    batches["numpy"] = one_by_one(numpy_draw(mechanism, d), list(vectors), BATCH_DRAWS)
    batches["device"] = one_by_one(device_draw(mechanism, d), list(vectors), BATCH_DRAWS)
    batches["kernel"] = in_one_call(mechanism, vectors)
    best = dict.fromkeys(batches, math.inf)
    for _ in range(REPEATS):
        for name, batch in batches.items():
            start = perf_counter()
            batch.run()
            best[name] = min(best[name], (perf_counter() - start) / batch.draws)
        advance()
    return [Row(mechanism, name, d, best[name], batches[name].clients) for name in batches]


def measure_all(dimensions: Sequence[int]) -> list[Row]:
    """Every time that is reported, with progress on stderr."""
    rows = []
    rng = np.random.default_rng(SEED)
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(dimensions) * len(MECHANISMS) * REPEATS)
        for d in dimensions:
            vectors = rng.standard_normal((max(3, ENTRIES // d), d))
            for mechanism in MECHANISMS:
                progress.update(task, description=f"{mechanism}, d = {d}")
                rows += measure(mechanism, vectors, lambda: progress.advance(task))
    return rows


def curve(rows: Sequence[Row], mechanism: str, implementation: str) -> dict[int, float]:
    """Seconds by d."""
    wanted = (mechanism, implementation)
    return {row.d: row.seconds for row in rows if (row.mechanism, row.implementation) == wanted}


def ratios(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """How many times longer the first of two implementations takes, by mechanism."""
    return {
        mechanism: {
            f"{slow}/{fast}": curve(rows, mechanism, slow)[COMPARED_AT]
            / curve(rows, mechanism, fast)[COMPARED_AT]
            for slow, fast in RATIOS
        }
        for mechanism in MECHANISMS
    }


def slope(seconds: dict[int, float], least: int) -> float:
    """The slope of log(time) over log(d) for d ≥ least, by least squares."""
    d = [x for x in seconds if x >= least]
    return float(np.polyfit(np.log(d), np.log([seconds[x] for x in d]), 1)[0])


def slopes(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """The slope from d = 1000 and over the whole range, by mechanism and implementation."""
    return {
        mechanism: {
            name: {
                f"d>={SLOPE_FROM}": slope(curve(rows, mechanism, name), SLOPE_FROM),
                "all": slope(curve(rows, mechanism, name), 0),
            }
            for name in IMPLEMENTATIONS
        }
        for mechanism in MECHANISMS
    }


def write_csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(rows)


def draw_figure(rows: Sequence[Row]) -> Figure:
    """Time over d, a panel for each mechanism."""
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    figure.suptitle(f"Private selection of one dimension, ε₁ = {EPSILON}, k = {TOP} d")
    panels = figure.subplots(1, len(MECHANISMS), sharex=True, sharey=True)
    for axes, mechanism in zip(panels, MECHANISMS, strict=True):
        colour = palette.look(mechanism).colour  # markers and lines tell the implementations
        for name, marker, line in zip(IMPLEMENTATIONS, "sv^o", palette.LINES[::-1], strict=True):
            seconds = curve(rows, mechanism, name)
            label = f"{name}, slope {slope(seconds, SLOPE_FROM):.2f}"
            microseconds = [s * 1e6 for s in seconds.values()]
            style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
            axes.loglog(list(seconds), microseconds, **style, label=label)
        axes.set_title(mechanism)
        axes.set_xlabel("dimensions d")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, title=f"slope: d ≥ {SLOPE_FROM}", title_fontsize=8)
    panels[0].set_ylabel("time per client (µs)")
    return figure


def times_table(rows: Sequence[Row]) -> Table:
    table = Table("mechanism", title="Time per client (µs)")
    for heading in ("d", *IMPLEMENTATIONS):
        table.add_column(heading, justify="right")
    for mechanism in MECHANISMS:
        curves = [curve(rows, mechanism, name) for name in IMPLEMENTATIONS]
        for d in curves[-1]:
            cells = [f"{seconds[d] * 1e6:.4g}" if d in seconds else "" for seconds in curves]
            table.add_row(mechanism, f"{d}", *cells, end_section=d == max(curves[-1]))
    return table


def ratios_table(measured: dict[str, dict[str, float]]) -> Table:
    table = Table("mechanism", "ratio", title=f"Ratios of the times at d = {COMPARED_AT}")
    for heading in ("measured", "target", ""):
        table.add_column(heading, justify="right")
    for mechanism, by_pair in measured.items():
        for pair, ratio in by_pair.items():
            target = RATIO_TARGETS.get((mechanism, pair))
            goal = ("", "") if target is None else (f"≥ {target:g}", verdict(ratio >= target))
            table.add_row(mechanism, pair, f"{ratio:.1f}", *goal)
    return table


def slopes_table(measured: dict[str, dict[str, dict[str, float]]]) -> Table:
    table = Table("mechanism", "implementation", title="Slopes of log(time) over log(d)")
    for heading in (f"d ≥ {SLOPE_FROM}", "all d", "target", ""):
        table.add_column(heading, justify="right")
    for mechanism, by_name in measured.items():
        for name, found in by_name.items():
            goal = ("", "")
            if name in SLOPE_TARGET_FOR:
                goal = (f"≤ {SLOPE_TARGET}", verdict(max(found.values()) <= SLOPE_TARGET))
            table.add_row(mechanism, name, *(f"{x:.2f}" for x in found.values()), *goal)
    return table


def verdict(met: bool) -> str:
    return "[green]met[/]" if met else "[bold red]MISSED[/]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time one client's private selection of a dimension by four implementations."
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where to write the CSV and the PNG"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"fewer d, up to {max(QUICK_DIMENSIONS)}"
    )
    parser.add_argument(
        "--json", action="store_true", help="print ratios and slopes as JSON instead of tables"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = measure_all(QUICK_DIMENSIONS if arguments.quick else DIMENSIONS)
    write_csv(rows, arguments.out / "selection.csv")
    draw_figure(rows).savefig(arguments.out / "selection.png", dpi=150)
    if arguments.json:
        print(json.dumps({"ratios": ratios(rows), "slopes": slopes(rows)}, indent=2))
        return
    console = Console()
    console.print(times_table(rows))
    console.print(ratios_table(ratios(rows)))
    console.print(slopes_table(slopes(rows)))


if __name__ == "__main__":
    main()
