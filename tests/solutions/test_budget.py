"""The budget: exact fractions that add up, and μ without hyper-parameters by its formula."""

import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel.errors import InvalidArgument
from fedsel.solutions._budget import THETA, Budget, hyper_parameters_free

EPSILONS = st.floats(min_value=1e-9, max_value=500.0)

# Data set, d, N and the ε′ at which μ becomes positive: theory, section 5.
PAPER = [
    ("BANK", 32, 45_211, 0.495),
    ("syn-L", 100, 60_000, 0.876),
    ("KDD", 114, 70_000, 0.878),
    ("ADULT", 123, 48_842, 1.101),
    ("syn-H", 300, 100_000, 1.308),
]


@given(epsilon=EPSILONS, epochs=st.integers(1, 1000), mu=st.floats(0, 1, exclude_max=True))
def test_the_split_adds_up_exactly(epsilon, epochs, mu):
    budget = Budget(epsilon, epochs, mu)
    assert budget.selection + budget.value == budget.per_epoch
    assert epochs * budget.per_epoch == Fraction(epsilon)
    assert budget.selection >= 0
    assert budget.value > 0
    assert abs(budget.selection - Fraction(mu) * budget.per_epoch) <= budget.per_epoch / 10**15


@pytest.mark.parametrize(
    ("epsilon", "epochs", "mu", "selection", "value"),
    [
        (2.0, 1, 0.1, Fraction(1, 5), Fraction(9, 5)),
        (2.0, 4, 0.1, Fraction(1, 20), Fraction(9, 20)),
        (1, 3, 0.2, Fraction(1, 15), Fraction(4, 15)),
        (Fraction(1, 3), 7, 0.25, Fraction(1, 84), Fraction(3, 84)),
        (2.0, 1, 0, Fraction(0), Fraction(2)),
    ],
)
def test_the_decimals_of_the_user_are_meant(epsilon, epochs, mu, selection, value):
    budget = Budget(epsilon, epochs, mu)
    assert (budget.selection, budget.value) == (selection, value)


def test_the_papers_defaults():
    assert Budget(1.0) == Budget(1.0, epochs=1, mu=0.1)
    assert THETA == 0.2


def test_a_budget_cannot_be_changed_and_can_be_a_key():
    budget = Budget(1.0, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0
    assert {budget: "here"}[Budget(1, 2)] == "here"


@pytest.mark.parametrize(
    ("argument", "wrong", "allowed"),
    [
        *(
            ("epsilon", wrong, "a number > 0 and ≤ 500")
            for wrong in (0, 0.0, -1.0, math.nan, math.inf, 500.1, "1", None, True, Fraction(-1, 3))
        ),
        *(("epochs", wrong, "an integer ≥ 1") for wrong in (0, -1, 1.5, 2.0, True, "2", None)),
        *(("mu", wrong, "in [0, 1)") for wrong in (1, 1.0, 1.5, -0.1, -1e-300)),
        *(("mu", wrong, "a finite number") for wrong in (math.nan, math.inf, "auto", None, False)),
    ],
)
def test_a_wrong_budget_names_argument_value_and_what_is_allowed(argument, wrong, allowed):
    with pytest.raises(InvalidArgument) as caught:
        Budget(**{"epsilon": 1.0, argument: wrong})
    assert str(caught.value) == f"{argument} = {wrong!r}: must be {allowed}"


@pytest.mark.parametrize(("name", "d", "records", "bound"), PAPER)
def test_mu_becomes_positive_at_the_papers_bounds(name, d, records, bound):
    """Found by bisection of the function itself, at n = 0.01 N."""
    n = records // 100
    low, high = 0.01, 10.0
    assert hyper_parameters_free(d, n, low) == 0 < hyper_parameters_free(d, n, high)
    while high - low > 1e-9:
        middle = (low + high) / 2
        if hyper_parameters_free(d, n, middle) > 0:
            high = middle
        else:
            low = middle
    assert round(high, 3) == bound, name


@given(
    d=st.integers(1, 10**6),
    n=st.integers(1, 10**9),
    epsilon=EPSILONS,
    theta=st.floats(0, 1, exclude_max=True),
)
def test_mu_is_the_surplus_and_never_more_than_theta(d, n, epsilon, theta):
    mu = hyper_parameters_free(d, n, epsilon, theta)
    needed = math.sqrt(d / n * math.log(d))
    assert 0 <= mu <= theta
    # What is left for the value is what it needs, unless the cap leaves it more.
    left = (1 - mu) * epsilon
    if 0 < mu < theta:
        assert left == pytest.approx(needed, rel=1e-9)
    elif mu == theta:
        assert left >= needed * (1 - 1e-9) or theta == 0
    else:
        assert epsilon <= needed * (1 + 1e-9)


@given(d=st.integers(2, 10**4), n=st.integers(1, 10**6), epsilon=st.floats(0.01, 100))
def test_mu_grows_with_the_budget_and_the_clients_and_shrinks_with_the_dimension(d, n, epsilon):
    mu = hyper_parameters_free(d, n, epsilon)
    assert hyper_parameters_free(d, n, 2 * epsilon) >= mu
    assert hyper_parameters_free(d, 2 * n, epsilon) >= mu
    assert hyper_parameters_free(2 * d, n, epsilon) <= mu


def test_mu_between_nothing_and_the_cap():
    """d = 100, n = 600: √(100 ln 100 / 600) = 0.876086961626…"""
    assert hyper_parameters_free(100, 600, 1.0) == pytest.approx(0.123913038373844, abs=1e-14)
    assert hyper_parameters_free(100, 600, Fraction(1)) == hyper_parameters_free(100, 600, 1.0)


def test_the_cap():
    assert hyper_parameters_free(100, 600, 500.0) == 0.2
    assert hyper_parameters_free(100, 600, 500.0, theta=0.05) == 0.05
    assert hyper_parameters_free(100, 600, 500.0, theta=0.0) == 0
    assert hyper_parameters_free(100, 600, 500.0, theta=0.9999) == pytest.approx(0.998248, abs=1e-6)
    assert hyper_parameters_free(1, 1, 0.001) == 0.2  # one dimension needs nothing: ln 1 = 0


# BUG: ZeroDivisionError: float(ε′) is 0. Fix: return 0.0 where ε′ ≤ √(d ln d / n), before dividing.
def test_a_budget_too_small_for_a_float_leaves_nothing_for_the_selection():
    assert hyper_parameters_free(10, 10, Fraction(1, 10**400)) == 0


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        *(("d", wrong) for wrong in (0, -1, 2.5, True, "5", None)),
        *(("n", wrong) for wrong in (0, -1, 2.5, False, math.nan)),
        *(("epsilon", wrong) for wrong in (0, -1, math.nan, math.inf, 501, "auto", None)),
        *(("theta", wrong) for wrong in (-0.1, 1, 1.0, math.nan, math.inf, "0.2", None)),
    ],
)
def test_wrong_parameters_of_mu_are_refused_by_name(argument, wrong):
    right = {"d": 100, "n": 600, "epsilon": 2.0}
    with pytest.raises(InvalidArgument) as caught:
        hyper_parameters_free(**{**right, argument: wrong})
    assert str(caught.value).startswith(f"{argument} = {wrong!r}: must be ")
