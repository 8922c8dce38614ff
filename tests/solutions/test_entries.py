"""Entries of the registry: exact ε, bits and picks of every name."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import (
    InvalidArgument,
    solution,
)
from fedsel.checks import assert_follows
from fedsel.mechanisms import FlatPicks
from fedsel.mechanisms._two_stage import flat_picks
from fedsel.solutions import entry, names
from tests.sampling.support import many_reports


@pytest.mark.parametrize("dim", [1, 2, 100])
def test_every_name_says_its_exact_epsilon(dim):
    for name in names():
        if entry(name).family == "baseline" or (entry(name).answers and dim == 1):
            continue
        made = solution(name.swapcase(), epsilon=3.0, dim=dim, epochs=2)
        assert made.name == name
        privacy = made.privacy
        alone = ("EXP", "PE", "PS", "PE-published", "RS")
        plain = name.startswith("NP") or name.removesuffix("-O") in alone
        assert entry(name).plain == (name.startswith("NP") or name == "RS")
        if plain:
            assert privacy.per_report == math.inf
            assert "not private" in privacy.note
        elif "published" in name:
            assert privacy.within_budget == (dim == 1)
        elif "-C" in name:
            assert privacy.per_report <= 1.65 + 1e-12
            assert "control group" in privacy.note
        else:
            assert privacy.within_budget
            assert privacy.per_report <= 1.5
            assert privacy.total == 2 * privacy.per_report
        assert made.bits >= 1 or dim == 1


def test_the_control_group_costs_more_than_its_budget():
    privacy = solution("PS-PM-C", epsilon=2.0, dim=100).privacy
    assert privacy.per_report == pytest.approx(2.2, abs=1e-9)
    assert not privacy.within_budget


def test_bits():
    assert solution("NP", dim=100).bits == 3200
    assert solution("PS-Duchi", epsilon=2.0, dim=100).bits == 8
    assert solution("PE-Duchi", epsilon=0.5, dim=2).bits == 3  # ⊥ is one more dimension


@pytest.mark.parametrize(
    ("epsilon", "dim", "picks"), [(1, 9, 1), (2.5, 9, 1), (5, 9, 2), (13, 9, 5), (50, 9, 9)]
)
def test_flat_reports_draw_as_many_entries_as_epsilon_pays_for(epsilon, dim, picks):
    assert flat_picks(Fraction(epsilon), dim) == picks
    made = solution("PM", epsilon=float(epsilon), dim=dim)
    assert (made.mechanism.picks, made.mechanism.scale(dim)) == (picks, dim / picks)
    assert made.alphabet.picks == picks


def test_flat_picks_are_uniform_sets():
    made = solution("Duchi", epsilon=5.0, dim=4)
    first, second = np.sort(many_reports(made, np.zeros(4), 6000).slot, axis=1).T
    codes = 4 * first + second
    pairs = [4 * a + b for a in range(4) for b in range(a + 1, 4)]
    assert_follows(codes, dict.fromkeys(pairs, 1 / 6), "pairs")


def test_auto_mu_falls_back_to_flat_and_says_so():
    kept = solution("PS-PM", epsilon=2.0, dim=100, mu="auto", batch=600)
    assert float(kept.mechanism.selection.epsilon) == pytest.approx(0.4)
    for name in ("PS-PM", "EXP-PM-C", "PE-PM-O"):
        fallen = solution(name, epsilon=0.5, dim=100, mu="auto", batch=600)
        assert fallen.name == "PM"
        assert isinstance(fallen.mechanism, FlatPicks)
        assert f"{name} asked for, but μ = 0" in fallen.privacy.note
    with pytest.raises(InvalidArgument, match="batch = None"):
        solution("PS-PM", epsilon=2.0, dim=100, mu="auto")


def test_the_rate_is_inside_only_where_the_name_says_so():
    assert solution("PS-PM-O", epsilon=2.0, dim=5).rate_inside
    assert not solution("PS-PM", epsilon=2.0, dim=5).rate_inside
