"""Central guarantees: the values known from theory, and what is refused."""

import math

import pytest

from fedsel import InvalidArgument, amplify, local_budget, solution
from fedsel.central import CentralGuarantee, amplification, guess
from fedsel.central.amplification import check_delta, float_above, proved_delta
from fedsel.exact import Fraction

KNOWN = [
    (600, 2.0, 0.448, 0.73),
    (600, 4.0, 1.935, 4.0),
    (6_000, 4.0, 0.482, 0.81),
    (29_305, 4.0, 0.204, 0.33),
    (60_000, 6.0, 0.436, 0.70),
    (1_000_000, 8.0, 0.290, 0.44),
]
"""Reports, local ε, central ε at δ = 1e-6 (to three digits), and the bound by clones (2021)."""


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local", "known", "clones"), KNOWN)
def test_known_values_of_rj(reports, local, known, clones):
    rj = solution("RJ", epsilon=local, dim=128, rho=1.0, bases=None)
    found = amplify(rj, reports=reports, delta=1e-6)
    assert known - 0.0005 <= found.epsilon <= 1.01 * known
    assert found.epsilon < clones
    assert found.local == pytest.approx(local)


@pytest.mark.slow
def test_delta_and_epsilon_are_each_others_inverse():
    ps = solution("PS-PM", epsilon=2.0, dim=20)
    found = amplify(ps, reports=200, delta=1e-4)
    back = amplify(ps, reports=200, epsilon=found.epsilon)
    assert 0.99e-4 < back.delta <= 1e-4
    assert amplify(ps, reports=400, delta=1e-4).epsilon < found.epsilon < 2
    assert "if the shuffler is honest" in str(found)


def test_one_report_is_hidden_by_nobody():
    duchi = solution("Duchi", epsilon=1.0, dim=3)
    assert amplify(duchi, reports=1, delta=1e-9).epsilon == pytest.approx(1.0, rel=1e-6)
    assert amplify(duchi, reports=1, epsilon=1.0).delta < 1e-15
    assert amplify(duchi, reports=5, epsilon=1e300).delta == 0  # at once
    expected = 1 / (1 + math.exp(-1)) - 1 / (1 + math.e)
    assert amplify(duchi, reports=1, epsilon=0.0).delta == pytest.approx(expected)


COIN = solution("Duchi", epsilon=1.0, dim=3)
AMONG = {"reports": 20, "delta": 0.01}


def proved_at(epsilon):
    return amplify(COIN, reports=20, epsilon=epsilon).delta


@pytest.fixture
def quick_guesses(monkeypatch):
    """Guesses of fewer digits: they only say where to prove."""
    monkeypatch.setattr(guess, "_POINTS", 1 << 12)


@pytest.mark.usefixtures("quick_guesses")
def test_epsilon_is_the_least_at_which_delta_is_proved():
    found = amplify(COIN, **AMONG)
    assert 0 < found.epsilon < found.local
    assert proved_at(found.epsilon) <= 0.01 < proved_at(0.998 * found.epsilon)


@pytest.mark.usefixtures("quick_guesses")
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9999, 1.5])
def test_whatever_is_guessed_only_what_is_proved_is_said(monkeypatch, share):
    true = amplify(COIN, **AMONG).epsilon
    monkeypatch.setattr(amplification, "_crossing", lambda *_: share * true)
    found = amplify(COIN, **AMONG).epsilon
    assert proved_at(found) <= 0.01
    assert 0.999 * true < found <= (1.001 if share == 0.9999 else 2.5) * true


def test_a_guess_above_the_local_epsilon_is_not_needed(monkeypatch):
    monkeypatch.setattr(amplification, "_crossing", lambda *_: 1e9)
    assert amplify(COIN, **AMONG).epsilon == pytest.approx(1.0, rel=1e-12)


def of_local(epsilon):
    return solution("Duchi", epsilon=epsilon, dim=3)


@pytest.mark.usefixtures("quick_guesses")
@pytest.mark.parametrize("optimism", [1.0, 0.2, 50.0])
def test_a_budget_is_proved_whatever_was_guessed(monkeypatch, optimism):
    rough = amplification.rough_delta
    monkeypatch.setattr(amplification, "rough_delta", lambda *given: optimism * rough(*given))
    found = local_budget(of_local, epsilon=0.5, **AMONG)
    assert (found.epsilon, found.delta, found.reports) == (0.5, 0.01, 20)
    assert amplify(of_local(found.local), reports=20, epsilon=0.5).delta <= 0.01
    if optimism <= 1:
        assert amplify(of_local(1.03 * found.local), reports=20, epsilon=0.5).delta > 0.01
    assert found.local > 0.5


@pytest.mark.usefixtures("quick_guesses")
def test_a_budget_beyond_the_goal_or_the_most():
    keeps_anything = {"epsilon": 0.5, "reports": 20, "delta": 0.999}
    assert local_budget(of_local, most=0.75, **keeps_anything).local == pytest.approx(0.75)
    assert local_budget(of_local, most=0.25, **keeps_anything).local == pytest.approx(0.25)
    with pytest.raises(InvalidArgument, match=r"^epsilon = 0.5: must be one that the solution"):
        local_budget(lambda _: of_local(8.0), epsilon=0.5, reports=2, delta=1e-9)


def test_the_least_delta_that_is_worth_a_proof():
    assert check_delta(1e-100) == 1e-100
    with pytest.raises(InvalidArgument, match=r"^delta = "):
        check_delta(math.nextafter(1e-100, 0))
    assert check_delta(math.nextafter(1.0, 0)) < 1


def test_a_probability_is_not_above_one():
    told = solution("Duchi", epsilon=40.0, dim=1)
    assert amplify(told, reports=1, epsilon=0.0).delta == 1


def test_a_guarantee_says_what_all_epochs_cost_together():
    assert "local ε = 1 if nobody is" in str(CentralGuarantee(0.5, 1e-6, 100, 0.25, 4))
    assert "100 shuffled reports of a round, in 4 epochs" in str(
        CentralGuarantee(0.5, 1e-6, 100, 0.25, 4)
    )


@pytest.mark.slow
def test_the_largest_local_epsilon_for_a_central_goal():
    rj = lambda epsilon: solution("RJ", epsilon=epsilon, dim=32, rho=1.0)  # noqa: E731
    found = local_budget(rj, epsilon=0.5, delta=1e-6, reports=2_000)
    assert found.epsilon <= 0.5
    assert 2 < found.local < 4
    assert amplify(rj(found.local * 1.02), reports=2_000, delta=1e-6).epsilon > 0.5


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"reports": 0, "delta": 1e-6}, "reports"),
        ({"reports": 10}, "delta"),
        ({"reports": 10, "delta": 1e-6, "epsilon": 1.0}, "delta"),
        ({"reports": 10, "delta": 0.0}, "delta"),
        ({"reports": 10, "delta": 1.0}, "delta"),
        ({"reports": 10, "delta": math.nan}, "delta"),
        ({"reports": 10, "epsilon": -0.1}, "epsilon"),
        ({"reports": 10, "epsilon": math.inf}, "epsilon"),
    ],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(InvalidArgument, match=name):
        amplify(solution("PS-PM", epsilon=1.0, dim=4), **arguments)


def test_what_is_not_private_is_refused():
    with pytest.raises(InvalidArgument, match="certified"):
        amplify(solution("NP", epsilon=1.0, dim=4), reports=10, delta=1e-6)


def test_floats_are_rounded_up():
    third = Fraction(1, 3)
    assert Fraction(float_above(third)) >= third
    assert Fraction(math.nextafter(float_above(third), 0)) < third
    assert float_above(Fraction(1, 2)) == 0.5
    assert proved_delta(solution("J", epsilon=1.0, dim=4).blanket(), 5, 0.0) <= 1
