"""Ways of looking at the outputs of a mechanism, each a map from outputs to a few categories.

Privacy holds for every event, so an audit may choose the event freely. These views make the events
that betray real errors: the value itself, where it lies, and the last bits of its floating-point
representation, which show outputs that cannot occur for another input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Outputs = NDArray[np.generic]
Categories = NDArray[np.int64]

_MOST_VALUES = 4096
_BINS = 64
_COARSE_BINS = 8
_MOST_COLUMNS = 16


class View(ABC):
    """A map from outputs to categories, fitted on pilot outputs."""

    name: str

    @abstractmethod
    def categories(self, outputs: Outputs) -> Categories:
        """The category of each output."""


@dataclass(frozen=True)
class ByValue(View):
    """Each distinct output is a category; outputs not seen in the pilot share the last one."""

    values: Outputs
    name: str = "output"

    def categories(self, outputs: Outputs) -> Categories:
        keys = _keys(outputs)
        place = np.minimum(np.searchsorted(self.values, keys), len(self.values) - 1)
        return np.where(self.values[place] == keys, place, len(self.values)).astype(np.int64)


@dataclass(frozen=True)
class ByInterval(View):
    """Intervals between quantiles of one column."""

    column: int
    edges: NDArray[np.float64]

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"interval of output[{self.column}]"

    def categories(self, outputs: Outputs) -> Categories:
        return np.searchsorted(self.edges, _column(outputs, self.column), side="right")


@dataclass(frozen=True)
class ByLastBit(View):
    """The exponent of the last set bit of a float, in a few intervals of its value.

    ℓ + (r − ℓ)·U in floating point can only reach some of the floats, and which ones depends on ℓ:
    the granularity of an output near zero betrays the input. (Mironov 2012.)
    """

    column: int
    edges: NDArray[np.float64]

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"last bit of output[{self.column}]"

    def categories(self, outputs: Outputs) -> Categories:
        values = _column(outputs, self.column)
        fraction, exponent = np.frexp(values)
        mantissa = np.abs(fraction * 2.0**53).astype(np.int64)
        lowest = (mantissa & -mantissa).astype(np.float64)
        trailing = np.frexp(lowest)[1].astype(np.int64) - 1
        last_bit = np.where(mantissa == 0, 0, exponent.astype(np.int64) - 53 + trailing)
        place = np.searchsorted(self.edges, values, side="right")
        categories: Categories = np.clip(last_bit + 1100, 0, 2200) * (len(self.edges) + 1) + place
        return categories


def as_outputs(outputs: Sequence[object] | Outputs) -> Outputs:
    """Outputs of a callable as an array (n,) or (n, c); what is not numeric becomes text."""
    try:
        array = np.asarray(outputs)
    except (ValueError, TypeError):  # ragged
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "fiub":
        table = array.reshape(len(array), -1)
        return table[:, 0] if table.shape[1] == 1 else table
    return np.array([repr(o) for o in outputs])


def fit_views(pilot: Outputs, float_bits: bool = True) -> list[View]:
    """The views worth trying on outputs like these, pooled over all inputs."""
    views: list[View] = []
    values = np.unique(_keys(pilot))
    if len(values) <= _MOST_VALUES:
        views.append(ByValue(values))
    if pilot.dtype.kind not in "fiub":
        return views
    columns = 1 if pilot.ndim == 1 else min(pilot.shape[1], _MOST_COLUMNS)
    for column in range(columns):
        x = _column(pilot, column)
        fine = np.unique(np.quantile(x, np.linspace(0, 1, _BINS + 1)[1:-1]))
        views.append(ByInterval(column, fine))
        if pilot.dtype.kind != "f" or not float_bits:
            continue
        # Around zero the floats are densest, so that granularity shows there first.
        scale = float(np.quantile(np.abs(x), 0.5)) or 1.0
        near = scale * 2.0 ** -np.arange(_COARSE_BINS)
        views.append(ByLastBit(column, np.sort(np.r_[-near, near])))
    return views


def _column(outputs: Outputs, column: int) -> NDArray[np.float64]:
    return (outputs if outputs.ndim == 1 else outputs[:, column]).astype(np.float64)


def _keys(outputs: Outputs) -> Outputs:
    """Outputs as a one-dimensional array of keys.

    Rows are hashed: two rows that collide share a category, which is still a valid event.
    """
    if outputs.ndim == 1:
        return outputs
    keys = np.zeros(len(outputs), dtype=np.uint64)
    for column in range(outputs.shape[1]):
        bits = _column(outputs, column).view(np.uint64)
        keys = (keys ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys
