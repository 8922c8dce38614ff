"""Samplers and executors that differ from their law are caught."""

import numpy as np
import pytest

from fedsel import Rotated, SignedSampling, Solution, checks
from fedsel.mechanisms import (
    _one_symbol,
)
from fedsel.sampling import device, simulated
from tests.checks.test_exact import ThirdParty


def test_a_sampler_that_ignores_ties_is_caught(monkeypatch):
    """Ties to the lowest index: the bias that one-hot data would show."""

    def biased(law, vectors, who):
        return np.argmax(np.abs(np.broadcast_to(vectors, (len(who.clients), 7))), axis=1)

    monkeypatch.setattr(simulated, "select", biased)
    with pytest.raises(AssertionError, match=r"chi-square|impossible"):
        checks.check_selection_sampler(ThirdParty())


def test_an_executor_that_differs_is_caught(monkeypatch):
    real = device.draw_dimension

    def off_by_one(law, magnitudes, entropy):
        return (real(law, magnitudes, entropy) + 1) % law.d

    monkeypatch.setattr(device, "draw_dimension", off_by_one)
    with pytest.raises(AssertionError, match="executors differ"):
        checks.check_selection_executors(ThirdParty())


def test_a_skewed_sample_is_caught():
    drawn = np.random.default_rng(0).choice(3, size=100_000, p=[0.36, 0.32, 0.32])
    with pytest.raises(AssertionError, match="chi-square"):
        checks.assert_follows(drawn, dict.fromkeys(range(3), 1 / 3), "skewed")


def test_a_device_that_differs_from_the_simulation_is_caught(monkeypatch):
    real = _one_symbol.draw_dimension

    def off_by_one(law, magnitudes, entropy):
        return (real(law, magnitudes, entropy) + 1) % law.d

    made = Solution("x", 5, SignedSampling(1.0), transform=Rotated(5))
    checks.check_solution(made)
    monkeypatch.setattr(_one_symbol, "draw_dimension", off_by_one)
    with pytest.raises(AssertionError, match="executors differ"):
        checks.check_solution(made)
