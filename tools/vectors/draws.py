"""Draws: from 64-bit words to integers, dimensions, symbols and distinct slots."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from fedsel._internal.random import words_of
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    Hybrid,
    OptimalWindow,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
)
from fedsel.mechanisms._base import Selection, Value
from fedsel.mechanisms._drawing import draw_dimension, draw_distinct, draw_symbol
from fedsel.mechanisms._reports import BOTTOM
from tools.vectors.encoding import Case, Recorder, f32, f64, rational

ABOUT = "64-bit words and what is drawn from them: integers, dimensions, symbols, distinct slots."


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _integers()
    yield from _dimensions()
    yield from _symbols()
    yield from _distinct()


def found(make: Callable[[Recorder], Case], wanted: Callable[[Case, Recorder], bool]) -> Case:
    """The first case, by the number of its stream, that shows what is wanted."""
    for client in itertools.count():
        recorder = Recorder(words_of(20, 0, client))
        case = make(recorder)
        if wanted(case, recorder):
            return case
    raise AssertionError  # pragma: no cover


def _integers() -> Iterator[Case]:
    def drawn(n: int) -> Callable[[Recorder], Case]:
        def make(recorder: Recorder) -> Case:
            value = recorder.below(n)
            return {
                "kind": "below",
                "n": str(n),
                "words": list(recorder.words),
                "value": str(value),
            }

        return make

    for n in (1, 2, 3, 10, 1 << 31, (1 << 32) + 1, 1 << 59, (1 << 63) + 1):
        yield found(drawn(n), lambda _, __: True)
    for n in ((1 << 63) + 1, 3 << 57, (5 << 56) + 1):
        yield found(drawn(n), lambda _, recorder: recorder.rejected > 0)
    # On the edge: 2^64 mod n low products are surplus.
    n = (1 << 59) - 1
    surplus = (1 << 64) % n
    for low in (surplus - 1, surplus):
        recorder = Recorder([pow(n, -1, 1 << 64) * low % (1 << 64), 1 << 63])
        value = recorder.below(n)
        yield {"kind": "below", "n": str(n), "words": list(recorder.words), "value": str(value)}


def _dimensions() -> Iterator[Case]:
    vectors: tuple[Sequence[float], ...] = (
        (0.25, -3.0, 1.5, 0.0, 2.0, -0.125),
        (1.0, -1.0, 1.0, 0.5, -0.5, 0.0),
        (0.0, -0.0, 0.0, 0.0, 0.0, 0.0),
        (3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -1e-45, 0.0, 1.0),
    )
    selections: tuple[tuple[Selection, Fraction], ...] = tuple(
        (kind(epsilon, *further), epsilon)
        for kind, further in (
            (Exponential, ()),
            (PerturbedSampling, (2,)),
            (PerturbedEncoding, (2,)),
        )
        for epsilon in (Fraction(1, 2), Fraction(2), Fraction(20))
    )
    for selection, epsilon in selections:
        for vector in vectors:

            def make(
                recorder: Recorder,
                selection: Selection = selection,
                epsilon: Fraction = epsilon,
                vector: Sequence[float] = vector,
            ) -> Case:
                magnitudes = np.abs(np.array(vector, dtype=np.float32))
                slot = draw_dimension(selection.law(len(vector)), magnitudes, recorder)
                return {
                    "kind": "dimension",
                    "mechanism": selection.name,
                    "epsilon": rational(epsilon),
                    "top": selection.top(len(vector)),
                    "vector_f32": f32(vector),
                    "words": list(recorder.words),
                    "draws": list(recorder.draws),
                    "dimension": None if slot == BOTTOM else slot,
                }

            yield found(make, lambda case, _: case["dimension"] is not None)
            if selection.law(len(vector)).bottom > selection.law(len(vector)).total >> 10:
                yield found(make, lambda case, _: case["dimension"] is None)


def _symbols() -> Iterator[Case]:
    kinds: tuple[type[Duchi | Piecewise | Hybrid | OptimalWindow], ...] = (
        Duchi,
        Piecewise,
        Hybrid,
        OptimalWindow,
    )
    numbers = (-1.0, -0.3, 0.0, 1e-300, 0.1, 0.999999999999, 1.0)
    for kind in kinds:
        for epsilon in (Fraction(1, 2), Fraction(2), Fraction(8), Fraction(60)):
            value: Value = kind(epsilon)
            for place, t in enumerate(numbers):
                recorder = Recorder(words_of(21, 0, place))
                symbol = draw_symbol(value.law, t, recorder)
                yield {
                    "kind": "symbol",
                    "mechanism": value.name,
                    "epsilon": rational(epsilon),
                    "t_f64": f64([t]),
                    "words": recorder.words,
                    "draws": recorder.draws,
                    "symbol": symbol,
                }


def _distinct() -> Iterator[Case]:
    for d, picks in ((1, 1), (3, 3), (6, 4), (100, 5), (1 << 32, 3)):
        recorder = Recorder(words_of(22, 0, d))
        slots = list(draw_distinct(d, picks, recorder))
        yield {
            "kind": "distinct",
            "d": d,
            "picks": picks,
            "words": recorder.words,
            "draws": recorder.draws,
            "slots": slots,
        }
