"""Public means: read once, exact where they are given, and the same in every front end."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedsel import FedSelClassifier, InvalidArgument, PublicFacts, Recipe, resolve_auto
from fedsel.auto._run_plan import left_to_learn, plan_for
from fedsel.data import from_arrays
from fedsel.experiments import InMemorySource, Spec
from fedsel.preparation import FeatureScale, Plan, Preparation, PublicMeans, advanced
from fedsel.preparation._means import INTERCEPT, SPREAD, read_means
from fedsel.preparation._plan import REACH, TYPICAL
from fedsel.server import Aggregator
from fedsel.server._plan import ServerPlan
from fedsel.wire import RecordPipeline

D = 6
NAMES = tuple("abcdef")
MEANS = np.array([0.1, 0.9, 0.5, 0.25, 0.3, 0.7])
pytestmark = pytest.mark.filterwarnings("ignore::fedsel.errors.TooFewClientsWarning")


def means_of(given, feature_range=(0, 1), names=None, features=D):
    return PublicMeans.of(given, FeatureScale.of(feature_range, features), names)


def plan(known=None, centre_rounds=2, spread_rounds=0, loose=(False,) * D, **changes):
    fixed = {"radius": 0.4, "noise": 3.0, "known": known, **changes}
    return Plan(D, D + 1, spread_rounds, centre_rounds, loose, **fixed)


# --- how they are read --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelled",
    [
        {"b": 2.0, "a": 1},
        {1: 2.0, 0: 1},
        {np.int64(1): np.float32(2.0), "a": 1},
        [1.0, 2.0, np.nan],
        np.array([1, 2, np.nan], np.float32),
        np.ma.masked_array([1.0, 2.0, 3.0], [False, False, True]),
    ],
)
def test_all_spellings_say_the_same(spelled):
    found = read_means(spelled, np.zeros(3), np.full(3, 4.0), ("a", "b", "c"))
    np.testing.assert_array_equal(found, [1, 2, np.nan])


def test_a_series_is_read_by_its_index_not_by_its_order():
    pandas = pytest.importorskip("pandas")
    found = pandas.Series({"c": 3.0, "a": 1.0, "b": np.nan})
    np.testing.assert_array_equal(
        read_means(found, np.zeros(3), np.full(3, 4.0), ("a", "b", "c")), [1, np.nan, 3]
    )


@pytest.mark.parametrize(
    ("spelled", "words"),
    [
        ({"a": float("nan")}, r"public_mean\['a'\] = nan: .*\[0, 4\].*omit"),
        ({"a": float("inf")}, r"public_mean\['a'\] = inf"),
        ({"a": "1"}, r"public_mean\['a'\] = '1'"),
        ({"a": True}, r"public_mean\['a'\] = True"),
        ({"a": None}, r"public_mean\['a'\] = None"),
        ({"a": 4.5}, r"public_mean\['a'\] = 4.5: .*\[0, 4\].*wider bounds"),
        ({"a": -0.1}, r"public_mean\['a'\] = -0.1"),
        ({"bb": 1.0}, r"public_mean\['bb'\] = 1.0: .*such as 'b'"),
        ({3: 1.0}, r"public_mean\[3\]"),
        ({-1: 1.0}, r"public_mean\[-1\]"),
        ({1.0: 1.0}, r"public_mean\[1.0\]"),
        ({True: 1.0}, r"public_mean\[True\]"),
        ({"a": 1.0, 0: 2.0}, r"public_mean\[0\] = 2.0: .*only mean"),
        ({}, "at least one feature"),
        ([np.nan] * 3, "at least one feature"),
        ([1.0, 2.0], "3 numbers"),
        ([[1.0, 2.0, 3.0]], "3 numbers"),
        (["1", "2", "3"], "3 numbers"),
        ([1.0, np.inf, 2.0], r"public_mean\[1\] = inf"),
        ([1.0, 5.0, 2.0], r"public_mean\[1\] = 5.0"),
        (2.0, "3 numbers"),
        ("a", "3 numbers"),
        ([[1.0], [2.0, 3.0]], "3 numbers"),
    ],
)
def test_wrong_means_are_refused_by_name_and_value(spelled, words):
    with pytest.raises(InvalidArgument, match=words):
        read_means(spelled, np.zeros(3), np.full(3, 4.0), ("a", "b", "c"))


def test_without_names_a_name_is_refused():
    with pytest.raises(InvalidArgument, match="by its number: features have no names here"):
        read_means({"a": 1.0}, np.zeros(3), np.ones(3))
    with pytest.raises(InvalidArgument, match="by its number, 0 … 2: features have no names"):
        read_means({3: 1.0}, np.zeros(3), np.ones(3))


def test_units_are_those_of_the_feature():
    found = means_of([0.3, 42, 5, -5], ([0, 18, -10, -10], [1, 98, 10, 0]), features=4)
    np.testing.assert_allclose(found.values, [0.3, -0.4, 0.5, -0.5], rtol=1e-15)
    assert PublicMeans.of_dict(json.loads(json.dumps(found.to_dict()))) == found


# --- what they tell -----------------------------------------------------------------------------


def test_the_centre_is_what_was_given_to_the_bit():
    begun = plan(means_of(MEANS), centre_rounds=0).begin.preparation
    np.testing.assert_array_equal(begun.centre, MEANS)
    np.testing.assert_array_equal(begun.spread, np.ones(D))


def test_the_norm_is_that_of_shares_exactly():
    """Of records of 0 and 1 the root mean square of the norm about the mean, whatever they are."""
    rows = (np.random.default_rng(0).random((500, D)) < MEANS).astype(float)
    begun = plan(means_of(rows.mean(axis=0)), centre_rounds=0).begin.preparation
    norm = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    np.testing.assert_allclose(begun.intercept, INTERCEPT * norm, rtol=1e-12)
    np.testing.assert_allclose(begun.factor, 1 / norm, rtol=1e-12)


def test_a_number_spread_evenly_has_the_norm_that_is_assumed():
    scale = FeatureScale.of((0, 10), 1)
    begun = plan(PublicMeans.of([5.0], scale), 0).known.begin(Preparation.plain(1))
    np.testing.assert_allclose(begun.spread / begun.factor, np.sqrt(1 / 12), rtol=1e-12)


def test_a_number_of_one_sign_tells_its_spread_and_others_do_not():
    wide = ([0, -1000, -1000, 0, 0], [1000, 0, 1000, 1, 1000])
    known = means_of([10.0, -20.0, 10.0, 0.5, 900.0], wide, features=5)
    begun = known.begin(Preparation.plain(5))
    np.testing.assert_allclose(begun.spread, [SPREAD * 0.01, SPREAD * 0.02, 1, 1, 1])
    np.testing.assert_allclose(begun.centre, [1 / SPREAD, -1 / SPREAD, 0.01, 0.5, 0.9])
    assert known.wide == (False, False, True, False, False)
    assert left_to_learn(FeatureScale.of(wide, 5), known) == (False, 16)


def test_a_mean_near_zero_tells_a_spread_that_cuts_little_off():
    """It may be that of a feature which is nearly always 0."""
    known = means_of([0.0, 1.0, 6.3], (0, 1000), features=3)
    begun = known.begin(Preparation.plain(3))
    np.testing.assert_array_equal(begun.spread, [1 / 128, 1 / 128, SPREAD * 0.0063])
    np.testing.assert_allclose(begun.centre, [0, 0.128, 1 / SPREAD])
    assert known.wide == (False, False, False)
    assert np.isfinite([begun.intercept, begun.factor]).all()


def test_means_at_the_bounds_leave_a_norm():
    begun = plan(means_of(np.zeros(D)), centre_rounds=0).begin.preparation
    assert begun.intercept > 0
    assert np.isfinite(begun.factor)


def test_what_lacks_counts_as_a_typical_entry():
    begun = plan(means_of({0: 0.5}), centre_rounds=0).begin.preparation
    np.testing.assert_allclose(begun.factor**-2, 0.25 + (D - 1) * TYPICAL**2)
    np.testing.assert_array_equal(begun.centre, [0.5, *[0] * (D - 1)])


def learnt(plan, rows, noise=0.0, state=None):
    """What a plan learns from these rows, with noise on what is decoded."""
    state, draw = state or plan.begin, np.random.default_rng(5)
    for number in range(plan.rounds):
        mean = plan.vectors(number, rows, state.preparation).mean(axis=0, dtype=np.float64)
        mean = mean + noise * draw.normal(size=plan.dim)
        state = advanced(plan, state, number, mean, len(rows))
    return state.preparation


def test_what_is_given_stays_and_what_lacks_is_learnt():
    rows = (np.random.default_rng(1).random((4000, D)) < MEANS).astype(float)
    given = {1: 0.8, 4: 0.35}
    some = learnt(plan(means_of(given), noise=0.0), rows, noise=0.01)
    alone = learnt(plan(noise=0.0), rows, noise=0.01)
    others = [0, 2, 3, 5]
    np.testing.assert_array_equal(some.centre[[1, 4]], [0.8, 0.35])
    np.testing.assert_array_equal(some.centre[others], alone.centre[others])


def test_what_lacks_is_shrunk_by_its_own_noise():
    rows = (np.random.default_rng(1).random((4000, D)) < MEANS).astype(float)
    known, noise = means_of({1: 0.8, 4: 0.35}), 3.0
    some = learnt(plan(known, noise=noise), rows)
    bare = learnt(plan(known, noise=0.0), rows)
    told = plan(known)
    direction = told.vectors(0, rows, told.begin.preparation).mean(axis=0, dtype=float) / 0.4
    lacking = [0, 2, 3, 5]
    share = (noise / 0.4) ** 2 / (2 * len(rows)) * 4 / (D + 1)
    kept = 1 - share / (direction[lacking] @ direction[lacking])
    np.testing.assert_allclose(some.centre[lacking], kept * bare.centre[lacking], rtol=1e-6)
    drowned = learnt(plan(known, noise=1e3), rows)
    np.testing.assert_array_equal(drowned.centre, [0, 0.8, 0, 0, 0.35, 0])


def test_a_spread_that_is_learnt_takes_its_mean_along():
    wide = ([-1000] * D, [1000] * D)
    known = means_of({0: 5.0, 1: -3.0}, wide)
    rows = np.random.default_rng(2).normal(0, 0.01, (3000, D)) + 0.005
    found = learnt(plan(known, 0, spread_rounds=2, loose=known.wide, noise=0.0), rows)
    assert found.spread.max() < 0.2
    np.testing.assert_allclose(found.centre[:2], [0.005, -0.003] / found.spread[:2], rtol=1e-12)
    assert not found.centre[2:].any()


def test_clients_of_some_means_report_what_they_always_do():
    rows, some, none = np.random.default_rng(3).random((9, D)), plan(means_of({0: 0.5})), plan()
    np.testing.assert_array_equal(
        some.vectors(0, rows, some.begin.preparation), none.vectors(0, rows, none.begin.preparation)
    )
    assert some.to_dict() == none.to_dict()


def test_a_whole_stage_without_a_report_leaves_what_is_given():
    some = plan(means_of({0: 0.5}))
    state = advanced(some, some.begin, 0, np.zeros(D + 1), 0)
    assert advanced(some, state, 1, np.zeros(D + 1), 0).preparation == some.begin.preparation


# --- which rounds are left ----------------------------------------------------------------------


def rounds_for(known, feature_range=(0, 1), **changes):
    scale = FeatureScale.of(feature_range, D)
    offset, loose = left_to_learn(scale, known)
    setting = PublicFacts(D + 1, 300, 100, norm=1.0, offset=offset, loose=loose)
    recipe = resolve_auto(Recipe(epsilon=2.0, **changes), setting)
    made = plan_for(recipe, recipe.build(), loose=scale.loose, rounds=100, known=known)
    assert made.loose == (scale.loose if known is None else known.wide)
    return made.spread_rounds, made.centre_rounds


def test_what_is_known_is_not_learnt():
    assert rounds_for(None) == (0, 10)
    assert rounds_for(means_of(MEANS)) == (0, 0)
    assert rounds_for(means_of({0: 0.5})) == (0, 10)
    wide = (0, 1000)
    assert rounds_for(None, wide) == (5, 10)
    assert rounds_for(means_of(MEANS, wide), wide) == (0, 0)
    assert rounds_for(means_of({0: 50}, wide), wide) == (5, 10)
    both = ([-9] * D, [9] * D)
    assert rounds_for(means_of(MEANS, both), both) == (5, 0)
    mixed = ([0] * 3 + [-1] * 3, [1] * D)
    assert rounds_for(means_of(dict.fromkeys(range(3), 0.5), mixed), mixed) == (0, 0)
    assert rounds_for(means_of({0: 0.5}), centre=0.0) == (0, 0)
    with pytest.raises(InvalidArgument, match=r"centre = 0.2: .*public means"):
        rounds_for(means_of(MEANS), centre=0.2)


# --- every front end ----------------------------------------------------------------------------

N = 4000
RANGE = ([0, 0, 0, 18, -50, 0], [1, 1, 1, 98, 50, 1000])
RAW = np.array([0.25, 0.5, 0.9, 43.0, 6.0, 20.0])


def records(seed=0):
    draw = np.random.default_rng(seed)
    shares = (draw.random((N, 3)) < RAW[:3]).astype(float)
    numbers = draw.normal(RAW[3:], [15, 12, 5], (N, 3)).clip(*np.array(RANGE)[:, 3:])
    X = np.hstack([shares, numbers])
    return X, (X[:, 0] + X[:, 3] / 40 + draw.normal(0, 0.5, N) > 1.3).astype(int)


def estimator(**changes):
    fixed = {"epsilon": 4.0, "feature_range": RANGE, "public_mean": RAW, "spread": 0.0}
    return FedSelClassifier(**{**fixed, **changes})


@pytest.fixture(scope="module")
def preparation():
    return estimator().fit(*records()).preparation_


def test_the_estimator_prepares_with_what_is_given(preparation):
    known = PublicMeans.of(RAW, FeatureScale.of(RANGE, D))
    plain = Plan(D, D + 1, 0, 0, (False,) * D, radius=0.4, noise=0.0).begin.preparation
    assert preparation == known.begin(plain).widened(REACH)


def test_server_front_ends_prepare_as_the_estimator(preparation):
    asked = Recipe(epsilon=4.0, spread=0.0)
    planned = ServerPlan(asked, N, 100, norm=1.0, feature_range=RANGE, public_mean=RAW, names=NAMES)
    begun = planned.preparing_of(planned.recipe_of(D + 1))
    assert begun.preparation == preparation
    assert json.loads(begun.encode())["plan"] is None
    assert RecordPipeline.decode(begun.encode(), D).preparation == preparation
    by_name = replace(planned, public_mean=dict(zip(NAMES, RAW.tolist(), strict=True)))
    assert by_name.preparing_of(by_name.recipe_of(D + 1)).preparation == preparation


def test_a_network_takes_the_centre_alone(preparation):
    planned = ServerPlan(
        Recipe(epsilon=4.0), N, 100, feature_range=RANGE, features=D, public_mean=RAW
    )
    begun = planned.preparing_of(planned.recipe_of(20)).preparation
    # A network clips at the spread itself, which is then wider where a mean tells it.
    narrow = np.where(preparation.spread < 1, 1.0, REACH)
    np.testing.assert_allclose(begun.centre, narrow * preparation.centre, rtol=1e-12)
    assert (begun.intercept, begun.factor, begun.unit) == (0, 1, False)


def test_a_cell_prepares_as_the_estimator(preparation):
    """On the scale "unit", which is that of the estimator where bounds begin at 0."""
    X, y = records()
    keep = [0, 1, 2, 5]
    low, high = np.array(RANGE, float)[:, keep]
    names = tuple(NAMES[j] for j in keep)
    data = from_arrays(X[:, keep], y, feature_names=names, bounds=np.stack([low, high], axis=1))
    told = tuple(zip(names, RAW[keep].tolist(), strict=True))
    spec = Spec(solutions=("FJ", "PM"), epsilons=(4.0,), scale="unit", intercept=True)
    directions, values = spec.cells()
    _, training = directions.setup(InMemorySource(data, means=told))
    assert training.plan.rounds == 0
    model = estimator(feature_range=(low, high), public_mean=RAW[keep], spread="auto")
    fitted = model.fit(X[:, keep], y)
    assert training.plan.begin.preparation == fitted.preparation_
    # Records that keep their norm are centred, too.
    people, other = values.setup(InMemorySource(data, means=told))
    assert other.plan is None
    expected = (X[:, keep] - low) / (high - low) - RAW[keep] / high
    np.testing.assert_allclose(people.X, np.hstack([expected, np.ones((N, 1))]), atol=1e-6)
    for wrong in ({"scale": "standard"}, {"scale": "none"}, {"intercept": False}):
        asked = next(replace(spec, solutions=("FJ",), unit_records=True, **wrong).cells())
        with pytest.raises(InvalidArgument, match="public means"):
            asked.setup(InMemorySource(data, means=told))
    assert len({InMemorySource(data).identity, InMemorySource(data, means=told).identity}) == 2


def test_a_run_goes_on_with_the_means_that_it_began_with(quick_path):
    scale = FeatureScale.of((0, 1), D)
    recipe = resolve_auto(Recipe(epsilon=4.0), PublicFacts(D + 1, 50, 40, norm=1.0))

    def server(given):
        known = None if given is None else PublicMeans.of(given, scale)
        made = plan_for(recipe, recipe.build(), loose=scale.loose, rounds=40, known=known)
        return Aggregator(recipe, quick_path, rounds_per_epoch=40, plan=made)

    with server(MEANS) as begun:
        assert begun.stage == "training"
        np.testing.assert_array_equal(begun.preparation.centre, MEANS)
        begun.step()
    with server(MEANS) as again:
        assert again.round == 1
        np.testing.assert_array_equal(again.preparation.centre, MEANS)
    for other in (MEANS / 2, {0: 0.1}, None):
        with pytest.raises(InvalidArgument, match=r"public_mean = .*as in the checkpoint"):
            server(other)
