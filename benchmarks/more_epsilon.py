"""Does more ε ever hurt? Accuracy against ε on plain tables with declared public bounds.

Tables as people have them: ages, incomes and a one-hot city; three features far from the middle of
their range; skewed counts; or thirty generated ones of all shapes. Each is fitted with everything
automatic. NP, without privacy, is the ceiling.

Example:
    python benchmarks/more_epsilon.py
    python benchmarks/more_epsilon.py --generated --solution FJ --repeats 4 --json
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel._internal.progress import Bar
from fedsel.errors import TooFewClientsWarning

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
KINDS = ("uniform", "skewed", "one-hot", "wide ranges", "uniform and skewed")
GENERATED = 30


def generated(number: int) -> tuple[str, int, Callable[[int, int], Made]]:
    """One of many tables by its number: what it is, its clients, and how to draw it.

    2 to 60 features of five kinds, 2 to 10 classes of which one may be rare, 5,000 to 80,000
    clients. The number decides the shape and the true model; the seed of a draw only its records.
    """
    shape = np.random.default_rng(1000 + number)
    kind = KINDS[number % len(KINDS)]
    d = int(shape.choice([2, 3, 5, 8, 12, 20, 35, 60]))
    classes = int(shape.choice([2, 2, 2, 3, 5, 10]))
    clients = int(shape.choice([5_000, 10_000, 20_000, 40_000, 80_000]))
    rare = bool(shape.random() < 0.3)
    skewed = {"skewed": d, "uniform and skewed": d // 2}.get(kind, 0)
    deviations = 10 ** shape.uniform(-1, 1, d)
    levels = _levels(shape, d)
    slopes = shape.normal(size=(d, classes if classes > 2 else 1)) * 2 / np.sqrt(d)
    low, high = np.zeros(d), np.where(np.arange(d) < skewed, 60.0, 1.0)
    if kind == "wide ranges":
        low, high = np.full(d, -100.0), np.full(d, 100.0)

    def records(n: int, draw: np.random.Generator) -> Rows:
        if kind == "one-hot":
            return np.hstack([np.eye(len(p))[draw.choice(len(p), n, p=p)] for p in levels])
        if kind == "wide ranges":
            return np.clip(draw.normal(0, deviations, (n, d)), low, high)
        X = draw.random((n, d))
        X[:, :skewed] = np.minimum(draw.gamma(0.7, 4.0, (n, skewed)), 60)
        return X

    many = records(20_000, np.random.default_rng(number))
    mean, deviation = many.mean(axis=0), np.maximum(many.std(axis=0), 1e-9)
    threshold = np.quantile((many - mean) / deviation @ slopes[:, 0], 0.9 if rare else 0.5)

    def make(n: int, seed: int) -> Made:
        draw = np.random.default_rng([number, seed])
        X = records(n, draw)
        margins = (X - mean) / deviation @ slopes
        if classes == 2:
            y = (margins[:, 0] + draw.logistic(0, 0.35, n) > threshold).astype(np.int64)
        else:
            margins[:, 0] -= 1.5 * rare
            y = (1.5 * margins + draw.gumbel(size=margins.shape)).argmax(axis=1)
        return X, y, list(zip(low, high, strict=True))

    told = f"{d} features, {kind}, {classes} classes" + ", one rare" * rare
    return told, clients, make


def _levels(shape: np.random.Generator, d: int) -> list[Rows]:
    """Shares of the levels of categorical features that have d levels together."""
    found = []
    while d:
        count = min(d, int(shape.integers(2, 9)))
        found.append(shape.dirichlet(np.ones(count)))
        d -= count
    return found


def fitted(made: Made, solution: str, epsilon: float, seed: int) -> FedSelClassifier:
    """A fit of a table with its bounds declared and nothing tuned."""
    X, y, bounds = made
    low, high = zip(*bounds, strict=True)
    with warnings.catch_warnings():
        # A seed, and the same records again: data of a generator.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = FedSelClassifier(
            epsilon=epsilon, solution=solution, feature_range=(low, high), random_state=seed
        )
        return model.fit(X, y)


def calibration(model: FedSelClassifier, X: Rows, y: Labels) -> float:
    """How far stated probabilities are from true shares: the expected calibration error."""
    stated = model.predict_proba(X)
    sure, right = stated.max(axis=1), model.classes_[stated.argmax(axis=1)] == y
    bins = np.minimum((15 * sure).astype(int), 14)
    parts = [bins == number for number in np.unique(bins)]
    return float(sum(part.mean() * abs(right[part].mean() - sure[part].mean()) for part in parts))


def majority(y: Labels) -> float:
    """The share of the largest class."""
    return float(np.bincount(y).max() / len(y))


def tables(many: bool) -> Iterator[tuple[str, int, Callable[[int, int], Made]]]:
    """The named tables, or the generated ones."""
    if many:
        yield from (generated(number) for number in range(GENERATED))
    else:
        yield from ((name, n, make) for name, (make, n) in TABLES.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solution", action="append", help="default: FJ, RJ, PM and NP")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--generated", action="store_true", help=f"{GENERATED} other tables")
    parser.add_argument(
        "--calibration", action="store_true", help="how far stated probabilities are off instead"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    solutions = asked.solution or ["FJ", "RJ", "PM", "NP"]
    rows, measure = [], calibration if asked.calibration else FedSelClassifier.score
    named = "calibration" if asked.calibration else "accuracy"
    warnings.simplefilter("ignore", TooFewClientsWarning)
    with Bar(len(list(tables(asked.generated))) * len(solutions) * len(EPSILONS)) as bar:
        for name, clients, make in tables(asked.generated):
            made, (X, y, _) = make(clients, 1), make(TESTED, 2)
            for solution in solutions:
                found = []
                for epsilon in EPSILONS:
                    bar.update(f"{name}: {solution}, ε = {epsilon:g}")
                    models = (fitted(made, solution, epsilon, s) for s in range(asked.repeats))
                    found.append(float(np.mean([measure(model, X, y) for model in models])))
                    bar.update(advance=1)
                row = {"table": name, "clients": clients, "majority": majority(y)}
                rows.append({**row, "solution": solution, named: found})
    if asked.json:
        print(json.dumps({"epsilons": EPSILONS, "rows": rows}))
        return
    titles = ("table", "clients", "majority", "solution", *(f"ε = {e:g}" for e in EPSILONS))
    table = Table(*titles)
    for row in rows:
        shares = (f"{100 * a:.1f}" for a in (row["majority"], *row[named]))
        first, *others = shares
        table.add_row(row["table"], f"{row['clients']:,}", first, row["solution"], *others)
    Console().print(table)


if __name__ == "__main__":
    main()
