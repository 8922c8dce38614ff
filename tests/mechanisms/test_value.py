"""Duchi, PM, HM, OW and the identity against the closed forms of their continuous originals."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, certify
from fedsel.mechanisms import Duchi, Hybrid, Identity, OptimalWindow, Piecewise
from fedsel.mechanisms._value import HYBRID_THRESHOLD, least_variance_window, private_window

EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def duchi_variance(t: float, epsilon: float) -> float:
    bound = (math.exp(epsilon) + 1) / math.expm1(epsilon)
    return bound**2 - t**2


def pm_variance(t: float, epsilon: float) -> float:
    h = math.exp(epsilon / 2)
    return t**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)


def hm_variance(t: float, epsilon: float) -> float:
    if epsilon <= HYBRID_THRESHOLD:
        return duchi_variance(t, epsilon)
    h, r = math.exp(epsilon / 2), math.exp(epsilon)
    return (h + 3) / (3 * h * (h - 1)) + (r + 1) ** 2 / (h * (r - 1) ** 2)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("t", [-1.0, -0.3, 0.0, 0.77, 1.0])
def test_duchi_has_its_closed_form(epsilon, t):
    assert Duchi(epsilon).variance(t) == pytest.approx(duchi_variance(t, epsilon), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pm_is_within_a_third_of_a_percent_of_the_continuous_one(epsilon):
    worst = 4 * math.exp(epsilon / 2) / (3 * math.expm1(epsilon / 2) ** 2)
    assert Piecewise(epsilon).worst_variance == pytest.approx(worst, rel=3e-3)
    for t in (0.0, 0.5, 1.0):
        assert Piecewise(epsilon).variance(t) == pytest.approx(
            pm_variance(t, epsilon), abs=3e-3 * worst
        )


@pytest.mark.parametrize(("epsilon", "grid", "within"), [(2.0, 256, 1e-3), (4.0, 1024, 2.5e-3)])
def test_pm_on_the_stated_grids(epsilon, grid, within):
    worst = pm_variance(1.0, epsilon)
    assert Piecewise(epsilon, grid=grid).worst_variance == pytest.approx(worst, rel=within)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_hm_is_within_a_third_of_a_percent_of_the_continuous_one(epsilon):
    for t in (0.0, 0.5, 1.0):
        assert Hybrid(epsilon).variance(t) == pytest.approx(hm_variance(t, epsilon), rel=3e-3)
    worst = max(hm_variance(t, epsilon) for t in (0.0, 1.0))
    assert Hybrid(epsilon).worst_variance == pytest.approx(worst, rel=3e-3)


def test_hm_is_duchi_up_to_its_threshold():
    assert Hybrid(HYBRID_THRESHOLD).law == Duchi(HYBRID_THRESHOLD).law
    assert len(Hybrid(math.nextafter(HYBRID_THRESHOLD, 1)).law.windows) == 2
    assert Hybrid(100.0).law.coins == (2**32 - 1, 1)  # both are there, whatever ε is


def test_near_zero_pm_beats_hm():
    assert Piecewise(2.0).variance(0) == pytest.approx(0.646, abs=1e-3)
    assert Hybrid(2.0).variance(0) == pytest.approx(1.042, abs=1e-3)


@pytest.mark.parametrize("epsilon", [2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 10.0, 14.0, 20.0, 25.0])
def test_ow_beats_hm_and_pm_in_the_worst_case(epsilon):
    assert OptimalWindow(epsilon).worst_variance < Hybrid(epsilon).worst_variance
    assert OptimalWindow(epsilon).worst_variance < Piecewise(epsilon).worst_variance


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_ow_is_duchi_where_epsilon_is_small(epsilon):
    assert OptimalWindow(epsilon).law == Duchi(epsilon).law


@pytest.mark.parametrize(
    ("epsilon", "pair", "variance"),
    [(2.0, (2, 1), 1.000), (4.0, (9, 3), 0.159), (8.0, (160, 14), 0.00838)],
)
def test_ow_finds_the_known_optima(epsilon, pair, variance):
    window = OptimalWindow(epsilon).law.windows[0]
    assert (window.G, window.W) == pair
    assert float(window.variance(window.worst_input)) == pytest.approx(variance, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.5, 3.3, 5.0])
def test_ow_search_equals_brute_force_in_rationals(epsilon):
    """All (G, W) up to 12, also those with W > G that the search leaves out."""
    found = least_variance_window(epsilon, largest=12)
    best = min(
        (private_window(epsilon, G, W) for G in range(1, 13) for W in range(1, 25)),
        key=lambda w: (w.variance(w.worst_input), w.symbols),
    )
    assert found == best


@pytest.mark.parametrize("make", [Duchi, Piecewise, Hybrid, OptimalWindow])
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 8.0, 50.0, 500.0])
def test_every_claim_holds(make, epsilon):
    certificate = certify(make(epsilon))
    assert certificate.holds
    if 0.01 <= epsilon <= 8:
        assert certificate.exact == pytest.approx(epsilon, rel=1e-9)


def test_integer_weights_have_one_total_for_every_cell():
    value = Hybrid(3.0, grid=8)
    assert len({sum(value.weights(cell)) for cell in range(value.cells + 1)}) == 1


def test_identity_is_exact_and_not_private():
    identity = Identity()
    assert not identity.private
    assert certify(identity).exact == math.inf
    assert identity.variance(Fraction(3, 8)) == 0


def test_a_symbol_fits_into_two_bytes():
    for epsilon in (0.1, 2.0, 8.0, 50.0):
        assert max(m(epsilon).symbols for m in (Duchi, Piecewise, Hybrid, OptimalWindow)) <= 2**16


@pytest.mark.parametrize("epsilon", [0, 0.0, -1, math.nan, math.inf, "2", None, True, 501])
@pytest.mark.parametrize("make", [Duchi, Piecewise, Hybrid, OptimalWindow])
def test_impossible_epsilon_is_refused_by_name(make, epsilon):
    with pytest.raises(InvalidArgument, match=r"^epsilon = "):
        make(epsilon)


def test_an_epsilon_too_small_to_tell_anything_is_refused():
    with pytest.raises(InvalidArgument, match="epsilon = 1e-19: must be at least 1e-12"):
        Duchi(1e-19)
    for make in (Duchi, Piecewise, Hybrid, OptimalWindow):
        assert certify(make(1e-12)).holds


@pytest.mark.parametrize(
    ("epsilon", "cells"),
    [(0.1, 256), (2.0, 256), (2.1, 1024), (4.0, 1024), (4.1, 4096), (8.0, 1 << 14), (9.0, 1 << 15)],
)
def test_the_grid_that_epsilon_asks_for(epsilon, cells):
    """No message carries it: device and server must come to the same one."""
    assert Piecewise(epsilon).cells == cells
    assert Piecewise(50.0).cells == Piecewise(1.0, grid=1 << 15).cells == 1 << 15
    assert Piecewise(50.0).law.windows[0].W == Piecewise(9.0, grid=4).law.windows[0].W == 1


def test_where_the_weights_do_not_suffice_for_epsilon_the_least_is_one():
    for cells, width in ((1, 1), (2, 1), (4, 3)):
        window = private_window(500.0, cells, width)
        assert (window.L, window.H) == (1, (2**59 - cells) // width)


@pytest.mark.parametrize(
    ("epsilon", "pair"), [(12.0, (2427, 56)), (16.0, (32716, 199)), (30.0, (32768, 2))]
)
def test_the_window_that_a_large_epsilon_asks_for(epsilon, pair):
    """No message carries it either."""
    window = OptimalWindow(epsilon).law.windows[0]
    assert (window.G, window.W) == pair


@pytest.mark.parametrize("grid", [0, -1, 1.5, 2**16, "8", True])
def test_impossible_grid_is_refused_by_name(grid):
    with pytest.raises(InvalidArgument, match=r"^grid = "):
        Piecewise(1.0, grid=grid)


@pytest.mark.parametrize("t", [1.1, -2, math.nan])
def test_variance_outside_the_domain_is_refused(t):
    with pytest.raises(InvalidArgument, match=r"^t = "):
        Duchi(1.0).variance(t)


def test_numpy_numbers_are_welcome():
    assert Duchi(np.float64(1.0)) == Duchi(1.0) == Duchi(np.float32(1.0))
    assert hash(Duchi(1)) == hash(Duchi(1.0))
    assert type(Duchi(1).epsilon) is float


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["1/2", "4", "12", "26", "55/2", "60"])
def test_ow_is_the_same_with_the_exponential_of_another_c_library(epsilon, monkeypatch):
    found = least_variance_window(Fraction(epsilon))
    exponential = math.exp
    for nudge in (-1, 1):
        least_variance_window.cache_clear()
        up = math.inf if nudge > 0 else 0.0
        monkeypatch.setattr(math, "exp", lambda x, up=up: math.nextafter(exponential(x), up))
        assert least_variance_window(Fraction(epsilon)) == found
    least_variance_window.cache_clear()


def test_the_windows_of_pm_and_the_coin_of_hm_are_rounded_exactly():
    """Where a double lies on the other side of a half: 2^32·e^(−ε/2) = n + ½ to 30 digits."""
    for halves in (3, 2001, 2 * 10**9 + 1):
        with decimal.localcontext(prec=60):
            log = -2 * (Decimal(halves) / 2 / 2**32).ln()
            below, above = (Fraction(log + sign * Decimal("1e-30")) for sign in (-1, 1))
        tails = [Hybrid(epsilon).law.coins[1] for epsilon in (below, above)]
        assert tails == [halves // 2 + 1, halves // 2]
