"""Events by which outputs of any kind are told apart."""

import math

import numpy as np
import pytest

from fedsel import audit


def test_outputs_may_be_anything_comparable():
    def talkative(vector, entropy):
        return None if entropy.below(4) == 0 else ("yes" if vector[0] > 0 else "no",)

    finding = audit(talkative, inputs=[[1.0], [-1.0]], claimed=3.0, trials=5_000, pilot=1_000)
    assert finding.violated


@pytest.mark.parametrize("seed", range(40))
def test_mixed_kinds_of_output_accuse_nobody(seed):
    """A coin that ignores its input and rarely abstains: the event must be a map of one output."""

    def coin(vector, rng, n):
        out = rng.integers(0, 2, n).tolist()
        for i in np.flatnonzero(rng.random(n) < 1e-3):
            out[i] = None
        return out

    settings = {"inputs": [[0.0], [1.0]], "claimed": 0.5, "vectorized": True}
    assert not audit(coin, **settings, trials=1000, pilot=1000, seed=seed).violated


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.5), (0.0, -0.0), (1, "1"), ((1,), (1, 2)), (math.nan, 1.0), (math.inf, -math.inf)],
)
def test_outputs_of_any_kind_are_told_apart(one, other):
    def leak(vector, entropy):
        return one if vector[0] > 0 else other

    assert audit(leak, inputs=[[1.0], [-1.0]], claimed=3.0, trials=3000, pilot=500).violated


def test_rows_of_numbers_are_looked_at_column_by_column():
    def rows(vector, rng, n):
        return np.stack([rng.random(n), vector[0] + rng.standard_normal(n)], axis=1)

    finding = audit(
        rows,
        inputs=[[-3.0], [3.0]],
        claimed=1.0,
        vectorized=True,
        trials=50_000,
        pilot=5_000,
        float_bits=False,
    )
    assert finding.violated
    assert finding.event == "interval of output[1]"
