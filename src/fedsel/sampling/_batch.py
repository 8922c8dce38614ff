"""Reports of many clients with numpy: the readable reference for the kernels.

Each client's vector is a concatenation of parts: plain numbers, or outer products kept factored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import Streams
from fedsel.errors import InvalidArgument
from fedsel.mechanisms._base import ReportMechanism
from fedsel.mechanisms._laws import INPUT_STEPS, RankLaw, SymbolLaw
from fedsel.mechanisms._one_symbol import (
    MINUS,
    PLUS,
    UNIT,
    SignedSampling,
    UnbiasedJoint,
    keep_steps,
)
from fedsel.mechanisms._reports import BOTTOM, Reports
from fedsel.mechanisms._two_stage import FlatPicks, TwoStage

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Outer:
    """The outer products left[i] ⊗ right[i] of left (n, a) and right (n, b), one for each client.

    The gradient of a linear layer at one record is such a product. The kernels multiply one client
    at a time in the processor's cache, so the (n, a·b) numbers never reach memory.

    >>> Outer(np.array([[2.0, 3.0]]), np.array([[1.0, 10.0]])).rows().tolist()
    [[2.0, 20.0, 3.0, 30.0]]
    """

    left: Floats
    right: Floats

    def __post_init__(self) -> None:
        shapes = self.left.shape, self.right.shape
        if self.left.ndim != 2 or self.right.ndim != 2 or len(self.left) != len(self.right):
            raise InvalidArgument("parts", shapes, "outer products of (n, a) and (n, b)")

    def __len__(self) -> int:
        return len(self.left)

    @property
    def entries(self) -> int:
        """The number of entries, a·b."""
        return int(self.left.shape[1] * self.right.shape[1])

    def rows(self) -> Floats:
        """The products themselves (n, a·b)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked when it is reported
            products: Floats = self.left[:, :, None] * self.right[:, None, :]
        return products.reshape(len(self), self.entries)


Part = Floats | Outer
"""Entries (n, …) of the vectors of n clients."""


def rows_of(part: Part) -> Floats:
    """The entries of a part (n, size)."""
    if isinstance(part, Outer):
        return part.rows()
    return np.asarray(part, np.float32).reshape(len(part), -1)


def draw_dimensions(law: RankLaw, magnitudes: NDArray[np.floating], streams: Streams) -> Integers:
    """Draw a dimension for each row of magnitudes (n, d); BOTTOM for ⊥."""
    result = np.full(len(magnitudes), BOTTOM, dtype=np.int64)
    active = np.arange(len(magnitudes))
    if law.bottom:
        tosses = streams.below(_filled(active, law.total + law.bottom), active)
        active = active[tosses < law.total]
    draw = _by_rejection if law.by_rejection else _by_rank
    result[active] = draw(law, magnitudes, streams, active)
    return result


def _by_rejection(
    law: RankLaw, magnitudes: NDArray[np.floating], streams: Streams, active: Integers
) -> Integers:
    """Draw dimensions uniformly, accept each by the weight of its rank, repeat for the rest."""
    chosen = np.empty(len(active), dtype=np.int64)
    todo = np.arange(len(active))
    while len(todo):
        rows = active[todo]
        j, level = np.divmod(streams.below(_filled(rows, law.d * law.maximum), rows), law.maximum)
        if law.uniform:
            return j
        larger, equal = _rank(magnitudes, rows, magnitudes[rows, j])
        ranks = larger + streams.below(equal, rows)
        runs = ranks if law.dense else np.searchsorted(law.edges, ranks, side="right")
        accepted = level < law.weights[runs]
        chosen[todo[accepted]] = j[accepted]
        todo = todo[~accepted]
    return chosen


def _by_rank(
    law: RankLaw, magnitudes: NDArray[np.floating], streams: Streams, active: Integers
) -> Integers:
    """Draw ranks, then one of the dimensions that share the magnitude of that rank."""
    positions = streams.below(_filled(active, law.total), active)
    ranks = np.array([law.rank_at(int(x)) for x in positions], dtype=np.int64)
    mine = magnitudes[active]
    at_rank = np.sort(mine, axis=1)[np.arange(len(active)), law.d - 1 - ranks]
    sharing = mine == at_rank[:, None]
    pick = streams.below(sharing.sum(axis=1), active)
    # The first position at which the running count of the sharing ones passes `pick`.
    return cast(Integers, np.argmax(np.cumsum(sharing, axis=1) > pick[:, None], axis=1))


def _rank(
    magnitudes: NDArray[np.floating], rows: Integers, pivot: NDArray[np.floating]
) -> tuple[Integers, Integers]:
    """Count the magnitudes of each row that are larger than its pivot, and those equal to it."""
    mine = magnitudes[rows]
    return (mine > pivot[:, None]).sum(axis=1), (mine == pivot[:, None]).sum(axis=1)


def _filled(like: Integers, value: int) -> Integers:
    return np.full(len(like), value, dtype=np.int64)


def draw_symbols(
    law: SymbolLaw, t: NDArray[np.float64], streams: Streams, rows: Integers
) -> Integers:
    """Draw a symbol for each t in [−1, 1] from the streams of the clients ``rows``."""
    which = np.zeros(len(rows), dtype=np.int64)
    if len(law.windows) > 1:
        ends = np.cumsum(law.coins)
        which = np.searchsorted(ends, streams.below(_filled(rows, int(ends[-1])), rows), "right")
    G, W, L, H, total = (
        np.array([getattr(w, name) for w in law.windows], dtype=np.int64)[which]
        for name in ("G", "W", "L", "H", "total")
    )
    steps = np.floor((t + 1.0) * (INPUT_STEPS // 2) + 0.5).astype(np.int64)
    cell, remainder = np.divmod(steps * G, INPUT_STEPS)
    cell += streams.below(_filled(rows, INPUT_STEPS), rows) < remainder
    x = streams.below(total, rows)
    base = (G + W) * L
    with np.errstate(divide="ignore"):  # the identity has L = 0
        symbol = np.where(x < base, x // L, cell + (x - base) // (H - L))
    return cast(Integers, np.array(law.offsets)[which] + symbol)


class Rows(NamedTuple):
    """The scores (n, M), values (n, M) and update norms (n,) on which clients report."""

    scores: NDArray[np.floating]
    values: NDArray[np.float64]
    norms: Sequence[float]


def draw_reports(mechanism: ReportMechanism, rows: Rows, streams: Streams) -> Reports:
    """Draw the report of each client."""
    draw = _DRAW.get(type(mechanism))
    if draw is None:
        raise InvalidArgument(
            "mechanism", mechanism, 'one that executor="batch" knows; use "kernel"'
        )
    return draw(mechanism, rows, streams)


def _two_stage(mechanism: TwoStage, rows: Rows, streams: Streams) -> Reports:
    law = mechanism.selection.law(rows.scores.shape[1])
    slots = draw_dimensions(law, np.abs(rows.scores), streams)
    return Reports(slots[:, None], _symbols(mechanism, rows, slots, streams)[:, None])


def _flat(mechanism: FlatPicks, rows: Rows, streams: Streams) -> Reports:
    n, d = rows.scores.shape
    everyone = np.arange(n)
    slots = np.empty((n, mechanism.picks), dtype=np.int64)
    symbols = np.zeros_like(slots)
    for p in range(mechanism.picks):
        j = streams.below(_filled(everyone, d - p), everyone)
        for earlier in np.sort(slots[:, :p], axis=1).T:
            j += j >= earlier
        slots[:, p], symbols[:, p] = j, _symbols(mechanism, rows, j, streams)
    return Reports(slots, symbols)


def _symbols(
    mechanism: TwoStage | FlatPicks, rows: Rows, slots: Integers, streams: Streams
) -> Integers:
    """Draw a symbol for each client's value at its slot; 0 for ⊥."""
    symbols, clip = np.zeros_like(slots), mechanism.clip
    sending = np.flatnonzero(slots != BOTTOM)
    t = np.clip(rows.values[sending, slots[sending]], -clip, clip) / clip
    symbols[sending] = draw_symbols(mechanism.value.law, t, streams, sending)
    return symbols


def _signed(mechanism: SignedSampling, rows: Rows, streams: Streams) -> Reports:
    y, everyone, d = rows.scores, np.arange(len(rows.scores)), rows.scores.shape[1]
    if mechanism.radius is not None:
        steps = np.array([keep_steps(norm, mechanism.radius) for norm in rows.norms])
        kept = streams.below(_filled(everyone, INPUT_STEPS), everyone) < steps
        y = np.where(kept[:, None], y, -y)
    signed = np.maximum(np.concatenate([y, -y], axis=1), 0)
    atoms = draw_dimensions(mechanism.law(d), signed, streams)
    return Reports((atoms % d)[:, None], np.where(atoms < d, PLUS, MINUS)[:, None])


def _joint(mechanism: UnbiasedJoint, rows: Rows, streams: Streams) -> Reports:
    values, everyone, d = rows.values, np.arange(len(rows.values)), rows.values.shape[1]
    low, high = mechanism.weights(d)
    x = streams.below(_filled(everyone, mechanism.total(d)), everyone)
    atoms = x // (low * UNIT)
    chosen, signs = atoms % d, np.where(atoms < d, PLUS, MINUS)
    for i in np.flatnonzero(x >= 2 * d * low * UNIT):
        units = np.cumsum(mechanism.unit_entries(values[i]))
        place = (x[i] - 2 * d * low * UNIT) // (high - low) if high > low else units[-1]
        j = int(np.searchsorted(units, place, side="right"))
        chosen[i] = j if j < d else BOTTOM
        signs[i] = MINUS if j < d and values[i, j] < 0 else PLUS
    return Reports(chosen[:, None], signs[:, None])


_DRAW: dict[type, Callable[[Any, Rows, Streams], Reports]] = {
    TwoStage: _two_stage,
    FlatPicks: _flat,
    SignedSampling: _signed,
    UnbiasedJoint: _joint,
}
