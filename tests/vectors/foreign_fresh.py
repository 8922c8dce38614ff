"""Fresh bases as sections 5, 6 and 10 of SPEC.md say: sizes, words, scores and totals of FJ."""

import math
from fractions import Fraction

from tests.vectors.foreign_public import hadamard, public_words, unbounded

_MASK = 2**32 - 1


def share(growth, d):
    """The best cap's share; ``growth`` is E(ε′) as a rational."""
    if d == 1:
        return 1.0
    g, end = float(growth - 1), min(1.0, 8 / math.sqrt(d))
    v = [(i + 0.5) / 1024 for i in range(1024)]
    t = [(1 - x * x) * end for x in v]
    c = [_f(cosine, d) * x for cosine, x in zip(t, v, strict=True)]
    total = mass = moment = best = found = 0.0
    for one in c:
        total += one
    for one, cosine in zip(c, t, strict=True):
        mass += one
        moment += one * cosine
        worth = moment / (2 * total + g * mass)
        if worth > best:
            best, found = worth, mass / total
    return found


def _f(t, d):
    b, p, n = 1 - t * t, 1.0, (d - 3) // 2
    if d == 2:
        return 1 / math.sqrt(b)
    r = 1.0 if d % 2 else math.sqrt(b)
    while n > 0:
        if n % 2:
            p *= b
        b, n = b * b, n // 2
    return p * r


def sizes(growth, d):
    """M and k."""
    found = share(growth, d)
    M = max(64, width(d))
    most = 2**13 if d < 64 else min(max(64 * M, 2**13), 2**22)
    while M < most and M * found < max(4, 32 / d):
        M *= 2
    return M, max(1, math.floor(M * found + 0.5))


def width(d):
    return 1 << (d - 1).bit_length()


def mix(x):
    x ^= x >> 16
    x = x * 0x21F0AAAD & _MASK
    x ^= x >> 15
    x = x * 0xD35A2D97 & _MASK
    return x ^ x >> 15


class Basis:
    """One basis of a round."""

    def __init__(self, d, k, seed, round_number, basis):
        word = public_words(seed, f"bases of round {round_number}", 1)[0]
        self.d, self.state = d, mix(mix(basis ^ word & _MASK) ^ word >> 32)
        self.w = width(d)
        self.F = 2 if self.w > 4096 or (self.w >= 256 and k >= 16) else 3

    def word(self, place):
        return mix((self.state + place * 0x9E3779B9) & _MASK)

    def drawn(self, j):
        """Codeword j of few entries."""
        entries = []
        for i in range(self.d):
            a, b = (self.word(2 * (j * self.d + i) + more) for more in (0, 1))
            s = bin(a).count("1") + bin(b >> 16).count("1")
            entries.append(2**17 * (s - 24) + 2 * (b % 2**16) - 65535)
        return entries

    def signs(self, block, f):
        first = (block * self.F + f) * self.w // 32
        return [1 - 2 * (self.word(first + i // 32) >> i % 32 & 1) for i in range(self.w)]

    def scores(self, g, M):
        if self.d < 64:
            return [self._product(self.drawn(j), g) for j in range(M)]
        found = []
        for block in range(M // self.w):
            x = list(g) + [0.0] * (self.w - self.d)
            for f in range(self.F):
                x = hadamard([s * v for s, v in zip(self.signs(block, f), x, strict=True)])
            found += x
        return found

    def _product(self, c, g):
        total = 0.0
        for entry, v in zip(c, g, strict=True):
            total = unbounded(total + unbounded(entry * v))
        return unbounded(total * unbounded(scale(c)))

    def counted(self, slot):
        """What a report of this slot with the sign + adds to the totals."""
        if self.d < 64:
            c = self.drawn(slot)
        else:
            block, j = divmod(slot, self.w)
            c = [(-1) ** bin(i & j).count("1") for i in range(self.w)]
            for f in range(self.F - 1, -1, -1):
                c = [s * v for s, v in zip(self.signs(block, f), c, strict=True)]
                c = hadamard(c) if f else c
            c = [round(v) for v in c[: self.d]]
        return [scale(c) * v for v in c]


def scale(c):
    return math.floor(2**32 / math.sqrt(float(sum(v * v for v in c))) + 0.5)


def bases(M):
    return 2**32 // width(M)


def of(recipe, growth_of):
    """M, k and the number of bases of a recipe."""
    epsilon = Fraction(recipe["epsilon"]) / recipe["epochs"]
    M, k = sizes(growth_of(epsilon), recipe["dim"])
    return M, k, bases(M)
