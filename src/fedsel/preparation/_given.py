"""A preparation that is public before the first round: public rows give it, or a model does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from fedsel.errors import InvalidArgument
from fedsel.preparation._record import Doubles, Preparation

FEWEST_ROWS = 10
"""The mean of fewer rows is off by a third of the deviation: at ε = 4 it made models worse."""
LARGEST_SENT = 512
"""Entries of a record beyond which devices are sent no matrix. One of 512² numbers has 5.8 MB as
JSON, 2.5 MB compressed; without it a device fetches 8 bytes for each weight."""
_BYTES_OF_A_FEATURE, _BYTES_OF_A_NUMBER = 256, 26


@final
@dataclass(frozen=True, eq=False)
class GivenPreparation:
    """A preparation that no round learns, and what tells its source from others.

    ``rows`` is the number of public rows that it was computed from; 0 where it belongs to the model
    that training starts with.
    """

    preparation: Preparation
    rows: int
    digest: str

    def __str__(self) -> str:
        """The source in a message: equal for the same rows, or the same model."""
        source = f"{self.rows} rows" if self.rows else "a model"
        return f"{source} (SHA-256 {self.digest[:16]})"

    @property
    def argument(self) -> str:
        """The argument that gave it."""
        return "public_rows" if self.rows else "start"


def check_rows(rows: Any, features: int | None, name: str = "public_rows") -> Doubles:
    """Public rows as an array (m, features) of finite numbers, enough of them to be of use.

    >>> check_rows(np.zeros((20, 2)), 2).shape
    (20, 2)
    """
    try:
        array = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(rows).__name__, "rows (m, d) of numbers") from None
    wanted = "(m, d)" if features is None else f"(m, {features}): the features, and no label"
    if array.ndim != 2 or (features is not None and array.shape[1] != features):
        raise InvalidArgument(name, f"of shape {array.shape}", f"of shape {wanted}")
    if len(array) < FEWEST_ROWS:
        wanted = f"at least {FEWEST_ROWS}, better some hundred: so few tell no mean"
        raise InvalidArgument(name, f"{len(array)} rows", wanted)
    missing = np.flatnonzero(~np.isfinite(array).all(axis=0))
    if len(missing):
        wanted = "finite numbers: leave out rows that lack one, or fill it as devices do"
        raise InvalidArgument(name, f"NaN or infinity in column {missing[0]}", wanted)
    return array


def most_bytes(features: int) -> int:
    """The most bytes of the text that tells a device how to prepare this many features."""
    size = features + 1
    matrix = _BYTES_OF_A_NUMBER * size**2 if size <= LARGEST_SENT else 0
    return (1 << 16) + _BYTES_OF_A_FEATURE * features + matrix
