"""Advice from public quantities: its formulas against simulated clients, its ranks, its words."""

import json
import math
from fractions import Fraction

import pytest

import fedsel
from fedsel import InvalidArgument, PublicFacts, Recipe, advise, resolve_auto
from fedsel.advising._outlook import simulate
from fedsel.auto._numbers import CENTRE, SPREAD
from fedsel.solutions._caps import codewords_for
from tests.cli.support import run_here

ADULT = {"dim": 124, "clients": 39_000, "batch": 390, "epsilon": 1.0}


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
