"""Laws: the integer weights of every mechanism, and the numbers that they follow from."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from fedsel._internal.exact import exp_lower, log_upper
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    Hybrid,
    OptimalWindow,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    PublishedPerturbedEncoding,
    SignedSampling,
    UnbiasedJoint,
)
from fedsel.mechanisms import _decimals as encoding
from fedsel.mechanisms._base import Selection, Value
from fedsel.mechanisms._laws import RankLaw
from fedsel.mechanisms._one_symbol import UNIT
from fedsel.mechanisms._selection import Top
from fedsel.mechanisms._two_stage import flat_picks
from fedsel.solutions import Blocks
from fedsel.solutions._caps import cap_share, codewords_for, mixings_for, raised_for
from fedsel.solutions._privacy import Budget
from fedsel.solutions._rotated import rotations_for, width_for
from fedsel.solutions._transforms import default_codewords
from tools.vectors.encoding import Case, integers, rational, top

ABOUT = "Integer weights of every mechanism at given ε, k and d, and what they follow from."

_EPSILONS = tuple(
    Fraction(e) for e in ("1/20", "1/5", "1/2", "1", "9/5", "2", "7/3", "4", "8", "12", "40", "500")
)
_TOPS: tuple[tuple[Top, int], ...] = ((1, 2), (0.1, 5), (2, 6), (0.29, 100), (3, 3), (7, 123))
_NEAR_A_BOUND = (
    *((Fraction(e), 2) for e in ("5", "61/4")),
    *((Fraction(e), 100) for e in ("6", "31/4")),
    *((Fraction(e), 129) for e in ("5", "51/10")),
    *((Fraction(12), d) for d in (4096, 4097)),
)
"""ε and d at which FJ has hardly enough codewords, or hardly too few, for few entries and for many;
at which it raises 16 or 15 of them; and the largest width with three factors."""


_DESIGNS = (
    *((2, 1, None, 1), (6, 1, None, 1), (6, 2, None, 1), (6, 3, None, 1), (6, 5, None, 1)),
    *((10, 4, None, 1), (128, 2, None, 1), (8192, 8191, None, 1), (65_536, 1, None, 1)),
    *((2, 1, 3, 2), (3, 1, 3, 2), (6, 1, 7, 3), (6, 5, 7, 6), (7, 1, 7, 2), (16, 2, 17, 4)),
    *((100, 2, 101, 5), (100, 1, 113, 8), (256, 1, 257, 4), (10_000, 1, 10_259, 46)),
    *((65_536, 16, 65_537, 32_768), (65_536, 1, 131_071, 17)),
)
"""Blocks: M, k or u, v and e."""


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _exponentials()
    yield from _budgets()
    yield from _selections()
    yield from _values()
    yield from _one_symbol()
    yield from _blocks()


def _exponentials() -> Iterator[Case]:
    for x in (*_EPSILONS, Fraction(1, 10**9), Fraction(0.1), Fraction((1 << 63) + 1, 1 << 60)):
        lower = exp_lower(x)
        numerator = lower * (1 << 128)
        yield {"kind": "exp_lower", "x": rational(x), "times_2_128": str(int(numerator))}
    for ratio in ("1", "3/2", "2", "148413159/1000000", f"{(1 << 61) + 1}/{1 << 61}"):
        ratio_proved = log_upper(Fraction(ratio))
        yield {"kind": "log_upper", "ratio": ratio, "log": rational(ratio_proved)}


def _budgets() -> Iterator[Case]:
    for epsilon, epochs, mu in (("2", 4, 0.1), ("1/3", 7, 0.29), ("8", 1, 0.0), ("5", 3, 0.99)):
        split = Budget(Fraction(epsilon), epochs, mu)
        yield {
            "kind": "budget",
            "epsilon": epsilon,
            "epochs": epochs,
            "mu": mu,
            "per_report": rational(split.per_epoch),
            "selection": rational(split.selection),
            "value": rational(split.value),
        }
    for epsilon, dim in (("1", 100), ("5/2", 100), ("6", 100), ("50", 3), ("499/100", 9)):
        picks = flat_picks(Fraction(epsilon), dim)
        yield {"kind": "flat_picks", "epsilon": epsilon, "d": dim, "picks": picks}


def _rank_law(law: RankLaw) -> Case:
    return {
        "weights": integers(law.weights),
        "counts": integers(law.counts),
        "bottom": str(law.bottom),
        "total": str(law.total),
        "by_rejection": law.by_rejection,
    }


def _selection(selection: Selection, epsilon: Fraction, d: int, **more: object) -> Case:
    return {
        "kind": "selection",
        "mechanism": selection.name,
        "epsilon": rational(epsilon),
        "d": d,
        **more,
        **_rank_law(selection.law(d)),
    }


def _selections() -> Iterator[Case]:
    for epsilon in _EPSILONS:
        for d in (1, 2, 3, 10):
            yield _selection(Exponential(epsilon), epsilon, d)
    for epsilon in (Fraction(1, 5), Fraction(4)):
        yield _selection(Exponential(epsilon), epsilon, 50)
    for epsilon in _EPSILONS:
        for k, d in _TOPS:
            yield _thresholds(PerturbedSampling(epsilon, k), epsilon, k, d)
    for epsilon in (Fraction(1, 20), Fraction(1), Fraction(9, 5), Fraction(4), Fraction(12)):
        for k, d in (*_TOPS, (1, 10_000)):
            pe = PerturbedEncoding(epsilon, k)
            flip = encoding.calibrated_epsilon(float(epsilon), pe.top(d), d)
            bottom = encoding.bottom_probability(flip, pe.top(d), d)
            more = {"flip": flip, "bottom_probability": bottom}
            yield {**_thresholds(pe, epsilon, k, d), **more}
            published = PublishedPerturbedEncoding(epsilon, k)
            bottom = encoding.bottom_probability(float(epsilon), pe.top(d), d)
            more = {"true_epsilon": published.true_epsilon(d), "bottom_probability": bottom}
            yield {**_thresholds(published, epsilon, k, d), **more}


def _thresholds(
    selection: PerturbedSampling | PerturbedEncoding | PublishedPerturbedEncoding,
    epsilon: Fraction,
    k: Top,
    d: int,
) -> Case:
    return _selection(selection, epsilon, d, k=top(k), top=selection.top(d))


def _values() -> Iterator[Case]:
    kinds: tuple[type[Duchi | Piecewise | Hybrid | OptimalWindow], ...] = (
        Duchi,
        Piecewise,
        Hybrid,
        OptimalWindow,
    )
    further = tuple(
        Fraction(e) for e in ("609352/1000000", "61/100", "5", "6", "10", "16", "26", "55/2")
    )
    for kind in kinds:
        for epsilon in (*_EPSILONS, *further):
            yield _value(kind(epsilon), epsilon)


def _value(value: Value, epsilon: Fraction) -> Case:
    law = value.law
    return {
        "kind": "value",
        "mechanism": value.name,
        "epsilon": rational(epsilon),
        "coins": integers(law.coins),
        "windows": [
            {"G": w.G, "W": w.W, "L": str(w.L), "H": str(w.H), "total": str(w.total)}
            for w in law.windows
        ],
        "symbols": law.symbols,
    }


def _one_symbol() -> Iterator[Case]:
    for epsilon in _EPSILONS:
        for slots in (1, 2, 5, 64, 128, 123, 1024, 1 << 26):
            joint = SignedSampling(epsilon)
            yield {
                "kind": "J",
                "epsilon": rational(epsilon),
                "slots": slots,
                "top": joint.top(slots),
                **_rank_law(joint.law(slots)),
            }
        for k, d in _TOPS:
            unbiased = UnbiasedJoint(epsilon, k)
            low, high = unbiased.weights(d)
            yield {
                "kind": "UJ",
                "epsilon": rational(epsilon),
                "d": d,
                "k": top(k),
                "top": unbiased.top(d),
                "unit": UNIT,
                "L": str(low),
                "H": str(high),
                "total": str(unbiased.total(d)),
            }
        for dim in (1, 2, 5, 100, 128, 5000):
            yield {
                "kind": "rotations",
                "epsilon": rational(epsilon),
                "dim": dim,
                "width": width_for(dim),
                "rotations": rotations_for(epsilon, dim),
            }
    grid = [(e, d) for e in _EPSILONS for d in (1, 2, 3, 5, 63, 64, 65, 100, 256, 1000, 65_537)]
    for epsilon, dim in (*grid, *_NEAR_A_BOUND):
        yield {
            "kind": "fresh",
            "epsilon": rational(epsilon),
            "dim": dim,
            "share": cap_share(epsilon, dim),
            "codewords": codewords_for(epsilon, dim),
            "top": raised_for(epsilon, dim),
            "factors": mixings_for(epsilon, dim),
        }
    for dim in (1, 5, 100, 5000):
        yield {"kind": "codewords", "dim": dim, "codewords": default_codewords(dim)}


def _blocks() -> Iterator[Case]:
    for dim, taken, points, classes in _DESIGNS:
        blocks = Blocks(dim, taken, points, classes)
        for epsilon in (Fraction(1, 10**9), Fraction(2), Fraction(500)):
            yield {
                "kind": "blocks",
                "epsilon": rational(epsilon),
                "dim": dim,
                "k": taken,
                "words": points,
                "bases": None if points is None else classes,
                "slots": blocks.size,
                "top": blocks.holding,
                **_rank_law(PerturbedSampling(epsilon, blocks.holding).law(blocks.size)),
            }
