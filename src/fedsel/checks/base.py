"""What the checks share: how a failure is told, and what mechanisms are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TypeVar

import numpy as np

FALSE_ALARM = 1e-9
"""The chance that one statistical check fails for a correct mechanism."""
DIMENSIONS = (1, 2, 3, 10, 123)
INPUTS = tuple(Fraction(t) for t in ("-1", "-2/3", "0", "1/7", "1/2", "1"))
MOST_SYMBOLS = 1 << 16
FEW_SYMBOLS = 64
CLIENTS = 200

Kind = TypeVar("Kind")


def require(condition: object, message: str) -> None:
    """Not an assert statement: the contract must also hold where Python drops those (-O)."""
    if not condition:
        raise AssertionError(message)


@contextmanager
def failing(what: str) -> Iterator[None]:
    """A context in which any exception is a failure of the contract, with the name of what fails.

    >>> with failing("Mine: check_rank_law"):
    ...     raise ValueError("no law at d = 1")
    Traceback (most recent call last):
    AssertionError: Mine: check_rank_law ends in ValueError: no law at d = 1
    """
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} ends in {type(error).__name__}: {error}") from error


def expect(mechanism: object, kind: type[Kind]) -> Kind:
    """The mechanism, which must be of this kind."""
    if not isinstance(mechanism, kind):
        raise AssertionError(f"{mechanism!r}: not a {kind.__name__}")
    return mechanism


def vectors(d: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Rows with and without ties, zeros included."""
    rows = np.random.default_rng(d).normal(size=(CLIENTS, d))
    rows[::2] = np.round(rows[::2])
    rows[0] = 0
    return rows
