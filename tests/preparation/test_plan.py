"""What clients report on and what the server learns, by numbers that were worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import InvalidArgument
from fedsel.preparation import Plan, PlanState, Preparation
from fedsel.preparation._plan import advanced, power_of_two, unlearnt
from fedsel.preparation._record import unit_rows


def plan(features=4, dim=None, spread=2, centre=3, loose=None, **more):
    loose = (True,) * features if loose is None else loose
    given = {"radius": 1.0, "noise": 1.0, **more}
    return Plan(features, dim or features + 1, spread, centre, loose, **given)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"features": 0, "dim": 5, "loose": ()}, "features"),
        ({"dim": 4}, "dim"),
        ({"spread": -1}, "spread_rounds"),
        ({"centre": -1}, "centre_rounds"),
        ({"octaves": 0}, "octaves"),
        ({"radius": 0.0}, "radius"),
        ({"loose": (True,) * 3}, "loose"),
        ({"loose": (True,) * 5}, "loose"),
        ({"loose": (False,) * 4}, "spread_rounds"),
    ],
)
def test_what_is_no_plan_is_refused(changes, name):
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        plan(**changes)
    plan(spread=0, centre=0, loose=(False,) * 4, octaves=1)


def test_stages_and_their_ends():
    made = plan(spread=5, centre=3)
    assert (made.rounds, made.ends) == (8, (2, 4, 7))
    assert [made.stage(n) for n in (0, 4, 5, 7, 8)] == [
        *("spread", "spread", "centre", "centre", "training"),
    ]
    assert replace(made, octaves=17).ends == (1, 3, 4, 7)
    assert plan(spread=0, centre=2).ends[-1] == 1
    assert made.begin.preparation == unlearnt(4, unit=True)
    assert (made.begin.total.tolist(), made.begin.reports) == ([0.0] * 5, 0)
    without = replace(made, intercept=False, unit=False).begin.preparation
    assert without == Preparation.plain(4, intercept=0.0, unit=False)


def test_before_anything_is_learnt():
    """Entries of 0.4 in four features: a norm of 0.8, and 0.3 of it for the intercept."""
    assert unlearnt(4, unit=False) == Preparation.plain(4, intercept=0.24, unit=False, factor=1.25)


def test_octaves_are_told_of_loose_features():
    made = plan(3, radius=3.0, loose=(True, False, True))
    learnt = Preparation.plain(3)
    X = np.array([[0.125, 9.0, 2.0**-20], [0.0, 9.0, 0.125], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    factor = np.float32(4 / math.sqrt(2))
    expected = np.array(
        [[1 / 16, 0, 1, 0], [1 / 16, 0, 1 / 16, 0], [-1 / 8, 0, -1 / 8, 0], [0] * 4]
    )
    found = made.vectors(0, X, learnt)
    np.testing.assert_allclose(found, factor * expected, rtol=1e-6)
    np.testing.assert_array_equal(made.vectors(1, csr_array(X), learnt), found)
    half = replace(learnt, spread=np.array([0.5, 1.0, 0.5]))
    np.testing.assert_allclose(made.vectors(0, X[:1], half)[0, 0], 0.0, atol=1e-9)
    mean = made.vector(0, X, learnt)
    np.testing.assert_allclose(mean, factor * expected.mean(axis=0), rtol=1e-6)


def test_directions_are_told_of_records():
    made, learnt = plan(4, radius=3.0), Preparation.plain(4)
    X = np.array([[0.1, -0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.0], [2.0, 0, 0, 0]])
    told = made.vectors(2, X, learnt)
    root = math.sqrt(0.08)
    np.testing.assert_allclose(told[0], 3 * np.array([0.1, -0.1, 0.1, 0.1, 0.2]) / root, rtol=1e-6)
    np.testing.assert_allclose(told[1], [0, 0, 0, 0, 3], rtol=1e-6)
    np.testing.assert_allclose(told[2, 0], 3 / math.sqrt(1.04), rtol=1e-6)
    with pytest.raises(InvalidArgument, match=r"^number = 5: must be below 5"):
        made.vectors(5, X, learnt)


def test_spreads_that_are_learnt():
    made = plan(4, radius=1.5, noise=1.0)
    learnt = made.learn_spread(Preparation.plain(4), np.array([0.1, 0.2, 0.3, 0.4, 9.0]), 10)
    octaves = 16 * np.array([0.14, 0.2, 0.26, 0.32])
    np.testing.assert_allclose(learnt.spread, power_of_two(-octaves), rtol=1e-12)
    # Six features: noise of 0.002 each, three of which are left out.
    six = plan(6, dim=10, radius=0.75 * math.sqrt(6), noise=1.0)
    mean = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0, 0])
    learnt = six.learn_spread(Preparation.plain(6), mean, 50)
    common = 0.25 * (1 - 0.002 / 6 / 0.0625)
    own = (mean[:6] - 0.25) * (1 - 3 * 0.002 / 0.175)
    np.testing.assert_allclose(learnt.spread, power_of_two(-16 * (common + own)), rtol=1e-12)


def test_spreads_are_shrunk_to_nothing_and_never_grow():
    made, plain = plan(1, radius=0.75, noise=2.0), Preparation.plain(1)
    noise = 4 / (1000 * 2)
    learnt = made.learn_spread(plain, np.array([0.5, 0.0]), 1000)
    expected = power_of_two(np.array([-16 * 0.5 * (1 - noise / 0.25)]))
    np.testing.assert_allclose(learnt.spread, expected, rtol=1e-12)
    assert made.learn_spread(plain, np.array([0.5, 0.0]), 4) == plain  # all of it may be noise
    assert made.learn_spread(plain, np.array([0.0, 0.0]), 4) == plain
    assert made.learn_spread(plain, np.array([-0.5, 0.0]), 10**9) == plain
    least = made.learn_spread(plain, np.array([7.0, 0.0]), 10**9).spread
    assert least.tolist() == [2.0**-16]
    half = replace(plain, spread=np.array([0.25]))
    wider = made.learn_spread(half, np.array([-1 / 16, 0.0]), 10**12).spread
    assert wider.tolist() == pytest.approx([0.5], rel=1e-6)
    tight = plan(2, loose=(False, True), radius=0.75)
    both = tight.learn_spread(Preparation.plain(2), np.array([0.9, 0.5, 0.0]), 10**9).spread
    assert both[0] == 1.0
    assert both[1] == pytest.approx(2.0**-8, rel=1e-6)


def test_a_centre_that_is_learnt():
    made, plain = plan(4, radius=2.0, noise=1.0), unlearnt(4, unit=True)
    learnt = made.learn_centre(plain, np.array([0.8, 0.0, 0.0, 0.0, 1.0]), 10)
    np.testing.assert_allclose(learnt.centre, [0.14, 0, 0, 0], rtol=1e-12)
    norm = math.sqrt(0.12 - 0.14**2)
    assert (learnt.intercept, learnt.factor) == pytest.approx((0.3 * norm, 1 / norm), rel=1e-12)
    other = replace(made, intercept=False).learn_centre(plain, np.array([0.8, 0, 0, 0, 1.0]), 10)
    assert other == replace(plain, centre=learnt.centre)


@pytest.mark.parametrize(("told", "taken"), [(0.01, 0.1), (5.0, 0.97), (-1.0, 0.1)])
def test_the_norm_of_a_typical_record_is_bounded(told, taken):
    made, plain = plan(4), unlearnt(4, unit=True)
    learnt = made.learn_centre(plain, np.array([0.0, 0.0, 0.0, 0.0, told]), 10)
    norm = 0.2 * math.sqrt(1 / taken**2 - 1)
    assert learnt.intercept == pytest.approx(0.3 * norm, rel=1e-12)
    assert not learnt.centre.any()
    far = made.learn_centre(plain, np.array([50.0, 0.0, 0.0, 0.0, told]), 10**9)
    assert far.intercept == pytest.approx(0.3 * math.sqrt(0.1) * norm, rel=1e-12)


def test_reports_of_a_stage_add_up():
    made = plan(1, radius=0.75, noise=1e-6, spread=2, centre=1)
    begun = made.begin
    first = advanced(replace(made, spread_rounds=3), begun, 0, np.array([0.5, 0.25]), 3)
    assert (first.total.tolist(), first.reports) == ([1.5, 0.75], 3)
    assert first.preparation is begun.preparation
    after = advanced(made, first, 1, np.array([0.0, 0.25]), 1)
    expected = made.learn_spread(begun.preparation, np.array([0.375, 0.25]), 4)
    assert after.preparation == expected
    assert (after.total.tolist(), after.reports) == ([0.0, 0.0], 0)
    last = advanced(made, after, 2, np.array([0.3, 0.6]), 5)
    assert last.preparation == made.learn_centre(expected, np.array([0.3, 0.6]), 5)
    nobody = advanced(made, PlanState(expected, np.zeros(2), 0), 2, np.zeros(2), 0)
    assert nobody.preparation is expected


def test_records_of_a_longer_vector_lie_scattered():
    made = plan(3, dim=8, scattered=True)
    places = [0, 7, 2, 6]
    told = made.vectors(2, np.full((1, 3), 0.5), Preparation.plain(3))[0]
    assert np.flatnonzero(told).tolist() == sorted(places)
    assert told[6] == pytest.approx(0.1 * math.sqrt(3) / math.sqrt(0.78), rel=1e-6)
    side_by_side = replace(made, scattered=False).vectors(
        2, np.full((1, 3), 0.5), Preparation.plain(3)
    )
    np.testing.assert_array_equal(told[places], side_by_side[0, :4])


def test_rows_of_norm_one():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]])
    expected = [[np.float32(0.6), np.float32(0.8)], [0.0, 0.0], [1.0, 0.0]]
    assert unit_rows(rows).tolist() == expected
    assert unit_rows(csr_array(rows)).toarray().tolist() == expected
    assert rows[0, 0] == 3.0


def test_what_saturates_and_what_two_features_have_of_their_own():
    coarse, plain = plan(1, radius=0.75, octaves=1), Preparation.plain(1)
    told = coarse.vectors(0, np.array([[1.0], [0.25], [0.01]]), plain)
    assert told[:, 0].tolist() == [-1.0, 0.0, 1.0]
    narrow = replace(plain, spread=np.array([2.0**-20]))
    wide = plan(1, radius=0.75, noise=1e-9)
    assert wide.learn_spread(narrow, np.array([-7.0, 0.0]), 9).spread.tolist() == [2.0**-4]
    two = plan(2, radius=0.75 * math.sqrt(2))
    learnt = two.learn_spread(Preparation.plain(2), np.array([0.1, 0.3, 0.0]), 50)
    noise = 1 / 150
    common, own = 0.2 * (1 - noise / 2 / 0.04), 0.1 * (1 - noise / 0.02)
    expected = power_of_two(-16 * np.array([common - own, common + own]))
    np.testing.assert_allclose(learnt.spread, expected, rtol=1e-12)


def test_a_plan_reaches_farther_once_all_is_learnt():
    """Records stay the same, to the bit, where the narrower plan clips nothing."""
    X = np.array([[0.02, -0.4], [0.01, 0.3], [0.9, 0.1]])
    near = plan(2, spread=1, centre=1, loose=(True, False), noise=0.0)
    learnt = []
    for made in (near, replace(near, reach=2.0)):
        state = made.begin
        for number in range(made.rounds):
            told = made.vectors(number, X, state.preparation).mean(axis=0, dtype=float)
            state = advanced(made, state, number, told, len(X))
        learnt.append(state.preparation)
    narrow, wide = learnt
    np.testing.assert_array_equal(wide.spread, 2 * narrow.spread)
    np.testing.assert_array_equal(wide.records(X[:2]), narrow.records(X[:2]))
    assert abs(X[2, 0]) > wide.spread[0] > narrow.spread[0]
    assert wide.within(X[2:])[0, 0] / wide.within(X[:1])[0, 0] > (
        1.9 * narrow.within(X[2:])[0, 0] / narrow.within(X[:1])[0, 0]
    )
    for wrong in (0.5, 3.0, math.nan):
        with pytest.raises(InvalidArgument, match=r"^reach = "):
            replace(near, reach=wrong)
