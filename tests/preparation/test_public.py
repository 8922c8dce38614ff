"""Public bounds put records on a scale; public rows tell what rounds without noise would learn."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel.errors import InvalidArgument, InvalidData
from fedsel.preparation import Plan, Preparation, advanced, of_rows, shaped
from fedsel.preparation._plan import ENTRY, MARGIN, OCTAVES, REACH
from fedsel.preparation._public import LARGEST, FeatureScale


@pytest.mark.parametrize(
    "bounds",
    [
        (1, 1),
        (2, 1),
        (0, float("nan")),
        (-float("inf"), 0),
        (0, [1, 1]),
        (0, [1, 1, 0]),
        ([0, 0, 2], [1, 1, 2]),
        3,
        (1, 2, 3),
        ("a", "b"),
        "public",
    ],
)
def test_what_is_no_pair_of_bounds(bounds):
    with pytest.raises(InvalidArgument, match=r"^feature_range = "):
        FeatureScale.declared(bounds, 3)


@pytest.mark.parametrize(
    ("low", "high", "x", "placed"),
    [
        (0.0, 4.0, [-1.0, 0.0, 1.0, 9.0], [0.0, 0.0, 0.25, 1.0]),
        (-2.0, 1.0, [-5.0, -1.0, 1.0, 5.0], [-1.0, -0.5, 0.5, 0.5]),
        (2.0, 6.0, [0.0, 2.0, 5.0, 7.0], [-1.0, -1.0, 0.5, 1.0]),  # zero lies outside
        (-0.5, -0.25, [0.0, -0.25, -0.375, -9.0], [1.0, 1.0, 0.0, -1.0]),
    ],
)
def test_a_record_lies_within_one_of_the_middle(low, high, x, placed):
    scale = FeatureScale.of((low, high), 1)
    assert scale.apply(np.array(x)[:, None])[:, 0].tolist() == placed
    assert (scale.centre[0] != 0) == (low > 0 or high < 0)


def test_a_feature_that_cannot_vary_tells_nothing():
    scale = FeatureScale.read(np.array([[3.0, 0.0, 1.0], [3.0, 0.0, 2.0]]))
    assert scale.factor.tolist() == [0.0, 0.0, 2.0]
    assert scale.apply(np.array([[3.0, 0.0, 2.0]])).tolist() == [[0.0, 0.0, 1.0]]
    assert scale.loose == (False, False, True)


def test_bounds_that_may_be_far_too_wide():
    bounds = np.array([[0, 1], [-1, 1], [0, 2], [-1, 0.5], [-2, 1], [0.5, 1]])
    scale = FeatureScale.of(bounds.T, 6)
    assert scale.loose == (False, False, True, True, True, True)
    assert (scale.octaves_loose, FeatureScale.of((0, 1), 2).octaves_loose) == (OCTAVES, 0)


def test_bounds_about_zero_need_no_centre():
    assert not FeatureScale.of((-3, 3), 2).offset
    assert FeatureScale.of((-3, 4), 2).offset
    assert FeatureScale.unknown(2).offset


def test_where_some_bounds_are_known_they_are_kept():
    bounds = np.array([[-3.0, 7.0], [-np.inf, np.inf], [0.0, np.inf]])
    scale = FeatureScale.unknown(3, bounds)
    assert (scale.low.tolist(), scale.high.tolist()) == (
        [-3.0, -(2.0**32), -(2.0**32)],
        [7.0, 2.0**32, 2.0**32],
    )
    assert scale.octaves == FeatureScale.declared("private", 3).octaves == 64
    assert scale.loose == (False, True, True)


@pytest.mark.parametrize("name", ["spread", "centre", "intercept", "unit", "factor"])
def test_a_preparation_is_whole(name):
    values = Preparation.plain(2).to_dict()
    del values[name]
    with pytest.raises(InvalidArgument, match=r"^preparation = 'dict': must be "):
        Preparation.of_dict(values)


def test_what_is_public_is_not_changed():
    prepared = Preparation.plain(2)
    assert not prepared.spread.flags.writeable
    assert not prepared.centre.flags.writeable


D = 5


def sphere(m=60, d=D, norm=0.3, seed=0):
    """Rows of one norm, about no centre of theirs, without a zero."""
    rows = np.random.default_rng(seed).normal(0.5, 1, (m, d))
    return norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)


def learnt_by(plan, rows):
    """What a plan learns where clients with these rows report without noise."""
    state = plan.begin
    for number in range(plan.rounds):
        mean = plan.vectors(number, rows, state.preparation).mean(axis=0, dtype=np.float64)
        state = advanced(plan, state, number, mean, len(rows))
    return state.preparation


def test_public_rows_tell_the_centre_that_rounds_without_noise_learn():
    """Exactly so for rows of one norm: then the mean of directions is that of the rows."""
    rows = sphere()
    plan = Plan(D, D + 1, 0, 1, (False,) * D, radius=0.4, noise=0.0, entry=ENTRY)
    expected, found = learnt_by(plan, rows), of_rows(rows, loose=(False,) * D)
    np.testing.assert_allclose(found.centre, expected.centre, rtol=1e-5)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-5)
    np.testing.assert_allclose(found.factor, expected.factor, rtol=1e-5)
    np.testing.assert_array_equal(found.spread, np.ones(D))
    np.testing.assert_allclose(found.centre, rows.mean(axis=0), rtol=1e-12)


def test_public_rows_tell_the_spread_that_rounds_without_noise_learn():
    rows = sphere() * np.array([1, 0.1, 0.01, 0.02, 1])
    loose = (True, True, True, True, False)
    plan = Plan(D, D + 1, 1, 0, loose, radius=0.4, noise=0.0, reach=REACH)
    expected, found = learnt_by(plan, rows).spread, of_rows(rows, loose=loose).spread
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[4] == REACH
    geometric = MARGIN * np.exp(np.log(np.abs(rows[:, :4])).mean(axis=0))
    np.testing.assert_allclose(found[:4], REACH * np.minimum(1, geometric), rtol=0.1)


def test_zeros_say_nothing_of_a_spread():
    rows = sphere() * 0.01
    with_zeros = np.vstack([rows, np.zeros_like(rows)])
    np.testing.assert_array_equal(of_rows(rows).spread, of_rows(with_zeros).spread)
    assert of_rows(np.zeros((3, 2))).spread.tolist() == [REACH] * 2


def test_what_is_left_out():
    rows = sphere()
    assert not of_rows(rows, centred=False).centre.any()
    assert of_rows(rows, intercept=False).size == D
    constant = of_rows(np.full((3, 2), 0.5))
    assert constant.intercept == ENTRY  # of nothing it would be none
    for wrong in (rows[:1], rows[0]):
        with pytest.raises(InvalidArgument, match="public rows"):
            of_rows(wrong)


def elongated(m=4000, seed=1):
    """Rows that differ ten times as much along the first axis as along others."""
    return np.random.default_rng(seed).normal(0, 1, (m, D)) * np.array([0.5, *[0.05] * (D - 1)])


def test_the_geometry_is_wieners_filter_of_the_second_moments():
    rows, noise = elongated(), 1e-3
    plain = of_rows(rows, loose=(False,) * D)
    found = shaped(plain, rows, noise).mixing
    records = plain.records(rows).astype(float)
    moments = records.T @ records / len(rows)
    power = len(rows) / (len(rows) + D + 1)
    values, axes = np.linalg.eigh(moments)
    filtered = (axes * (values**2 / (values**2 + noise)) ** power) @ axes.T
    # So many rows are shrunk by little.
    np.testing.assert_allclose(found, filtered, atol=2e-3)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    assert found[0, 0] > 2 * found[1, 1]


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 1.0, 1e6])
def test_the_geometry_bends_the_more_the_more_noise_there_is(noise):
    rows = elongated()
    shares = np.linalg.eigvalsh(shaped(of_rows(rows), rows, noise).mixing)
    assert (shares > 0).all()
    assert (shares < 1).all()
    more = np.linalg.eigvalsh(shaped(of_rows(rows), rows, 10 * noise).mixing)
    assert more[-1] / more[0] > shares[-1] / shares[0]


def test_rows_that_are_round_bend_little():
    def bend(rows):
        shares = np.linalg.eigvalsh(shaped(of_rows(rows, loose=(False,) * D), rows, 1e-2).mixing)
        return shares[-1] / shares[0]

    rows = elongated()
    assert bend(rows * np.array([1, *[10] * (D - 1)])) < 2 < bend(rows)


def test_no_geometry_where_none_is_called_for():
    rows = elongated()
    plain = of_rows(rows)
    assert shaped(plain, rows, 0.0) is plain
    keeps_norm = of_rows(rows, unit=False)
    assert shaped(keeps_norm, rows, 1.0) is keeps_norm
    wide = np.ones((2, LARGEST))
    assert shaped(of_rows(wide), wide, 1.0).mixing is None


# --- a preparation with a matrix ----------------------------------------------------------------


def mixed(unit=True):
    matrix = np.random.default_rng(2).normal(size=(D + 1, D + 1))
    return Preparation(np.full(D, 0.5), np.full(D, 0.2), 0.3, unit, mixing=matrix)


@pytest.mark.parametrize("unit", [True, False])
def test_records_are_multiplied_by_the_matrix(unit):
    X, prepared = sphere().astype(np.float32), mixed(unit)
    wide = np.hstack([np.clip(X / 0.5, -1, 1) - 0.2, np.full((len(X), 1), 0.3)])
    expected = np.stack([prepared.mixing @ row for row in wide])
    if unit:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(prepared.records(X), expected, rtol=1e-5, atol=1e-6)
    assert not prepared.keeps_zeros
    np.testing.assert_array_equal(prepared.records(csr_array(X)), prepared.records(X))
    alone = np.vstack([prepared.records(row[None]) for row in X])
    np.testing.assert_allclose(alone, prepared.records(X), rtol=1e-6)


def test_a_linear_model_of_mixed_records_is_one_of_the_record():
    X, prepared = sphere() / 2, mixed(unit=False)
    weights = np.random.default_rng(3).normal(size=(2, D + 1))
    slopes, constants = prepared.linear(weights)
    np.testing.assert_allclose(
        prepared.records(X) @ weights.T, X @ slopes.T + constants, rtol=1e-4, atol=1e-5
    )


def test_a_matrix_travels_as_plain_numbers_and_is_checked():
    prepared = mixed()
    values = json.loads(json.dumps(prepared.to_dict()))
    assert Preparation.of_dict(values) == prepared
    assert "mixing" not in Preparation.plain(D).to_dict()
    for wrong in ([[1.0]], [1.0], [[np.nan] * (D + 1)] * (D + 1)):
        with pytest.raises((InvalidArgument, InvalidData), match="mixing"):
            Preparation.of_dict({**values, "mixing": wrong})


def test_a_scale_is_a_declaration_of_bounds():
    scale = FeatureScale.of((0, 4), 2)
    assert FeatureScale.declared(scale, 2) is scale
    with pytest.raises(InvalidArgument, match="bounds of 3 features"):
        FeatureScale.declared(scale, 3)
