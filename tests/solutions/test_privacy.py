"""What a report costs: proved, never less than its law loses, and the budget where that is met."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import Feedback, InvalidData, Solution, solution
from fedsel._internal.exact import exceeds_exp, exp_lower, exp_upper, log, log_upper
from fedsel._internal.random import stream
from fedsel.mechanisms import SignedSampling
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
