"""Blocks of answers: how one symbol tells which of M answers a client has, as well as can be.

A device reports a block, a set of k of v ≥ M answers; blocks that hold its own answer are e^ε times
as likely as others. Every two answers share equally many blocks (a 2-design), so the estimate of
every share is exactly unbiased, and its error depends on v and k alone: it is that of subset
selection (Ye and Barg 2018), which is the best there is. There are two kinds of blocks:

- all subsets of k of the M answers, k = 1 being the answers themselves (direct encoding);
- cyclotomic ones, for a prime v and a divisor e of v − 1, so that far fewer blocks do. With a
  primitive root g of v and the index i of x = g^i mod v, basis b has the blocks
  {x : index(x − c) mod e ∈ b … b + u − 1}, c in 0 … v − 1, where the sums b + … are taken mod e.
  A block holds k = u(v − 1)/e answers. A device draws b, which costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, count, islice
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_count
from fedsel.mechanisms._base import Vector
from fedsel.solutions._privacy import Influence
from fedsel.solutions._transforms import Doubles, Transform

Integers = NDArray[np.int64]

MOST_ANSWERS = 1 << 16
"""The most answers of a question, because a device ranks all blocks of a basis."""
MOST_SUBSETS = 1 << 13
"""The most blocks that are all subsets of one size."""
CLOSE = 1.01
"""Among blocks whose error is within this factor of the least, those with the fewest bits win."""
_PRIMES = 40
"""How many primes from M on are tried: more points than answers cost accuracy."""
MOST_MEMBERS = 1 << 20
"""The most members that the blocks of shift 0 of all bases have together."""
_AT_ONCE = 1 << 21
"""Members of blocks in memory at a time."""


@final
@dataclass(frozen=True)
class Blocks(Transform):
    """Blocks of ``dim`` answers: subsets of ``taken`` of them, or cyclotomic ones.

    Without ``points`` the blocks are all subsets of ``taken`` answers. With them v = ``points`` is
    a prime, e = ``classes`` divides v − 1, and u = ``taken``. An update counts as the answer that
    is its largest entry; where that is not above 0 it counts as no answer: all blocks are alike.

    Proof: docs/proofs/transforms.md, T13.

    >>> blocks = Blocks(dim=6, points=7, classes=3, taken=1)
    >>> blocks.size, blocks.bases, blocks.block_size, blocks.members(np.array([0])).tolist()
    (7, 3, 2, [[1, 6]])
    >>> blocks.scores(np.array([0.0, 1, 0, 0, 0, 0])).tolist()
    [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "blocks"
    slots_are: ClassVar[str] = "blocks of answers"
    taken: int = 1
    points: int | None = None
    classes: int = 1
    basis: int = 0

    def __post_init__(self) -> None:
        answers = check_count("dim", self.dim, least=2, most=MOST_ANSWERS)
        if self.points is None:
            check_count("k", self.taken, most=answers - 1)
            check_count("bases", self.classes, most=1)
            if self.size > MOST_SUBSETS and self.taken > 1:
                allowed = f"such that the answers have at most {MOST_SUBSETS} subsets of k"
                raise InvalidArgument("k", self.taken, allowed)
        else:
            v = check_count("words", self.points, least=max(3, answers), most=2 * MOST_ANSWERS)
            if not _is_prime(v):
                raise InvalidArgument("words", v, "a prime number")
            e = check_count("bases", self.classes, least=2, most=v - 1)
            if (v - 1) % e:
                raise InvalidArgument("bases", e, f"a divisor of words − 1 = {v - 1}")
            check_count("k", self.taken, most=min(answers, e - 1, MOST_MEMBERS // (v - 1)))
        check_count("basis", self.basis, least=0, most=self.bases - 1)

    @property
    def blocks(self) -> Self:
        return self

    @property
    def answers(self) -> int:
        """v, the answers that the blocks are made of; no client has those beyond `dim`."""
        return self.dim if self.points is None else self.points

    @property
    def block_size(self) -> int:
        """k, how many answers a block holds."""
        if self.points is None:
            return self.taken
        return self.taken * (self.points - 1) // self.classes

    @property
    def size(self) -> int:
        return math.comb(self.dim, self.taken) if self.points is None else self.points

    @property
    def holding(self) -> int:
        """r, how many blocks of a basis hold a given answer."""
        if self.points is None:
            return math.comb(self.dim - 1, self.taken - 1)
        return self.block_size

    @property
    def sharing(self) -> Fraction:
        """λ, how many blocks of a basis hold two given answers, on average over the bases."""
        return Fraction(self.holding * (self.block_size - 1), self.answers - 1)

    @property
    def bases(self) -> int:
        return self.classes

    @property
    def places(self) -> int:
        return self.answers

    @property
    def adder(self) -> Self:
        """This transform: totals count, for each answer, the reported blocks that hold it."""
        return self

    @property
    def rms_correlation(self) -> float:
        return 1.0

    def top_sum(self, k: int) -> float:
        """r − λ: by how much more blocks hold an answer than they hold it beside another."""
        return float(k - self.sharing)

    @property
    def length(self) -> float:
        share = self.block_size / self.answers
        return math.sqrt(self.dim * share * (1 - share))

    def in_basis(self, number: int) -> Self:
        return self if number == self.basis else replace(self, basis=number)

    def with_fewer_bases(self, count: int) -> Self:  # noqa: ARG002
        return self  # a part of them would be no design

    def scores(self, vectors: Vector) -> Vector:
        """The largest entry of each vector (…, M), at every block (…, b) that holds it; else 0."""
        rows = vectors.reshape(-1, self.dim)
        answer = rows.argmax(axis=1)
        largest = np.maximum(rows[np.arange(len(rows)), answer], 0)
        marked = largest[:, None] * self.holds(answer)
        return np.asarray(marked.astype(vectors.dtype).reshape(*vectors.shape[:-1], self.size))

    def holds(self, answers: Integers, bases: Integers | None = None) -> NDArray[np.bool_]:
        """Whether each block of a basis holds each of n answers: (n, b)."""
        if self.taken == 1 and self.points is None:
            return np.asarray(answers[:, None] == np.arange(self.dim))
        if self.points is None:
            return _subset_table(self.dim, self.taken)[answers]
        shifts = (answers[:, None] - np.arange(self.points)) % self.points
        index = _indices(self.points, self.classes)[shifts]
        basis = self.basis if bases is None else bases[:, None]
        return self._in_class(index, basis)

    def _in_class(self, index: Integers, basis: Integers | int) -> NDArray[np.bool_]:
        return np.asarray((index >= 0) & ((index - basis) % self.classes < self.taken))

    def contain(self, slots: Integers, answers: Integers, bases: Integers) -> NDArray[np.bool_]:
        """Whether each of n slots, each in its basis, holds one answer: (n,)."""
        if self.taken == 1 and self.points is None:
            return np.asarray(answers == slots)
        if self.points is None:
            return _subset_table(self.dim, self.taken)[answers, slots]
        index = _indices(self.points, self.classes)[(answers - slots) % self.points]
        return self._in_class(index, bases)

    def holders(self, answers: Integers, bases: Integers) -> Integers:
        """The blocks that hold each of n answers, each in its basis, ascending: (n, r)."""
        if self.taken == 1 and self.points is None:
            return answers[:, None]
        if self.points is None:
            found = np.nonzero(_subset_table(self.dim, self.taken)[answers])[1]
            return np.asarray(found.reshape(len(answers), -1))
        difference = _differences(self.points, self.classes, self.taken)[bases]
        return np.sort((answers[:, None] - difference) % self.points, axis=1)

    def members(self, slots: Integers) -> Integers:
        """The answers (n, k) in the blocks of slots (n,) of any basis."""
        if self.points is None:
            return _subsets(self.dim, self.taken)[slots]
        basis, shift = np.divmod(slots, self.points)
        difference = _differences(self.points, self.classes, self.taken)[basis]
        return np.asarray((difference + shift[:, None]) % self.points)

    def codeword(self, slot: int) -> Vector:
        word = np.zeros(self.answers)
        word[self.members(np.array([self.basis * self.size + slot]))] = 1
        return word[: self.dim]

    def codewords(self, slots: Integers) -> Integers:
        """What one step of each slot (n,) adds to the totals: (n, v)."""
        words = np.zeros((len(slots), self.answers), dtype=np.int64)
        np.put_along_axis(words, self.members(slots), 1, axis=1)
        return words

    def add(self, sums: NDArray[Any], window: Integers, slot: Integers, steps: Integers) -> None:
        """Add each report's block to the sums (1, v); equal blocks are added at once."""
        del window  # there is one
        distinct, which = np.unique(slot, return_inverse=True)
        counts = np.bincount(which, steps, minlength=len(distinct))
        at_once = max(1, _AT_ONCE // self.block_size)
        for begin in range(0, len(distinct), at_once):
            some = slice(begin, begin + at_once)
            held = self.members(distinct[some])
            repeated = np.repeat(counts[some], self.block_size)
            # Sums of integers below 2^53 are exact in floats.
            added = np.bincount(held.ravel(), repeated, minlength=self.answers)
            sums[0] += added.astype(np.int64)

    def combine(self, means: Doubles) -> Doubles:
        """The share of each answer (M,); without reports all v answers have the same."""
        shares: Doubles = means - means.sum() / self.answers + 1 / self.answers
        return shares[: self.dim]

    def influence(self, picks: int = 1) -> Influence:
        share = self.block_size / self.answers
        norm = math.sqrt(self.answers * share * (1 - share))
        return Influence(picks * max(share, 1 - share), picks * norm)

    def error(self, epsilon: Fraction | float) -> float:
        """n times the mean squared error of a share, where all M answers are equally common.

        >>> round(Blocks(2).error(1.0), 3)  # randomised response
        0.921
        """
        return _error(float(epsilon), self.dim, self.answers, self.block_size)

    @property
    def bits(self) -> float:
        """The bits of a report, before they are rounded up."""
        return math.log2(self.size * self.bases)


@lru_cache(maxsize=256)
def best_blocks(epsilon: Fraction, answers: int) -> Blocks:
    """The blocks of least error for ε and so many answers; of about equal ones the fewest bits.

    >>> best_blocks(Fraction(1), 256)
    Blocks(dim=256, taken=1, points=257, classes=4, basis=0)
    >>> [best_blocks(Fraction(e), 6).taken for e in (1, 4)]
    [2, 1]
    """
    check_count("dim", answers, least=2, most=MOST_ANSWERS)
    ideal = 1 / (math.exp(min(float(epsilon), 700.0)) + 1)
    known = [*_all_subsets(answers, ideal), *_cyclotomic(answers, ideal)]
    errors = [_error(float(epsilon), answers, one.answers, one.block_size) for one in known]
    most = CLOSE * min(errors)
    close = [i for i, error in enumerate(errors) if error <= most]
    found = known[min(close, key=lambda i: (known[i].bits, errors[i]))]
    return Blocks(answers, found.taken, found.points, found.classes)


class _Design(NamedTuple):
    """What decides between blocks: their error depends on v and k alone."""

    answers: int
    block_size: int
    bits: float
    taken: int
    points: int | None = None
    classes: int = 1


def _error(epsilon: float, answers: int, v: int, k: int) -> float:
    growth = math.exp(min(epsilon, 700.0))
    own = k * growth / (k * growth + v - k)
    other = (own * (k - 1) + (1 - own) * k) / (v - 1)
    spread = own * (1 - own) / answers + (1 - 1 / answers) * other * (1 - other)
    return spread / (own - other) ** 2


def _around(ideal: float, most: int) -> set[int]:
    """The counts on both sides of an ideal one."""
    return {min(most, max(1, math.floor(ideal) + i)) for i in (0, 1)}


def _all_subsets(answers: int, ideal: float) -> Iterator[_Design]:
    for taken in {1, *_around(ideal * answers, answers - 1)}:
        blocks = math.comb(answers, taken)
        if taken == 1 or blocks <= MOST_SUBSETS:
            yield _Design(answers, taken, math.log2(blocks), taken)


def _cyclotomic(answers: int, ideal: float) -> Iterator[_Design]:
    for prime in _primes(max(3, answers)):
        for e in _divisors(prime - 1):
            for taken in _around(ideal * e, min(answers, e - 1)):
                if taken * (prime - 1) <= MOST_MEMBERS:
                    size = taken * (prime - 1) // e
                    yield _Design(prime, size, math.log2(prime * e), taken, prime, e)


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return [d for d in (*small, *(n // d for d in reversed(small) if d * d != n)) if d > 1]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _primes(first: int) -> list[int]:
    """The first `_PRIMES` primes from ``first`` on."""
    return list(islice(filter(_is_prime, count(first)), _PRIMES))


@lru_cache(maxsize=8)
def _indices(prime: int, classes: int) -> Integers:
    """The index mod ``classes`` of 0 … v − 1, to the smallest primitive root; −1 for zero."""
    for root in range(1, prime):
        powers, x = [1], root
        while x != 1:
            powers.append(x)
            x = x * root % prime
        if len(powers) == prime - 1:
            break
    indices = np.full(prime, -1, dtype=np.int64)
    indices[powers] = np.arange(prime - 1) % classes
    indices.flags.writeable = False
    return indices


@lru_cache(maxsize=8)
def _differences(prime: int, classes: int, taken: int) -> Integers:
    """The block of shift 0 in each basis, ascending: (e, k)."""
    # Zero has no index, −1, and comes first. All classes are of one size.
    of_class = _indices(prime, classes).argsort(kind="stable")[1:].reshape(classes, -1)
    held = (np.arange(classes)[:, None] + np.arange(taken)) % classes
    rows = np.sort(of_class[held].reshape(classes, -1), axis=1)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=8)
def _subsets(answers: int, taken: int) -> Integers:
    """All subsets in lexicographic order: (b, k)."""
    if taken == 1:
        return np.arange(answers)[:, None]
    return np.array([*combinations(range(answers), taken)], dtype=np.int64)


@lru_cache(maxsize=8)
def _subset_table(answers: int, taken: int) -> NDArray[np.bool_]:
    """Whether each answer is in each subset: (M, b)."""
    subsets = _subsets(answers, taken)
    table = np.zeros((answers, len(subsets)), dtype=np.bool_)
    table[subsets, np.arange(len(subsets))[:, None]] = True
    return table
