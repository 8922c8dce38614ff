"""Caps of codewords: their cosines, and sizes within bounds."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from fedsel.solutions import _fresh as fresh
from fedsel.solutions._caps import codewords_for, cosines_of_top, raised_for


@pytest.mark.parametrize(
    ("k", "size", "d", "w"), [(1, 64, 3, 3), (40, 64, 2, 2), (3, 512, 100, 128), (60, 128, 65, 128)]
)
def test_cosines_of_the_top_by_another_quadrature(k, size, d, w):
    """Over the tail of a codeword's inner product, with binomials in place of a beta."""
    u = (np.arange(200_000) + 0.5) / 200_000
    t = np.sqrt(1 - special.betaincinv((w - 1) / 2, 0.5, u))
    cosine = t
    if d < w:
        b = special.betaincinv((d - 1) / 2, (w - d) / 2, (np.arange(400) + 0.5) / 400)
        cosine = np.mean([t / np.sqrt(t**2 + (1 - t**2) * part) for part in b], axis=0)
    total = size * float(np.mean(cosine * stats.binom.cdf(k - 1, size - 1, u)))
    assert cosines_of_top(k, size, d, w) == pytest.approx(total, rel=2e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.25, 1.0, 4.0, 8.0, 16.0, 100.0, 500.0])
@pytest.mark.parametrize("d", [1, 2, 63, 64, 1000, 1 << 20])
def test_sizes_are_within_bounds(d, epsilon):
    size, k = codewords_for(Fraction(epsilon), d), raised_for(Fraction(epsilon), d)
    assert 1 <= k <= size <= 1 << 22
    made = fresh.fresh_for(Fraction(epsilon), d, 0)
    assert made.slots == 1 << 32
    assert size % made.width == 0
    sizes = [codewords_for(Fraction(e), d) for e in (0.5, 2, 8, 32)]
    assert sizes == sorted(sizes)
