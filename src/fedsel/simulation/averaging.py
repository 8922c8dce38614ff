"""The average of the weights over the rounds: free post-processing that takes noise away.

Round t counts about as t^p (Shamir and Zhang 2013): the noise of single steps cancels out, the
start is forgotten. Clients still work on the weights themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_finite


def check_averaging(power: float) -> float:
    """The power of an average, 0 for none."""
    if check_finite("averaging", power) < 0:
        raise InvalidArgument("averaging", power, "a number ≥ 0; 0 takes the last weights")
    return float(power)


class Average:
    """The average over the rounds so far; with power 0, the last weights.

    >>> average = Average(1.0)
    >>> [float(average.add(np.array([w]))[0]) for w in (0.0, 3.0, 6.0)]
    [0.0, 2.0, 4.0]
    """

    def __init__(self, power: float) -> None:
        self.power = check_averaging(power)
        self.rounds = 0
        self.weights: NDArray[np.float64] = np.empty(0)

    def add(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take the weights of a round, and return the average, an array of its own."""
        self.rounds += 1
        if self.power == 0 or self.rounds == 1:
            self.weights = weights.copy()
        else:
            share = (self.power + 1) / (self.rounds + self.power)
            self.weights = self.weights + share * (weights - self.weights)
        return self.weights
