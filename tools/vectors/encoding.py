"""How values are written in JSON, so that every language reads the same."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from fedsel._internal.random import Stream
from fedsel.mechanisms._selection import Top
from fedsel.recipe import Recipe
from fedsel.wire import Request

Case = dict[str, Any]


def f32(values: ArrayLike) -> str:
    """A vector of binary32, as the hexadecimal digits of its little-endian bytes.

    >>> f32([1.0, -2.0])
    '0000803f000000c0'
    """
    return np.asarray(values, dtype="<f4").tobytes().hex()


def f64(values: ArrayLike) -> str:
    """A vector of binary64, as the hexadecimal digits of its little-endian bytes."""
    return np.asarray(values, dtype="<f8").tobytes().hex()


def rational(value: Fraction | float | int) -> str:
    """p/q in lowest terms; q is left out where it is 1.

    >>> rational(Fraction(3, 6)), rational(2)
    ('1/2', '2')
    """
    return str(Fraction(value))


def integers(values: Iterable[Any]) -> list[str]:
    """Integers that may be beyond 2^53, in decimal."""
    return [str(int(value)) for value in values]


def word(value: int) -> str:
    """A 64-bit word, most significant digit first: the order of its bytes from a random source."""
    return struct.pack(">Q", value).hex()


def top(k: Top) -> Case:
    """k, a count or a share of d."""
    return {"share": float(k)} if isinstance(k, float) else {"count": int(k)}


def recipe_fields(recipe: Recipe) -> Case:
    """What the bytes of a recipe say."""
    told = recipe.wire_part
    return {
        "solution": told.solution,
        "epsilon": rational(Fraction(told.epsilon or 0)),
        "dim": told.dim,
        "epochs": told.epochs,
        "mu": told.mu,
        "k": top(told.k),
        "clip": told.clip,
        "momentum": told.momentum,
        "ratio": told.ratio,
        "seed": str(told.seed),
        "learning_rate": told.learning_rate,
        "rho": told.rho,
        "words": told.words,
        "bases": told.bases,
    }


def request_fields(request: Request) -> Case:
    """What the bytes of a request say."""
    return {
        "version": request.version,
        "run": request.run.hex(),
        "epoch": request.epoch,
        "round": request.round,
        "purpose": request.intent.purpose,
        "recipient": request.intent.recipient,
        "recipe": recipe_fields(request.recipe),
    }


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log's sentence on an update that is meant to fail."""
    log = logging.getLogger("fedsel.device")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


@final
class Recorder:
    """`Entropy` that remembers the words that it took and the integers that it made of them."""

    def __init__(self, random_words: Iterable[int]) -> None:
        self.words: list[str] = []
        self.draws: list[list[str]] = []
        self._stream = Stream(self._remembered(random_words))

    def _remembered(self, random_words: Iterable[int]) -> Iterator[int]:
        for value in random_words:
            self.words.append(word(value))
            yield value

    def below(self, n: int, /) -> int:
        drawn = self._stream.below(int(n))
        self.draws.append([str(int(n)), str(drawn)])
        return drawn

    @property
    def rejected(self) -> int:
        """How many words were taken in vain."""
        return len(self.words) - len(self.draws)
