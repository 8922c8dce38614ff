"""Theorem 2: the variance of one update when g or α·g is accumulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from fedsel import InvalidArgument, mechanism
from fedsel.experiments import Source
from fedsel.mechanisms import Value
from fedsel.sampling import simulated
from reproduction.measures.base import Measure, check_count


@final
@dataclass(frozen=True)
class UpdateVariance(Measure):
    """One client's update of w_j from an accumulated s, exactly and by ``draws`` draws.

    ``adapted`` perturbs clip(s) and then multiplies by α; ``original`` perturbs clip(α·s). m is
    omitted because it divides both.
    """

    value: str
    epsilon: float
    rate: float
    s: float
    draws: int = 200_000
    seed: int = 0

    kind: ClassVar[str] = "update variance"

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise InvalidArgument("rate", self.rate, "a finite number > 0")
        if not math.isfinite(self.s):
            raise InvalidArgument("s", self.s, "a finite number")
        check_count("draws", self.draws, least=2)
        self._mechanism()

    def _mechanism(self) -> Value:
        made = mechanism(self.value, epsilon=self.epsilon)
        if not isinstance(made, Value):
            raise InvalidArgument("value", self.value, "the name of a value mechanism")
        return made

    @property
    def cost(self) -> float:
        return 20.0 * self.draws

    def part(self, number: int, source: Source) -> dict[str, float]:  # noqa: ARG002
        """Exact and measured variance, and mean, of both updates."""
        drawing = self._mechanism()
        result = {}
        ways = {"adapted": (self.s, self.rate), "original": (self.rate * self.s, 1.0)}
        for place, (name, (value, factor)) in enumerate(ways.items()):
            t = max(-1.0, min(1.0, value))
            who = simulated.cohort(self.draws, seed=self.seed, epoch=place)
            drawn = factor * drawing.decode(simulated.perturb(drawing, [t], who))
            result[name] = factor**2 * drawing.variance(t)
            result[f"{name}_measured"] = float(np.var(drawn, ddof=1))
            result[f"{name}_mean"] = factor * t
        return result

    def combine(self, parts: Sequence[Any]) -> dict[str, Any]:
        """Add whether the value was clipped, and the unclipped update."""
        clipped = abs(self.s) > 1
        wanted = self.rate * self.s
        return {**self.parameters, **parts[0], "clipped": clipped, "unclipped_mean": wanted}
