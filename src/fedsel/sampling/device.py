"""One client's report, in integers, from the operating system's entropy.

Private data enters a random decision only through comparisons of magnitudes and through the
rounding of t to an integer; neither decides at random. The number of draws and passes depends on
public parameters and chance alone, not on the data.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.errors import (
    InvalidArgument,
    InvalidData,
    check_kind,
    check_number,
    check_vectors,
)
from fedsel.mechanisms.base import Selection, Value
from fedsel.mechanisms.laws import BOTTOM, INPUT_STEPS, RankLaw, SymbolLaw
from fedsel.mechanisms.one_symbol import (
    MINUS,
    PLUS,
    UNIT,
    Joint,
    SignedSampling,
    UnbiasedJoint,
    keep_steps,
)
from fedsel.mechanisms.two_stage import TwoStage
from fedsel.random import Entropy, SystemEntropy
from fedsel.reports import ABSTAIN, Report

SYSTEM = SystemEntropy()


def select(selection: Selection, vector: ArrayLike, entropy: Entropy = SYSTEM) -> int:
    """Choose a dimension of one vector (−1 for ⊥).

    >>> from fedsel.mechanisms import PerturbedSampling
    >>> 0 <= select(PerturbedSampling(1.0), [0.1, -3.0, 0.5]) < 3
    True
    """
    check_kind("selection", selection, Selection)
    magnitudes = np.abs(check_vectors("vector", vector, ndim=1))
    return draw_dimension(selection.law(len(magnitudes)), magnitudes, entropy)


def perturb(value: Value, t: float, entropy: Entropy = SYSTEM) -> int:
    """Report t in [−1, 1] as a symbol.

    >>> from fedsel.mechanisms import Duchi
    >>> perturb(Duchi(1.0), 0.3) in (0, 1)
    True
    """
    check_kind("value", value, Value)
    number = check_number("t", t)
    if not -1 <= number <= 1:
        raise InvalidData("t: must lie in [−1, 1]")
    return draw_symbol(value.law, number, entropy)


def report(mechanism: TwoStage | Joint, vector: ArrayLike, entropy: Entropy = SYSTEM) -> Report:
    """The report of one vector, without residual: what a client sends when it reports once.

    >>> from fedsel.mechanisms import PerturbedSampling, Piecewise
    >>> r = report(TwoStage(PerturbedSampling(0.2), Piecewise(1.8)), [0.1, -3.0, 0.5])
    >>> r.dimension in (0, 1, 2)
    True
    """
    check_kind("mechanism", mechanism, TwoStage, Joint)
    accumulated = check_vectors("vector", vector, ndim=1)
    if isinstance(mechanism, Joint):
        return draw_joint(mechanism, accumulated, entropy)
    return _report(mechanism, accumulated, None, entropy)


def accumulate_and_report(
    mechanism: TwoStage, residual: ArrayLike, gradient: ArrayLike, entropy: Entropy = SYSTEM
) -> tuple[Report, NDArray[np.floating]]:
    """One client's step of Algorithm 1: the report, and the residual to keep for the next.

    r = residual + gradient; j is selected by r; r_j + η·residual_j is clipped and perturbed; r_j
    becomes 0.
    """
    check_kind("mechanism", mechanism, TwoStage)
    before = check_vectors("residual", residual, ndim=1)
    step = check_vectors("gradient", gradient, ndim=1)
    if before.shape != step.shape:
        raise InvalidData("gradient: must have as many entries as the residual")
    accumulated = saturating_sum(before, step)
    sent = _report(mechanism, accumulated, before, entropy)
    kept = accumulated.copy()
    if sent.dimension != BOTTOM:
        kept[sent.dimension] = 0
    return sent, kept


def saturating_sum(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """a + b, finite also where it overflows: whether a client answers must not depend on a sum."""
    with np.errstate(over="ignore"):
        total: NDArray[np.floating] = np.nan_to_num(a + b)
    return total


def _report(
    mechanism: TwoStage,
    accumulated: NDArray[np.floating],
    before: NDArray[np.floating] | None,
    entropy: Entropy,
) -> Report:
    law = mechanism.selection.law(len(accumulated))
    j = draw_dimension(law, np.abs(accumulated), entropy)
    if j == BOTTOM:
        return ABSTAIN
    s = float(accumulated[j])
    if before is not None:
        s += mechanism.momentum * float(before[j])
    t = max(-mechanism.clip, min(mechanism.clip, s)) / mechanism.clip
    return Report(j, draw_symbol(mechanism.value.law, t, entropy))


def draw_dimension(law: RankLaw, magnitudes: NDArray[np.floating], entropy: Entropy) -> int:
    """A dimension by the law over the ranks of its magnitude; BOTTOM for ⊥."""
    below, d = entropy.below, law.d
    if law.bottom and below(law.total + law.bottom) >= law.total:
        return BOTTOM
    count = np.count_nonzero
    if law.by_rejection:
        while True:
            j, level = divmod(below(d * law.maximum), law.maximum)
            if law.uniform:
                return j
            larger = int(count(magnitudes > magnitudes[j]))
            equal = int(count(magnitudes == magnitudes[j]))
            if level < law.weight(larger + below(equal)):
                return j
    sharing = np.cumsum(sharing_rank(law.rank_at(below(law.total)), magnitudes))
    return int(np.searchsorted(sharing, below(int(sharing[-1])), side="right"))


def draw_joint(
    mechanism: Joint,
    vector: NDArray[np.floating],
    entropy: Entropy,
    length: float | None = None,
) -> Report:
    """A signed dimension of one vector.

    ``length`` is the norm that J's radius is compared with: that of what the scores were made of.
    """
    if isinstance(mechanism, SignedSampling):
        return _draw_signed(mechanism, vector, entropy, norm(vector) if length is None else length)
    if isinstance(mechanism, UnbiasedJoint):
        return _draw_unbiased(mechanism, vector, entropy)
    raise InvalidArgument("mechanism", mechanism, "a SignedSampling or an UnbiasedJoint")


def _draw_signed(
    mechanism: SignedSampling, vector: NDArray[np.floating], entropy: Entropy, length: float
) -> Report:
    d, y = len(vector), vector
    if mechanism.radius is not None:
        steps = keep_steps(length, mechanism.radius)
        y = np.where(entropy.below(INPUT_STEPS) < steps, vector, -vector)
    signed = np.maximum(np.concatenate([y, -y]), 0)
    atom = draw_dimension(mechanism.law(d), signed, entropy)
    return Report(atom % d, PLUS if atom < d else MINUS)


def _draw_unbiased(
    mechanism: UnbiasedJoint, vector: NDArray[np.floating], entropy: Entropy
) -> Report:
    d = len(vector)
    low, high = mechanism.weights(d)
    x = entropy.below(mechanism.total(d))
    if x < 2 * d * low * UNIT:
        atom = x // (low * UNIT)
        return Report(atom % d, PLUS if atom < d else MINUS)
    units = np.cumsum(unit_entries(mechanism, vector))
    place = (x - 2 * d * low * UNIT) // (high - low) if high > low else units[-1]
    j = int(np.searchsorted(units, place, side="right"))
    return Report(j, PLUS if vector[j] > 0 else MINUS) if j < d else ABSTAIN


def unit_entries(mechanism: UnbiasedJoint, vector: NDArray[np.floating]) -> NDArray[np.int64]:
    """`UnbiasedJoint.entries` with numpy: magnitudes as integers, shortened to k units."""
    with np.errstate(over="ignore"):
        raw = np.floor(np.abs(vector.astype(np.float64)) / mechanism.clip * UNIT)
    units = np.minimum(raw, UNIT).astype(np.int64)
    most, found = mechanism.top(len(vector)) * UNIT, int(units.sum())
    return units * most // found if found > most else units


def norm(vector: NDArray[np.floating]) -> float:
    """‖vector‖, in double precision; infinite where it overflows."""
    wide = vector.astype(np.float64)
    return math.sqrt(float(wide @ wide))


def sharing_rank(rank: int, magnitudes: NDArray[np.floating]) -> NDArray[np.float64]:
    """1 for the entries whose magnitude is that of a rank (0 is the largest), else 0.

    Floats ≥ 0 are ordered as the integers of their bits. So they are compared byte by byte from
    the most significant, each by a histogram over all entries: the same passes for any data,
    which a sort or a partition does not promise.

    >>> sharing_rank(1, np.array([3.0, 0.0, 5.0, 3.0]))
    array([1., 0., 0., 1.])
    """
    little_endian = np.ascontiguousarray(magnitudes, dtype=magnitudes.dtype.newbyteorder("<"))
    digits = little_endian.view(np.uint8).reshape(len(magnitudes), -1)
    sharing = np.ones(len(magnitudes))
    for place in reversed(range(digits.shape[1])):
        digit = digits[:, place]
        larger = np.bincount(digit, sharing, 256)[::-1].cumsum()
        step = int(larger.searchsorted(rank, side="right"))
        rank -= int(larger[step - 1]) if step else 0
        sharing = sharing * (digit == 255 - step)
    return sharing


def draw_symbol(law: SymbolLaw, t: float, entropy: Entropy) -> int:
    """A symbol by the law at t in [−1, 1]."""
    below = entropy.below
    which = 0
    if len(law.windows) > 1:
        toss = below(sum(law.coins))
        while toss >= law.coins[which]:
            toss -= law.coins[which]
            which += 1
    window = law.windows[which]
    # floor(x + 1/2): the one rounding that Python, numpy and numba do alike.
    steps = math.floor((t + 1.0) * (INPUT_STEPS // 2) + 0.5)
    cell, remainder = divmod(steps * window.G, INPUT_STEPS)
    if below(INPUT_STEPS) < remainder:
        cell += 1
    x = below(window.total)
    base = window.symbols * window.L
    symbol = x // window.L if x < base else cell + (x - base) // (window.H - window.L)
    return law.offsets[which] + symbol
