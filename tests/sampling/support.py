"""Many reports for statistical tests, in no time; and vectors of every kind."""

import numpy as np
import pytest

from fedsel import Reports
from fedsel._internal.random import stream
from fedsel.sampling._kernels import native
from fedsel.sampling.simulated import cohort, report

TWINS = 200
SHAPES = {
    "normal": lambda rng, d: rng.standard_normal(d),
    "scales far apart": lambda rng, d: np.exp(12 * rng.standard_normal(d)),
    "one entry": lambda _, d: np.where(np.arange(d) == d // 3, 1.0, 0.0),
    "mostly zero": lambda rng, d: rng.standard_normal(d) * (rng.random(d) < 0.03),
    "few values": lambda rng, d: rng.integers(-3, 4, d) * 0.25,
    "all equal": lambda _, d: np.full(d, -0.5),
    "zero": lambda _, d: np.zeros(d),
    "neighbours": lambda rng, d: 1 + rng.integers(0, 5, d) * 2.0**-23,
    "denormal": lambda rng, d: rng.integers(-9, 10, d) * 1e-44,
    "largest": lambda rng, d: np.where(rng.random(d) < 0.2, 3.4e38, rng.random(d)),
    "lengths far apart": lambda rng, d: rng.standard_normal(d) * 10.0 ** rng.integers(-18, 18),
}
"""Vectors (d,) by a generator and d."""


def many_reports(made, vector, n, seed=0):
    """The reports of n clients on one vector, as each of them would encode it.

    They are drawn by the kernel. The first ones must be those that a device encodes, which takes a
    hundred times as long.
    """
    vector = np.asarray(vector, dtype=np.float32)
    nothing = np.zeros_like(vector)
    drawn = report(made, vector[None], cohort(n, seed=seed))
    encoded = [made.encode(vector, nothing, stream(seed, 0, i))[0] for i in range(min(n, TWINS))]
    assert drawn.rows(np.arange(len(encoded))) == Reports.of(encoded)
    return drawn


@pytest.fixture
def instructions():
    """The sets of instructions to try; the one in use before is used again after the test."""
    used = native.use("base")
    native.use(used)
    yield native.variants()
    native.use(used)
