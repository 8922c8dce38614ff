"""Query a table of results: choose rows, compute accuracies and gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]
Rows = Sequence[Row]


def choose(rows: Rows, **where: Any) -> list[Row]:
    """The rows with these values; a list allows any of its members.

    >>> choose([{"a": 1, "b": 2}, {"a": 2, "b": 2}], a=[2, 3], b=2)
    [{'a': 2, 'b': 2}]
    """
    allowed = {n: v if isinstance(v, list | tuple) else [v] for n, v in where.items()}
    return [row for row in rows if all(row[name] in values for name, values in allowed.items())]


def values_of(rows: Rows, name: str) -> list[Any]:
    """The different values of a column, in the order in which they appear."""
    return list(dict.fromkeys(row[name] for row in rows))


def accuracies(rows: Rows) -> NDArray[np.float64]:
    """Accuracy of every run (%), over all draws of the data."""
    return np.array([100 * run[2] for row in rows for run in row["runs"]])


def accuracy(rows: Rows) -> float:
    """Mean accuracy (%)."""
    return float(accuracies(rows).mean())


def deviation(rows: Rows) -> float:
    """Standard deviation of accuracy over runs (%)."""
    runs = accuracies(rows)
    return float(runs.std(ddof=1)) if len(runs) > 1 else 0.0


@dataclass(frozen=True)
class Gap:
    """The amount by which one accuracy exceeds another (points), and its standard error."""

    mean: float
    error: float

    @property
    def above(self) -> bool:
        """Whether it exceeds zero by more than two standard errors."""
        return self.mean > 2 * self.error and self.mean > 0

    @property
    def below(self) -> bool:
        """Whether it is below zero by more than two standard errors."""
        return self.mean < -2 * self.error and self.mean < 0

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}"


def gap(better: NDArray[np.float64], worse: NDArray[np.float64]) -> Gap:
    """The gap between two rows of runs, paired: runs of one number share folds and streams.

    >>> print(gap(np.array([3.0, 4.0]), np.array([1.0, 2.0])))
    +2.00 ± 0.00
    """
    differences = better - worse
    n = len(differences)
    error = float(differences.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    return Gap(float(differences.mean()), error)


def slope(x: Iterable[float], y: Iterable[float]) -> float:
    """The slope of log y over log x, by least squares.

    >>> round(slope([1, 10, 100], [2, 20, 200]), 6)
    1.0
    """
    return float(np.polyfit(np.log(list(x)), np.log(list(y)), 1)[0])
