"""What a training run leaves behind, round by round."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.preparation._record import Preparation
from fedsel.solutions import Privacy

if TYPE_CHECKING:
    from fedsel.mechanisms.central import CentralGuarantee


@dataclass(frozen=True)
class Round:
    """The model after one round, on the test data, and what the clients have spent and sent."""

    round: int
    epoch: int
    epsilon: float
    bits: int
    reports: int
    accuracy: float = math.nan
    loss: float = math.nan

    @property
    def misclassification(self) -> float:
        return 1 - self.accuracy


@dataclass
class History:
    """All rounds of a run and the weights at its end.

    Where the draws were ``seeded``, anyone who has the seed can undo the noise: the weights
    of such a simulation are not for release. The seed itself is not kept. ``preparation`` is what
    clients did with their records, as far as it was learnt from reports. ``fewest_reports`` is how
    many the smallest round had, of those that had any, and ``epochs_heard`` how many epochs had
    some, whether they are listed or not; ``privacy`` is that of the solution.
    """

    rounds: list[Round] = field(default_factory=list)
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    seeded: bool = False
    preparation: Preparation | None = None
    fewest_reports: int = 0
    epochs_heard: int = 0
    privacy: Privacy | None = None

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """What the reports would guarantee centrally if those of each round were shuffled.

        For a client of the smallest round, which others hide least, over the epochs that had
        reports. Nobody shuffles here: the ε of the rounds is what holds as it is.
        """
        if self.privacy is None or not self.fewest_reports:
            raise InvalidArgument("history", "without a report", "that of a run which had reports")
        return self.privacy.central(
            reports=self.fewest_reports, delta=delta, epochs=self.epochs_heard
        )

    @property
    def accuracy(self) -> float:
        """Accuracy at the end."""
        return self.rounds[-1].accuracy

    def table(self) -> list[dict[str, float]]:
        """One row a round."""
        return [{**vars(r), "misclassification": r.misclassification} for r in self.rounds]
