"""Draw from single mechanisms with the operating system's randomness.

Real devices use `fedsel.device.Client`, which charges for each report. This module is for building
other things from a mechanism.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedsel._internal.random import SYSTEM
from fedsel.errors import InvalidData, check_kind, check_number, check_vectors
from fedsel.mechanisms import Entropy
from fedsel.mechanisms._base import ReportMechanism, Selection, Value
from fedsel.mechanisms._drawing import draw_dimension, draw_symbol
from fedsel.mechanisms._reports import Reports
from fedsel.solutions._solution import plain_scores


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


def report(mechanism: ReportMechanism, vector: ArrayLike, entropy: Entropy = SYSTEM) -> Reports:
    """Report on one vector, without residual, as a client does that reports once.

    >>> from fedsel.mechanisms import PerturbedSampling, Piecewise, TwoStage
    >>> r = report(TwoStage(PerturbedSampling(0.2), Piecewise(1.8)), [0.1, -3.0, 0.5])
    >>> int(r.slot[0]) in (0, 1, 2)
    True
    """
    check_kind("mechanism", mechanism, ReportMechanism)
    return mechanism.draw(plain_scores(check_vectors("vector", vector, ndim=1)), entropy)
