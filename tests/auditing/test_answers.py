"""Every report that a device may send on a question of few answers, from its own code.

For 2 to 7 answers, all subsets and all cyclotomic blocks over small primes, in all their bases.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from fedsel import certify_by_enumeration, solution
from fedsel.auditing import report_law

PRIMES = (3, 5, 7, 11)


def questions(answers):
    """The arguments of all designs for so many answers."""
    for k in range(1, answers):
        yield {"k": k}
    for prime in PRIMES:
        for classes in range(2, prime):
            if prime >= answers and (prime - 1) % classes == 0:
                for k in range(1, min(answers, classes - 1) + 1):
                    yield {"k": k, "words": prime, "bases": classes}


def blocks_of(answers, k, words=None, bases=1):
    """The blocks of each basis, by their definition: sets of answers."""
    if words is None:
        return [[set(block) for block in combinations(range(answers), k)]]
    nonzero = range(1, words)
    root = next(g for g in nonzero if {pow(g, i, words) for i in nonzero} == set(nonzero))
    classes = [{pow(root, i, words) for i in range(b, words - 1, bases)} for b in range(bases)]
    return [
        [
            {(x + c) % words for i in range(k) for x in classes[(basis + i) % bases]}
            for c in range(words)
        ]
        for basis in range(bases)
    ]


def updates(answers):
    """One for each answer, others for the same answers, and some without any."""
    yield from np.eye(answers)
    yield from (np.full(answers, 3e38), np.linspace(-1, 1, answers), np.zeros(answers))
    yield from (-np.ones(answers), np.full(answers, 1e-45))


@pytest.mark.parametrize("answers", range(2, 8))
def test_the_law_of_a_device_is_its_definition_and_loses_what_the_certificate_says(answers):
    for given in questions(answers):
        made = solution("BR", epsilon=Fraction(3, 2), dim=answers, **given)
        designs = blocks_of(answers, **given)
        law = made.mechanism.selection.law(len(designs[0]))
        for answer in range(answers):
            by_definition = {
                ((basis * len(blocks) + slot, 0),): Fraction(
                    law.maximum if answer in block else law.minimum, law.total * len(designs)
                )
                for basis, blocks in enumerate(designs)
                for slot, block in enumerate(blocks)
            }
            found = report_law(made, np.eye(answers)[answer])
            assert {said: p for said, (p, _) in found.items()} == by_definition
        found = certify_by_enumeration(made, list(updates(answers)))
        assert found.holds
        assert found.ratio == made.privacy.ratio == Fraction(law.maximum, law.minimum)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("answers", [2, 5, 7, 20])
def test_what_is_taken_by_itself_loses_what_the_certificate_says(answers, epsilon):
    made = solution("BR", epsilon=epsilon, dim=answers)
    found = certify_by_enumeration(made, list(updates(answers)))
    assert found.holds
    assert found.ratio == made.privacy.ratio


@pytest.mark.parametrize("given", [{"k": 2}, {"k": 1, "words": 5, "bases": 2}])
def test_two_reports_lose_at_most_the_sum(given):
    made = solution("BR", epsilon=2.0, dim=4, epochs=2, **given)
    found = certify_by_enumeration(made, list(np.eye(4)))
    assert found.ratio == made.privacy.ratio**2
