"""Central guarantees: the values known from theory, and what is refused."""

import math
from decimal import Context, Decimal

import pytest

from fedsel import InvalidArgument, amplify, solution
from fedsel._internal.exact import Fraction
from fedsel.mechanisms import RankLaw
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms.central import CentralGuarantee
from fedsel.mechanisms.central import _guarantee as amplification
from fedsel.mechanisms.central._guarantee import (
    check_delta,
    float_above,
    float_below,
    local_epsilon,
    proved_delta,
)
from fedsel.solutions import names
from tests.mechanisms.central.support import clone_epsilon, exact_delta

KNOWN = [
    (600, 2.0, 0.448, 0.73),
    (600, 4.0, 1.935, 4.0),
    (6_000, 4.0, 0.482, 0.81),
    (29_305, 4.0, 0.204, 0.33),
    (60_000, 6.0, 0.436, 0.70),
    (1_000_000, 8.0, 0.286, 0.44),
]
"""Reports, local ε, central ε at δ = 1e-6 (to three digits), and the bound by clones (2021)."""


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local", "known", "clones"), KNOWN)
def test_known_values_of_fj(reports, local, known, clones):
    fj = solution("FJ", epsilon=local, dim=128, rho=1.0)
    found = amplify(fj, reports=reports, delta=1e-6)
    assert known - 0.0005 <= found.epsilon <= 1.01 * known
    by_clones = clone_epsilon(reports, local, 1e-6)
    assert by_clones == pytest.approx(clones, abs=0.005)
    assert found.epsilon < by_clones
    assert found.local == pytest.approx(local)


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "epsilon"), [(60, 0.5), (200, 2.0), (2_000, 4.0)])
def test_every_private_solution_is_below_the_bound_by_clones(reports, epsilon):
    """The bound by clones is as good as the local ε in few of the cases, and then both say so."""
    amplified = 0
    for name in names():
        built = solution(name, epsilon=epsilon, dim=12)
        if not built.private:
            continue
        blanket = built.blanket()
        local = local_epsilon(blanket)
        by_clones = clone_epsilon(reports, round(local, 6), 1e-6)  # many share it
        assert proved_delta(blanket, reports, by_clones, 1e-6) < 1e-6, name
        amplified += by_clones < 0.99 * local
    assert amplified > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local", "reports", "delta"),
    [(2.0, 50, 1e-2), (4.0, 100, 1e-6), (8.0, 300, 1e-3), (8.0, 300, 1e-6), (12.0, 40, 1e-3)],
)
def test_it_is_at_most_a_thousandth_above_the_exact_blanket_bound(local, reports, delta):
    """The sum itself, term by term, with 60 digits; also where few reports hide a large ε₀."""
    rj = solution("RJ", epsilon=local, dim=128, rho=1.0, bases=None)
    found = amplify(rj, reports=reports, delta=delta).epsilon
    blanket = rj.blanket()
    assert exact_delta(blanket, reports, found) <= delta
    assert exact_delta(blanket, reports, found * (1 - 1e-3)) > delta
    for epsilon in (found * (1 - 1e-3), found):
        true = exact_delta(blanket, reports, epsilon)
        proved = Decimal(amplify(rj, reports=reports, epsilon=epsilon).delta)
        assert true <= proved <= true * Decimal("1.01")


PRECISE = Context(prec=60)


def test_e_to_the_epsilon_is_bounded_by_rationals_and_not_by_floats(monkeypatch):
    """math.exp is above e^ε for about half of all ε: a δ that is computed with it is no proof."""
    used = []

    def noted(blanket, reports, growth, delta):
        used.append(growth)
        return Fraction(0)

    monkeypatch.setattr(amplification, "excess", noted)
    blanket = solution("RJ", epsilon=8.0, dim=128, rho=1.0, bases=None).blanket()
    for i in range(1, 100):
        epsilon = 0.0789 * i
        proved_delta(blanket, 10, epsilon, 0.1)
        true = Fraction(Decimal(epsilon).exp(PRECISE))
        assert true * (1 - Fraction(1, 10**30)) <= used[-1] <= true * (1 + Fraction(1, 10**58))


def test_the_local_epsilon_is_not_below_the_loss():
    """Where it is, δ would be said to be 0 at an ε at which it is not."""
    for high in range(1001, 1200):
        blanket = Blanket.of_ranks(RankLaw([high, 7], [1, 5]))
        epsilon = local_epsilon(blanket)
        assert Decimal(epsilon).exp(PRECISE) >= PRECISE.divide(high, 7)
        assert Decimal(epsilon * (1 - 1e-15)).exp(PRECISE) < PRECISE.divide(high, 7)


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


@pytest.fixture
def own_guess(monkeypatch):
    """Let a test say where the proof begins; what was proved from elsewhere is forgotten."""

    def begin_at(epsilon):
        amplification.proved_epsilon.cache_clear()
        monkeypatch.setattr(amplification, "_crossing", lambda *_: epsilon)

    yield begin_at
    amplification.proved_epsilon.cache_clear()


def proved_at(epsilon):
    return amplify(COIN, reports=20, epsilon=epsilon).delta


def test_epsilon_is_the_least_at_which_delta_is_proved():
    found = amplify(COIN, **AMONG)
    assert 0 < found.epsilon < found.local
    assert proved_at(found.epsilon) <= 0.01 < proved_at(0.998 * found.epsilon)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9999, 1.5])
def test_whatever_is_guessed_only_what_is_proved_is_said(own_guess, share):
    true = amplify(COIN, **AMONG).epsilon
    own_guess(share * true)
    found = amplify(COIN, **AMONG).epsilon
    assert proved_at(found) <= 0.01
    assert 0.999 * true < found <= (1.001 if share == 0.9999 else 2.5) * true


def test_a_guess_above_the_local_epsilon_is_not_needed(own_guess):
    own_guess(1e9)
    assert amplify(COIN, **AMONG).epsilon == pytest.approx(1.0, rel=1e-12)


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
    assert Fraction(float_below(third)) <= third < Fraction(math.nextafter(float_below(third), 1))
    assert float_above(Fraction(1, 2)) == 0.5
    assert proved_delta(solution("J", epsilon=1.0, dim=4).blanket(), 5, 0.0) <= 1
