"""Feedback: what a client does with what it did not send. (FedSel, Algorithm 1.)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

from fedsel.errors import check_finite
from fedsel.mechanisms.reporting import Vector
from fedsel.reports import BOTTOM
from fedsel.solutions.transforms import Transform


@final
@dataclass(frozen=True)
class Feedback:
    """Nothing is kept, or (``accumulate``) all that was not sent, for later epochs.

    r = residual + update is ranked; what is told is r + momentum·residual, and it is clipped only
    after that: the order on which privacy depends. With ``rate_inside`` (…-O) a client multiplies
    its update with the learning rate α, and the server steps by the mean itself.

    Proof: docs/proofs/composition.md, C2, and docs/proofs/transforms.md, T9.

    >>> keep = Feedback(accumulate=True, momentum=0.5)
    >>> before, update = np.array([1.0, 0.0]), np.array([1.0, 2.0])
    >>> r = keep.accumulated(before, update)
    >>> r, keep.told(before, r)
    (array([2., 2.]), array([2.5, 2. ]))
    """

    accumulate: bool = False
    momentum: float = 0.0
    rate_inside: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", float(check_finite("momentum", self.momentum)))

    def accumulated(self, residual: Vector, update: Vector) -> Vector:
        """r, finite also where the sum overflows: whether a client answers must not tell."""
        if not self.accumulate:
            return update
        with np.errstate(over="ignore"):
            total: Vector = np.nan_to_num(residual + update)
        return total

    def told(self, residual: Vector, accumulated: Vector) -> Vector:
        """What is reported at a slot, before it is clipped."""
        if not self.accumulate or self.momentum == 0:
            return accumulated
        with np.errstate(over="ignore", invalid="ignore"):
            wide = accumulated.astype(np.float64) + self.momentum * residual.astype(np.float64)
        return np.asarray(wide)

    def kept(
        self, residual: Vector, accumulated: Vector, sent: Iterable[int], transform: Transform
    ) -> Vector:
        """The residual after the slots of a report were sent."""
        if not self.accumulate:
            return residual
        rest = accumulated
        for slot in sent:
            if slot != BOTTOM:
                rest = transform.without(rest, slot)
        return rest if rest is not accumulated else accumulated.copy()


NOTHING_KEPT = Feedback()
