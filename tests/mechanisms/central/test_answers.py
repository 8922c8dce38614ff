"""What shuffling proves of BR, beside all that a few shuffled answers can show, and an attack.

A blanket takes two orders of the blocks that share as few as can be, two answers share more of
them: the bound is exact where a block is one answer, and above the truth elsewhere.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from fedsel import amplify, solution
from fedsel.auditing import report_law
from fedsel.mechanisms.central._lattice import values_of
from tests.mechanisms.central.support import clone_epsilon, exact_bound, shuffled_delta

DESIGNS = {
    "2 answers": (2, {"k": 1}),
    "3 answers": (3, {"k": 1}),
    "4 answers": (4, {"k": 1}),
    "2 of 3": (3, {"k": 2}),
    "2 of 4": (4, {"k": 2}),
    "2 of 5, cyclotomic": (3, {"k": 1, "words": 5, "bases": 2}),
    "1 of 3, cyclotomic": (2, {"k": 1, "words": 3, "bases": 2}),
}
EPSILONS = (0.3, 1.0)


def laws_of(made):
    """The laws of a report on each answer and on none, from the code of a device."""
    inputs = [*np.eye(made.dim), np.zeros(made.dim)]
    return [{said: p for said, (p, _) in report_law(made, one).items()} for one in inputs]


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("name", DESIGNS)
def test_shuffled_answers_by_brute_force_are_within_what_is_proved(name, n):
    """All answers of all n clients, and all multisets of their reports, in rationals."""
    answers, given = DESIGNS[name]
    made = solution("BR", epsilon=1.5, dim=answers, **given)
    laws = laws_of(made)
    for epsilon in EPSILONS:
        growth = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**12))
        bound = exact_bound(values_of(made.blanket(), growth), n)
        true = shuffled_delta(laws, n, growth)
        assert 0 < true <= bound
        told = amplify(made, reports=n, epsilon=epsilon).delta
        assert float(bound) <= told * (1 + 1e-9)
        assert told <= float(bound) * 1.01


@pytest.mark.parametrize(("name", "exact"), [("3 answers", True), ("2 of 4", False)])
def test_the_bound_is_exact_where_a_block_is_one_answer(name, exact):
    answers, given = DESIGNS[name]
    made = solution("BR", epsilon=1.5, dim=answers, **given)
    growth = Fraction(5, 4)
    bound = exact_bound(values_of(made.blanket(), growth), 2)
    assert (shuffled_delta(laws_of(made), 2, growth) == bound) == exact


def attacked(made, reports, delta):
    """ε at δ against an observer who counts the blocks that hold only the one or the other answer.

    All others hold the one, the other, or a third (of two answers: none). The largest ε of these.
    """
    laws = [_told_apart(law, made) for law in laws_of(made)[:3]]
    one, other = np.indices((reports + 1, reports + 1))

    def beside(own, law):
        """The law of the counts of both kinds of blocks, with one client's own report."""
        rest = np.maximum(reports - 1 - one, 0)
        counts = binom.pmf(one, reports - 1, law[0])
        counts *= binom.pmf(other, rest, min(1.0, law[1] / (1 - law[0])))
        seen = counts * (1 - sum(own))
        seen[1:] += own[0] * counts[:-1]
        seen[:, 1:] += own[1] * counts[:, :-1]
        return seen

    found = []
    for law in laws:
        p, q = beside(laws[0], law), beside(laws[1], law)

        def beyond(epsilon, p=p, q=q):
            return np.maximum(p - math.exp(epsilon) * q, 0).sum() - delta

        found.append(brentq(beyond, 0, 10, xtol=1e-6))
    return max(found)


def _told_apart(law, made):
    """The probabilities of blocks that hold answer 0 and not 1, and the reverse."""
    apart = [Fraction(0), Fraction(0)]
    for ((slot, _),), p in law.items():
        zero, one = made.transform.codewords(np.array([slot]))[0, :2].tolist()
        if zero != one:
            apart[one] += p
    return tuple(map(float, apart))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("answers", [2, 4, 20])
def test_what_is_proved_is_above_an_attack_and_says_more_than_the_local_epsilon(answers, epsilon):
    """Within 5 % of it where a block is one of several answers, and within half in all cases."""
    made = solution("BR", epsilon=epsilon, dim=answers)
    shown, proved = attacked(made, 200, 1e-4), amplify(made, reports=200, delta=1e-4).epsilon
    direct = made.transform.block_size == 1 and answers > 2
    assert shown <= proved <= (1.05 if direct else 1.5) * shown
    assert proved <= min(epsilon * (1 + 1e-9), clone_epsilon(200, epsilon, 1e-4))
    assert amplify(made, reports=2_000, delta=1e-4).epsilon < 0.5 * proved
