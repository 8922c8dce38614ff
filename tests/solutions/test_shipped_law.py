"""What a device ships is what is certified: the exact law of ``encode`` itself, over epochs.

Every private solution of the registry is run, as a device runs it, on every draw that matters
(`certify_by_enumeration`); the ratio of the transcripts of any two inputs must be within the
certificate.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fedsel import certify_by_enumeration, solution
from fedsel.auditing import report_law
from fedsel.mechanisms._laws import INPUT_STEPS
from fedsel.mechanisms._one_symbol import keep_steps
from fedsel.solutions import names

PRIVATE = [n for n in names() if solution(n, epsilon=1.0, dim=2, k=1).private]
# PM and HM have hundreds of symbols.
EACH = [pytest.param(n, marks=pytest.mark.slow if "PM" in n or "HM" in n else ()) for n in PRIVATE]
# Extremes of rank and value in both directions, ties, zeros, and what overflows in a sum.
GRID = [(5.0, 0.1), (-5.0, 9.0), (0.1, -5.0), (0.0, 0.0), (0.7, 0.7), (3e38, 3e38)]
FEW = [GRID[0], GRID[1], GRID[2]]


def build(name, **changes):
    given = {"epsilon": 1.0, "dim": 2, "k": 1, "momentum": 0.5, "ratio": 1.0, "words": 4}
    return solution(name, **{**given, "rho": 1.0, "clip": 0.8, **changes})


def kind_of(name):
    """All that decides how numbers come to a mechanism; not what it draws."""
    made = build(name)
    ranked = getattr(made.mechanism, "selection", None)
    return made.feedback, type(made.transform), type(made.mechanism), type(ranked)


def symbols_of(name):
    return build(name).alphabet.symbols


KINDS = list({kind_of(n): n for n in sorted(PRIVATE, key=symbols_of, reverse=True)}.values())
"""A solution of each kind, with the fewest symbols."""


def test_every_private_solution_is_here():
    charged = [n for n in names() if build(n).privacy.charge is not None]
    assert charged == PRIVATE
    assert {"PM", "PM-RP", "PS-PM", "PE-HM-C-O", "RS-OW", "J", "UJ", "RJ", "RC"} < set(PRIVATE)


@pytest.mark.parametrize("name", EACH)
def test_one_report_loses_exactly_what_its_certificate_says(name):
    """The grid holds the extremes: the certificate is safe, and it is tight."""
    made = build(name)
    assert certify_by_enumeration(made, GRID).ratio == made.privacy.ratio


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_several_reports_lose_at_most_the_sum(name):
    """What is kept for later and the momentum are inside: every transcript of two epochs."""
    made = build(name, epsilon=2.0, epochs=2)
    few = FEW if made.alphabet.symbols < 60 else FEW[:2]
    assert certify_by_enumeration(made, few).ratio <= made.privacy.ratio**2


@pytest.mark.parametrize("name", ["Duchi", "RS-OW"])
@pytest.mark.parametrize("epsilon", [5.0, 8.0])
def test_flat_reports_of_several_entries_charge_for_each(name, epsilon):
    made = build(name, epsilon=epsilon, dim=3)
    assert made.alphabet.picks > 1
    inputs = [(5.0, 5.0, 5.0), (-5.0, -5.0, -5.0), (0.0, 0.3, -5.0)]
    assert certify_by_enumeration(made, inputs).ratio == made.privacy.ratio


@pytest.mark.parametrize("name", ["PS-Duchi", "EXP-OW", "PE-Duchi-O"])
def test_three_epochs_of_momentum(name):
    made = build(name, epsilon=3.0, epochs=3, momentum=2.0)
    assert certify_by_enumeration(made, FEW[:2]).ratio <= made.privacy.ratio**3


@pytest.mark.parametrize("name", ["J", "RJ", "RC"])
def test_the_radius_is_compared_with_the_norm_of_the_update(name):
    """Not with that of its scores: what is reported is v or, by ‖v‖ and ρ alone, −v."""
    v = np.array([0.3, -0.8, 0.1])
    with_radius = report_law(build(name, dim=3, rho=2.0), v)
    plain, turned = (report_law(build(name, dim=3, rho=None), u) for u in (v, -v))
    norm = float(np.linalg.norm(v.astype(np.float32).astype(np.float64)))
    kept = Fraction(keep_steps(norm, 2.0), INPUT_STEPS)
    for said, (p, _) in with_radius.items():
        assert p == kept * plain[said][0] + (1 - kept) * turned[said][0]


@pytest.mark.parametrize("name", KINDS)
def test_an_overflow_does_not_silence_a_client(name):
    """Sums, scores and squares of these overflow; the report is within the law all the same."""
    made = build(name, dim=3, ratio=0.4)
    large = [(3e38, 3e38, 3e38), (-3e38, 3e38, 3e38), (0.0, 0.0, 0.0)]
    assert certify_by_enumeration(made, large).ratio <= made.privacy.ratio


@pytest.mark.parametrize("name", ["RJ", "RC"])
@pytest.mark.parametrize("rho", [1.0, None])
def test_scores_of_infinity_less_infinity_do_not_silence_a_client(name, rho):
    """Partial sums overflow with both signs: unless guarded, a score is not a number."""
    made = build(name, dim=4, rho=rho, words=8)
    corners = list(product((3e38, -3e38), repeat=4))
    for corner in corners:
        assert sum(p for p, _ in report_law(made, corner).values()) == 1
    found = certify_by_enumeration(made, [*corners, (0.0, 0.0, 0.0, 0.0), (1.0, -2.0, 0.5, 0.0)])
    assert found.holds
    assert found.ratio <= made.privacy.ratio
