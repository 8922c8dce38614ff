"""Does more ε ever hurt? Accuracy against ε on plain tables with declared public bounds.

Tables as people have them: ages, incomes and a one-hot city; three features far from the middle of
their range; skewed counts; one rare class. Each is fitted with everything automatic.

Example:
    python benchmarks/more_epsilon.py
    python benchmarks/more_epsilon.py --solution FJ --solution RJ --repeats 3 --json
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fedsel import FedSelClassifier
from fedsel.cli.waiting import Bar

EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
TESTED = 20_000
Rows = NDArray[np.float64]
Labels = NDArray[np.int64]
Made = tuple[Rows, Labels, list[tuple[float, float]]]


def city(n: int, seed: int) -> Made:
    """Age 0 … 100, income 0 … 200,000, one of four cities."""
    draw = np.random.default_rng(seed)
    age = np.clip(draw.normal(42, 15, n), 18, 95)
    income = np.clip(draw.lognormal(10.4, 0.6, n), 0, 200_000)
    place = draw.integers(0, 4, n)
    margin = (age - 42) / 15 * 1.2 + (np.log(income + 1) - 10.4) / 0.6 * 0.9
    margin += np.array([-0.6, 0.1, 0.4, 0.2])[place]
    y = (margin + draw.logistic(0, 0.35, n) > 0.15).astype(np.int64)
    X = np.column_stack([age, income, np.eye(4)[place]])
    return X, y, [(0, 100), (0, 200_000), *[(0, 1)] * 4]


def three(n: int, seed: int) -> Made:
    """Three features from N(0.7, 0.1), declared to lie in 0 … 1."""
    draw = np.random.default_rng(seed)
    X = np.clip(draw.normal(0.7, 0.1, (n, 3)), 0, 1)
    y = (X @ [1.0, -1.0, 0.5] - 0.35 + draw.normal(0, 0.02, n) > 0).astype(np.int64)
    return X, y, [(0, 1)] * 3


def counts(n: int, seed: int) -> Made:
    """Twenty skewed counts, of which most are far below their bound."""
    draw = np.random.default_rng(seed)
    X = np.minimum(draw.gamma(0.7, 4.0, (n, 20)), 60)
    w = np.linspace(-1, 1, 20)
    margin = np.log1p(X) @ w
    y = (margin + draw.logistic(0, 0.3, n) > np.median(margin)).astype(np.int64)
    return X, y, [(0, 60)] * 20


TABLES: dict[str, tuple[Callable[[int, int], Made], int]] = {
    "age, income, city": (city, 80_000),
    "three features": (three, 25_000),
    "skewed counts": (counts, 40_000),
}


def accuracy(name: str, solution: str, epsilon: float, seed: int) -> float:
    """Of one fit with nothing tuned, on records that no client has."""
    make, n = TABLES[name]
    X, y, bounds = make(n, 1)
    test_X, test_y, _ = make(TESTED, 2)
    low, high = zip(*bounds, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a seed, and the same records again: data of a generator
        model = FedSelClassifier(
            epsilon=epsilon, solution=solution, feature_range=(low, high), random_state=seed
        )
        return float(model.fit(X, y).score(test_X, test_y))


def majority(name: str) -> float:
    """The share of the larger class among the tested."""
    y = TABLES[name][0](TESTED, 2)[1]
    return float(max(y.mean(), 1 - y.mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solution", action="append", help="default: RJ, PM and FJ")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    solutions = asked.solution or ["RJ", "PM", "FJ"]
    rows = []
    with Bar(len(TABLES) * len(solutions) * len(EPSILONS)) as bar:
        for name in TABLES:
            for solution in solutions:
                found = []
                for epsilon in EPSILONS:
                    bar.update(f"{name}: {solution}, ε = {epsilon:g}")
                    runs = [accuracy(name, solution, epsilon, s) for s in range(asked.repeats)]
                    found.append(float(np.mean(runs)))
                    bar.update(advance=1)
                rows.append({"table": name, "solution": solution, "accuracy": found})
    if asked.json:
        print(json.dumps({"epsilons": EPSILONS, "rows": rows}))
        return
    table = Table("table", "majority", "solution", *(f"ε = {e:g}" for e in EPSILONS))
    for row in rows:
        shares = (f"{100 * a:.1f}" for a in row["accuracy"])
        table.add_row(row["table"], f"{100 * majority(row['table']):.1f}", row["solution"], *shares)
    Console().print(table)


if __name__ == "__main__":
    main()
