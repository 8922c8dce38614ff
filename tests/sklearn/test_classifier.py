"""FedSelClassifier: the engine behind scikit-learn's manners, and an honest word on privacy."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.datasets import load_iris, make_classification

import fedsel
from fedsel import FedSelClassifier, InvalidArgument, solution
from fedsel.auto import PublicFacts, learning_rate, model_of
from fedsel.data.partition import by_groups
from fedsel.preparation import FeatureScale
from fedsel.simulation import Population, Training, train

BOUNDS = (-4.0, 4.0)
# Tests repeat themselves, and their clients are nobody: tests/sklearn/test_release.py and
# tests/sklearn/test_repeated_fits.py are on these warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


def binary(n=600, d=6, seed=0):
    X, y = make_classification(
        n, d, n_informative=3, n_clusters_per_class=1, random_state=seed, class_sep=2.0
    )
    return np.clip(X, -4, 4), np.array(["no", "yes"])[y]


def several():
    X, y = load_iris(return_X_y=True)
    return X, y


def classifier(**parameters):
    return FedSelClassifier(**{"feature_range": BOUNDS, "random_state": 3, **parameters})


@pytest.mark.parametrize("model", ["logistic", "svm"])
@pytest.mark.parametrize("grouped", [False, True])
def test_two_classes_are_the_engine(model, grouped):
    X, y = binary()
    groups = np.arange(600) // 3 if grouped else None
    chosen = {"solution": "PS-PM", "learning_rate": 0.7, "mu": 0.1, "epsilon": 3.0}
    fitted = classifier(model=model, epochs=2, **chosen).fit(X, y, groups=groups)
    used = np.hstack([X / 4, np.ones((600, 1))]).astype(np.float32)
    made = solution("PS-PM", epsilon=3.0, dim=7, epochs=2)
    clients = by_groups(groups) if grouped else None
    population = Population(
        used,
        np.where(y == "yes", 1, -1).astype(np.int8),
        None if clients is None else clients.order,
        None if clients is None else clients.starts,
    )
    training = Training(made, 0.7, batch=2 if grouped else 6, seed=3)
    expected = train(training, population, loss=model).weights
    np.testing.assert_array_equal(fitted.coef_[0], expected[:6] / 4)
    np.testing.assert_array_equal(fitted.intercept_, expected[6:])
    assert fitted.n_clients_ == (200 if grouped else 600)
    assert fitted.solution_ == made


@pytest.mark.parametrize("model", ["logistic", "svm"])
def test_the_default_is_one_symbol_on_unit_records(model):
    X, y = binary()
    fitted = classifier(model=model, epsilon=3.0, spread=0).fit(X, y)
    used = np.hstack([X / 4, np.ones((600, 1))])
    used = (used / np.linalg.norm(used, axis=1, keepdims=True)).astype(np.float32)
    made = solution("FJ", epsilon=3.0, dim=7, rho=0.4)
    rate = learning_rate(
        made, PublicFacts(7, clients=6, rounds=100, norm=1.0, model=model_of(model))
    )
    population = Population(used, np.where(y == "yes", 1, -1).astype(np.int8))
    training = Training(made, rate, batch=6, seed=3, averaging=3.0)
    expected = train(training, population, loss=model).weights
    np.testing.assert_allclose(fitted.coef_[0], expected[:6] / 4, rtol=1e-5)
    assert fitted.solution_ == made
    # The norm changes no sign.
    linear = X @ fitted.coef_[0] + fitted.intercept_
    np.testing.assert_array_equal(fitted.decision_function(X) >= 0, linear >= 0)


def test_a_radius_where_records_keep_their_norm():
    X, y = binary()
    fitted = classifier(unit_norm=False).fit(X, y)
    assert fitted.solution_.mechanism.radius == pytest.approx(0.4 * 0.25 * np.sqrt(7))
    fitted = classifier(rho=None).fit(X, y)
    assert fitted.solution_.mechanism.radius is None
    three = classifier(feature_range=(0, 8)).fit(*several())
    assert three.solution_.mechanism.radius == 0.4


def test_a_single_report_holds_all_classes():
    X, y = several()
    fitted = classifier(feature_range=(0, 8)).fit(X, y)
    assert fitted.solution_.dim == 3 * 5
    assert fitted.coef_.shape == (3, 4)
    assert fitted.intercept_.shape == (3,)
    assert fitted.privacy_.reports == 1
    assert fitted.privacy_.total == pytest.approx(2.0)


@pytest.mark.parametrize("model", ["logistic", "svm"])
def test_without_privacy_it_learns(model):
    X, y = several()
    options = {"solution": "NP", "model": model, "epochs": 20, "learning_rate": 1.0}
    fitted = classifier(feature_range=([4, 2, 1, 0], [8, 5, 7, 3]), **options).fit(X, y)
    assert fitted.score(X, y) > 0.9
    X, y = binary()
    assert classifier(**options).fit(X, y).score(X, y) > 0.85


def test_with_privacy_it_learns_from_many_clients():
    """20,000 clients at ε = 4: far above the chance of a half."""
    X, y = binary(22_000)
    fitted = classifier(epsilon=4.0).fit(X[:20_000], y[:20_000])
    assert fitted.score(X[20_000:], y[20_000:]) > 0.8


def test_coefficients_are_on_the_scale_of_the_features():
    rng = np.random.default_rng(1)
    X = rng.uniform([0, 10, -5], [1, 30, 5], size=(300, 3))
    y = (X[:, 1] > 20).astype(int)
    bounds = ([0, 10, -5], [1, 30, 5])
    fitted = classifier(feature_range=bounds, solution="NP", unit_norm=False).fit(X, y)
    by_hand = X @ fitted.coef_[0] + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), by_hand, rtol=1e-4, atol=1e-5)
    # Beyond the bounds a record is clipped, as a client would do.
    np.testing.assert_array_equal(
        fitted.decision_function([[9.0, 99.0, -99.0]]), fitted.decision_function([[1, 30, -5]])
    )


def test_probabilities():
    X, y = several()
    fitted = classifier(feature_range=(0, 8), solution="NP").fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)
    assert (fitted.classes_[fitted.predict_proba(X).argmax(axis=1)] == fitted.predict(X)).all()
    two = classifier().fit(*binary())
    margins, chances = two.decision_function(binary()[0]), two.predict_proba(binary()[0])
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-margins)), rtol=1e-12)
    assert not hasattr(classifier(model="svm"), "predict_proba")


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
@pytest.mark.parametrize("labels", [2, 3])
def test_sparse_is_dense(kind, labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * (rng.random((200, 5)) < 0.3)
    y = rng.integers(0, labels, 200)
    dense = classifier(epsilon=8.0).fit(X, y)
    sparse = classifier(epsilon=8.0).fit(kind(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        sparse.decision_function(kind(X)), dense.decision_function(X), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(InvalidArgument, match="around zero for sparse"):
        classifier(feature_range=(1, 2)).fit(kind(X), y)


def test_a_wave_may_lack_a_class():
    X, y = several()
    waves = classifier(feature_range=(0, 8)).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert waves.partial_fit(X[100:], y[100:]).coef_.shape == (3, 4)


def test_labels_and_judges_that_do_not_fit_are_refused():
    X, y = binary()
    with pytest.raises(ValueError, match="at least two classes"):
        classifier().fit(X, ["yes"] * 600)
    with pytest.raises(InvalidArgument, match="eval_set"):
        classifier().fit(X, y, eval_set=X)
    with pytest.raises(InvalidArgument, match="labelled as y is"):
        classifier().fit(X, y, eval_set=(X[:1], ["perhaps"]))


def test_accuracy_against_epsilon():
    X, y = binary()
    axes = classifier().plot_privacy_accuracy(
        X[:500], y[:500], X[500:], y[500:], epsilons=(1, 8), solutions=("NP", "ps-pm"), repeats=2
    )
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(labels) == ["NP (not private)", "PS-PM"]
    assert axes.get_xlabel() == "ε of a client"
    with pytest.raises(InvalidArgument, match="epsilons"):
        classifier().plot_privacy_accuracy(X, y, X, y, epsilons=(0,))


def test_scales_keep_zero_where_they_can():
    scale = FeatureScale.of(([0, -2, 10], [4, 8, 30]), 3)
    np.testing.assert_array_equal(scale.centre, [0, 0, 20])
    np.testing.assert_array_equal(scale.factor, [1 / 4, 1 / 8, 1 / 10])
    constant = FeatureScale.read(np.array([[5.0, 0.0], [5.0, 1.0]]))
    assert constant.apply(np.array([[5.0, 1.0]])).tolist() == [[0.0, 1.0]]
    assert list(scale.loose) == [True] * 3
    assert list(FeatureScale.of((0, [1, 1, 2]), 3).loose) == [False, False, True]
    assert [FeatureScale.of(pair, 1).offset for pair in ((-2, 2), (0, 1), (1, 3))] == [
        *(False, True, True)
    ]


def test_the_public_api_has_it():
    assert fedsel.FedSelClassifier is FedSelClassifier
    assert issubclass(fedsel.PrivacyLeakWarning, RuntimeWarning)


def rare(n=20_000, share=0.03, seed=0):
    shape = {"n_informative": 4, "n_clusters_per_class": 1, "class_sep": 0.3}
    X, y = make_classification(n, 6, weights=[1 - share], random_state=seed, **shape)
    return np.clip(X, -4, 4), y


def balanced(model, X, y):
    return np.mean([np.mean(model.predict(X[y == c]) == c) for c in np.unique(y)])


@pytest.mark.slow
def test_class_weights_find_the_rare_class():
    """Ten seeds gain 0.01 to 0.14, half of them more than 0.07."""
    X, y = rare()
    plain = classifier(epsilon=8.0).fit(X, y)
    weighted = classifier(epsilon=8.0, class_weight={0: 0.05, 1: 1.0}).fit(X, y)
    assert balanced(weighted, X, y) > balanced(plain, X, y) + 0.03
    # Only the ratio counts: the largest weight is 1.
    twice = classifier(epsilon=8.0, class_weight={0: 0.1, 1: 2.0}).fit(X, y)
    np.testing.assert_array_equal(twice.coef_, weighted.coef_)


def test_weights_of_one_change_nothing_but_the_last_bits():
    X, y = binary()
    chosen = {"weight_bound": 1.0, "epsilon": 4.0}
    plain, weighted = (
        classifier(**chosen).fit(X, y, sample_weight=w) for w in (None, np.ones(len(y)))
    )
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-6)
    three = [classifier(**chosen).fit(*several(), sample_weight=w) for w in (None, np.ones(150))]
    np.testing.assert_array_equal(three[0].coef_, three[1].coef_)


@pytest.mark.parametrize(
    "bad", ["balanced", {"no": 1.0}, {"no": 1.0, "yes": 0.0}, {"no": 1.0, "yes": math.nan}, [1, 2]]
)
def test_impossible_class_weights(bad):
    with pytest.raises(InvalidArgument, match="class_weight"):
        classifier(class_weight=bad).fit(*binary())


@pytest.mark.parametrize("given", [(-1000, 1000), "private", (-4, 40)])
def test_wide_or_unknown_bounds_cost_little(given):
    X, y = binary(12_000)
    model = FedSelClassifier(epsilon=4.0, feature_range=given, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.95
    told = str(model.privacy_)
    assert model.privacy_.total == pytest.approx(4.0)
    assert "preparation_, the centre and spread of the records" in told
    # The intercept's entry follows the records, whatever was declared.
    assert model.preparation_.spread.max() < 1
    margins = np.clip(X, -3, 3) @ model.coef_[0] + model.intercept_
    inside = np.abs(model.decision_function(X)) > 0.05
    assert np.mean((margins >= 0)[inside] == (model.decision_function(X) >= 0)[inside]) > 0.97


def test_private_bounds_are_no_leak(recwarn):
    X, y = binary(3000)
    FedSelClassifier(epsilon=4.0, feature_range="private").fit(X, y)
    assert not [w for w in recwarn if "feature_range" in str(w.message)]
    with pytest.raises(InvalidArgument, match=r"feature_range = 'public'.*private"):
        FedSelClassifier(feature_range="public").fit(X, y)


def test_later_waves_prepare_as_the_first_has_learnt():
    X, y = binary(6000)
    model = classifier(feature_range=(-100, 100), epsilon=4.0)
    model.partial_fit(X[:3000], y[:3000])
    learnt = model.preparation_
    model.partial_fit(X[3000:], y[3000:])
    assert model.preparation_ is learnt
    assert model.history_.rounds[-1].round == 200


def test_what_prepares_needs_an_intercept_and_unit_records():
    X, y = binary()
    for change in ({"fit_intercept": False}, {"unit_norm": False}):
        with pytest.raises(InvalidArgument, match=r"centre = 0.1: must be .auto. or 0"):
            classifier(centre=0.1, **change).fit(X, y)
        assert classifier(feature_range=(0, 9), **change).fit(X, y).recipe_.centre == 0
    with pytest.raises(InvalidArgument, match="whose means are biased"):
        classifier(solution="J", centre=0.1).fit(X, y)


def test_weights_of_several_classes():
    X, y = several()
    X, y = np.tile(X, (80, 1)), np.tile(y, 80)
    known = {"epsilon": 4.0, "feature_range": (0, 8), "random_state": 0}
    shares = []
    for weights in (None, {0: 1.0, 1: 0.1, 2: 1.0}):
        model = FedSelClassifier(class_weight=weights, **known).fit(X, y)
        assert model.recipe_.centre > 0
        shares.append(np.mean(model.predict(X) == 1))
    assert shares[1] < shares[0] - 0.1  # what counts less is said less often


def test_several_classes_are_centred_too():
    X, y = several()
    X, y = np.tile(X, (80, 1)), np.tile(y, 80)
    model = FedSelClassifier(epsilon=4.0, feature_range=(0, 8), random_state=0).fit(X, y)
    assert model.preparation_.centre.any()
    assert model.score(X, y) > 0.8
    apart = model.decision_function(X)
    assert np.mean(apart.argmax(1) == (X @ model.coef_.T + model.intercept_).argmax(1)) > 0.9
