"""What travels beside a request: the same records, rounds and model at both ends, to the bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import InvalidArgument, Recipe
from fedsel.auto._run_plan import plan_for
from fedsel.errors import InvalidData
from fedsel.preparation import FeatureScale, Plan, Preparation
from fedsel.wire import RecordPipeline
from fedsel.wire._pipeline import rows_of

SCALE = FeatureScale.of(([0.0, 2.0], [4.0, 6.0]), 2)  # centres 0 and 4, factors 1/4 and 1/2
LEARNT = Preparation(np.array([0.5, 1.0]), np.array([0.0, 0.25]), 1.0, unit=False, factor=2.0)
PLAN = Plan(2, 3, 1, 2, (True, False), radius=1.0, noise=2.0, octaves=9)
PREPARING = RecordPipeline(SCALE, LEARNT, PLAN)


def recipe(**changes):
    given = {"epsilon": 2.0, "dim": 3, "rho": None, "spread": 0.2, "centre": 0.3, "solution": "RJ"}
    return Recipe(**{**given, "mu": 0.0, "averaging": 0.0, "learning_rate": 1.0, **changes})


def test_records_are_scaled_and_then_prepared():
    assert PREPARING.records([[1.0, 5.0], [9.0, 0.0]]).tolist() == [[1, 0.5, 2], [2, -2.5, 2]]
    assert PREPARING.records([[1.0, 5.0]]).dtype == np.float32


def test_a_model_of_prepared_records_is_one_of_raw_records():
    weights = np.array([[3.0, -1.0, 0.5], [0.0, 2.0, 1.0]])
    slopes, constants = PREPARING.linear(weights)
    assert slopes.tolist() == [[3.0, -1.0], [0.0, 2.0]]
    assert constants.tolist() == [5.5, -7.0]
    X = np.array([[0.5, 5.0], [1.5, 3.0]])  # within the spread
    np.testing.assert_array_equal(X @ slopes.T + constants, PREPARING.records(X) @ weights.T)
    with pytest.raises(InvalidArgument, match=r"^weights = 'of shape \(3,\)': .*weights\[None\]"):
        PREPARING.linear(weights[0])


def test_which_rounds_prepare_and_what_is_told_in_them():
    assert [PREPARING.learns_in(number) for number in range(5)] == [True] * 3 + [False] * 2
    plain = RecordPipeline(SCALE, LEARNT)
    assert not plain.learns_in(0)
    X = np.array([[1.0, 5.0], [0.1, 2.5]])
    for number in (0, 1):
        told = PREPARING.vector(number, X)
        np.testing.assert_array_equal(told, PLAN.vector(number, SCALE.apply(X), LEARNT))
        assert told.shape == (3,)
    with pytest.raises(InvalidArgument, match=r"^plan = None: must be set"):
        plain.vector(0, X)
    assert [PREPARING.fits(dim) for dim in (2, 3, 4)] == [False, True, False]
    assert plain.fits(2)
    assert plain.fits(99)


def test_parts_of_other_features_are_refused():
    with pytest.raises(InvalidArgument, match=r"^preparation = 3: must be of 2"):
        RecordPipeline(SCALE, Preparation.plain(3))
    with pytest.raises(InvalidArgument, match=r"^preparation = 1: must be of 2"):
        RecordPipeline(SCALE, Preparation.plain(1))
    for features in (1, 3):
        other = replace(PLAN, features=features, dim=9, loose=(True,) * features)
        with pytest.raises(InvalidArgument, match=rf"^plan = {features}: must be of 2 features"):
            RecordPipeline(SCALE, LEARNT, other)


@pytest.mark.parametrize("linear", [True, False])
def test_it_begins_with_the_plan_that_the_recipe_has(linear):
    made = recipe()
    begun = RecordPipeline.begin(SCALE, made, 10, linear=linear)
    assert begun.plan == plan_for(
        made, made.build(), loose=(True, True), rounds=10, octaves=16, network=not linear
    )
    assert (begun.plan.spread_rounds, begun.plan.centre_rounds) == (2, 3)
    assert (begun.plan.intercept, begun.plan.unit) == (linear, linear)
    assert begun.preparation == begun.plan.begin.preparation
    wide = RecordPipeline.begin(FeatureScale.unknown(2), made, 10, linear=linear)
    assert (wide.plan.octaves, wide.plan.passes) == (64, ("spread",))
    none = RecordPipeline.begin(SCALE, recipe(spread=0.0, centre=0.0), 10, linear=linear)
    assert none.plan is None
    expected = Preparation.plain(2, intercept=1.0 if linear else 0.0, unit=linear)
    assert none.preparation == expected


def test_its_text_is_short_and_reads_back():
    text = PREPARING.encode()
    old = {
        name: value
        for name, value in vars(PLAN).items()
        if name not in ("passes", "reach", "entry", "known")
    }
    assert json.loads(text) == {
        "features": 2,
        "octaves": 16,
        "low": [0.0, 2.0],
        "high": [4.0, 6.0],
        "preparation": {
            "spread": [0.5, 1.0],
            "centre": [0.0, 0.25],
            "intercept": 1.0,
            "unit": False,
            "factor": 2.0,
        },
        "plan": {**old, "loose": [True, False]},
    }
    assert " " not in text
    again = RecordPipeline.decode(text, 2)
    assert (again.preparation, again.plan, again.encode()) == (LEARNT, PLAN, text)
    same = RecordPipeline(
        FeatureScale.unknown(2), Preparation.plain(2), replace(PLAN, loose=(True, True))
    )
    told = json.loads(same.encode())
    assert (told["low"], told["high"], told["octaves"]) == (-(2.0**32), 2.0**32, 64)
    assert (told["preparation"]["spread"], told["preparation"]["centre"]) == (1.0, 0.0)
    assert told["plan"]["loose"] is True
    again = RecordPipeline.decode(same.encode(), 2)
    assert (again.preparation, again.plan) == (same.preparation, same.plan)
    assert again.scale.low.tolist() == same.scale.low.tolist()
    assert again.scale.high.tolist() == same.scale.high.tolist()
    assert again.scale.octaves == 64
    assert RecordPipeline.decode(RecordPipeline(SCALE, LEARNT).encode(), 2).plan is None


@pytest.mark.parametrize("mixing", [[[2.0]], [[1.0, 3.0], [1.0, 3.0]]])
def test_a_matrix_whose_rows_are_equal_reads_back(mixing):
    size = len(mixing)
    mixed = replace(Preparation.plain(size, intercept=0.0), mixing=np.array(mixing))
    sent = RecordPipeline(FeatureScale.of((0, 1), size), mixed)
    assert RecordPipeline.decode(sent.encode(), size).preparation == mixed


def test_the_largest_numbers_that_are_taken():
    parts = json.loads(RecordPipeline(FeatureScale.of((0, 1), 3), Preparation.plain(3)).encode())
    assert len(RecordPipeline.decode(json.dumps(parts), 3).scale.low) == 3
    with pytest.raises(InvalidArgument, match=r"^features = 3: "):
        RecordPipeline.decode(json.dumps(parts), 2)
    for octaves in (1, 64):
        text = json.dumps({**parts, "octaves": octaves})
        assert RecordPipeline.decode(text, 3).scale.octaves == octaves
    for octaves in (0, 65):
        with pytest.raises(InvalidArgument, match=rf"^octaves = {octaves}: "):
            RecordPipeline.decode(json.dumps({**parts, "octaves": octaves}), 3)


def test_records_stay_sparse_and_must_be_numbers():
    sparse = csr_array(np.eye(2))
    assert rows_of(sparse.tocsc()).format == "csr"
    bounds = RecordPipeline(
        FeatureScale.of((0, 2), 2), Preparation.plain(2, intercept=0.0, unit=False)
    )
    assert bounds.preparation.records(bounds.scale.apply(rows_of(sparse))).nnz == 2
    with pytest.raises(InvalidData, match=r"^records: "):
        rows_of([[float("nan"), 1.0]])
    with pytest.raises(InvalidData, match=r"^records: "):
        rows_of([1.0, 2.0])
