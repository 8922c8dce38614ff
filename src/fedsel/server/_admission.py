"""One admission of reports for aggregator, service and shuffler: right bytes, right round, once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsel.wire import Batch, Verdict


class Counts(NamedTuple):
    """What became of many reports. Early and conflicting ones count as rejected."""

    accepted: int = 0
    rejected: int = 0
    duplicate: int = 0
    late: int = 0

    @classmethod
    def of(cls, verdicts: Sequence[object]) -> Counts:
        """Count the verdicts in a sequence."""
        count = verdicts.count
        rejected = count(Verdict.REJECTED) + count(Verdict.EARLY) + count(Verdict.CONFLICT)
        return cls(count(Verdict.ACCEPTED), rejected, count(Verdict.DUPLICATE), count(Verdict.LATE))

    def plus(self, other: Counts) -> Counts:
        """The counts of both."""
        return Counts(*map(operator.add, self, other))


def judge_round(number: int | None, open_round: int, finished: bool = False) -> Verdict:
    """Judge a report by its round; None stands for bytes that are no report of the run.

    ACCEPTED leaves the sender to be judged: it may report once in the round.

    >>> judge_round(2, 3), judge_round(3, 3), judge_round(3, 3, finished=True)
    (<Verdict.LATE: 'late'>, <Verdict.ACCEPTED: 'accepted'>, <Verdict.EARLY: 'early'>)
    """
    if number is None:
        return Verdict.REJECTED
    if number < open_round:
        return Verdict.LATE
    return Verdict.EARLY if number > open_round or finished else Verdict.ACCEPTED


def judge_rounds(
    batch: Batch, open_round: int, finished: bool = False
) -> tuple[NDArray[np.bool_], int]:
    """Which of n reports are of the open round (n,), and how many are late: as `judge_round`."""
    late = int(np.count_nonzero(batch.valid & (batch.round < open_round)))
    return batch.valid & (batch.round == open_round) & (not finished), late
