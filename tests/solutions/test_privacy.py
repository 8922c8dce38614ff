"""A report costs what is proved, never less than its law loses; ε is split in exact fractions."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel import Feedback, InvalidData, Solution, solution
from fedsel._internal.exact import exceeds_exp, exp_lower, exp_upper, log, log_upper
from fedsel._internal.random import stream
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import SignedSampling
from fedsel.solutions._privacy import THETA, Budget, hyper_parameters_free
from fedsel.solutions._solution import Privacy
from fedsel.solutions._transforms import Coordinates


def of(ratio, budget, **changes):
    return Privacy(budget=budget, ratio=ratio, **{"epochs": 3, "note": "", **changes})


@pytest.mark.parametrize("budget", [Fraction(n, 10) for n in (1, 3, 7, 11, 20, 35, 59)])
def test_a_report_that_uses_its_budget_up_costs_the_budget(budget):
    privacy = of(exp_lower(budget), budget)
    assert privacy.within_budget
    assert privacy.charge == budget <= log_upper(privacy.ratio)
    assert privacy.per_report <= float(budget)
    assert privacy.per_report == pytest.approx(float(budget), rel=1e-15)
    assert privacy.total == 3 * privacy.per_report


def test_what_is_not_said_is_certified_and_told_once():
    privacy = of(Fraction(2), Fraction(1))
    assert privacy.certified
    assert of(Fraction(2), Fraction(1), certified=False).charge is None
    assert Solution("x", 4, SignedSampling(1.0)).privacy.epochs == 1


def test_a_report_that_loses_more_costs_more():
    budget = Fraction(1)
    privacy = of(exp_upper(budget) + Fraction(1, 10**6), budget)
    assert not privacy.within_budget
    assert privacy.charge > budget
    assert not exceeds_exp(privacy.ratio, privacy.charge)
    assert privacy.per_report == log(privacy.ratio) > 1


def test_a_report_that_loses_less_costs_less():
    privacy = of(Fraction(2), Fraction(1))
    assert privacy.charge == log_upper(Fraction(2)) < 1
    assert privacy.per_report == math.log(2)


def test_a_report_without_a_budget_costs_what_it_loses():
    privacy = of(Fraction(2), None)
    assert not privacy.within_budget
    assert privacy.charge == log_upper(Fraction(2))
    assert privacy.per_report == math.log(2)


@pytest.mark.parametrize("budget", [None, Fraction(1)])
def test_nothing_is_charged_for_what_is_not_proved(budget):
    endless, floats = of(None, budget), of(Fraction(2), budget, certified=False)
    assert endless.charge is floats.charge is None
    assert not endless.within_budget
    assert not floats.within_budget
    assert (endless.per_report, endless.total) == (math.inf, math.inf)
    assert floats.per_report == math.log(2)


@pytest.mark.parametrize("budget", [None, Fraction(5, 2)])
def test_a_solution_claims_its_budget_or_else_what_its_mechanism_claims(budget):
    made = Solution("mine", 4, SignedSampling(1.5, k=1), budget=budget)
    assert made.claimed == (Fraction(3, 2) if budget is None else budget)


@pytest.mark.parametrize("bases", [1, 2, 3])
def test_every_basis_has_slots_of_its_own(bases):
    made = solution("RJ", epsilon=8.0, dim=8, rho=1.0, bases=bases)
    assert made.alphabet.slots == made.transform.slots == bases * made.transform.size
    update = np.linspace(-1, 1, 8)
    reports = [made.encode(update, np.zeros(8), stream(0, 0, i))[0] for i in range(99)]
    assert {int(r.slot[0]) // made.transform.size for r in reports} == set(range(bases))


@pytest.mark.parametrize(("update", "residual"), [(3, 4), (5, 4), (4, 3), (4, 5)])
def test_update_and_residual_have_an_entry_for_each_dimension(update, residual):
    made = solution("PS-PM", epsilon=1.0, dim=4)
    with pytest.raises(InvalidData, match="4 entries each"):
        made.encode(np.ones(update), np.zeros(residual))


@pytest.mark.parametrize("momentum", [-1.0, 0.0, 0.5, 1.0])
def test_what_is_told_is_r_and_the_momentum_times_the_residual(momentum):
    before, update = np.array([1.0, -2.0]), np.array([0.5, 8.0])
    keep = Feedback(accumulate=True, momentum=momentum)
    r = keep.accumulated(before, update)
    assert r.tolist() == [1.5, 6.0]
    assert keep.reported_vector(before, r).tolist() == [1.5 + momentum, 6.0 - 2 * momentum]
    drop = Feedback(momentum=momentum)
    assert (
        drop.reported_vector(before, drop.accumulated(before, update)).tolist() == update.tolist()
    )
    assert drop.kept(before, update, [0], Coordinates(2)) is before
    for sent, rest in (([0], [0.0, 6.0]), ([0, 1], [0.0, 0.0]), ([-1], [1.5, 6.0])):
        kept = keep.kept(before, r, sent, Coordinates(2))
        assert kept.tolist() == rest
        assert not np.shares_memory(kept, r)


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
