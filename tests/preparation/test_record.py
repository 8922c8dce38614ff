"""Prepared records by numbers that were worked out by hand, dense and sparse."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import InvalidArgument
from fedsel.preparation import FeatureScale, Preparation, _record
from fedsel.preparation._public import _shrunk, of_rows, shaped

X = np.array([[0.0, 0.25], [0.0, 0.0], [1.0, -0.5], [2.0, 0.125]])
HALF = Preparation(np.array([1.0, 0.5]), np.array([0.0, 0.0]), 0.75, True, factor=4.0)


def test_what_records_are_divided_by():
    expected = np.hypot([0.5, 0.0, math.sqrt(2), math.hypot(1, 0.25)], 0.75)
    for rows in (X, csr_array(X)):
        np.testing.assert_allclose(HALF.norms(rows), expected, rtol=1e-6)
    none = Preparation(np.array([1.0, 0.5]), np.zeros(2), 0.0, True, factor=4.0)
    np.testing.assert_allclose(none.norms(X)[:3], [0.5, 1.0, math.sqrt(2)], rtol=1e-6)
    kept = Preparation.plain(2, unit=False, factor=3.0)
    assert kept.norms(X).tolist() == [1.0] * 4
    assert kept.norms(csr_array(X[:1])).tolist() == [1.0]


def test_the_norm_of_a_typical_record():
    assert HALF.typical_norm == math.hypot(0.75, 0.25)
    assert Preparation.plain(2, unit=False, factor=3.0).typical_norm == 1.0


@pytest.mark.parametrize("intercept", [0.0, 0.75])
@pytest.mark.parametrize("unit", [True, False])
def test_sparse_records_are_prepared_as_dense_ones(intercept, unit):
    made = Preparation(np.array([1.0, 0.5]), np.zeros(2), intercept, unit, factor=4.0)
    rows = csr_array(X)
    found = made.records(rows)
    assert found.shape == (4, 2 + (intercept > 0))
    np.testing.assert_array_equal(found.toarray(), made.records(X))
    np.testing.assert_array_equal(rows.toarray(), X)  # and are not changed
    assert made.records(np.zeros((0, 2))).shape == (0, 2 + (intercept > 0))


def test_a_model_without_an_intercept_has_no_constant():
    made = Preparation(np.array([1.0, 0.5]), np.zeros(2), 0.0, False, factor=4.0)
    slopes, constants = made.linear([[1.0, 3.0]])
    assert (slopes.tolist(), constants.tolist()) == ([[4.0, 24.0]], [0.0])
    assert not np.signbit(constants).any()


@pytest.mark.parametrize("entries", [1, 3, 7, 1 << 20])
def test_records_do_not_depend_on_those_beside_them(entries, monkeypatch):
    monkeypatch.setattr(_record, "_ROWS_AT_A_TIME", entries)
    many = np.random.default_rng(0).normal(size=(11, 2))
    expected = np.concatenate([HALF.records(row[None]) for row in many])
    np.testing.assert_array_equal(HALF.records(many), expected)


@pytest.mark.parametrize("shape", [(2,), (3, 1), (3, 3), (2, 2, 2)])
def test_records_of_another_shape_are_refused(shape):
    with pytest.raises(InvalidArgument, match=r"^X = .*\(n, 2\)"):
        HALF.records(np.zeros(shape))


def test_sparse_records_on_their_public_scale():
    scale = FeatureScale.of(([0.0, -2.0], [4.0, 2.0]), 2)
    rows = csr_array(np.array([[1.0, 0.0], [9.0, -5.0], [0.0, 1.0]]))
    expected = [[0.25, 0.0], [1.0, -1.0], [0.0, 0.5]]
    assert scale.apply(rows).toarray().tolist() == expected
    assert scale.apply(rows.toarray()).tolist() == expected
    assert rows.toarray()[1].tolist() == [9.0, -5.0]
    read = FeatureScale.read(rows)
    assert (read.low.tolist(), read.high.tolist()) == ([0.0, -5.0], [9.0, 1.0])
    twice = csr_array(([3.0, 3.0], [0, 0], [0, 2]), shape=(1, 2))  # one entry, told in two parts
    assert scale.apply(twice).toarray().tolist() == [[1.0, 0.0]]


def test_bounds_that_are_not_symmetric_or_not_known():
    def offset(low, high):
        return FeatureScale.of((low, high), 2).offset

    assert not offset(-1, 1)
    assert offset(-2, 1)
    assert offset(-1, 2)
    assert offset([-1, 0], 1)
    assert FeatureScale(np.full(2, -1.0), np.full(2, 1.0), 15).offset
    assert FeatureScale(np.full(2, -1.0), np.full(2, 1.0), 17).offset
    assert FeatureScale.of((-4, 0), 1).centre.tolist() == [0.0]
    assert FeatureScale.of((-0.5, 0.25), 1).centre.tolist() == [0.0]
    with pytest.raises(InvalidArgument, match=r"^feature_range = .*around zero for sparse X"):
        FeatureScale.of((1, 2), 2).apply(csr_array(np.ones((1, 2))))
    assert FeatureScale.of((-4, -2), 1).centre.tolist() == [-3.0]
    for word in ("known", "public", "z"):
        with pytest.raises(InvalidArgument, match=r"^feature_range = "):
            FeatureScale.declared(word, 2)


def test_eigenvalues_are_moved_to_their_mean():
    """λ = (3, 1): mean 2, squares 10, apart 2; a fourth power of 14 and four rows move them ½."""
    assert _shrunk(np.array([3.0, 1.0]), 14.0, 4).tolist() == [2.5, 1.5]
    assert _shrunk(np.array([3.0, 1.0]), 99.0, 4).tolist() == [2.0, 2.0]
    assert _shrunk(np.array([3.0, 1.0]), 10.0, 4).tolist() == [3.0, 1.0]
    assert _shrunk(np.array([2.0, 2.0]), 14.0, 4).tolist() == [2.0, 2.0]
    assert _shrunk(np.array([4.0, -0.0, 0.0]), 16.0, 4).tolist() == [4.0, 0.0, 0.0]


def test_a_geometry_by_hand():
    """Two directions, each with its own share, to the power of m/(m + d)."""
    plain = Preparation.plain(2, intercept=0.0)
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    own = _shrunk(np.array([0.75, 0.25]), 1.0, 4)
    shares = (own**2 / (own**2 + 0.3)) ** (4 / 6)
    np.testing.assert_allclose(shaped(plain, rows, 0.3).mixing, np.diag(shares), rtol=1e-12)
    np.testing.assert_allclose(own, [0.5625, 0.4375], rtol=1e-12)
    tilted = np.array([[1.0, 0.0]] * 15 + [[0.0, 1.0]])
    own = _shrunk(np.array([15 / 16, 1 / 16]), 1.0, 16)
    shares = (own**2 / (own**2 + 0.3)) ** (16 / 18)
    np.testing.assert_allclose(shaped(plain, tilted, 0.3).mixing, np.diag(shares), rtol=1e-12)


def test_public_rows_are_two_or_more():
    for wrong in (np.zeros(3), np.zeros((1, 3)), np.zeros((2, 2, 2))):
        with pytest.raises(InvalidArgument, match=r"^public rows = "):
            of_rows(wrong)
    once = of_rows(np.array([[0.01, 0.5], [0.0, 0.5]]))  # one magnitude is a mean of one
    np.testing.assert_allclose(once.spread[0], 0.08, rtol=0.1)


def test_a_geometry_turns_with_the_rows():
    plain, turn = Preparation.plain(2, intercept=0.0), np.array([[0.6, -0.8], [0.8, 0.6]])
    rows = np.array([[1.0, 0.0]] * 15 + [[0.0, 1.0]])
    straight, turned = (shaped(plain, r, 0.3).mixing for r in (rows, rows @ turn.T))
    np.testing.assert_allclose(turned, turn @ straight @ turn.T, rtol=1e-5)


def test_parts_of_other_sizes_are_refused():
    for spread, centre in ((2, 3), (3, 2)):
        with pytest.raises(InvalidArgument, match=r"^centre = "):
            Preparation(np.ones(spread), np.zeros(centre), 1.0, True)
    for size in (1, 3):
        with pytest.raises(InvalidArgument, match=r"^mixing = "):
            Preparation(np.ones(2), np.zeros(2), 0.0, True, mixing=np.eye(size))
