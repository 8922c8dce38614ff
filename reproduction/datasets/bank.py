"""BANK: Bank Marketing (bank-full.csv), 45,211 records in the paper's 32 features.

One level of every text attribute is the reference and has no feature: unknown, divorced, no. Day
and month form one feature, and pdays, whose −1 means "never", forms two.

Reference: Moro, Laureano & Cortez, "Using data mining for bank direct marketing", 2011.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsel.data import Dataset

Column = NDArray[np.str_]

_HEADER = (
    "age job marital education default balance housing loan contact day month duration campaign "
    "pdays previous poutcome y"
)
HEADER = _HEADER.split()
NUMBERS = frozenset(["age", "balance", "day", "duration", "campaign", "pdays", "previous"])

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LEVELS = {
    "job": "admin. blue-collar entrepreneur housemaid management retired self-employed services "
    "student technician unemployed",
    "marital": "married single",
    "education": "primary secondary tertiary",
    "contact": "cellular telephone",
    "poutcome": "failure other success",
}
# Documented: day of the month and month. Chosen: age. The others have no documented domain: the
# next power of two beyond the data. README.md says so.
_BOUNDS: dict[str, tuple[float, float]] = {
    "age": (0, 100),
    "balance": (-(2**13), 2**17),
    "30*month+day": (31, 391),
    "duration": (0, 2**13),
    "campaign": (0, 2**6),
    "pdays": (0, 2**10),
    "previous": (0, 2**9),
}


def parse(content: bytes) -> Dataset:
    """Parse bank-full.csv as 45,211 × 32 numbers, +1 for a client who subscribed ("yes")."""
    header, *rows = csv.reader(io.StringIO(content.decode("ascii")), delimiter=";")
    table = {
        name: np.array(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)
    }
    features: dict[str, NDArray[np.float32]] = {}
    for name in header[:-1]:
        features.update(_features(name, table))
    bounds = [_BOUNDS.get(name, (0.0, 1.0)) for name in features]
    return Dataset(
        "bank",
        np.stack(list(features.values()), axis=1),
        np.where(table["y"] == "yes", 1, -1).astype(np.int8),
        tuple(features),
        np.array(bounds, np.float64),
        ("no", "yes"),
    )


def _features(name: str, table: dict[str, Column]) -> dict[str, NDArray[np.float32]]:
    cells = table[name]
    if name == "day":
        return {}  # goes with the month
    if name == "month":
        month = np.array([_MONTHS.index(cell) + 1 for cell in cells])
        return {"30*month+day": (30 * month + table["day"].astype(int)).astype(np.float32)}
    if name == "pdays":
        days = cells.astype(np.float32)
        return {"contacted": (days != -1).astype(np.float32), "pdays": np.maximum(days, 0)}
    if name in _LEVELS:
        levels = _LEVELS[name].split()
        return {f"{name}={level}": (cells == level).astype(np.float32) for level in levels}
    return {name: (cells if name in NUMBERS else cells == "yes").astype(np.float32)}


def canonical_text(rows: Iterable[Sequence[str]]) -> bytes:
    """bank-full.csv of its records, each given as the 17 texts of a row.

    >>> row = "58 management married tertiary no 2143 yes no unknown 5 may 261 1 -1 0 unknown no"
    >>> canonical_text([row.split()]).decode().splitlines()[1][:40]
    '58;"management";"married";"tertiary";"no'
    """
    marks = ["" if name in NUMBERS else '"' for name in HEADER]
    lines = [";".join(f'"{name}"' for name in HEADER)]
    lines += [";".join(f"{m}{cell}{m}" for m, cell in zip(marks, row, strict=True)) for row in rows]
    return ("\n".join(lines) + "\n").encode("ascii")
