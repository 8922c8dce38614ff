"""A client as somebody would write it who has read SPEC.md and nothing else.

No fedsel and no numpy: integers, fractions, and floats of the standard library. It knows no RC and
no …-RP, and checks no ledger; it is here to show that the page says enough.
"""

import hashlib
import math
import struct
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from statistics import NormalDist

from tests.vectors import foreign_blocks, foreign_fresh
from tests.vectors.foreign_public import LARGEST, hadamard, signs, single

B = 1 << 59
LARGEST_DOUBLE = struct.unpack("<d", bytes.fromhex("ffffffffffffef7f"))[0]
VALUES = ("PM", "HM", "Duchi", "OW")


# --- section 4 -------------------------------------------------------------------------------


class Words:
    """Random words in hexadecimal, each taken once."""

    def __init__(self, words):
        self._words = [int.from_bytes(bytes.fromhex(w), "big") for w in words]
        self.draws = []

    def below(self, n):
        while True:
            product = self._words.pop(0) * n
            if product % 2**64 >= 2**64 % n:
                self.draws.append([str(n), str(product >> 64)])
                return product >> 64

    @property
    def left(self):
        return len(self._words)


# --- section 5 -------------------------------------------------------------------------------


@cache
def exp_lower(x, bits=128):
    term = total = 1 << bits
    i = 1
    while term:
        term = term * x.numerator // (x.denominator * i)
        total += term
        i += 1
    return Fraction(total, 1 << bits)


def nearest_decay(count, x):
    """The integer nearest to count·e^−x, with 300 bits: no case is nearer to a tie."""
    return math.floor(count / exp_lower(x, 300) + Fraction(1, 2))


def threshold(epsilon, k, n):
    growth = exp_lower(epsilon)
    low = max(1, math.floor(B / (k * growth + n - k)))
    high = min(math.floor(growth * low), (B - (n - k) * low) // k)
    return ([high] * k + [low] * (n - k) if k < n else [low] * n), 0


def exponential(epsilon, d):
    if d == 1 or epsilon == 0:
        return [1] * d, 0
    most = B // d
    least, block = math.ceil(most / exp_lower(epsilon)), math.isqrt(d) + 1
    weights = []
    for s in range(d):
        rest = s % block
        a, b = (math.floor(2**63 / exp_lower(epsilon * x / (d - 1))) for x in (s - rest, rest))
        weight = min(max(2 * (a * b >> 64) * 2 * most >> 64, least), most)
        weights.append(min([weight, *weights[-1:]]))
    return weights, 0


def _loss(flip, k, d):
    """The integrals of polynomials, term by term."""
    odds = (-flip).exp()
    p, q = 1 / (1 + odds), odds / (1 + odds)
    f = [Decimal(1)]
    for factor in [p] * (k - 1) + [q] * (d - k - 1):
        f = [a - factor * b for a, b in zip([*f, Decimal(0)], [Decimal(0), *f], strict=True)]
    moments = [sum(c / (n + shift) for n, c in enumerate(f)) for shift in (1, 2)]
    return flip + (1 + (p - q) * moments[1] / (moments[0] - p * moments[1])).ln()


@cache
def encoding(epsilon, k, d, published):
    with localcontext(prec=120):
        e = Decimal(float(epsilon))
        flip = true = e
        if published:
            true = _loss(e, k, d) if k < d else Decimal(0)
        elif k < d and e:
            before, flip = e / 2, e
            off = _loss(before, k, d) - e
            while abs(flip - before) > Decimal("1e-40"):
                here = _loss(flip, k, d) - e
                before, flip, off = flip, flip - here * (flip - before) / (here - off), here
        odds = (-Decimal(float(flip))).exp()
        bottom = float((odds / (1 + odds)) ** k * (1 / (1 + odds)) ** (d - k))
    weights, _ = threshold(Fraction(float(true)) if published else epsilon, k, d)
    return weights, round(sum(weights) * bottom / (1 - bottom))


def window(epsilon, G, W):
    growth = exp_lower(epsilon)
    low = max(1, math.floor(B / (W * growth + G)))
    return G, W, low, min(math.floor(growth * low), (B - G * low) // W)


def variance(of):
    G, W, L, H = of
    eta = Fraction(W * (H - L), W * H + G * L)
    low = 1 - Fraction(2, G)
    t = min(Fraction(1), max(low, (low + 1) / (2 * eta)))
    spread = eta * (W**2 - 1) + (1 - eta) * ((G + W) ** 2 - 1)
    return ((low + 1) * t - low) / eta + spread / (3 * (eta * G) ** 2) - t**2


def _rough(epsilon, G, W):
    x = max(math.exp(-epsilon), W / B)
    N, delta, s = G + W, x * (G + W) / (W * (1 - x)), 1 / G
    u, low = min(delta * (1 - s), s), 1 - 2 / G
    eta, other = W * (1 - x) / (W + G * x), x * N / (W + G * x)
    spread = (eta * (W * W - 1) + other * (N * N - 1)) / (3 * (eta * G) ** 2)
    return delta * ((low + 1) * (1 - s + u) - low) + (s + u) * (s - u) + spread


@cache
def optimal(epsilon):
    # Only widths next to the best ratio are tried, and fine grids only where ε is large: that the
    # others are no better is for the tests of OW.
    with localcontext(prec=40):
        exact = Decimal(epsilon.numerator) / epsilon.denominator
        ratio = float(((Decimal(2).ln() - exact) / 3).exp())
    tried = {}
    for G in range(1, 32769 if epsilon > 9 else 1025):
        r = round(G * ratio)
        for W in range(max(1, r - 2), max(1, min(G, r + 2)) + 1):
            tried[G, W] = _rough(float(epsilon), G, W)
    best = min(tried.values())
    close = [window(epsilon, *pair) for pair, v in tried.items() if v <= best * (1 + 1e-9)]
    return min(close, key=lambda w: (variance(w), w[0] + w[1]))


@cache
def symbol_law(name, epsilon):
    """Windows and coins."""
    if name == "OW":
        return [optimal(epsilon)], [1]
    duchi = window(epsilon, 1, 1)
    if name == "Duchi" or (name == "HM" and epsilon <= Fraction(0.609352)):
        return [duchi], [1]
    G = 256 << min(7, 2 * max(0, math.ceil((epsilon - 2) / 2)))
    piecewise = window(epsilon, G, max(1, nearest_decay(G, epsilon / 2)))
    if name == "PM":
        return [piecewise], [1]
    tails = max(1, nearest_decay(1 << 32, epsilon / 2))
    return [piecewise, duchi], [(1 << 32) - tails, tails]


@cache
def best_k(epsilon, M):
    normal, g = NormalDist(), math.expm1(epsilon)

    def alignment(k):
        c = -normal.inv_cdf(k / (2 * M))
        return normal.pdf(c) / (k * g + 2 * M)

    return next(k for k in range(1, M + 1) if k == M or alignment(k) >= alignment(k + 1))


def unbiased(epsilon, k, d):
    growth = exp_lower(epsilon)
    low = max(1, math.floor(B / (65536 * (2 * d + k * growth))))
    return low, min(math.floor(growth * low), (2**43 - 2 * d * low) // k)


def rotations(epsilon, d):
    R, w = 1, width(d)
    most = min(max(64, min(2**13 // w, 2 ** min(d, 16))), 2**22 // w)
    while R < most and best_k(epsilon, 16 * R * w) < 16 * min(1.9, R * w / 2):
        R *= 2
    return R


def width(d):
    return 1 << (d - 1).bit_length()


# --- section 6 -------------------------------------------------------------------------------


def scores(g, seed, round_number, R, basis):
    result = []
    for rotation in range(R):
        own = signs(len(g), seed, round_number, basis * R + rotation)
        turned = [s * v for s, v in zip(own, g, strict=True)]
        result += hadamard(turned + [0.0] * (width(len(g)) - len(g)))
    return saturated(result)


# --- section 7 -------------------------------------------------------------------------------


def saturated(values, factor=1.0):
    return [0.0 if math.isnan(v * factor) else _finite(v * factor) for v in values]


def _finite(v):
    return single(max(-LARGEST, min(LARGEST, v)))


def dimension(law, magnitudes, words):
    """A dimension, or None for ⊥."""
    weights, bottom = law
    total, n, m = sum(weights), len(weights), max(weights)
    if bottom and words.below(total + bottom) >= total:
        return None
    while n * m <= 16 * total:
        j, level = divmod(words.below(n * m), m)
        if min(weights) == m:
            return j
        larger = sum(other > magnitudes[j] for other in magnitudes)
        equal = sum(other == magnitudes[j] for other in magnitudes)
        if level < weights[larger + words.below(equal)]:
            return j
    position, rank = words.below(total), 0
    while position >= weights[rank]:
        position -= weights[rank]
        rank += 1
    shared = sorted(magnitudes, reverse=True)[rank]
    sharing = [j for j, other in enumerate(magnitudes) if other == shared]
    return sharing[words.below(len(sharing))]


def symbol(law, t, words):
    windows, coins = law
    which = 0 if len(coins) == 1 or words.below(sum(coins)) < coins[0] else 1
    G, W, L, H = windows[which]
    cell, rest = divmod(math.floor((t + 1) * 2**30 + 0.5) * G, 2**31)
    cell += words.below(2**31) < rest
    x, N = words.below(W * H + G * L), G + W
    found = x // L if x < N * L else cell + (x - N * L) // (H - L)
    return found + (windows[0][0] + windows[0][1] if which else 0)


def written(number):
    """The decimal that a double on the wire stands for."""
    return Fraction(repr(number))


def count(k, d):
    return k["count"] if "count" in k else max(1, math.floor(written(k["share"]) * d))


def selection_law(name, epsilon, k, d):
    if name == "EXP":
        return exponential(epsilon, d)
    if name == "PS":
        return threshold(epsilon, k, d)
    return encoding(epsilon, k, d, name == "PE-published")


def report(recipe, round_number, g, residual, words):
    """Pairs (slot, symbol), and the residual after."""
    name, d = recipe["solution"], recipe["dim"]
    epsilon = Fraction(recipe["epsilon"]) / recipe["epochs"]
    if name in ("J", "RJ", "FJ"):
        return [one_symbol(recipe, epsilon, round_number, g, words)], residual
    if name == "BR":
        return [[answered(recipe, epsilon, g, words), 0]], residual
    k, clip = count(recipe["k"], d), recipe["clip"]
    if name == "UJ":
        return unbiased_report(epsilon, k, clip, g, words), residual

    def perturbed(value, v):
        t = max(-clip, min(clip, v)) / clip
        return symbol(value, t, words)

    if "-" not in name or name.startswith("RS-"):
        picks = max(1, min(d, math.floor(epsilon / Fraction(5, 2))))
        value, pairs = symbol_law(name.removeprefix("RS-"), epsilon / picks), []
        for p in range(picks):
            j = words.below(d - p)
            for earlier in sorted(slot for slot, _ in pairs):
                j += j >= earlier
            pairs.append([j, perturbed(value, g[j])])
        return pairs, residual
    stem = name.removesuffix("-O")
    chosen, valued = stem.removesuffix("-C").rsplit("-", 1)
    own = written(recipe["mu"]) * epsilon
    value = symbol_law(valued, epsilon if stem.endswith("-C") else epsilon - own)
    r = [single(a + b) for a, b in zip(residual, g, strict=True)]
    told, momentum = list(r), recipe["momentum"]
    if momentum:
        told = [a + momentum * b for a, b in zip(r, residual, strict=True)]
        told = [max(-LARGEST_DOUBLE, min(LARGEST_DOUBLE, v)) if v == v else 0.0 for v in told]
    j = dimension(selection_law(chosen, own, k, d), [abs(v) for v in r], words)
    if j is None:
        return [], r
    pairs = [[j, perturbed(value, told[j])]]
    r[j] = 0.0
    return pairs, r


def one_symbol(recipe, epsilon, round_number, g, words):
    d, y, offset = recipe["dim"], g, 0
    if recipe["solution"] == "RJ":
        bases = recipe["bases"]
        R = 1 if bases is None else rotations(epsilon, d)
        basis = words.below(bases) if bases is not None and bases > 1 else 0
        y = scores(g, int(recipe["seed"]), round_number, R, basis)
        offset = basis * len(y)
    M, k = len(y), None
    if recipe["solution"] == "FJ":
        M, k, bases = foreign_fresh.of(recipe, exp_lower)
        basis = words.below(bases)
        own = foreign_fresh.Basis(d, k, int(recipe["seed"]), round_number, basis)
        y, offset = saturated(own.scores(g, M)), basis * M
    if recipe["rho"] is not None:
        norm = math.sqrt(sum(v * v for v in g))
        steps = math.floor((1 + min(1.0, norm / recipe["rho"])) * 2**30 + 0.5)
        if words.below(2**31) >= steps:
            y = [-v for v in y]
    signed = [max(v, 0.0) for v in y] + [max(-v, 0.0) for v in y]
    atom = dimension(threshold(epsilon, k or best_k(epsilon, M), 2 * M), signed, words)
    return [offset + atom % M, int(atom >= M)]


def answered(recipe, epsilon, g, words):
    """The slot of a block of answers."""
    blocks = foreign_blocks.Blocks(recipe)
    basis = words.below(blocks.bases) if blocks.bases > 1 else 0
    answer = g.index(max(g))
    scores = blocks.scores(basis, answer) if g[answer] > 0 else [0.0] * blocks.size
    law = threshold(epsilon, blocks.holding, blocks.size)
    return basis * blocks.size + dimension(law, scores, words)


def unbiased_report(epsilon, k, clip, g, words):
    d = len(g)
    L, H = unbiased(epsilon, k, d)
    x = words.below(65536 * (2 * d * L + k * H))
    if x < 2 * d * L * 65536:
        atom = x // (L * 65536)
        return [[atom % d, int(atom >= d)]]
    u = [min(65536, math.floor(min(abs(v) / clip * 65536, 1e9))) for v in g]
    S, most = sum(u), k * 65536
    if most < S:
        u = [one * most // S for one in u]
    place = (x - 2 * d * L * 65536) // (H - L)
    for j, v in enumerate(g):
        if place < sum(u[: j + 1]):
            return [[j, 0 if v > 0 else 1]]
    return []


def message(run, round_number, pairs):
    head = b"\x01" + hashlib.sha256(run).digest()[:3] + struct.pack("<I", round_number)
    pairs = pairs or [[0, 2**32 - 1]]
    return head + b"".join(struct.pack("<II", *pair) for pair in pairs)
