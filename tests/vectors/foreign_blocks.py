"""Blocks of answers as section 5 of SPEC.md says: which there are, and who is in them. BR."""

import math
from functools import cache
from itertools import combinations


def wanted(condition):
    if not condition:
        raise ValueError


@cache
def is_prime(n):
    return n > 1 and all(n % p for p in range(2, math.isqrt(n) + 1))


@cache
def index(v):
    """The index of each number but 0, to the smallest primitive root."""
    for g in range(2, v):
        found, x = {1: 0}, g
        while x != 1:
            found[x], x = len(found), x * g % v
        if len(found) == v - 1:
            return found
    raise AssertionError(v)


class Blocks:
    """The blocks of a recipe; a ValueError where there are none."""

    def __init__(self, recipe):
        wanted("count" in recipe["k"])
        self.M, self.k, self.v = recipe["dim"], recipe["k"]["count"], None
        wanted(2 <= self.M <= 65_536)
        if recipe["bases"] is None:
            wanted(self.k < self.M)
            self.bases, self.size = 1, math.comb(self.M, self.k)
            wanted(self.k == 1 or self.size <= 8192)
            self.holding = self.size * self.k // self.M
            return
        v, e = recipe["words"] or 0, recipe["bases"]
        wanted(max(3, self.M) <= v <= 131_072 and is_prime(v))
        wanted(2 <= e and (v - 1) % e == 0 and self.k < e)
        wanted(self.k * (v - 1) <= 2**20 and e * v <= 2**32)
        self.v = self.size = v
        self.bases, self.holding = e, self.k * (v - 1) // e

    def holds(self, basis, block, answer):
        if self.v is None:
            return answer in self._subset(block)
        x = (answer - block) % self.v
        return x != 0 and (index(self.v)[x] - basis) % self.bases < self.k

    @cache  # noqa: B019
    def _subsets(self):
        return list(combinations(range(self.M), self.k))

    def _subset(self, block):
        return (block,) if self.k == 1 else self._subsets()[block]

    def scores(self, basis, answer):
        """1 for each block of a basis that holds an answer, 0 for the others."""
        return [float(self.holds(basis, block, answer)) for block in range(self.size)]

    def answers(self, slot):
        """The answers in the block of a slot, those beyond M too."""
        basis, block = divmod(slot, self.size)
        if self.v is None:
            return list(self._subset(block))
        inside = [x for x, i in index(self.v).items() if (i - basis) % self.bases < self.k]
        return sorted((x + block) % self.v for x in inside)


def shares(recipe, slots, p):
    """What a server makes of reports; p is L and H of the law, as fractions of the total."""
    blocks = Blocks(recipe)
    v = blocks.v or blocks.M
    low, high = p
    k = blocks.k if blocks.v is None else blocks.holding
    together = blocks.holding * (k - 1) / (v - 1)
    unit, sums = 1 / ((high - low) * (blocks.holding - together)), [0] * v
    for slot in slots:
        for answer in blocks.answers(slot):
            sums[answer] += 1
    means = [unit * s / max(1, len(slots)) for s in sums]
    return sums, unit, [m - sum(means) / v + 1 / v for m in means[: blocks.M]]
