"""What a device ships is what is certified: the exact law of ``encode`` itself, over epochs.

Every private solution of the registry is run, as a device runs it, on every draw that matters
(`exact_law`); the ratio of the transcripts of any two inputs must be within the certificate.
"""

from fractions import Fraction

import numpy as np
import pytest

from fedsel.auditing import exact_law
from fedsel.mechanisms.laws import INPUT_STEPS
from fedsel.mechanisms.one_symbol import keep_steps
from fedsel.sampling import device
from fedsel.solutions import names, solution

LOOPS = [device.draw_dimension]
PRIVATE = [n for n in names() if solution(n, epsilon=1.0, dim=2, k=1).privacy.charge is not None]
# Extremes of rank and value in both directions, ties, zeros, and what overflows in a sum.
GRID = [(5.0, 0.1), (-5.0, 9.0), (0.1, -5.0), (0.0, 0.0), (0.7, 0.7), (3e38, 3e38)]
FEW = [GRID[0], GRID[1], GRID[2]]


def law_of(made, gradient, residual):
    """{(report): (probability, residual kept)}."""

    def program(entropy):
        message, after = made.encode(
            np.array(gradient, dtype=np.float32), np.array(residual, dtype=np.float32), entropy
        )
        return tuple(tuple(pair) for pair in message), tuple(after.tolist())

    law = exact_law(program, loops=LOOPS)
    return {said: (p, kept) for (said, kept), p in law.items()}


def worst_ratio(made, inputs, epochs):
    """The largest ratio of the probabilities of a transcript for any two sequences of inputs."""
    laws, found = {}, {}

    def law(gradient, residual):
        if (gradient, residual) not in laws:
            laws[gradient, residual] = law_of(made, gradient, residual)
        return laws[gradient, residual]

    def worst(first, second, left):
        """From two residuals on, ``left`` reports to come."""
        if left == 0:
            return Fraction(1)
        if (first, second, left) not in found:
            best = Fraction(0)
            for a in inputs:
                for b in inputs:
                    one, other = law(a, first), law(b, second)
                    ratios = {}
                    for said, (p, after) in one.items():
                        assert said in other, "a report that another input cannot give"
                        q, beside = other[said]
                        pair = (after, beside)
                        ratios[pair] = max(ratios.get(pair, Fraction(0)), p / q)
                    for pair, ratio in ratios.items():
                        best = max(best, ratio * worst(*pair, left - 1))
            found[first, second, left] = best
        return found[first, second, left]

    nothing = (0.0,) * made.dim
    return worst(nothing, nothing, epochs)


def build(name, **changes):
    given = {"epsilon": 1.0, "dim": 2, "k": 1, "momentum": 0.5, "ratio": 1.0, "words": 4}
    return solution(name, **{**given, "rho": 1.0, "clip": 0.8, **changes})


@pytest.mark.parametrize("name", PRIVATE)
def test_one_report_loses_exactly_what_its_certificate_says(name):
    """The grid holds the extremes: the certificate is safe, and it is tight."""
    made = build(name)
    assert worst_ratio(made, GRID, 1) == made.privacy.ratio


@pytest.mark.parametrize("name", PRIVATE)
def test_several_reports_lose_at_most_the_sum(name):
    """What is kept for later and the momentum are inside: every transcript of two epochs."""
    made = build(name, epsilon=2.0, epochs=2)
    few = FEW if made.alphabet.symbols < 60 else FEW[:2]  # PM and HM: hundreds of symbols
    assert worst_ratio(made, few, 2) <= made.privacy.ratio**2


@pytest.mark.parametrize("name", ["Duchi", "RS-OW"])
@pytest.mark.parametrize("epsilon", [5.0, 8.0])
def test_flat_reports_of_several_entries_charge_for_each(name, epsilon):
    made = build(name, epsilon=epsilon, dim=3)
    assert made.alphabet.picks > 1
    inputs = [(5.0, 5.0, 5.0), (-5.0, -5.0, -5.0), (0.0, 0.3, -5.0)]
    assert worst_ratio(made, inputs, 1) == made.privacy.ratio


@pytest.mark.parametrize("name", ["PS-Duchi", "EXP-OW", "PE-Duchi-O"])
def test_three_epochs_of_momentum(name):
    made = build(name, epsilon=3.0, epochs=3, momentum=2.0)
    assert worst_ratio(made, FEW[:2], 3) <= made.privacy.ratio**3


@pytest.mark.parametrize("name", ["J", "RJ", "RC"])
def test_the_radius_is_compared_with_the_norm_of_the_update(name):
    """Not with that of its scores: what is reported is v or, by ‖v‖ and ρ alone, −v."""
    v = np.array([0.3, -0.8, 0.1])
    with_radius = law_of(build(name, dim=3, rho=2.0), v, np.zeros(3))
    plain, turned = (law_of(build(name, dim=3, rho=None), u, np.zeros(3)) for u in (v, -v))
    norm = float(np.linalg.norm(v.astype(np.float32).astype(np.float64)))
    kept = Fraction(keep_steps(norm, 2.0), INPUT_STEPS)
    for said, (p, _) in with_radius.items():
        assert p == kept * plain[said][0] + (1 - kept) * turned[said][0]


@pytest.mark.parametrize("name", PRIVATE)
def test_an_overflow_does_not_silence_a_client(name):
    """Sums, scores and squares of these overflow; the report is within the law all the same."""
    made = build(name, dim=3, ratio=0.4)
    large = [(3e38, 3e38, 3e38), (-3e38, 3e38, 3e38), (0.0, 0.0, 0.0)]
    assert worst_ratio(made, large, 1) <= made.privacy.ratio
