"""The slow twin: the paper's appendix, line by line, against our laws and samplers.

Each algorithm draws with ``entropy.below``, with e^ε a rational, so that its exact law can be
enumerated.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import exact_law
from fedsel._internal.random import stream
from fedsel.checks import assert_follows
from fedsel.mechanisms import BOTTOM, Exponential, PerturbedSampling, PublishedPerturbedEncoding
from fedsel.sampling import simulated


def bernoulli(entropy, p: Fraction) -> bool:
    return entropy.below(p.denominator) < p.numerator


def uniform_choice(entropy, items):
    return items[entropy.below(len(items))]


def exp_select(r, growth: Fraction, entropy):
    """Algorithm EXP, with exp(ε₁/(d−1)) = growth."""
    d = len(r)
    # 1: sum ← Σ exp(ε₁ j/(d−1))
    total = sum(growth**j for j in range(1, d + 1))
    # 2: sort |r| in ascending order
    ascending = sorted(range(d), key=lambda j: abs(r[j]))
    # 3-6: z_j is the rank of dimension j, p_j ← exp(ε₁ z_j/(d−1))/sum
    p = [Fraction(0)] * d
    for j in range(d):
        z = ascending.index(j) + 1
        p[j] = growth**z / total
    # 7: sample an index with probability p_j
    denominator = math.lcm(*(x.denominator for x in p))
    ticket = entropy.below(denominator)
    for j in range(d):
        ticket -= int(p[j] * denominator)
        if ticket < 0:
            return j
    raise AssertionError


def status(r, k):
    """z_j = 1 if |r_j| is among the top k."""
    descending = sorted(range(len(r)), key=lambda j: -abs(r[j]))
    return [int(j in descending[:k]) for j in range(len(r))]


def pe_select(r, k, growth: Fraction, entropy):
    """Algorithm PE, with e^ε₁ = growth."""
    # 1-2: p = e^ε₁/(e^ε₁ + 1); the status vector
    p, z = growth / (growth + 1), status(r, k)
    # 3-9: keep each status with probability p
    flipped = []
    for j in range(len(r)):
        one = bernoulli(entropy, p) if z[j] == 1 else bernoulli(entropy, 1 - p)
        flipped.append(one)
    # 10: the sample set; 11-15: ⊥ if it is empty, else one of it
    sample = [j for j in range(len(r)) if flipped[j]]
    if not sample:
        return BOTTOM
    return uniform_choice(entropy, sample)


def ps_select(r, k, growth: Fraction, entropy):
    """Algorithm PS, with e^ε₁ = growth."""
    d, z = len(r), status(r, k)
    # 3-7: from the top k with probability e^ε₁ k/(d − k + e^ε₁ k), else from the others
    if bernoulli(entropy, growth * k / (d - k + growth * k)):
        return uniform_choice(entropy, [j for j in range(d) if z[j] == 1])
    return uniform_choice(entropy, [j for j in range(d) if z[j] == 0])


VECTOR = [0.5, -3.0, 0.1, 2.0, -1.0]


def our_law(selection, vector):
    law = selection.law(len(vector))
    return dict(enumerate(law.over(vector))) | {BOTTOM: law.bottom_probability}


def assert_same_law(ours, paper):
    for outcome, p in ours.items():
        assert float(p) == pytest.approx(float(paper.get(outcome, 0)), rel=1e-12, abs=1e-18)
    assert sum(paper.values()) == 1


@pytest.mark.parametrize("growth", [Fraction(3, 2), Fraction(3), Fraction(20)])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_ps_is_the_papers(growth, k):
    paper = exact_law(lambda e: ps_select(VECTOR, k, growth, e))
    assert_same_law(our_law(PerturbedSampling(math.log(growth), k), VECTOR), paper)


@pytest.mark.parametrize("growth", [Fraction(3, 2), Fraction(3), Fraction(6)])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_published_pe_is_the_papers(growth, k):
    paper = exact_law(lambda e: pe_select(VECTOR, k, growth, e))
    assert_same_law(our_law(PublishedPerturbedEncoding(math.log(growth), k), VECTOR), paper)


@pytest.mark.parametrize("growth", [Fraction(3, 2), Fraction(3)])
def test_exp_is_the_papers(growth):
    paper = exact_law(lambda e: exp_select(VECTOR, growth, e))
    epsilon = (len(VECTOR) - 1) * math.log(growth)
    assert_same_law(our_law(Exponential(epsilon), VECTOR), paper)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "twin"),
    [
        (Exponential(9 * math.log(1.5)), lambda r, e: exp_select(r, Fraction(3, 2), e)),
        (PerturbedSampling(math.log(3), 3), lambda r, e: ps_select(r, 3, Fraction(3), e)),
        (PublishedPerturbedEncoding(math.log(3), 3), lambda r, e: pe_select(r, 3, Fraction(3), e)),
    ],
    ids=["EXP", "PS", "PE"],
)
def test_kernel_and_twin_sample_the_same_law(selection, twin):
    """At d = 10, where enumeration ends: both samples against our exact law."""
    vector = np.random.default_rng(5).normal(size=10).tolist()
    law = {j: float(p) for j, p in our_law(selection, vector).items()}
    fast = simulated.select(selection, [vector], simulated.cohort(200_000, seed=11))
    slow = np.array([twin(vector, stream(12, 0, i)) for i in range(10_000)])
    assert_follows(fast, law, f"{selection!r} by the kernel")
    assert_follows(slow, law, f"{selection!r} by the paper")
