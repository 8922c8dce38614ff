"""Figure 2e: the time of one client per transmission."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, final

import numpy as np

from fedsel import InvalidArgument, TwoStage, mechanism
from fedsel.experiments import Source
from fedsel.mechanisms import BOTTOM
from fedsel.sampling import device, simulated
from reproduction.measures.base import Measure, check_count
from reproduction.measures.literal import literal_exp, literal_pe, literal_pm, literal_ps

SELECTIONS = ("none", "EXP", "PE", "PS")
IMPLEMENTATIONS = ("paper", "device", "cohort")
MU, TOP = 0.1, 0.1
_ENTRIES = 1_000_000
_BATCH_SECONDS = 0.02


@final
@dataclass(frozen=True)
class ClientTime(Measure):
    """Seconds for selection and value perturbation with PM of one standard normal vector.

    "paper" is the pseudocode in plain Python; "device" one client with the operating system's
    entropy; "cohort" many simulated clients in one call. Public tables are prepared before. The
    fastest of ``repeats`` batches counts, because the machine may be busy.
    """

    selection: str
    implementation: str
    d: int
    epsilon: float = 2.0
    repeats: int = 5

    kind: ClassVar[str] = "client time"

    def __post_init__(self) -> None:
        for name, known in (("selection", SELECTIONS), ("implementation", IMPLEMENTATIONS)):
            if getattr(self, name) not in known:
                raise InvalidArgument(name, getattr(self, name), "one of " + ", ".join(known))
        check_count("d", self.d, least=2)
        check_count("repeats", self.repeats)

    @property
    def cost(self) -> float:
        slow = self.implementation == "paper" and self.selection == "EXP"
        return 4e7 + (self.d**2 * 60.0 if slow else 0.0)

    def part(self, number: int, source: Source) -> float:  # noqa: ARG002
        rng = np.random.default_rng(0)
        n = max(3, min(5000, _ENTRIES // self.d))
        vectors = rng.standard_normal((n, self.d))
        if self.implementation == "cohort":
            drawing = self._mechanism()

            def all_report(epoch: int) -> object:
                who = simulated.cohort(n, seed=0, epoch=epoch)
                return simulated.report(drawing, vectors, who)

            return self._fastest(all_report, clients=n)
        if self.implementation == "device":
            drawing = self._mechanism()
            return self._fastest(lambda i: device.report(drawing, vectors[i % n]))
        rows, draw = vectors[:64].tolist(), self._literal()
        return self._fastest(lambda i: draw(rows[i % len(rows)]))

    def combine(self, parts: Sequence[Any]) -> dict[str, Any]:
        return {**self.parameters, "seconds": parts[0]}

    def _fastest(self, call: Callable[[int], object], clients: int = 1) -> float:
        call(0)  # builds tables
        start = perf_counter()
        call(1)
        calls = max(1, math.ceil(_BATCH_SECONDS / (perf_counter() - start)))
        best = math.inf
        for _ in range(self.repeats):
            start = perf_counter()
            for i in range(calls):
                call(i)
            best = min(best, (perf_counter() - start) / calls / clients)
        return best

    def _mechanism(self) -> TwoStage:
        selection = "Uniform" if self.selection == "none" else self.selection
        made = mechanism(f"{selection}-PM", epsilon=self.epsilon, k=TOP, mu=MU)
        assert isinstance(made, TwoStage)  # noqa: S101
        return made

    def _literal(self) -> Callable[[list[float]], float | None]:
        rng, d = random.Random(0), self.d  # noqa: S311
        k = max(1, int(TOP * d))
        e1 = 0.0 if self.selection == "none" else MU * self.epsilon
        total = sum(math.exp(e1 * j / (d - 1)) for j in range(1, d + 1))
        choose: Callable[[list[float]], int] = {
            "none": lambda _: rng.randrange(d),
            "EXP": lambda r: literal_exp(r, e1, total, rng),
            "PE": lambda r: literal_pe(r, k, e1, rng),
            "PS": lambda r: literal_ps(r, k, e1, rng),
        }[self.selection]

        def draw(r: list[float]) -> float | None:
            j = choose(r)
            if j == BOTTOM:
                return None
            return literal_pm(max(-1.0, min(1.0, r[j])), self.epsilon - e1, rng)

        return draw
