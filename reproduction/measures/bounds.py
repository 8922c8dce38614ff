"""Table 1: the largest error of a round's mean, by d, m and ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel import FlatPicks, InvalidArgument, Solution, TwoStage, mechanism
from fedsel.experiments import Source
from fedsel.mechanisms import BOTTOM, Piecewise
from fedsel.sampling import simulated
from reproduction.measures.base import Measure, check_count

SOLUTIONS = ("PM", "PM-RP", "PS-PM")
MU, TOP, RATIO = 0.1, 0.1, 0.1


@final
@dataclass(frozen=True)
class MaxError(Measure):
    """The largest error over dimensions of the mean of m reports of ``solution``.

    The clients' vectors are θ + 0.3·N(0, I) clipped to [−1, 1], with θ ~ U[−½, ½]^d in each trial.
    ``noise`` is the error against unperturbed reports, ``error`` the error against the mean of the
    vectors, ``best`` the latter after the best constant factor (by an oracle).
    """

    solution: str
    d: int
    m: int
    epsilon: float
    trials: int = 8
    seed: int = 0

    kind: ClassVar[str] = "max error"

    def __post_init__(self) -> None:
        if self.solution not in SOLUTIONS:
            raise InvalidArgument("solution", self.solution, "one of " + ", ".join(SOLUTIONS))
        check_count("d", self.d, least=2)
        check_count("m", self.m)
        check_count("trials", self.trials)
        check_count("seed", self.seed, least=0)
        self._mechanism()

    @property
    def parts(self) -> int:
        return self.trials

    @property
    def cost(self) -> float:
        return 8.0 * self.m * self.d

    @property
    def q(self) -> int:
        """The number of dimensions of a report: d, or fewer after a projection."""
        return max(1, round(RATIO * self.d)) if self.solution == "PM-RP" else self.d

    def part(self, number: int, source: Source) -> list[float]:  # noqa: ARG002
        """[noise, error, best] of one trial."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, number]))
        theta = rng.uniform(-0.5, 0.5, self.d)
        vectors = np.clip(theta + 0.3 * rng.standard_normal((self.m, self.d)), -1, 1)
        truth = vectors.mean(axis=0)
        phi = None
        if self.solution == "PM-RP":
            phi = rng.standard_normal((self.d, self.q)) / np.sqrt(self.q)
            vectors = np.clip(vectors @ phi, -1, 1)
        noisy, plain = self._means(vectors, number)
        noise = float(np.abs(noisy - plain).max())
        if phi is not None:
            noisy = np.linalg.pinv(phi).T @ noisy
        factor = float(noisy @ truth) / float(noisy @ noisy) if noisy.any() else 0.0
        error = float(np.abs(noisy - truth).max())
        return [noise, error, float(np.abs(factor * noisy - truth).max())]

    def _means(
        self, vectors: NDArray[np.float64], trial: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean of the reports, and their mean with unperturbed values.

        The latter is the mean of all vectors for flat and compressed solutions, which are unbiased.
        """
        q, drawing = vectors.shape[1], self._mechanism()
        solution = Solution(drawing.name, q, drawing)
        who = simulated.cohort(self.m, seed=self.seed, epoch=trial)
        reports = simulated.report(solution, vectors, who)
        noisy = solution.decode(reports)
        if self.solution != "PS-PM":
            return noisy, vectors.mean(axis=0)
        slot = reports.slot[:, 0]
        sends = np.flatnonzero(slot != BOTTOM)
        chosen = vectors[sends, slot[sends]]
        return noisy, np.bincount(slot[sends], weights=chosen, minlength=q) / self.m

    def _mechanism(self) -> FlatPicks | TwoStage:
        if self.solution != "PS-PM":
            return FlatPicks(Piecewise(self.epsilon))
        made = mechanism("PS-PM", epsilon=self.epsilon, k=TOP, mu=MU)
        assert isinstance(made, TwoStage)  # noqa: S101
        return made

    def combine(self, parts: Sequence[Any]) -> dict[str, Any]:
        """Means and standard deviations over the trials."""
        values = np.array(parts)
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(3)
        names = ("noise", "error", "best")
        return {
            **self.parameters,
            "q": self.q,
            **dict(zip(names, values.mean(axis=0).tolist(), strict=True)),
            **{f"{n}_spread": float(s) for n, s in zip(names, spread, strict=True)},
        }
