"""The kernel's passes over a vector against numpy's sort, and its short cuts against its twin."""

import numpy as np
import pytest

from fedsel.mechanisms import PerturbedSampling, SignedSampling, TopK
from fedsel.sampling import simulated
from fedsel.sampling._kernels import native
from tests.sampling.support import SHAPES

EXECUTORS = ("kernel", "batch")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", [1, 2, 63, 64, 65, 500])
def test_the_magnitude_of_every_rank(shape, d):
    vector = SHAPES[shape](np.random.default_rng(d), d).astype(np.float32)
    found = [native.magnitude_at(rank, vector) for rank in range(d)]
    np.testing.assert_array_equal(found, np.sort(np.abs(vector))[::-1])
    who = simulated.cohort(20, seed=d)
    for k in {1, d // 2 + 1, d}:  # in double precision
        drawn = [simulated.select(TopK(k), vector[None].astype(float), who, e) for e in EXECUTORS]
        np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sign", [0, 1, -1])
def test_each_of_the_equal_ones_is_found(shape, sign):
    vector = SHAPES[shape](np.random.default_rng(1), 200).astype(np.float32)
    ranked = np.abs(vector) if sign == 0 else np.maximum(sign * vector, 0)
    for pivot in np.unique(ranked)[:5]:
        places = np.flatnonzero(ranked == pivot)
        found = [native.find_equal(vector, sign, pivot, pick) for pick in range(len(places))]
        assert found == places.tolist()
        assert native.find_equal(vector, sign, pivot, len(places) + 2) == -1 - len(places)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "mechanism",
    [
        *(PerturbedSampling(e, k=k) for e in (0.2, 3.0, 12.0) for k in (1, 20)),
        *(SignedSampling(e, k=k, radius=2.0) for e in (0.2, 3.0, 12.0) for k in (1, 20)),
        TopK(k=3),
    ],
    ids=str,
)
def test_what_is_not_counted_changes_no_draw(shape, mechanism):
    rng = np.random.default_rng(7)
    vectors = np.array([SHAPES[shape](rng, 70) for _ in range(60)], dtype=np.float32)
    who = simulated.cohort(60, seed=11)
    if isinstance(mechanism, SignedSampling):
        vectors = np.minimum(vectors, 1e18)  # a norm beyond float32 is the caller's to refuse
        drawn = [simulated.report(mechanism, vectors, who, e) for e in EXECUTORS]
        assert drawn[0] == drawn[1]
    else:
        drawn = [simulated.select(mechanism, vectors, who, e) for e in EXECUTORS]
        np.testing.assert_array_equal(*drawn)
