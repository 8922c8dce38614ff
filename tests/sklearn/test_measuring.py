"""measure=0.1: some clients measure the model and do not train it; threshold= is set by them."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import fedsel
from fedsel import FedSelClassifier, FedSelRegressor, FitAccount, InvalidArgument
from fedsel.errors import LifetimeExceeded
from fedsel.measuring import Measured, Recalibration
from fedsel.sklearn import _base
from fedsel.sklearn._measuring import dearest, recalibrated

pytestmark = [
    pytest.mark.filterwarnings("ignore::fedsel.errors.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning"),
    pytest.mark.filterwarnings("ignore::fedsel.errors.TooFewClientsWarning"),
]
N, D = 4000, 4


def records(n=N, seed=0, classes=2):
    draw = np.random.default_rng(seed)
    X = draw.uniform(-1, 1, (n, D))
    scores = X @ draw.normal(size=(D, classes)) + draw.gumbel(0, 0.3, (n, classes))
    return X, scores.argmax(axis=1)


X, Y = records()
TARGETS = X @ np.array([1.0, -0.5, 0.25, 0.0])


def classifier(**parameters):
    given = {"epsilon": 4.0, "measure": 0.25, "feature_range": (-1, 1), "random_state": 3}
    return FedSelClassifier(**{**given, **parameters})


def regressor(**parameters):
    given = {"epsilon": 4.0, "measure": 0.25, "feature_range": (-1, 1), "random_state": 3}
    return FedSelRegressor(**{**given, "target_range": (-2, 2), **parameters})


def plain(found):
    return found.measurement_.as_dict()


@pytest.fixture
def spied(monkeypatch):
    """Which clients trained, and which answered, in each wave."""
    trained, answered = [], []
    train, ask = _base.train_wave, _base.measured

    def training(*given, **named):
        trained.append(named["members"])
        return train(*given, **named)

    def asking(asked, answering, clients, *given, **named):
        answered.append(clients)
        return ask(asked, answering, clients, *given, **named)

    monkeypatch.setattr(_base, "train_wave", training)
    monkeypatch.setattr(_base, "measured", asking)
    return trained, answered


# --- who measures --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [classifier(), regressor()], ids=["classes", "numbers"])
def test_clients_that_measure_never_train(model, spied):
    model.fit(X, Y if hasattr(model, "model") else TARGETS)
    (trains,), (measures,) = spied
    assert sorted([*trains, *measures]) == list(range(N))
    assert len(measures) == N // 4 == model.measurement_.clients
    assert model.n_clients_ == N


def test_records_of_clients_that_measure_do_not_move_the_model():
    """What those who measure hold may be anything: the weights are the same to the bit."""
    model = classifier().fit(X, Y)
    _, measures = fedsel.simulation._measuring.told_apart(np.arange(N), 0.25, 3)
    other, labels = X.copy(), Y.copy()
    other[measures] = 0.5
    labels[measures] = 1 - labels[measures]
    again = classifier().fit(other, labels)
    assert plain(model) != plain(again)
    for name, known in vars(model).items():
        if name not in ("measurement_", "spent_"):
            assert pickle.dumps(known) == pickle.dumps(vars(again)[name]), name


def test_groups_measure_with_one_of_their_records(spied, monkeypatch):
    groups = np.arange(N) // 4
    rows = []
    margins = fedsel.wire.Model.margins_of

    def seen(self, X):
        rows.append(len(X))
        return margins(self, X)

    monkeypatch.setattr(fedsel.wire.Model, "margins_of", seen)
    model = classifier(solution="FJ").fit(X, Y, groups=groups)
    (trains,), (measures,) = spied
    assert len(trains) + len(measures) == N // 4
    assert sum(rows) == len(measures) == model.measurement_.clients


def test_every_wave_is_measured_by_its_own_clients(spied):
    model = classifier(threshold="private")
    model.partial_fit(X[: N // 2], Y[: N // 2], classes=[0, 1])
    first = plain(model)
    model.partial_fit(X[N // 2 :], Y[N // 2 :])
    assert [len(m) for m in spied[1]] == [N // 8, N // 8]
    assert plain(model) != first


def test_a_later_wave_goes_on_from_the_weights_as_they_were_trained():
    waves = [classifier(threshold=threshold) for threshold in (None, "private")]
    for model in waves:
        for part in (slice(None, N // 2), slice(N // 2, None)):
            model.partial_fit(X[part], Y[part], classes=[0, 1])
    np.testing.assert_array_equal(waves[0]._weights, waves[1]._weights)


def test_results_depend_on_the_seed_alone():
    assert plain(classifier().fit(X, Y)) == plain(classifier().fit(X, Y))
    assert plain(classifier().fit(X, Y)) != plain(classifier(random_state=4).fit(X, Y))


def test_without_measure_nothing_is_asked_and_nothing_changes():
    model = classifier(measure=0.0).fit(X, Y)
    assert model.measurement_ is None
    assert model.recalibration_ is None
    assert not any("measurement_" in fact for fact in model.privacy_.covered)


# --- what they say -------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("dense", [True, False])
def test_accuracy_is_near_that_on_all_records(classes, dense):
    rows, labels = records(classes=classes)
    model = classifier(epsilon=8.0).fit(rows if dense else csr_array(rows), labels)
    found = model.measurement_["accuracy"]
    truth = model.score(rows, labels)
    assert abs(found.value - truth) < 6.1 * found.error  # a false alarm in 1e-9
    assert len(model.measurement_.shares) == classes
    assert model.measurement_.confusion.shape == (classes, classes)


@pytest.mark.parametrize("unit", [True, False])
def test_scores_of_records_with_any_norm_lie_in_several_bins(unit):
    model = classifier(unit_norm=unit, epsilon=8.0).fit(20 * X / 20, Y)
    shares = np.array([c.share for c in model.measurement_.calibration])
    assert (shares > 0.03).sum() >= 4


def test_numbers_have_an_r2():
    model = regressor(epsilon=8.0, measure=0.5).fit(X, TARGETS)
    found = model.measurement_
    assert set(found.metrics) == {"R²", "mean error", "root mean squared error"}
    assert found["R²"].high > 0
    assert found.sentence.startswith("R²: ")


def test_class_labels_may_be_anything():
    names = np.array(["no", "yes"])[Y]
    assert plain(classifier().fit(X, names)) == plain(classifier().fit(X, Y))


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("measure", [0.1, 0.9])
@pytest.mark.parametrize("threshold", [None, "private", "auto"])
def test_few_clients_are_measured_or_not_and_never_fail(n, measure, threshold):
    model = classifier(measure=measure, threshold=threshold)
    model.partial_fit(X[:n], np.arange(n) % 2, classes=[0, 1])
    if n == 1:
        assert model.measurement_ is None
    else:
        assert model.measurement_.clients == min(n - 1, max(1, round(measure * n)))
        assert model.measurement_["accuracy"].high - model.measurement_["accuracy"].low > 0.3
    model.predict_proba(X)


# --- what is refused -----------------------------------------------------------------------------


WRONG = (1, 1.0, -0.1, float("nan"), float("inf"), "a", "auto", True, None, [0.1])


@pytest.mark.parametrize("measure", WRONG, ids=repr)
@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_wrong_share_is_refused_before_anything_is_spent(make, measure):
    with FitAccount() as account, pytest.raises(InvalidArgument, match=r"^measure = "):
        make(measure=measure).fit(X, Y)
    assert (account.fits, account.spent) == (0, 0.0)


@pytest.mark.parametrize(
    ("parameters", "labels", "why"),
    [
        ({"threshold": "best"}, Y, 'must be None, "private" or "auto"'),
        ({"threshold": True}, Y, 'must be None, "private" or "auto"'),
        ({"threshold": "private", "measure": 0.0}, Y, "without measure"),
        ({"threshold": "auto", "measure": 0}, Y, "without measure"),
        ({"threshold": "auto"}, Y + (X[:, 0] > 0.5), "with 3 classes"),
        ({"threshold": "private", "model": "svm"}, Y, "no probabilities"),
        ({"threshold": "auto", "class_prior": {0: 0.5, 1: 0.5}}, Y, "class_prior"),
        ({"threshold": "auto", "class_weight": {0: 1, 1: 2}}, Y, "class_weight"),
    ],
)
def test_a_threshold_without_sense_is_refused_before_anything_is_spent(parameters, labels, why):
    with FitAccount() as account, pytest.raises(InvalidArgument, match=r"^threshold = ") as caught:
        classifier(**parameters).fit(X, labels)
    assert why in str(caught.value)
    assert (account.fits, account.spent) == (0, 0.0)


def test_measuring_needs_an_epsilon():
    with FitAccount() as account, pytest.raises(InvalidArgument, match=r"^epsilon = None"):
        classifier(solution="NP", epsilon=None).fit(X, Y)
    assert account.fits == 0


# --- ε -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, Fraction(1, 3), 4.0])
@pytest.mark.parametrize("epochs", [1, 3])
def test_no_record_spends_more_than_its_epsilon(epsilon, epochs):
    with FitAccount(lifetime=epsilon) as account:
        model = classifier(epsilon=epsilon, epochs=epochs).fit(X, Y)
    assert model.spent_ <= float(epsilon) + 1e-12
    assert account.spent <= float(epsilon)
    assert model.measurement_.epsilon == pytest.approx(float(epsilon))


def test_an_account_is_charged_by_the_dearest_report():
    asked = Measured(2, linear=True, bins=8, spread=True)
    cheap = fedsel.solution("FJ", epsilon=0.25, dim=5)
    assert dearest(cheap, None, 1.0) is cheap.privacy
    assert dearest(cheap, asked, 1.0).total == pytest.approx(1.0)
    assert dearest(fedsel.solution("FJ", epsilon=2.0, dim=5), asked, 1.0).total == pytest.approx(
        2.0
    )


def test_a_lifetime_that_does_not_suffice_refuses_the_fit():
    with FitAccount(lifetime=1.0), pytest.raises(LifetimeExceeded):
        classifier(epsilon=1.5).fit(X, Y)


def test_the_statement_says_who_measured_at_what_cost():
    text = str(classifier(epsilon=2.0).fit(X, Y).privacy_)
    assert "measurement_, which may be released with the model: 1,000 clients measured" in text
    assert "one report at ε = 2 each" in text
    assert "trained in no round" in text
    assert "clients who measured, by the number that a shuffler would give" in text


# --- the threshold -------------------------------------------------------------------------------


def test_private_scores_are_those_of_the_recalibration():
    trained, moved = (classifier(threshold=t).fit(X, Y) for t in (None, "private"))
    found = moved.recalibration_
    raw = trained.decision_function(X)
    prepared, scale = moved.preparation_, moved._model.pipeline.scale
    typical = prepared.typical_norm / prepared.norms(scale.apply(X))
    expected = found.scale * raw + found.offset * typical
    np.testing.assert_allclose(moved.decision_function(X), expected, atol=1e-6)
    assert trained.recalibration_ is None


def test_auto_leaves_a_model_alone_unless_it_wins(monkeypatch):
    assert classifier(epsilon=0.1, threshold="auto").fit(X, Y).recalibration_ is None


def test_a_model_of_half_the_scale_is_put_right():
    """Overlong steps make scores too large; what clients say puts that right."""
    rows, labels = records(n=20_000)
    models = [
        classifier(epsilon=8.0, learning_rate=400.0, averaging=0.0, threshold=t).fit(rows, labels)
        for t in (None, "private", "auto")
    ]
    losses = [-np.log(m.predict_proba(rows)[np.arange(20_000), labels]).mean() for m in models]
    assert models[2].recalibration_.moves
    assert losses[1] < losses[0]
    assert losses[2] < losses[0]


def test_a_moved_model_is_saved_and_predicts_the_same(tmp_path):
    model = classifier(threshold="private", epsilon=8.0, learning_rate=400.0).fit(X, Y)
    assert model.recalibration_.moves
    model.save_model(tmp_path / "model.json")
    loaded = fedsel.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(loaded.coef_, model.coef_)
    agrees = (X @ model.coef_.T + model.intercept_)[:, 0] >= 0
    assert (agrees == (model.decision_function(X) >= 0)).mean() > 0.999


def test_a_moved_model_is_the_same_in_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = classifier(threshold="private", epsilon=8.0, learning_rate=400.0).fit(X, Y)
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    margins = session.run(["margins"], {"X": X})[0]
    np.testing.assert_allclose(margins[:, 0], model.decision_function(X), atol=1e-5)


def test_nothing_moves_without_scale_and_offset():
    model = classifier().fit(X, Y)
    same = recalibrated(model._model, Recalibration(1.0, 0.0, model.measurement_["accuracy"]))
    np.testing.assert_array_equal(same.margins_of(X), model._model.margins_of(X))


# --- as an estimator -----------------------------------------------------------------------------


@pytest.mark.parametrize("model", [classifier(threshold="auto"), regressor()])
def test_a_measured_estimator_is_cloned_and_pickled(model):
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    fresh.fit(X, Y)
    again = pickle.loads(pickle.dumps(fresh))
    assert plain(again) == plain(fresh)
    np.testing.assert_array_equal(again.predict(X), fresh.predict(X))


def test_measuring_works_with_the_warnings_of_a_real_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = classifier(random_state=None).fit(*records(seed=5))
    assert model.measurement_ is not None


# --- figures -------------------------------------------------------------------------------------


def test_a_measurement_is_drawn_with_its_calibration():
    model = classifier().fit(X, Y)
    metrics, curve = model.plot_measurement()
    names = [label.get_text() for label in metrics.get_yticklabels()]
    assert names == list(model.measurement_.metrics)
    assert curve.get_title() == "calibration"


def test_numbers_are_drawn_by_target():
    _, curve = regressor().fit(X, TARGETS).plot_measurement()
    assert curve.get_xlabel().startswith("target")


def test_given_axes_are_used_and_too_few_refused():
    from fedsel.pages import new_figure

    model, axes = classifier().fit(X, Y), new_figure().subplots(1, 2)
    assert model.plot_measurement(axes) == tuple(axes)
    with pytest.raises(InvalidArgument, match=r"^axes = "):
        model.plot_measurement(axes[:1])


def test_nothing_to_draw_is_said():
    with pytest.raises(InvalidArgument, match=r"^measure = 0"):
        classifier(measure=0.0).fit(X, Y).plot_measurement()
