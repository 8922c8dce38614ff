"""PrivUnit, Duchi-ℓ₂ and SignDS: their laws in real numbers, and that no device accepts them.

Statistical tests have fixed seeds and allow 6.5 standard deviations: a false alarm below 1e-10.
"""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from fedsel import InvalidArgument, Recipe, Reports, Solution, solution
from fedsel.sampling._kernels import native
from fedsel.simulation._stages import VectorReports
from fedsel.solutions._baselines import PrivUnit, SignDS, cap_measure
from fedsel.wire import check_sendable

NAMES = ("PrivUnit", "Duchi-L2", "SignDS")


def mean_report(made, vector, n, seed=1):
    rounds = VectorReports(made, n, seed=seed)
    rounds.report(0, np.arange(n), [np.tile(np.float32(vector), (n, 1))])
    return made.expand(rounds.totals.mean())


def mean_of_twin(made, vector, n):
    """By the readable sampler, with the operating system's randomness."""
    return made.decode(Reports.of([made.encode(vector, vector)[0] for _ in range(n)]))


@pytest.mark.parametrize(
    ("name", "epsilon", "error"),
    [
        ("PrivUnit", 1.0, 629),
        ("PrivUnit", 4.0, 42.8),
        ("Duchi-L2", 1.0, 731),
        ("Duchi-L2", 4.0, 167),
    ],
)
def test_the_error_of_a_random_direction(name, epsilon, error):
    made = solution(name, epsilon=epsilon, dim=100).mechanism
    assert made.error == pytest.approx(error, rel=2e-3)


@pytest.mark.parametrize("d", [2, 3, 17, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_cap_spends_all_of_epsilon_and_none_is_better(d, epsilon):
    made = solution("PrivUnit", epsilon=epsilon, dim=d).mechanism
    p, q = made.inside, cap_measure(made.cut, d)
    assert math.log(p * (1 - q) / (q * (1 - p))) == pytest.approx(epsilon)
    others = [made._alignment(cut) for cut in np.linspace(0, 0.999, 500)]
    assert made.alignment >= max(others) - 1e-9


@pytest.mark.parametrize("d", [2, 7])
def test_alignment_is_the_mean_of_the_quantiles(d):
    made = solution("PrivUnit", epsilon=2.0, dim=d).mechanism
    rest, cap = (np.mean((row[1:] + row[:-1]) / 2) for row in made.quantiles)
    mean = made.inside * cap + (1 - made.inside) * rest
    assert mean == pytest.approx(made.alignment, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PrivUnit", "Duchi-L2"])
@pytest.mark.parametrize("length", [0.0, 0.7, 2.0])
def test_reports_have_the_mean_of_the_vector(name, length):
    d, n, radius = 20, 100_000, 2.0
    made = solution(name, epsilon=4.0, dim=d, rho=radius)
    vector = np.zeros(d)
    vector[3], vector[5] = 0.6 * length, -0.8 * length
    # Entries of a report have at most the variance of the whole on the axis, scale²/d beside it.
    kernel, scale = mean_report(made, vector, n), made.mechanism.scale
    allowed = 6.5 * scale / math.sqrt(n)
    assert np.abs(kernel - vector).max() < allowed
    some = 4000
    twin = mean_of_twin(made, vector, some)
    assert np.abs(twin - vector).max() < 6.5 * scale / math.sqrt(some)


def test_every_direction_report_lies_on_the_sphere():
    made = solution("PrivUnit", epsilon=1.0, dim=9, rho=0.5)
    for seed in range(20):
        for vector in (np.ones(9), np.zeros(9)):
            report = mean_report(made, vector, 1, seed)
            assert np.linalg.norm(report) == pytest.approx(made.mechanism.scale, rel=1e-5)


def test_sets_have_two_weights_a_factor_of_e_to_the_epsilon_apart():
    made = SignDS(Fraction(2), 8, k=3, set_size=3)
    shares = made.shares(3, made.threshold)
    top = {0, 1, 2}
    ways = [0] * 4
    for chosen in combinations(range(8), 3):
        ways[len(top & set(chosen))] += 1
    each = shares / ways
    raised = np.arange(4) >= made.threshold
    np.testing.assert_allclose(each[raised], each[0] * math.exp(2), rtol=1e-12)
    np.testing.assert_allclose(each[~raised], each[0], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("vector", [np.arange(12.0) - 4, np.repeat([1.0, 0, -1], 4), np.zeros(12)])
def test_sets_come_as_often_as_they_should(vector):
    n = 40_000
    made = Solution("SignDS", 12, SignDS(Fraction(3), 12, k=4, set_size=3))
    hits = made.mechanism.hits()
    expected = np.zeros(12)
    for sign in (1.0, -1.0):
        ranked = sign * vector
        for j in range(12):  # ties share the top at random
            larger, equal = np.sum(ranked > ranked[j]), np.sum(ranked == ranked[j])
            in_top = min(1.0, max(0.0, (4 - larger) / equal))
            each = in_top * hits / 4 + (1 - in_top) * (3 - hits) / 8
            expected[j] += sign * each / 2
    assert np.abs(mean_report(made, vector, n) - expected).max() < 6.5 / math.sqrt(n)
    some = 4000
    twin = mean_of_twin(made, vector, some)
    assert np.abs(twin - expected).max() < 6.5 / math.sqrt(some)
    for seed in range(20):
        report = mean_report(made, vector, 1, seed)
        assert np.count_nonzero(report) == 3
        assert abs(report.sum()) == 3


@pytest.mark.parametrize("name", NAMES)
def test_no_device_and_no_certificate(name):
    made = solution(name, epsilon=2.0, dim=10, epochs=2)
    assert not made.privacy.certified
    assert made.privacy.charge is None
    assert not made.privacy.within_budget
    assert made.privacy.per_report == pytest.approx(1.0)
    assert "simulations alone" in made.privacy.note
    recipe = Recipe(name, epsilon=2.0, dim=10, epochs=2, rho=1.0, learning_rate=1.0)
    assert not made.private
    assert not recipe.private
    with pytest.raises(InvalidArgument, match=f"^solution = '{name}': must be a private solution"):
        recipe.charge  # noqa: B018
    with pytest.raises(InvalidArgument, match=f"^solution = '{name}': must be a private solution"):
        check_sendable(recipe)


def test_bad_input_is_named():
    with pytest.raises(InvalidArgument, match="dim = 1"):
        solution("PrivUnit", epsilon=1.0, dim=1)
    with pytest.raises(InvalidArgument, match="dim = 1"):
        PrivUnit(Fraction(1), 1)
    with pytest.raises(InvalidArgument, match="set_size"):
        SignDS(Fraction(2), 8, set_size=9)
    with pytest.raises(InvalidArgument, match="epsilon"):
        solution("SignDS", dim=10)
    for name in ("PrivUnit", "RJ", "PM"):
        for rho in (0, -1.0, math.inf, math.nan):
            with pytest.raises(InvalidArgument, match="rho"):
                solution(name, epsilon=1.0, dim=10, rho=rho)


def test_the_logarithm():
    for x in (1e-300, 1e-9, 0.3, 0.7071067811865475, 1.0, 1.9999, 7.0, 1e200):
        assert native.logarithm(x) == pytest.approx(math.log(x), rel=1e-14, abs=1e-15)
