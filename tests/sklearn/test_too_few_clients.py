"""A fit says where its clients are too few, by the figures of advise, and only there."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_blobs, make_classification

from fedsel import FedSelClassifier, advise
from fedsel.errors import TooFewClientsWarning
from fedsel.simulation import _account
from fedsel.sklearn import FedSelRegressor

RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings(
    "error::fedsel.errors.TooFewClientsWarning",
    "ignore::fedsel.errors.RepeatedFitWarning",
    "ignore::fedsel.errors.SeededNoiseWarning",
)


def records(n, d=30):
    X = RNG.uniform(-1, 1, (n, d))
    return X, (X[:, 0] > 0).astype(int)


def classifier(**given):
    return FedSelClassifier(**{"epsilon": 1.0, "feature_range": (-1, 1), **given})


def told(fit):
    with pytest.warns(TooFewClientsWarning) as caught:
        fit()
    assert caught[0].filename == __file__
    return str(caught[0].message)


def test_569_clients_at_epsilon_1_are_too_few_and_advise_says_the_same():
    X, y = load_breast_cancer(return_X_y=True)
    said = told(lambda: classifier(feature_range=(0, 4300)).fit(X, y))
    advice = advise(dim=31, clients=569, epsilon=1.0)
    outlook = advice["FJ"]
    needed = re.search(r"a usable model needs ([^.]*\.\d+, about [\d,]+ clients)", said)[1]
    assert needed in advice.warnings[0]
    assert f"align {outlook.alignment_all:.2g} with" in said
    assert said.startswith("569 clients are too few for ε = 1 and d = 31:")


@pytest.mark.parametrize("clients", [300, 1_000, 2_000, 5_000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_a_fit_warns_just_where_advise_does(clients, epsilon):
    X, y = records(clients, 20)
    outlook = advise(dim=21, clients=clients, epsilon=epsilon)["FJ"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier(epsilon=epsilon, batch_fraction=0.01).fit(X, y)
    warned = any(w.category is TooFewClientsWarning for w in caught)
    assert warned == (outlook.alignment_all < 0.5) == (clients < outlook.clients_needed)


def test_it_is_said_before_anything_is_spent():
    X, y = records(200)
    with pytest.raises(TooFewClientsWarning):
        classifier().fit(X, y)
    assert len(_account.RECORDS.digests) == 0


def test_it_does_not_depend_on_the_records():
    X, y = records(200)
    said = {told(lambda X=X, y=y: classifier().fit(X, y)) for X, y in ((X, y), (X / 9, 1 - y))}
    assert len(said) == 1


@pytest.mark.parametrize("solution", ["PS-PM", "PM", "J", "UJ", "RC", "PM-RP", "EXP-Duchi"])
def test_every_solution_of_the_registry_is_judged(solution):
    X, y = records(100)
    assert "100 clients are too few" in told(lambda: classifier(solution=solution).fit(X, y))


def test_regressions_and_many_classes():
    X, _ = records(300)
    regressor = FedSelRegressor(epsilon=1.0, feature_range=(-1, 1), target_range=(-1, 1))
    assert "300 clients" in told(lambda: regressor.fit(X, X[:, 0]))
    said = told(lambda: classifier(epsilon=4.0).fit(X, np.arange(300) % 10))
    assert "d = 310:" in said
    assert "ε = 4 and" in told(lambda: classifier(epsilon=4.0, epochs=4).fit(X, np.arange(300) % 3))


@pytest.mark.slow
def test_classes_are_counted():
    """Three classes with a frequent one need more than two do; twenty are judged by their guess."""
    X, y = make_classification(
        5_000, 12, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1,
        class_sep=0.7, weights=[0.63, 0.25, 0.12], random_state=6,
    )  # fmt: skip
    model = classifier(feature_range=(-6, 6), random_state=1)
    said = told(lambda: model.fit(X[:2_000], y[:2_000]))
    assert "align 0.42 with" in said
    assert said.endswith("for 50% of the records; a guess does for 33%. See fedsel.advise(…).")
    assert model.score(X[2_000:], y[2_000:]) < 0.7  # always the first class: 0.63
    X, y = make_blobs(13_000, 20, centers=20, cluster_std=3.0, random_state=1)
    model = classifier(feature_range=(-20, 20), epsilon=4.0, random_state=1)
    model.fit(X[:1_000], y[:1_000])
    assert model.score(X[1_000:], y[1_000:]) > 0.25  # a guess: 0.05
    told(lambda: classifier(feature_range=(-20, 20)).fit(X[:1_000], y[:1_000]))


def test_nobody_is_warned_without_need():
    X, y = records(400)
    classifier(epsilon=8.0).fit(X, y)
    classifier(solution="NP").fit(X, y)
    classifier().partial_fit(X, y)  # more may come
    classifier(feature_range=None).fit(X, y, public_X=X[:50])
    # Forty clients who hold ten records each: their records may agree.
    classifier(epsilon=4.0).fit(X, y, groups=np.arange(400) % 40)
    classifier(fit_intercept=False).fit(X[:, :1], y)
