"""What it costs that nobody knows the range of any column: --scale private against standardising.

Tables in natural units, generated from a seed, and FJ with everything automatic. "standardised"
reads mean and deviation of the records, which no ε pays for; "private" learns spread and origin
from the reports of the first rounds. The protocol of ``python -m reproduction fair``: three fifths
of the clients train, one epoch, accuracy on a test fifth that no run trains on.

Example:
    python benchmarks/ranges.py
    python benchmarks/ranges.py --runs 2 --json
    python benchmarks/ranges.py --csv bank-full.csv y --csv adult.csv -1
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fedsel._internal.progress import Bar
from fedsel.data import Dataset, read
from fedsel.data._tables import Column, Numbers, Texts, encode
from fedsel.experiments import InMemorySource, Spec, override

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SCALES = {"standard": "standardised", "private": "private"}
Doubles = NDArray[np.float64]
Made = tuple[list[Column], Doubles]


def census(rng: np.random.Generator, n: int) -> Made:
    age, hours = rng.gamma(6, 7, n) + 17, rng.normal(39, 11, n)
    income = np.minimum(np.exp(rng.normal(10.7, 0.6, n)), 200_000)
    city = rng.choice(8, n, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
    score = 0.6 * unit(age) + unit(income) + 0.3 * unit(hours) + 0.5 * rng.normal(size=8)[city]
    texts = Texts("city", city.astype(np.int32), tuple("abcdefgh"))
    return [*numbers(age.round(), income.round(), hours.round()), texts], score


def far_from_zero(rng: np.random.Generator, n: int) -> Made:
    z = rng.normal(size=(n, 5))
    raw = z * [12, 9, 8, 0.4, 9] + [1985, 288, 1013, 7, 171]  # years, kelvin, hPa, pH, cm
    return numbers(*raw.T), z @ [1.0, -0.8, 0.6, 0.4, -1.0]


def sizes(rng: np.random.Generator, n: int, d: int = 12) -> Made:
    z = rng.normal(size=(n, d)) + 0.3 * rng.normal(size=(n, 5)) @ rng.normal(size=(5, d))
    raw = (z + rng.uniform(-3, 3, d)) * 10.0 ** rng.uniform(-3, 6, d)
    return numbers(*raw.T), z @ rng.normal(size=d)


def sixty(rng: np.random.Generator, n: int) -> Made:
    return sizes(rng, n, 60)


def heavy_tails(rng: np.random.Generator, n: int) -> Made:
    z, t = rng.normal(size=(n, 5)), rng.standard_t(2.5, size=(n, 5))
    raw = [*np.exp(1.2 * z + np.arange(5)).T, *(t * 10.0 ** np.arange(-2, 3)).T]
    return numbers(*raw), np.hstack([z, np.clip(t, -3, 3)]) @ rng.normal(size=10)


def zeros_and_ones(rng: np.random.Generator, n: int) -> Made:
    flags = (rng.random((n, 15)) < rng.uniform(0.05, 0.9, 15)).astype(float)
    z = rng.normal(size=(n, 2))
    score = flags @ rng.normal(size=15) + z @ [1, -0.5]
    return numbers(*flags.T, np.exp(10.7 + 0.6 * z[:, 0]), 45 + 13 * z[:, 1]), score


def large_numbers(rng: np.random.Generator, n: int) -> Made:
    z = rng.normal(size=(n, 5))  # seconds since 1970, yen, metres, degrees, a rate
    raw = z * [3e7, 0.4, 2e4, 0.3, 0.004] + [1.6e9, 0, 1e5, 48, 0.02]
    raw[:, 1] = 5e6 * np.exp(raw[:, 1])
    return numbers(*raw.T), z @ [1, -1, 0.7, 0.5, -0.6]


def rare_class(rng: np.random.Generator, n: int) -> Made:
    columns, score = sizes(rng, n, 10)
    return columns, score - 1.6 * score.std()


TABLES: dict[str, tuple[Callable[[np.random.Generator, int], Made], int]] = {
    "age, income, hours, city": (census, 40_000),
    "years, kelvin, hPa, pH, cm": (far_from_zero, 40_000),
    "12 columns of 10⁻³ to 10⁶": (sizes, 40_000),
    "60 such columns": (sixty, 60_000),
    "10 such, a class of 7 %": (rare_class, 60_000),
    "10 with heavy tails": (heavy_tails, 40_000),
    "15 of 0 and 1, 2 wide ones": (zeros_and_ones, 40_000),
    "seconds since 1970, yen, …": (large_numbers, 40_000),
    "the first, 20,000 records": (census, 20_000),
}


def unit(values: Doubles) -> Doubles:
    return np.asarray((values - values.mean()) / values.std())


def numbers(*columns: Doubles) -> list[Column]:
    return [Numbers(f"x{j}", column) for j, column in enumerate(columns)]


def generated(name: str) -> Dataset:
    make, count = TABLES[name]
    rng = np.random.default_rng(29)
    columns, score = make(rng, count)
    y = rng.random(count) < 1 / (1 + np.exp(-4 * score / score.std()))
    return encode([*columns, Numbers("y", y.astype(float))], "y", None, name)


def measure(tables: dict[str, Dataset], runs: int) -> list[dict[str, Any]]:
    """One row for each table, scale and ε."""
    rows = []
    with Bar(len(tables) * len(SCALES) * len(EPSILONS) * runs) as bar:
        for name, table in tables.items():
            source = InMemorySource(table)
            for scale, shown in SCALES.items():
                shared = {"dataset": name, "solutions": ("FJ",), "epsilons": EPSILONS}
                asked = {"scale": scale, "intercept": True, "protocol": "holdout", "repeats": runs}
                for cell in override(Spec(), {**shared, **asked}).cells():
                    parts = []
                    for number in range(runs):
                        parts.append(cell.part(number, source))
                        bar.update(f"{name}, {shown}", advance=1)
                    row = cell.combine(parts)
                    found = {"table": name, "features": table.d, "records": table.n}
                    found |= {"scale": scale, "epsilon": row["epsilon"]}
                    for score in ("test", "auc"):
                        found[score] = statistics.fmean(row[score])
                        found[f"{score}_deviation"] = statistics.pstdev(row[score])
                    rows.append({**found, "majority": row["majority"], "chosen": row["chosen"]})
    return rows


def show(rows: list[dict[str, Any]], runs: int) -> None:
    table = Table(title=f"FJ, automatic: accuracy (%) on the test fifth, {runs} runs")
    for heading in ("table", "scale"):
        table.add_column(heading)
    for epsilon in EPSILONS:
        table.add_column(f"ε = {epsilon:g}", justify="right")
    for name in dict.fromkeys(row["table"] for row in rows):
        for scale, shown in SCALES.items():
            mine = [r for r in rows if (r["table"], r["scale"]) == (name, scale)]
            cells = [f"{100 * r['test']:.1f} ± {100 * r['test_deviation']:.1f}" for r in mine]
            table.add_row(name if scale == "standard" else "", shown, *cells)
        table.add_section()
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="What learning ranges costs.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--csv",
        nargs=2,
        action="append",
        default=[],
        metavar=("PATH", "LABEL"),
        help="a file in place of the tables; its label by name, or by number without a header",
    )
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    files = {path: read(path, label, header=label[-1:].isalpha()) for path, label in options.csv}
    tables = files or {name: generated(name) for name in TABLES}
    rows = measure(tables, options.runs)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows, options.runs)


if __name__ == "__main__":
    main()
