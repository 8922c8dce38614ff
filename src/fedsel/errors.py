"""Errors that name the argument, its value and what is allowed, and the checks that raise them.

Messages show the values of public parameters. For private data (vectors, gradients, residuals) they
show the name and the kind of fault, never the data.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Epsilon = float | Fraction
"""A privacy parameter: a float, or a Fraction where the exact value matters."""

MAX_EPSILON = 500
"""Far beyond any privacy, but e^ε is finite. For no privacy use a non-private mechanism."""


class InvalidArgument(ValueError):
    """A public parameter has a value that is not allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name, self.value, self.allowed = name, value, allowed
        super().__init__(name, value, allowed)

    def __str__(self) -> str:
        return f"{self.name} = {_shown(self.value)}: must be {self.allowed}"


def _shown(value: object) -> str:
    """Format a value for a message, shortened if necessary."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = f"a {type(value).__name__} too long to be shown"
    return text if len(text) <= 200 else text[:197] + "…"


class InvalidData(ValueError):
    """Private data cannot be used. The message never contains any of it."""


class LifetimeExceeded(RuntimeError):
    """A fit would spend more than the lifetime of an open account; nothing was spent."""


class PrivacyLeakWarning(RuntimeWarning):
    """Something was done with private data that the guarantee does not cover."""


class SeededNoiseWarning(PrivacyLeakWarning):
    """The noise of a model follows from a seed, with which anyone can undo the noise."""


class RepeatedFitWarning(PrivacyLeakWarning):
    """Clients take part in several fits, each of which costs its ε."""


class TooFewClientsWarning(UserWarning):
    """There are too few clients for their ε. The model will be little better than a guess."""


_PACKAGE = f"{Path(__file__).parent}{os.sep}"
_SHOWN: set[tuple[str, type[Warning], str, int | None]] = set()


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called fedsel, once for each line unless a filter says otherwise.

    That is Python's default, but Python forgets which warnings it has shown whenever
    `warnings.catch_warnings` is entered, as in every fit of scikit-learn.
    """
    stack = traceback.extract_stack()[::-1]
    level = next((i for i, s in enumerate(stack) if not s.filename.startswith(_PACKAGE)), 0)
    place = (message, category, stack[level].filename, stack[level].lineno)
    if _filter_action(message, category) in ("default", "module", "once"):
        if place in _SHOWN:
            return
        _SHOWN.add(place)
    warnings.warn(message, category, stacklevel=level + 1)


def _filter_action(message: str, category: type[Warning]) -> str:
    """The action of the first matching warning filter that is not limited to a module or line."""
    for action, text, kind, module, line in warnings.filters:
        everywhere = module is None and line == 0
        if everywhere and issubclass(category, kind) and (text is None or text.match(message)):
            return action
    return "default"


def check_epsilon(name: str, value: object, *, zero_allowed: bool = False) -> Epsilon:
    """Return an ε in (0, 500] (zero where allowed) as a float or Fraction.

    >>> check_epsilon("epsilon", 1)
    1.0
    >>> check_epsilon("epsilon", float("nan"))
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: epsilon = nan: must be a number > 0 and ≤ 500
    """
    allowed = f"a number {'≥' if zero_allowed else '>'} 0 and ≤ {MAX_EPSILON}"
    number = check_finite(name, value, allowed)
    if not 0 <= number <= MAX_EPSILON or (number == 0 and not zero_allowed):
        raise InvalidArgument(name, value, allowed)
    return number


def check_positive(name: str, value: object) -> float:
    """Return a finite number > 0 as a float."""
    number = check_float(name, value, "a finite number > 0")
    if number <= 0:
        raise InvalidArgument(name, value, "a finite number > 0")
    return number


def check_float(name: str, value: object, allowed: str = "a finite number") -> float:
    """Return a finite real number, possibly a Fraction, as a float.

    >>> check_float("clip", Fraction(10**400))
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: clip = Fraction(1000...: must be a finite number
    """
    try:
        return float(check_finite(name, value, allowed))
    except OverflowError:  # a Fraction that no float is near
        raise InvalidArgument(name, value, allowed) from None


def check_finite(name: str, value: object, allowed: str = "a finite number") -> Epsilon:
    """Return a finite real number as a float (a Fraction stays one)."""
    if type(value) is float and math.isfinite(value):  # most are: experiments check millions
        return value
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidArgument(name, value, allowed)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidArgument(name, value, allowed) from None
    if not math.isfinite(number):
        raise InvalidArgument(name, value, allowed)
    return number


def check_count(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return an integer in least … most.

    >>> check_count("d", 0)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: d = 0: must be an integer ≥ 1
    """
    if type(value) is int and least <= value and (most is None or value <= most):
        return value
    allowed = f"an integer ≥ {least}" if most is None else f"an integer in {least} … {most}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise InvalidArgument(name, value, allowed)
    number = int(value)
    if number < least or (most is not None and number > most):
        raise InvalidArgument(name, value, allowed)
    return number


def check_vectors(name: str, values: ArrayLike, *, ndim: int) -> NDArray[np.floating]:
    """Return private data as a finite, C-contiguous float array of ``ndim`` dimensions.

    float32 and float64 are kept; everything else becomes float64.

    >>> check_vectors("vector", [1.0, float("nan")], ndim=1)
    Traceback (most recent call last):
    fedsel.errors.InvalidData: vector: every entry must be finite
    """
    array = _as_array(values)
    if array is None or array.dtype.kind not in "fiub":
        raise InvalidData(f"{name}: must be an array of real numbers")
    if array.ndim != ndim or array.size == 0:
        raise InvalidData(f"{name}: must be a non-empty array with {ndim} dimension(s)")
    kept = array.dtype in (np.float32, np.float64)
    numbers: NDArray[np.floating] = np.ascontiguousarray(
        array, dtype=array.dtype if kept else np.float64
    )
    if not np.isfinite(numbers).all():
        raise InvalidData(f"{name}: every entry must be finite")
    return numbers


def check_number(name: str, value: object) -> float:
    """Return a private number as a float. Errors never contain it."""
    array = _as_array(value)
    if array is None or array.ndim != 0 or array.dtype.kind not in "fiub":
        raise InvalidData(f"{name}: must be a real number")
    return float(array)


def _as_array(values: object) -> NDArray[np.generic] | None:
    """Return the values as an array, or None if that fails.

    Exceptions raised while an object is read may contain its data. They are dropped here, so that
    they are not even the context of our own error.
    """
    if isinstance(values, np.ma.MaskedArray):  # its hidden entries would come to light
        return None
    try:
        return np.asarray(values)
    except Exception:
        return None


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Check that a public argument is an instance of one of these classes."""
    if not isinstance(value, kinds):
        raise InvalidArgument(name, value, "a " + " or a ".join(k.__name__ for k in kinds))


def check_private(name: str, file: Path) -> None:
    """Refuse a file with a secret that others than its owner may read or change."""
    if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise InvalidArgument(name, str(file), "readable by its owner only: run chmod 600")


def renamed(module: str, names: Mapping[str, str], until: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that keeps old ``names`` of its members ``until`` a version.

    >>> find = renamed("fedsel.errors", {"BadArgument": "InvalidArgument"}, until="0.2")
    >>> with warnings.catch_warnings(action="ignore"):
    ...     find("BadArgument") is InvalidArgument
    True
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        successor = names[name]
        text = f"{module}.{name} is now {module}.{successor}; the old name works until {until}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], successor)

    return find
