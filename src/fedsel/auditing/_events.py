"""Views of a mechanism's outputs, each of which maps an output to a category.

Privacy holds for every event, so an audit may choose any event that depends on the output only.
These views find the events that expose real errors: the output itself, its interval, and the last
bits of its floating-point representation, which reveal outputs that another input cannot produce.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Raw = Sequence[object] | NDArray[np.generic]
"""Outputs as a program returned them."""
Numbers = NDArray[np.float64]
Categories = NDArray[np.int64]

_MOST_VALUES = 4096
_BINS = 64
_COARSE_BINS = 8
_MOST_COLUMNS = 16
_MOST_NAMED, _LONGEST = 4, 60
_LEAST_BIT = 1100
"""Exceeds the exponent of the smallest float, 2^−1074, so that sums with it are never negative."""


class Encoder:
    """Reads outputs as rows of numbers or as text, as decided once from the pilot runs.

    Both depend on a single output only. If rows are expected, any other output becomes a row of
    NaN.
    """

    def __init__(self, pilots: Sequence[Raw]) -> None:
        tables = [_numeric(p) for p in pilots]
        widths = {None if t is None else t.shape[1] for t in tables}
        self.columns = widths.pop() if len(widths) == 1 else None
        self.floats = (
            any(np.asarray(p).dtype.kind == "f" for p in pilots) if self.columns else False
        )
        self.booleans = self.columns is not None and all(
            np.asarray(p).dtype.kind == "b" for p in pilots
        )

    def read(self, raw: Raw) -> Numbers | NDArray[np.str_]:
        """Rows (n, columns) of numbers, or n texts."""
        if self.columns is None:
            return np.array(
                [repr(o) for o in (raw.tolist() if isinstance(raw, np.ndarray) else raw)]
            )
        table = _numeric(raw)
        if table is not None and table.shape[1] == self.columns:
            return table
        rows = np.full((len(raw), self.columns), np.nan)
        for i, output in enumerate(raw):
            row = _numeric([output])
            if row is not None and row.shape[1] == self.columns:
                rows[i] = row[0]
        return rows


def _numeric(raw: Raw) -> Numbers | None:
    """Outputs as rows of float64, or None if they are not numbers of one shape."""
    try:
        array = np.asarray(raw)
    except (ValueError, TypeError):  # ragged
        return None
    if array.dtype.kind not in "fiub" or array.size == 0:
        return None
    return array.reshape(len(array), -1).astype(np.float64)


class View(ABC):
    """A map from encoded outputs to categories, fitted on the pilot runs."""

    name: str

    @abstractmethod
    def categories(self, outputs: NDArray[np.generic]) -> Categories:
        """The category of each output."""

    @abstractmethod
    def label(self, category: int) -> str:
        """Describe one category in a few words."""

    def words(self, event: Categories) -> str:
        """Describe the event that the output is in one of these categories."""
        labels = [self.label(int(category)) for category in event[:_MOST_NAMED]]
        more = len(event) - len(labels)
        return " or ".join(labels) + (f", or one of {more:,} kinds more" if more else "")


@dataclass(frozen=True)
class ByValue(View):
    """Each distinct output is a category; outputs new since the pilot share the last."""

    values: NDArray[np.generic]
    examples: NDArray[np.generic]
    """An example output for each value."""
    name: str = "output"
    booleans: bool = False

    def categories(self, outputs: NDArray[np.generic]) -> Categories:
        keys = _keys(outputs)
        place = np.minimum(np.searchsorted(self.values, keys), len(self.values) - 1)
        return np.where(self.values[place] == keys, place, len(self.values)).astype(np.int64)

    def label(self, category: int) -> str:
        if category == len(self.values):
            return "an output that the pilot runs never gave"
        example = self.examples[category]
        if np.ndim(example) == 0:
            return f"output {_short(str(example))}"
        entries = [str(bool(x)) if self.booleans else f"{x:.17g}" for x in example.tolist()]
        row = entries[0] if len(entries) == 1 else "(" + ", ".join(entries) + ")"
        return f"output {_short(row)}"


@dataclass(frozen=True)
class _OfColumn(View):
    """A view of one column, divided into intervals by ``edges``."""

    column: int
    edges: Numbers
    columns: int = 2

    def between(self, first: int, last: int) -> str:
        """The intervals first … last in words."""
        subject = "output" if self.columns == 1 else f"output[{self.column}]"
        return _between(subject, self.edges, first, last)


class ByInterval(_OfColumn):
    """Intervals between quantiles of one column."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"interval of output[{self.column}]"

    def label(self, category: int) -> str:
        return self.between(category, category)

    def words(self, event: Categories) -> str:
        """Describe the event, with adjacent intervals joined."""
        runs: list[list[int]] = []
        for place in sorted(int(category) for category in event):
            if runs and place == runs[-1][1] + 1:
                runs[-1][1] = place
            else:
                runs.append([place, place])
        said = [self.between(low, high) for low, high in runs[:_MOST_NAMED]]
        more = len(runs) - len(said)
        return " or ".join(said) + (f", or in one of {more} more intervals" if more else "")

    def categories(self, outputs: NDArray[np.generic]) -> Categories:
        return np.searchsorted(self.edges, _column(outputs, self.column), side="right")


class ByLastBit(_OfColumn):
    """The exponent of the last set bit of a float, in a few intervals of its value.

    In floating point ℓ + (r − ℓ)·U reaches only some of the floats, which depend on ℓ, so the
    granularity of an output near zero reveals the input. (Mironov 2012.)
    """

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"last bit of output[{self.column}]"

    def label(self, category: int) -> str:
        last_bit, place = divmod(category, len(self.edges) + 1)
        return f"last bit 2^{last_bit - _LEAST_BIT}, {self.between(place, place)}"

    def words(self, event: Categories) -> str:
        """Describe the event by one example instead of a long list."""
        example, more = self.label(int(event[0])), len(event) - 1
        beside = f", and {more} kinds more" if more else ""
        return (
            f"the last binary digit of the number, which shows how it was computed ({example}"
            f"{beside})"
        )

    def categories(self, outputs: NDArray[np.generic]) -> Categories:
        values = _column(outputs, self.column)
        finite = np.isfinite(values)
        fraction, exponent = np.frexp(np.where(finite, values, 0.0))
        mantissa = np.abs(fraction * 2.0**53).astype(np.int64)
        lowest = (mantissa & -mantissa).astype(np.float64)
        trailing = np.frexp(lowest)[1].astype(np.int64) - 1
        last_bit = np.where(mantissa == 0, 0, exponent.astype(np.int64) - 53 + trailing)
        place = np.searchsorted(self.edges, values, side="right")
        categories: Categories = (last_bit + _LEAST_BIT) * (len(self.edges) + 1) + place
        return categories


def fit_views(pilot: NDArray[np.generic], floats: bool, *, booleans: bool = False) -> list[View]:
    """The views to try on these outputs, pooled over all inputs.

    ``floats`` says whether to look at last bits, ``booleans`` how to name 0 and 1.
    """
    views: list[View] = []
    values, places = np.unique(_keys(pilot), return_index=True)
    if len(values) <= _MOST_VALUES:
        views.append(ByValue(values, pilot[places], booleans=booleans))
    if pilot.ndim == 1:
        return views
    columns = pilot.shape[1]
    for column in range(min(columns, _MOST_COLUMNS)):
        x = _column(pilot, column)
        x = x[np.isfinite(x)]
        if len(x) == 0:
            continue
        fine = np.unique(np.quantile(x, np.linspace(0, 1, _BINS + 1)[1:-1]))
        views.append(ByInterval(column, fine, columns))
        if floats:
            # Floats are densest around zero, so granularity shows there first.
            scale = float(np.quantile(np.abs(x), 0.5)) or 1.0
            near = scale * 2.0 ** -np.arange(_COARSE_BINS)
            views.append(ByLastBit(column, np.sort(np.r_[-near, near]), columns))
    return views


def _between(subject: str, edges: Numbers, first: int, last: int) -> str:
    """The intervals first … last between edges, in words.

    >>> edges = np.array([0.0, 1.5])
    >>> [_between("output", edges, i, j) for i, j in ((0, 0), (1, 1), (1, 2), (0, 2))]
    ['output < 0', '0 ≤ output < 1.5', 'output ≥ 0', 'any output']
    """
    low = "" if first == 0 else f"{edges[first - 1]:.5g}"
    high = "" if last == len(edges) else f"{edges[last]:.5g}"
    if low and high:
        return f"{low} ≤ {subject} < {high}"
    return f"{subject} ≥ {low}" if low else f"{subject} < {high}" if high else f"any {subject}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _column(outputs: NDArray[np.generic], column: int) -> Numbers:
    return np.ascontiguousarray(outputs[:, column], dtype=np.float64)


def _keys(outputs: NDArray[np.generic]) -> NDArray[np.generic]:
    """One key for each output. Numbers are compared by their bits, so 0.0 and −0.0 differ.

    Rows are hashed. Colliding rows share a category, which is still a valid event.
    """
    if outputs.ndim == 1:
        return outputs
    keys = np.zeros(len(outputs), dtype=np.uint64)
    for column in range(outputs.shape[1]):
        bits = _column(outputs, column).view(np.uint64)
        keys = (keys ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys
