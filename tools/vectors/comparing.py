"""Whether two values of JSON say the same, up to the tolerance that their case states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_VECTORS = {"_f32": "<f4", "_f64": "<f8"}


def differences_of(
    found: Any, expected: Any, place: str = "", tolerance: float = 0.0
) -> Iterator[str]:
    """The places at which two values differ.

    >>> list(differences_of({"x": [1.0, 2.0], "tolerance": 0.1}, {"x": [1.0, 2.1]}))
    ['x: differs', 'tolerance: only one has it']
    >>> near = {"x": [1.0, 2.0], "tolerance": 0.1}, {"x": [1.0, 2.1], "tolerance": 0.1}
    >>> list(differences_of(*near))
    []
    """
    if isinstance(found, dict) and isinstance(expected, dict):
        allowed = expected.get("tolerance", tolerance)
        for name in dict.fromkeys((*expected, *found)):
            inside = f"{place}.{name}" if place else str(name)
            if name not in found or name not in expected:
                yield f"{inside}: only one has it"
            else:
                yield from _compared(found[name], expected[name], inside, allowed, name)
    elif isinstance(found, list) and isinstance(expected, list):
        yield from _lists(found, expected, place, tolerance, "")
    elif not _close(found, expected, tolerance):
        yield f"{place}: differs"


def _compared(found: Any, expected: Any, place: str, tolerance: float, name: str) -> Iterator[str]:
    kind = next((k for ending, k in _VECTORS.items() if name.endswith(ending)), "")
    if isinstance(found, list) and isinstance(expected, list):
        yield from _lists(found, expected, place, tolerance, kind)
    elif kind and isinstance(found, str) and isinstance(expected, str):
        if found != expected and not _close(_read(found, kind), _read(expected, kind), tolerance):
            yield f"{place}: differs"
    else:
        yield from differences_of(found, expected, place, tolerance)


def _lists(
    found: list[Any], expected: list[Any], place: str, tolerance: float, kind: str
) -> Iterator[str]:
    if len(found) != len(expected):
        yield f"{place}: {len(found)} in place of {len(expected)}"
    elif all(type(x) is float for x in (*found, *expected)):
        if not _close(np.array(found), np.array(expected), tolerance):
            yield f"{place}: differs"
    else:
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            name = next((e for e, k in _VECTORS.items() if k == kind), "")
            yield from _compared(a, b, f"{place}[{number}]", tolerance, name)


def _read(digits: str, kind: str) -> NDArray[Any] | None:
    try:
        return np.frombuffer(bytes.fromhex(digits), dtype=kind).astype(np.float64)
    except ValueError:
        return None


def _close(found: Any, expected: Any, tolerance: float) -> bool:
    """Alike, or numbers that differ by so much of the largest of them."""
    if isinstance(found, np.ndarray) and isinstance(expected, np.ndarray):
        if found.shape != expected.shape:
            return False
        largest = float(np.abs(expected).max(initial=0.0))
        return bool((np.abs(found - expected) <= tolerance * largest).all())
    if type(found) is float and type(expected) is float and tolerance:
        return abs(found - expected) <= tolerance * abs(expected)
    return type(found) is type(expected) and bool(found == expected)
