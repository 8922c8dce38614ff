"""Metrics of tables: scikit-learn's where the table is exact, and intervals that hold the truth."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn import metrics as sk

from fedsel.measuring._metrics import Table, part_of
from fedsel.wire._model_question import ModelQuestion
from tests.measuring.support import drawn_tally, exact_tally

LEVEL, ALARM, AT_LEAST = 0.95, 1e-9, 0.93
SCORES = ModelQuestion("scores", 2, edges=(-1.0, -0.4, 0.0, 0.3, 0.9))
FALLING = np.array([[0.04, 0.11, 0.1, 0.12, 0.1, 0.07], [0.14, 0.11, 0.08, 0.07, 0.04, 0.02]])
RISING = FALLING[::-1]
BOUNDED = ("accuracy", "balanced accuracy", "AUC")
TWO = ModelQuestion("scores", 2, edges=(0.0,))
THREE = ModelQuestion("predictions", 3)
CONFUSION = np.array([[0.3, 0.05, 0.1], [0.02, 0.2, 0.03], [0.1, 0.05, 0.15]])


def told(question, table, epsilon=4.0):
    return part_of(question, exact_tally(table, epsilon), LEVEL)


def as_records(table):
    """Row, column and weight of each cell."""
    rows, columns = np.indices(np.shape(table))
    return rows.ravel(), columns.ravel(), np.ravel(table)


# --- exact tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("table", [FALLING, RISING], ids=["falling", "rising"])
def test_scores_of_two_classes_as_scikit_learn_has_them(table, epsilon):
    found = told(SCORES, table, epsilon)
    own, column, weight = as_records(table)
    predicted = (column >= 3).astype(int)
    accuracy = sk.accuracy_score(own, predicted, sample_weight=weight)
    balanced = sk.balanced_accuracy_score(own, predicted, sample_weight=weight)
    assert found.metrics["accuracy"].value == pytest.approx(accuracy, abs=1e-5)
    assert found.metrics["balanced accuracy"].value == pytest.approx(balanced, abs=1e-4)
    confusion = sk.confusion_matrix(own, predicted, sample_weight=weight)
    np.testing.assert_allclose(found.confusion, confusion, atol=1e-5)
    np.testing.assert_allclose([s.value for s in found.shares], table.sum(axis=1), atol=1e-5)
    rates = table[1] / table.sum(axis=0)
    np.testing.assert_allclose([c.rate.value for c in found.calibration], rates, atol=1e-4)
    np.testing.assert_allclose([c.share for c in found.calibration], table.sum(axis=0), atol=1e-5)


def test_the_auc_of_rates_that_never_rise_is_that_of_ties():
    own, column, weight = as_records(FALLING)
    area = sk.roc_auc_score(own, column, sample_weight=weight)
    assert told(SCORES, FALLING).metrics["AUC"].value == pytest.approx(area, abs=1e-4)


def test_rising_rates_add_pairs_within_bins():
    own, column, weight = as_records(RISING)
    area = sk.roc_auc_score(own, column, sample_weight=weight)
    assert area < told(SCORES, RISING).metrics["AUC"].value < area + 0.02


def test_predictions_of_three_classes_as_scikit_learn_has_them():
    found = told(THREE, CONFUSION)
    own, predicted, weight = as_records(CONFUSION)
    accuracy = sk.accuracy_score(own, predicted, sample_weight=weight)
    balanced = sk.balanced_accuracy_score(own, predicted, sample_weight=weight)
    assert found.metrics["accuracy"].value == pytest.approx(accuracy, abs=1e-5)
    assert found.metrics["balanced accuracy"].value == pytest.approx(balanced, abs=1e-4)
    np.testing.assert_allclose(found.confusion, CONFUSION, atol=1e-5)


def test_confidence_tells_accuracy_and_the_auc_of_the_lead():
    table = np.array([[0.15, 0.1, 0.05], [0.1, 0.2, 0.4]])
    found = told(ModelQuestion("confidence", 10, edges=(0.5, 1.0)), table)
    own, column, weight = as_records(table)
    area = sk.roc_auc_score(own, column, sample_weight=weight)
    assert found.metrics["accuracy"].value == pytest.approx(0.7, abs=1e-5)
    assert area < found.metrics["AUC of the lead"].value < area + 0.05


def test_residuals_by_their_density():
    """Errors that are spread evenly, and targets as the finer histogram has them."""
    question = ModelQuestion("residuals", 2, (0.1, 0.2), (0.0,))
    table = np.array([[1, 1, 1], [1, 1, 1]]) / 6
    found = told(question, table).metrics
    square = np.mean(np.linspace(0, 0.3, 100_001) ** 2)
    assert found["mean error"].value == pytest.approx(0.15, abs=1e-5)
    assert found["root mean squared error"].value == pytest.approx(np.sqrt(square), abs=1e-4)
    assert found["R²"].value == pytest.approx(1 - square / (1 / 3), abs=1e-4)


def test_of_targets_alone_there_is_no_metric():
    assert not told(ModelQuestion("residuals", 2, (), (0.0,)), [[0.5], [0.5]]).metrics


def test_two_bins_say_nothing_of_order():
    found = told(TWO, [[0.4, 0.1], [0.2, 0.3]])
    assert set(found.metrics) == {"accuracy", "balanced accuracy"}
    assert found.calibration == ()
    lead = told(ModelQuestion("confidence", 10, edges=(0.5,)), [[0.2, 0.1], [0.2, 0.5]])
    assert set(lead.metrics) == {"accuracy"}


def test_a_spread_alone_has_no_metric():
    assert not told(ModelQuestion("spread", 2, (0.0,)), [[0.5, 0.5]]).metrics


# --- at the margin -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("question", [SCORES, TWO, THREE], ids=lambda q: q.kind)
def test_a_handful_of_reports_gives_finite_numbers_and_wide_intervals(question, count):
    tally = drawn_tally(np.full(question.count, 1 / question.count), 1.0, count, seed=1)
    for name, found in part_of(question, tally, LEVEL).metrics.items():
        assert all(np.isfinite(x) or x == np.inf for x in vars(found).values()), name
        assert found.low <= found.value <= found.high
        if name in BOUNDED:
            assert (found.low, found.high) != (found.value, found.value)
            assert 0 <= found.low <= found.high <= 1


def test_a_class_that_nobody_has_leaves_its_quotients_open():
    table = np.array([[0.5, 0.5], [0.0, 0.0]])
    found = Table(TWO, exact_tally(table, count=1000), LEVEL).balanced(np.eye(2))
    assert found.high - found.low > 0.4


# --- intervals -----------------------------------------------------------------------------------


RARE = np.array([[0.3, 0.3, 0.2, 0.15], [0.005, 0.005, 0.015, 0.025]])
FOUR = ModelQuestion("scores", 2, edges=(-0.5, 0.0, 0.5))
EVEN = np.array([[0.5, 0.1], [0.1, 0.3]])
SETTINGS = [
    (SCORES, RISING, 1.0, 2000, 250),
    (SCORES, RISING, 4.0, 500, 250),
    (FOUR, RARE, 1.0, 3000, 250),
    (FOUR, RARE, 4.0, 500, 250),
    (TWO, EVEN, 1.0, 50, 500),
    (TWO, EVEN, 0.5, 400, 500),
    (THREE, CONFUSION, 1.0, 2000, 100),
]


@pytest.mark.slow
def test_intervals_of_accuracy_auc_and_balanced_accuracy_hold_the_truth():
    """All settings together could refute 93 %, each of them alone 85 %."""
    held, runs = dict.fromkeys(BOUNDED, 0), dict.fromkeys(BOUNDED, 0)
    for question, table, epsilon, n, repeats in SETTINGS:
        exact = told(question, table).metrics
        own = dict.fromkeys((name for name in BOUNDED if name in exact), 0)
        for seed in range(repeats):
            found = part_of(question, drawn_tally(table, epsilon, n, seed), LEVEL).metrics
            for name in own:
                own[name] += found[name].low <= exact[name].value <= found[name].high
        for name, count in own.items():
            assert count >= binom.ppf(ALARM, repeats, AT_LEAST), (name, epsilon, n, count)
            held[name] += count
            runs[name] += repeats
    for name in BOUNDED:
        assert held[name] >= binom.ppf(ALARM, runs[name], AT_LEAST)
        assert held[name] >= 0.93 * runs[name], (name, held, runs)  # as it is with these seeds
