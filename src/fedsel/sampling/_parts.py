"""Vectors of many clients in parts, side by side: numbers, or outer products that stay factored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Outer:
    """Client i has the products left[i] ⊗ right[i] of left (n, a) and right (n, b): a·b entries.

    The gradient of a linear layer at one record is such a product. The kernels multiply one client
    at a time, in the processor's cache: the (n, a·b) numbers are never written to memory.

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
        """How many numbers of a client's vector these are: a·b."""
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
