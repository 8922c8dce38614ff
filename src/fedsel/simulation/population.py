"""The simulated clients, and who of them holds which records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.preparation import Preparation


@dataclass(frozen=True)
class Population:
    """The clients: records X (N, d) as dense float32 or CSR, labels ±1, and who holds which.

    Without ``starts`` each client holds one record; else client i holds the records
    order[starts[i]] … order[starts[i+1]−1]. ``members`` are the clients that take part, by number;
    None is all of them. A subset costs no copy of X.
    """

    X: Any
    y: NDArray[np.int8]
    order: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    members: NDArray[np.int64] | None = None

    @property
    def clients(self) -> int:
        """How many clients there are, members or not."""
        return self.X.shape[0] if self.starts is None else len(self.starts) - 1

    def prepared(self, preparation: Preparation) -> Population:
        """The same clients, each of whom has prepared its records."""
        return replace(self, X=preparation.records(self.X))

    @property
    def taking_part(self) -> NDArray[np.int64]:
        """Their numbers."""
        return np.arange(self.clients, dtype=np.int64) if self.members is None else self.members
