"""Epochs compose in dp_accounting, from a curve that is proved."""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import pytest

from fedsel import InvalidArgument, amplify, solution
from fedsel.mechanisms.central import _guarantee as composition
from fedsel.mechanisms.central import add_up, compose
from fedsel.mechanisms.central._guarantee import local_epsilon

DUCHI = solution("Duchi", epsilon=1.0, dim=3)


def test_one_epoch_is_the_guarantee_itself():
    assert compose(DUCHI, reports=50, epochs=1, delta=1e-3) == amplify(
        DUCHI, reports=50, delta=1e-3
    )


@pytest.mark.slow
def test_epochs_cost_more_than_one_and_less_than_their_sum():
    found = [compose(DUCHI, reports=50, epochs=e, delta=1e-3).epsilon for e in (1, 2, 8)]
    assert found[0] < found[1] < 2 * found[0]
    assert found[1] < found[2] < 4 * found[0]


@pytest.mark.slow
def test_one_report_alone_composes_as_randomised_response():
    """Without others to hide among: exact, by the binomial law of n answers of a coin."""
    times, delta = 6, 1e-3
    found = compose(DUCHI, reports=1, epochs=times, delta=delta).epsilon

    def exact(epsilon):
        p = 1 / (1 + math.exp(-1))
        total = 0.0
        for k in range(times + 1):
            one, other = (math.comb(times, k) * q**k * (1 - q) ** (times - k) for q in (p, 1 - p))
            total += max(0.0, one - math.exp(epsilon) * other)
        return total

    assert exact(found) <= delta * 1.001
    assert exact(found * 0.97) > delta


@pytest.mark.slow
def test_the_curve_is_convex_and_covers_both_directions():
    places, deltas, step = composition._curve(DUCHI.blanket(), 30, 1e-6)
    assert places[0] < 0 < places[-1]
    assert deltas == sorted(deltas, reverse=True)
    growths = [math.exp(i * step) for i in places]
    points = list(zip(growths, deltas, strict=True))
    slopes = [(d2 - d1) / (g2 - g1) for (g1, d1), (g2, d2) in itertools.pairwise(points)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(slopes))
    middle = places.index(0)
    assert deltas[middle] == pytest.approx(amplify(DUCHI, reports=30, epsilon=0.0).delta)
    left = dict(zip(places, deltas, strict=True))
    for i in places:
        if i > 0 and -i in left:
            assert left[-i] == pytest.approx(1 - math.exp(-i * step) * (1 - left[i]))


def test_epochs_that_are_added_up_are_a_bound_as_well():
    """E·ε at δ/E: more than composed, never more than the local ε of all epochs."""
    one = amplify(DUCHI, reports=50, delta=1e-3 / 4).epsilon
    summed = add_up(DUCHI, reports=50, epochs=4, delta=1e-3)
    assert summed.epsilon == pytest.approx(4 * one, rel=1e-12)
    assert summed.epsilon >= 4 * Fraction(one)
    assert (
        add_up(DUCHI, reports=50, epochs=1, delta=1e-3).epsilon
        == amplify(DUCHI, reports=50, delta=1e-3).epsilon
    )
    alone = add_up(DUCHI, reports=1, epochs=4, delta=1e-9)
    assert alone.epsilon == pytest.approx(4.0)


def test_clients_that_remember_have_the_local_epsilon_of_all_epochs():
    """Later reports depend on earlier ones, so that shuffled rounds do not compose."""
    remembering = solution("PS-PM", epsilon=3.0, dim=4, epochs=3)
    forgetful = solution("PM", epsilon=3.0, dim=4, epochs=3)
    assert remembering.accumulates
    assert not forgetful.accumulates
    for combined in (compose, add_up):
        found = combined(remembering, reports=10_000, epochs=3, delta=1e-6)
        assert found.epsilon >= 3 * local_epsilon(remembering.blanket())
        assert found.epsilon == pytest.approx(3.0)
        once = combined(remembering, reports=10_000, epochs=1, delta=1e-6)
        assert once.epsilon < 0.1
    assert add_up(forgetful, reports=10_000, epochs=3, delta=1e-6).epsilon < 0.5


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"reports": 0, "epochs": 2, "delta": 1e-3}, "reports"),
        ({"reports": 5, "epochs": 0, "delta": 1e-3}, "epochs"),
        ({"reports": 5, "epochs": 2, "delta": Fraction(2)}, "delta"),
    ],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(InvalidArgument, match=name):
        compose(DUCHI, **arguments)


def slopes_of(places, deltas, step):
    points = list(zip([math.exp(i * step) for i in places], deltas, strict=True))
    return [(d2 - d1) / (g2 - g1) for (g1, d1), (g2, d2) in itertools.pairwise(points)]


def test_a_point_above_the_chord_of_its_neighbours_is_left_out(monkeypatch):
    """δ is convex in e^ε: what rounding has lifted would make masses that are negative."""
    width, most, lifted = composition._STEPS_BETWEEN, 1.2, 8
    step = most / (composition._POINTS * width)

    def lumpy(blanket, reports, epsilon):
        """The profile of normal noise, except at one point."""
        normal, far = NormalDist(), epsilon / 0.7
        delta = normal.cdf(0.35 - far) - math.exp(epsilon) * normal.cdf(-0.35 - far)
        return 1.4 * delta if round(epsilon / step) == lifted * width else delta

    monkeypatch.setattr(composition, "proved_epsilon", lambda *_: most)
    monkeypatch.setattr(composition, "proved_delta", lumpy)
    places, deltas, found = composition._curve(DUCHI.blanket(), 30, 1e-6)
    assert found == pytest.approx(step)
    all_places = [i * width for i in range(-composition._POINTS, composition._POINTS + 1)]
    assert set(all_places) - set(places) >= {lifted * width}
    assert len(places) > 1.5 * composition._POINTS
    assert (places[0], places[-1]) == (all_places[0], all_places[-1])
    slopes = slopes_of(places, deltas, step)
    assert slopes == sorted(slopes)
    for place, delta in zip(places, deltas, strict=True):
        epsilon = abs(place) * step
        own = lumpy(None, 30, epsilon)
        assert delta == pytest.approx(own if place >= 0 else 1 - math.exp(-epsilon) * (1 - own))


def test_epochs_never_cost_more_than_their_sum(monkeypatch):
    """A curve that ends above δ proves nothing, and then the local guarantee is what is left."""
    curve = [-1, 0, 1], [0.276, 0.236, 0.2], 0.1
    monkeypatch.setattr(composition, "_curve", lambda *_: curve)
    weak = solution("Duchi", epsilon=0.5, dim=3)
    found = compose(weak, reports=9, epochs=3, delta=1e-6)
    assert found.epsilon == pytest.approx(1.5, rel=1e-9)
    assert (found.delta, found.reports, found.epochs) == (1e-6, 9, 3)
    assert found.local == pytest.approx(0.5)
