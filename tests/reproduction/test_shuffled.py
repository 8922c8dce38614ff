"""Shuffled reports under audit: exact laws of multisets, attacks below them, proofs above."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import amplify
from fedsel.mechanisms import SignedSampling, mechanism
from reproduction.audit.shuffled import Attack, attack_shuffled, multisets, worst_attack

J = SignedSampling(1.0, k=1)
DELTA = Fraction(1, 100)


def test_the_law_of_multisets_is_that_of_all_sequences():
    law = {"a": Fraction(1, 6), "b": Fraction(2, 6), "c": Fraction(3, 6)}
    found = multisets(law, 3)
    listed = {}
    for drawn in itertools.product(law, repeat=3):
        counts = tuple(drawn.count(y) for y in sorted(law))
        listed[counts] = listed.get(counts, 0) + math.prod(law[y] for y in drawn)
    assert found == listed
    assert sum(found.values()) == 1


def test_exact_epsilon_is_that_of_the_hockey_stick():
    """At e^ε the divergence of the two multisets is δ, and just below it is more."""
    attack = worst_attack(J, 2, 3, DELTA)
    laws = [
        J.report_law([Fraction(float(x)) for x in vector])
        for vector in (attack.first, attack.second, attack.others)
    ]
    beside = multisets(laws[2], 2)

    def seen(law):
        joined = {}
        for (counts, q), (place, y) in itertools.product(beside.items(), enumerate(sorted(law))):
            more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            joined[more] = joined.get(more, 0) + q * law[y]
        return joined

    one, other = seen(laws[0]), seen(laws[1])

    def divergence(growth):
        return sum(max(one[y] - growth * other[y], 0) for y in one)

    assert divergence(attack.growth) == DELTA
    assert divergence(attack.growth * Fraction(999, 1000)) > DELTA


@pytest.mark.parametrize("name", ["J", "UJ", "EXP-Duchi", "PE-Duchi", "PS-Duchi"])
def test_what_is_exact_for_some_inputs_is_below_what_is_proved_for_all(name):
    target = mechanism(name, epsilon=1.0, k=1)
    exact = [worst_attack(target, 2, n, DELTA).epsilon for n in (1, 2, 4)]
    proved = [amplify(target, 2, reports=n, delta=0.01).epsilon for n in (1, 2, 4)]
    assert exact == sorted(exact, reverse=True)
    assert all(0.8 * p < e <= p for e, p in zip(exact, proved, strict=True))


def test_an_attack_stays_below_and_catches_a_claim_that_is_too_small():
    """A false alarm has the probability 1e-9."""
    attack = worst_attack(J, 2, 4, DELTA)
    asked = {"reports": 4, "delta": 0.01, "trials": 100_000, "pilot": 20_000, "seed": 3}
    found = attack_shuffled(J, attack, **asked, claimed=attack.epsilon)
    assert 0.5 * attack.epsilon < found.lower_bound <= attack.epsilon
    assert not found.violated
    assert found.alpha == 1e-9
    assert attack_shuffled(J, attack, **asked, claimed=0.3).violated
    # Where nobody differs there is nothing to find.
    same = Attack(attack.first, attack.first, attack.others, Fraction(1))
    assert attack_shuffled(J, same, **asked, claimed=0.0).lower_bound == 0


def test_one_report_alone_is_as_exact_as_its_certificate():
    alone = worst_attack(J, 2, 1, Fraction(0))
    assert alone.growth == J.loss_ratio(2)
    assert np.any(alone.first != alone.second)
