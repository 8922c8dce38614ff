"""Advice from public quantities: its formulas against simulated clients, its ranks, its words."""

import json
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import fedsel
from fedsel import InvalidArgument, PublicFacts, Recipe, advise, resolve_auto, solution
from fedsel.advising import Moments, Updates, moments
from fedsel.advising._outlook import NAMES, simulate
from fedsel.advising._sufficiency import GOAL
from fedsel.auto._numbers import CENTRE, SPREAD
from fedsel.solutions._caps import codewords_for
from fedsel.solutions._rotated import hadamard
from tests.cli.support import run_here

ADULT = {"dim": 124, "clients": 39_000, "batch": 390, "epsilon": 1.0}


def made(name, dim, epsilon, rho):
    radius = {"rho": rho} if name in ("J", "FJ", "RC") else {}
    return solution(name, epsilon=epsilon, dim=dim, mu=0.2, **radius)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("dim", "reports", "epsilon", "agreement"),
    [
        (60, 400, 1.0, 0.3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((124, 300, 4.0, 0.2), (40, 3000, 2.0, 0.9), (200, 300, 8.0, 0.5))
        ),
    ],
)
def test_alignment_is_what_simulated_clients_show(name, sparse, dim, reports, epsilon, agreement):
    """Within 5 % and chance: a false alarm has the probability 1e-9 by Student's law."""
    updates = Updates(dim, 1.2, agreement, sparse)
    built = made(name, dim, epsilon, updates.length)
    found = simulate(built, updates, moments(built, updates), reports, rounds=40, seed=5)
    assert found.agrees, found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_limit_of_many_clients_is_met_to_four_percent(name):
    """With little noise the bias of a solution is all that is left: a sharp test of it."""
    updates = Updates(64, 2.0, 0.7)
    built = made(name, 64, 8.0, updates.length)
    told = moments(built, updates)
    found = simulate(built, updates, told, 8_000, rounds=24, seed=2)
    assert found.measured == pytest.approx(found.computed, rel=0.04, abs=found.chance)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "bases"), [(8.0, 1), (8.0, 8), (12.0, 1), (12.0, 8)])
def test_several_rotations_and_bases_align_as_computed(epsilon, bases):
    updates = Updates(100, 2.0, 0.7)
    built = solution("RJ", epsilon=epsilon, dim=100, rho=2.0, bases=bases)
    assert built.transform.rotations == {8.0: 4, 12.0: 64}[epsilon]
    for reports in (50, 4_000):
        found = simulate(built, updates, moments(built, updates), reports, rounds=24, seed=2)
        assert found.measured == pytest.approx(found.computed, rel=0.05, abs=found.chance)


def test_unbiased_solutions_have_the_signal_of_the_mean():
    updates = Updates(100, 0.4, 0.25)
    for name in ("PM", "HM", "UJ", "FJ"):
        told = moments(made(name, 100, 1.0, 0.4), updates)
        assert told.signal == pytest.approx(0.1, rel=1e-2), name
    plain = moments(solution("NP", dim=100), updates)
    assert plain.alignment(1) == pytest.approx(0.25)


def test_second_moments_of_pm_are_those_of_theory():
    """(d/c)·Σ_j(Var(t_j) + t_j²), with PM's variance t²/(h−1) + (h+3)/(3(h−1)²)."""
    d, r, h = 100, 3.0, math.exp(0.5)
    told = moments(solution("PM", epsilon=1.0, dim=d), Updates(d, r, 0.2))
    expected = d * (d * (h + 3) / (3 * (h - 1) ** 2) + r**2 * (1 / (h - 1) + 1))
    assert told.second == pytest.approx(expected, rel=0.01)


def test_moments_answer_how_many_reports_are_needed():
    told = Moments(signal=0.1, shared=0.012, second=9.0)
    needed = told.reports_for(GOAL)
    assert told.alignment(needed) >= GOAL > told.alignment(needed - 1)
    assert Moments(signal=0.1, shared=0.05, second=9.0).reports_for(GOAL) is None


def test_rows_are_transformed_as_vectors_are():
    rows = np.random.default_rng(0).standard_normal((3, 16))
    assert (hadamard(rows) == [hadamard(row) for row in rows]).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_more_clients_and_more_epsilon_are_never_worse(sparse):
    clients = [advise(dim=80, clients=n, epsilon=2.0, sparse=sparse) for n in (1000, 5000, 10**5)]
    for few, many in pairwise(clients):
        for name in ("PM", "HM", "PM-RP", "J", "UJ", "FJ", "RC"):
            assert few[name].alignment_all <= many[name].alignment_all
    budgets = [
        advise(dim=80, clients=10_000, batch=100, epsilon=e, sparse=sparse)
        for e in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    ]
    for small, large in pairwise(budgets):
        for name in ("PM", "HM", "PM-RP", "J", "UJ", "FJ", "RC"):
            if large.epsilon < 5:
                assert small[name].alignment_all <= large[name].alignment_all, name
            elif name not in ("PM", "HM"):
                # Flat reports then tell several entries, and one symbol stands for the largest
                # entry alone: a report says more, but many reports are bent.
                found = [a[name].moments.alignment(1) for a in (small, large)]
                assert found[0] <= found[1], name
        best = [a.outlooks[0].clients_needed for a in (small, large)]
        assert best[0] >= best[1]


@pytest.mark.parametrize("norm", [1.0, 3.9])
def test_known_case_ranks_as_experiments_do(norm):
    """ADULT's size: RJ and RC above flat and two-stage."""
    advice = advise(**ADULT, norm=norm)
    for ours in ("FJ", "RC"):
        for theirs in ("PM", "PS-PM"):
            assert advice[ours].rank < advice[theirs].rank
    assert advice.recommended == "FJ"
    assert advice.usable
    assert [o.rank for o in advice.outlooks] == list(range(1, len(NAMES) + 1))


def test_every_outlook_keeps_its_budget_exactly():
    advice = advise(dim=60, clients=100_000, batch=5000, epsilon=3.0, epochs=3)
    assert {o.name for o in advice.outlooks} == set(NAMES)
    for outlook in advice.outlooks:
        assert outlook.epsilon_per_report <= 1.0
        assert outlook.epsilon_total == pytest.approx(3.0, rel=1e-9)
        assert outlook.epsilon_total <= 3.0
        assert outlook.bits == outlook.solution.bits
    assert advice["PS-PM"].mu == pytest.approx(0.2)
    assert advice["PS-PM"].k == 6
    assert advice["PM"].mu is None
    with pytest.raises(InvalidArgument, match=r"^name = 'XX'"):
        advice["XX"]


def test_mu_of_zero_is_said_aloud():
    advice = advise(**ADULT)
    assert advice["PS-PM"].mu == 0
    assert advice["PS-PM"].takes == "PM"
    assert advice["PS-PM"].alignment_all == advice["PM"].alignment_all
    assert any(w.startswith("μ = 0 for EXP-PM, PE-PM, PS-PM") for w in advice.warnings)


def test_the_impossible_is_warned_of():
    advice = advise(dim=10**6, clients=1000, epsilon=1.0)
    assert not advice.usable
    assert advice.warnings[0].startswith("No solution can work")
    assert advice.outlooks[0].clients_needed > 10**7
    assert {"RC", "PM-RP"}.isdisjoint(o.name for o in advice.outlooks)
    assert sum("left out" in w for w in advice.warnings) == 2
    assert not any("No solution" in w for w in advise(**ADULT).warnings)


@pytest.mark.slow
def test_splitting_epsilon_over_epochs_loses_what_is_said():
    """At small ε a quarter of ε makes four times the noise: √4 of it stays. Measured, too."""
    once, split = advise(**ADULT), advise(**ADULT, epochs=4)
    assert split.one_epoch == once.outlooks[0].alignment_all > split.outlooks[0].alignment_all
    assert any(w.startswith("ε split over 4 epochs loses") for w in split.warnings)
    measured = [
        simulate(a["FJ"].solution, a.updates, a["FJ"].moments, reports, rounds=24, seed=1)
        for a, reports in ((once, 4000), (split, 16_000))
    ]
    assert all(m.agrees for m in measured)
    noise = [1 / m.measured**2 - 1 for m in measured]
    assert 1.5 < math.sqrt(noise[1] / noise[0]) < 2.7
    # At a large ε one symbol cannot use it all, and splitting gains.
    assert not any("loses" in w for w in advise(**{**ADULT, "epsilon": 40.0}, epochs=4).warnings)


@pytest.mark.slow
def test_check_compares_every_outlook():
    advice = advise(dim=30, clients=2000, batch=200, epsilon=4.0, agreement=0.5)
    seen = []
    checks = advice.check(seed=3, advance=seen.append)
    assert seen == [c.name for c in checks] == [o.name for o in advice.outlooks]
    assert all(c.agrees for c in checks)
    assert checks == advice.check(seed=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dim", 1),
        ("dim", 2.5),
        ("clients", 0),
        ("batch", 39_001),
        ("epsilon", 0),
        ("epsilon", math.nan),
        ("epochs", 0),
        ("agreement", 0),
        ("agreement", 1.5),
        ("norm", -1),
        ("clip", 0),
        ("sparse", "yes"),
    ],
)
def test_wrong_input_is_named(name, value):
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        advise(**{**ADULT, name: value})


def fedsel_command(*arguments, status=0):
    return run_here("advise", *arguments, status=status)


def test_the_command_shows_table_recommendation_and_warnings():
    options = ["--dim", "124", "--clients", "39000", "--batch", "390", "--epsilon", "1"]
    text = fedsel_command(*options).stdout
    assert "Recommended: FJ." in text
    assert "PS-PM (as PM)" in text
    assert "Warning: μ = 0" in text
    assert "Simulated rounds" not in text


@pytest.mark.slow
def test_the_command_checks_and_prints_json():
    options = ["--dim", "20", "--clients", "1000", "--epsilon", "2", "--sparse"]
    found = json.loads(fedsel_command(*options, "--check", "--json").stdout)
    assert found["recommended"] == found["outlooks"][0]["name"]
    assert found["batch"] == 10
    assert found["sparse"] is True
    assert all(c["agrees"] for c in found["checks"])
    assert "Simulated rounds" in fedsel_command(*options, "--check").stdout


def test_the_command_refuses_in_one_sentence():
    options = ["--dim", "20", "--clients", "1000", "--epsilon", "2"]
    error = fedsel_command(*options, "--batch", "2000", status=2).stderr
    assert error == "fedsel: --batch = 2000: must be an integer in 1 … 1000\n"


def test_it_says_which_share_of_the_clients_the_first_wave_takes():
    advice = advise(**ADULT)
    assert (advice.centre, advice.spread) == (CENTRE, SPREAD)
    assert "the first 10 of 100 rounds (3,900, 10%)" in advice.preparation
    assert "the first 5 of 100 rounds (1,950, 5%)" in advice.preparation
    # The error of a mean of private reports on records of norm 1, as the server would see it.
    recipe = resolve_auto(Recipe(epsilon=1.0), PublicFacts(124, 390, 100, 1.0, offset=True))
    noise = recipe.build().noise / recipe.rho / math.sqrt(3900)
    assert advice.centre_error == pytest.approx(noise)
    few = advise(dim=1000, clients=4000, epsilon=0.5)
    assert (few.centre, few.spread, few.centre_error) == (0, 0, 0)
    assert few.preparation.startswith("The clients are too few")
    short = advise(dim=50, clients=4000, epsilon=2.0, batch=1000)
    assert short.preparation.startswith("An epoch of 4 rounds is too short")
    numbers = advise(**ADULT, regression=True)
    assert numbers.centre == CENTRE
    assert numbers.as_dict()["preparation"] == numbers.preparation


def test_it_says_what_codebooks_a_round_has():
    assert "among 128 codewords of its own" in advise(**ADULT).codebook
    many = advise(dim=64, clients=2000, epsilon=12.0, batch=500)
    assert many.codewords == codewords_for(Fraction(12), 64) == many.as_dict()["codewords"]
    assert f"{many.codewords:,} codewords" in many.codebook


def test_public_names():
    assert fedsel.advise is advise
    assert isinstance(advise(**ADULT), fedsel.advising.Advice)
