"""Data sets that differ in one client: all that is public, and all before its report, is the same.

With a seed every draw is the same. So whatever differs before the changed client reports was read
from its record, and no ε covers it.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from fedsel import Schema, solution
from fedsel.simulation import Training, _account
from fedsel.sklearn import FedSelClassifier, FedSelRegressor
from fedsel.sklearn._fitting import seed_of_wave
from fedsel.wire import Date, Number

SEED, N, D = 3, 400, 4
FROM_REPORTS = {"coef_", "intercept_", "_model", "_weights", "history_"}
"""What is computed from all reports; everything else an estimator holds is public."""


def last_of(wave=1):
    """The client that reports last in a wave: in the last of a hundred rounds."""
    seed = seed_of_wave(SEED, wave)
    training = Training(solution("NP", dim=1), batch=4, seed=seed)
    return int(training.schedule(np.arange(N), N, 0)[0][-1])


LAST = last_of()


def records(seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (N, D))


def labels(X, classes):
    scores = np.stack([np.roll(X, c, axis=1) @ np.arange(D) for c in range(classes)])
    return scores.argmax(axis=0)


def fitted(model, fit, capsys):
    """What is public after a fit, by name, and what was learnt after each round."""
    _account.RECORDS = _account.RecordAccount()  # nobody has been fitted before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(model.set_params(random_state=SEED, verbose=1))
    known = {k: pickle.dumps(v) for k, v in vars(model).items() if k not in FROM_REPORTS}
    known["warnings"] = [(w.category, str(w.message)) for w in caught]
    known["said"] = capsys.readouterr().out
    rounds = model.history_.rounds
    known["history"] = [(r.round, r.epoch, r.epsilon, r.bits, r.reports) for r in rounds]
    return known, [(r.loss, r.accuracy) for r in rounds]


def check(model, fits, capsys):
    """Fits on neighbours: only what is learnt in the last round may differ."""
    first, *others = [fitted(model(), fit, capsys) for fit in fits]
    for known, learnt in others:
        assert known == first[0]
        assert np.isfinite(learnt).all()
        assert learnt[:-1] == first[1][:-1]
        if model().solution == "NP":  # the last report tells of the change: it is one
            assert learnt != first[1]


def neighbours(X, y):
    """The last client's label or its record is another."""
    changed = []
    for record, label in (
        (X[LAST], y.max() - y[LAST]),
        (np.full(D, 1e6), y[LAST]),
        (np.zeros(D), y[LAST]),
    ):
        other_X, other_y = X.copy(), y.copy()
        other_X[LAST], other_y[LAST] = record, label
        changed.append((other_X, other_y))
    return [(X, y), *changed]


CLASSIFIERS = {
    "RJ": {},
    "PS-PM": {"solution": "PS-PM", "epsilon": 8.0},
    "NP": {"solution": "NP"},
    "a support vector machine": {"model": "svm"},
    "norms": {"unit_norm": False},
    "weights of classes": {"class_weight": {0: 1.0, 1: 100.0, 2: 0.5, 3: 3.0}},
    "shares of classes": {"class_prior": {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}},
    "loose bounds": {"feature_range": (-50, 100), "epsilon": 8.0},
    "bounds that nobody knows": {"feature_range": "private", "epsilon": 8.0},
    "public means": {"feature_range": (-1, 2), "public_mean": [0.1, np.nan, -0.2, 0.0]},
    "public means of all": {"feature_range": (-1, 2), "public_mean": [0.1, 0.5, -0.2, 0.0]},
}


def of_classes(given, classes):
    """The parameters for so many classes."""
    tables = [name for name in given if name.startswith("class_")]
    short = {name: {c: given[name][c] for c in range(classes)} for name in tables}
    return {"feature_range": (-1, 1), "solution": "RJ", "epsilon": 2.0, **given, **short}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "sparse", "grouped", "weighted", "public"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name, classes, form, capsys):
    given = of_classes(CLASSIFIERS[name], classes)
    X = records()
    y = labels(X, classes)
    y[LAST] = 0
    judges = (records(1), labels(records(1), classes))

    def fit_of(X, y, number):
        if form == "public" and given.get("solution") != "NP" and "public_mean" not in given:
            return lambda model: model.fit(X, y, eval_set=judges, public_X=records(2)[:50])
        if form == "grouped":
            return lambda model: model.fit(*grouped(X, y, number), eval_set=judges)
        if form == "weighted":
            weight = np.linspace(0.1, 2, N)
            weight[LAST] = (1.0, 0.0, 50.0, 0.2)[number]
            return lambda model: model.set_params(weight_bound=1.5).fit(
                X, y, eval_set=judges, sample_weight=weight
            )
        rows = csr_array(X) if form == "sparse" else X
        return lambda model: model.fit(rows, y, eval_set=judges)

    fits = [fit_of(*pair, number) for number, pair in enumerate(neighbours(X, y))]
    check(lambda: FedSelClassifier(**given), fits, capsys)


def grouped(X, y, number):
    """Each client holds its record, the changed one so many more of them."""
    groups = np.r_[np.arange(N), np.full(number, LAST)]
    return X[groups], y[groups], groups


@pytest.mark.parametrize("solution", ["RJ", "NP"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("wave", [1, 2])
def test_a_wave_without_the_heaviest_class(wave, classes, solution, capsys):
    """Whether one client of it is there decides nobody else's weight."""
    given = of_classes(CLASSIFIERS["weights of classes"], classes) | {"solution": solution}
    X, judges = records(), (records(1), labels(records(1), classes))
    nobody = np.where(labels(X, classes) == 1, 0, labels(X, classes))
    single = nobody.copy()
    single[last_of(wave)] = 1

    def fit_of(y):
        def fit(model):
            for _ in range(wave - 1):
                model.partial_fit(records(5), labels(records(5), classes), eval_set=judges)
            model.partial_fit(X, y, classes=range(classes), eval_set=judges)

        return fit

    check(lambda: FedSelClassifier(**given), [fit_of(nobody), fit_of(single)], capsys)


REGRESSORS = {
    "RJ": {},
    "PM": {"solution": "PM", "epsilon": 8.0},
    "Huber": {"loss": "huber"},
    "loose bounds": {"feature_range": (-50, 100), "epsilon": 8.0},
    "bounds that nobody knows": {"feature_range": "private", "epsilon": 8.0},
    "public means": {"feature_range": (-1, 2), "public_mean": [0.1, np.nan, -0.2, 0.0]},
    "public means of all": {"feature_range": (-1, 2), "public_mean": [0.1, 0.5, -0.2, 0.0]},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "grouped", "weighted", "public"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, form, capsys):
    given = {"feature_range": (-1, 1), "target_range": (-2, 2), **REGRESSORS[name]}
    X = records()
    y = X @ np.linspace(-1, 1, D)
    judges = (records(1), records(1) @ np.linspace(-1, 1, D))

    def fit_of(X, y, number):
        weight = None
        if form == "weighted":
            weight = np.linspace(0.1, 2, N)
            weight[LAST] = (1.0, 0.0, 50.0, 0.2)[number]
        rows, targets, groups = grouped(X, y, number) if form == "grouped" else (X, y, None)
        public = records(2)[:50] if form == "public" and "public_mean" not in given else None
        return lambda model: model.set_params(weight_bound=1.5).fit(
            rows, targets, groups, eval_set=judges, sample_weight=weight, public_X=public
        )

    fits = [fit_of(*pair, number) for number, pair in enumerate(neighbours(X, y))]
    check(lambda: FedSelRegressor(**given), fits, capsys)


SCHEMA = Schema(
    {
        "age": Number(0, 100, indicator=True),
        "income": "private",
        "job": ["cook", "smith"],
        "since": Date(["year", "weekday"], "2000-01-01", "2030-12-31"),
    },
    classes=["no", "maybe", "yes", "never said"],
)
OTHERS = [
    {"age": None, "income": None, "job": None, "since": None},
    {"age": np.inf, "income": -1e300, "job": "spy", "since": "soon"},
    {"age": "1e3", "income": True, "job": 7, "since": 20},
]
"""Records of the last client: missing cells, unknown levels, whatever cannot be read."""


def people(seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.uniform(10, 90, N),
        "income": rng.lognormal(9, 2, N),
        "job": rng.choice(["cook", "smith"], N),
        "since": rng.choice(["2001-02-03", "2024-12-31"], N),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def tables(y, labels):
    """The last client has another label, or another record; as lists and as data frames."""
    first = people()
    yield first, y
    for label in labels:
        changed = y.copy()
        changed[LAST] = label
        yield first, changed
    for other in OTHERS:
        yield [*first[:LAST], other, *first[LAST + 1 :]], y


@pytest.mark.parametrize("frame", [list, pd.DataFrame])
@pytest.mark.parametrize("solution", ["RJ", "FJ", "NP"])
def test_tables_with_a_schema(solution, frame, capsys):
    """Neither a missing cell, an unknown level nor a class that nobody else has is learnt."""
    y = np.array(["no", "maybe", "yes"])[np.digitize([p["age"] for p in people()], [40, 60])]
    y = y.astype("U10")
    y[LAST] = "no"
    judges = (people(1), np.resize(["no", "never said"], N))
    check(
        lambda: FedSelClassifier(schema=SCHEMA, solution=solution, epsilon=8.0),
        [
            lambda model, X=X, y=y: model.fit(frame(X), y, eval_set=judges)
            for X, y in tables(y, ["never said", "yes"])
        ],
        capsys,
    )


@pytest.mark.parametrize("solution", ["RJ", "NP"])
def test_regressions_with_a_schema(solution, capsys):
    schema = Schema(SCHEMA.columns, target_range=(0, 100))
    y = np.array([p["age"] for p in people()])
    judges = (people(1), y.copy())
    check(
        lambda: FedSelRegressor(schema=schema, solution=solution, epsilon=8.0),
        [
            lambda model, X=X, y=y: model.fit(X, y, eval_set=judges)
            for X, y in tables(y, [0.0, 1e9])
        ],
        capsys,
    )
