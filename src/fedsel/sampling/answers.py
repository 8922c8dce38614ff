"""Simulate many clients that answer a question: a whole cohort at once, with numpy.

The same words give the same reports as `fedsel.solutions.Solution.encode`, client by client.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.random import Streams, fresh_seeds
from fedsel.errors import InvalidArgument, InvalidData, check_vectors
from fedsel.mechanisms import Choice
from fedsel.mechanisms._laws import RankLaw
from fedsel.mechanisms._reports import Reports
from fedsel.sampling._batch import Rows, draw_reports
from fedsel.solutions import Blocks, Solution

Integers = NDArray[np.int64]
NO_ANSWER = -1
_AT_ONCE = 1 << 21
"""Members of blocks in memory at a time."""


def report_answers(
    solution: Solution,
    answers: ArrayLike,
    streams: Streams | None = None,
    *,
    missing: bool = False,
) -> Reports:
    """Report for each client on its answer, an integer in 0 … M − 1.

    Where an answer may be ``missing``, −1 stands for none: all blocks are alike. Without
    ``streams`` each report has bits of its own from the operating system.

    >>> from fedsel import solution
    >>> report_answers(solution("BR", epsilon=1.0, dim=4), [0, 3, 3]).slot.shape
    (3, 1)
    """
    blocks = solution.transform.blocks
    if blocks is None:
        raise InvalidArgument("solution", solution.name, "BR, which reports answers")
    who = checked_answers("answers", answers, blocks.dim, missing=missing)
    if streams is None:
        streams = Streams.of_bits(fresh_seeds(len(who)))
    everyone = np.arange(len(who))
    basis = np.zeros(len(who), dtype=np.int64)
    if blocks.bases > 1:
        basis = streams.below(np.full(len(who), blocks.bases), everyone)
    law = cast(Choice, solution.mechanism).selection.law(blocks.size)
    draw = _by_rejection if law.by_rejection else _by_rank
    slots = basis * blocks.size + draw(blocks, law, who, basis, streams)
    return Reports(slots[:, None], np.zeros((len(who), 1), dtype=np.int64))


def checked_answers(name: str, answers: ArrayLike, most: int, *, missing: bool = False) -> Integers:
    """Return answers as integers; each must be in 0 … most − 1, or −1 where it may be missing."""
    given = np.asarray(answers)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidData(f"{name}: must be integers, one for each client")
    least = NO_ANSWER if missing else 0
    if given.size and not least <= given.min() <= given.max() < most:
        wrong = given[(given < least) | (given >= most)][0]
        raise InvalidData(f"{name}: {wrong} is none of the answers 0 … {most - 1}")
    return given.astype(np.int64)


def _by_rejection(
    blocks: Blocks, law: RankLaw, answers: Integers, basis: Integers, streams: Streams
) -> Integers:
    """A uniform block, accepted by its weight, for each client: see `draw_dimension`."""
    slots = np.empty_like(answers)
    todo = np.arange(len(answers))
    while len(todo):
        drawn = streams.below(np.full(len(todo), law.d * law.maximum), todo)
        slot, level = np.divmod(drawn, law.maximum)
        slots[todo] = slot
        if law.uniform:
            break
        none = answers[todo] == NO_ANSWER
        held = blocks.contain(slot, answers[todo], basis[todo]) & ~none
        # Which of equal ranks it has decides nothing, unless all are equal.
        tied = np.where(held, blocks.holding, law.d - blocks.holding)
        rank = streams.below(np.where(none, law.d, tied), todo)
        heavy = held | (none & (rank < blocks.holding))
        todo = todo[~heavy & (level >= law.minimum)]
    return slots


def _by_rank(
    blocks: Blocks, law: RankLaw, answers: Integers, basis: Integers, streams: Streams
) -> Integers:
    """A rank, and one of the blocks that share it, for each client: see `draw_dimension`."""
    everyone = np.arange(len(answers))
    position = streams.below(np.full(len(answers), law.total), everyone)
    top = position < blocks.holding * law.maximum
    none = answers == NO_ANSWER
    tied = np.where(top, blocks.holding, law.d - blocks.holding)
    pick = streams.below(np.where(none, law.d, tied), everyone)
    slots = np.empty_like(answers)
    at_once = max(1, _AT_ONCE // blocks.holding)
    for begin in range(0, len(answers), at_once):
        some = slice(begin, begin + at_once)
        mine = blocks.holders(answers[some], basis[some])
        # The pick-th block that does not hold the answer follows those before it that do.
        passed = (mine - np.arange(blocks.holding) <= pick[some, None]).sum(axis=1)
        own = np.take_along_axis(mine, np.minimum(pick[some, None], blocks.holding - 1), 1)[:, 0]
        slots[some] = np.where(top[some], own, pick[some] + passed)
    return np.where(none, pick, slots)


def report_numbers(
    solution: Solution, numbers: ArrayLike, streams: Streams | None = None
) -> Reports:
    """Report for each client on its number in [−1, 1], by a solution of one entry, such as OW.

    Without ``streams`` each report has bits of its own from the operating system.

    >>> from fedsel import solution
    >>> report_numbers(solution("OW", epsilon=1.0, dim=1), [0.5, -1.0]).symbol.shape
    (2, 1)
    """
    if solution.dim != 1:
        raise InvalidArgument("solution", solution.name, "one of vectors of one entry")
    given = check_vectors("numbers", numbers, ndim=1)
    rows = given.astype(np.float32)[:, None]  # as on devices
    if streams is None:
        streams = Streams.of_bits(fresh_seeds(len(rows)))
    values = rows.astype(np.float64)
    return draw_reports(solution.mechanism, Rows(rows, values, np.abs(given).tolist()), streams)
