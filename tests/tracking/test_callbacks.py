"""Callbacks: what they see, in which order, and what an error in one of them does."""

import logging
import math
from dataclasses import fields

import numpy as np
import pytest

from fedsel import FedSelClassifier, FedSelRegressor, FitAccount, InvalidArgument, solution
from fedsel.simulation import EvaluationSet, History, Population, Training, train
from fedsel.tracking import Callback, Run, Tracking

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)
SEED = 481_516  # unlike any other number here: it must be in nothing that a callback sees


class Recorder(Callback):
    """Notes every call."""

    def __init__(self):
        self.run, self.records, self.history = None, [], None

    def on_start(self, run):
        assert self.run is None
        self.run = run

    def on_round(self, record):
        assert self.run is not None
        assert self.history is None
        self.records.append(record)

    def on_end(self, history):
        self.history = history


class Failing(Callback):
    """Fails where it is asked to."""

    def __init__(self, where):
        self.where, self.calls = where, 0

    def on_start(self, run):
        self._fail("start")

    def on_round(self, record):
        self.calls += 1
        self._fail("round")

    def on_end(self, history):
        self._fail("end")

    def _fail(self, where):
        if where == self.where:
            raise OSError("the disk of the tracker is full")


def people(n=600, d=5):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(n, d)).astype(np.float32)
    return X, np.where(X @ np.arange(1, d + 1) > 0, 1, -1).astype(np.int8)


def training(**changes):
    given = {"learning_rate": 0.5, "batch": 60, "seed": SEED, **changes}
    return Training(solution("PM", epsilon=2.0, dim=5, epochs=2), **given)


def fitted(*callbacks, estimator=FedSelClassifier, **given):
    X, y = people()
    given = {"feature_range": (-1, 1), "batch_fraction": 0.1, "random_state": SEED, **given}
    return estimator(epsilon=2.0, **given).fit(X, y, eval_set=(X, y), callbacks=list(callbacks))


@pytest.mark.parametrize("name", ["PM", "EXP-Duchi", "NP"])
@pytest.mark.parametrize("averaging", [0.0, 3.0])
def test_records_are_the_rounds_of_the_history(name, averaging):
    X, y = people()
    given = {"mu": 0.1} if name == "EXP-Duchi" else {}
    chosen = solution(name, epsilon=None if name == "NP" else 2.0, dim=5, epochs=2, **given)
    own = Training(chosen, 0.5, 60, seed=SEED, averaging=averaging)
    seen = Recorder()
    history = train(own, Population(X, y), EvaluationSet(X, y), callbacks=[seen])
    assert seen.history is history
    assert [r["round"] for r in seen.records] == list(range(1, 21))
    for record, row in zip(seen.records, history.rounds, strict=True):
        for key in ("epoch", "bits", "reports", "accuracy", "loss"):
            assert record[key] == getattr(row, key)
        assert record.get("epsilon", math.inf) == row.epsilon
        assert record["learning_rate"] == 0.5
    assert seen.records[-1]["norm"] == pytest.approx(np.linalg.norm(history.weights), rel=1e-15)
    alone = train(own, Population(X, y), EvaluationSet(X, y))
    assert alone.rounds == history.rounds
    np.testing.assert_array_equal(alone.weights, history.weights)


@pytest.mark.parametrize(("evaluate", "judged"), [("epochs", [10, 20]), ("end", [20])])
def test_every_round_is_passed_on_but_only_judged_ones_have_metrics(evaluate, judged):
    X, y = people()
    rows, own = [], training()
    history = train(
        own, Population(X, y), EvaluationSet(X, y), evaluate=evaluate, callbacks=[rows.append]
    )
    assert [r["round"] for r in rows] == list(range(1, 21))
    assert [r["round"] for r in rows if "accuracy" in r] == judged
    assert [r.round for r in history.rounds] == judged
    plain = train(own, Population(X, y), EvaluationSet(X, y), evaluate=evaluate)
    assert plain.rounds == history.rounds
    np.testing.assert_array_equal(plain.weights, history.weights)


def plain(value):
    return isinstance(value, str | int | float | bool)


@pytest.mark.parametrize("estimator", [FedSelClassifier, FedSelRegressor])
def test_callbacks_see_public_values_only(estimator):
    """Plain numbers and texts, none of them the seed; arrays only of the size of the model."""
    seen = Recorder()
    more = {"target_range": (-1, 1)} if estimator is FedSelRegressor else {}
    model = fitted(seen, estimator=estimator, **more)
    run = seen.run
    assert run.name == estimator.__name__
    assert run.epsilon == model.privacy_.total
    assert run.parameters["learning_rate"] == model.learning_rate_
    assert run.parameters["rounds"] == run.rounds == len(seen.records)
    assert all(plain(value) for value in run.parameters.values())
    assert "not to release" in run.statement
    assert all(plain(value) for record in seen.records for value in record.values())
    shown = [*run.parameters.values(), *(v for record in seen.records for v in record.values())]
    assert SEED not in shown
    assert isinstance(seen.history, History)
    kept = {f.name: getattr(seen.history, f.name) for f in fields(History)}
    assert kept.keys() == {
        *("rounds", "weights", "seeded", "preparation", "fewest_reports", "epochs_heard"),
        "privacy",
    }
    assert kept["weights"].size == 6


def test_a_record_is_the_callbacks_own():
    rows = []

    def spoil(record):
        record.clear()

    fitted(spoil, rows.append)
    assert all("reports" in row for row in rows)


def test_waves_are_counted_on():
    X, y = people()
    model = FedSelClassifier(feature_range=(-1, 1), batch_fraction=0.1, random_state=SEED)
    first, second = Recorder(), Recorder()
    model.partial_fit(X, y, callbacks=[first]).partial_fit(X, y, callbacks=[second])
    numbers = [r["round"] for r in first.records + second.records]
    assert numbers == [r.round for r in model.history_.rounds]
    assert second.history is model.history_


def test_an_error_at_the_start_stops_a_fit_before_it_spends():
    with FitAccount() as account, pytest.raises(OSError, match="full"):
        fitted(Failing("start"))
    assert account.fits == 0


@pytest.mark.parametrize("where", ["round", "end"])
def test_a_later_error_is_logged_and_the_run_goes_on(where, caplog):
    failing, after = Failing(where), Recorder()
    with caplog.at_level(logging.WARNING, "fedsel.tracking"):
        model = fitted(failing, after)
    np.testing.assert_array_equal(model.coef_, fitted().coef_)
    assert after.history is model.history_
    assert failing.calls == len(after.records) == len(model.history_.rounds) > 1
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "the callback Failing failed; the run goes on, because it has spent ε"
    assert "the disk of the tracker is full" in caplog.text
    assert told[1:] == ["the callback Failing failed 10 times in this run"] * (where == "round")


def test_the_end_finds_a_complete_estimator():
    X, y = people()
    model, found = FedSelClassifier(feature_range=(-1, 1)), []

    class Predicting(Callback):
        def on_end(self, history):
            found.append(model.predict(X[:3]))

    model.fit(X, y, callbacks=[Predicting()])
    assert len(found[0]) == 3


def test_interrupts_pass():
    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(stop)


@pytest.mark.parametrize("wrong", [print, "print", [3], [Recorder], {"a": print}])
def test_what_is_no_list_of_callbacks_is_refused(wrong):
    X, y = people()
    with FitAccount() as account, pytest.raises(InvalidArgument, match=r"callbacks = .*a list of"):
        FedSelClassifier(feature_range=(-1, 1)).fit(X, y, callbacks=wrong)
    assert account.fits == 0


def test_without_callbacks_there_is_nothing_to_track():
    assert not Tracking(None)
    assert not Tracking([])
    assert Tracking([print])


def test_a_run_leaves_out_what_is_not_known():
    privacy = solution("NP", dim=3).privacy
    run = Run.of("a", None, privacy, rounds=3, mu=None, purpose="", k=0.1)
    assert run.parameters == {"k": 0.1, "rounds": 3, "seeded": False}
    assert math.isinf(run.epsilon)
