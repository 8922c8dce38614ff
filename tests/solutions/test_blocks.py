"""BR: blocks of answers, their design, and an estimate that is exactly unbiased."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from fedsel import InvalidArgument, Recipe, certify_by_enumeration, solution
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.solutions import Blocks, best_blocks

SUBSETS = [Blocks(2), Blocks(5, 2), Blocks(6, 3), Blocks(7)]
CYCLOTOMIC = [
    Blocks(3, 1, 5, 2),
    Blocks(7, 1, 7, 3),
    Blocks(6, 2, 7, 6),
    Blocks(11, 2, 13, 4),
    Blocks(10, 1, 11, 5),
]
DESIGNS = SUBSETS + CYCLOTOMIC


def of(blocks, epsilon=1.0):
    """The solution of blocks, as a recipe that gives them."""
    classes = None if blocks.points is None else blocks.classes
    given = {"k": blocks.taken, "words": blocks.points, "bases": classes}
    return solution("BR", epsilon=epsilon, dim=blocks.dim, **given)


def all_members(blocks):
    """Whether each answer is in each block of all bases: (e·b, v)."""
    members = blocks.members(np.arange(blocks.size * blocks.bases))
    held = np.zeros((len(members), blocks.answers), dtype=bool)
    np.put_along_axis(held, members, values=True, axis=1)
    return held


@pytest.mark.parametrize("blocks", DESIGNS, ids=repr)
def test_two_answers_share_equally_many_blocks(blocks):
    held = all_members(blocks).astype(int)
    shared = held.T @ held
    assert set(held.sum(axis=1)) == {blocks.block_size}
    assert set(np.diag(shared)) == {blocks.holding * blocks.bases}
    off = shared[~np.eye(blocks.answers, dtype=bool)]
    assert set(off) == {blocks.sharing * blocks.bases}


@pytest.mark.parametrize("blocks", DESIGNS, ids=repr)
def test_what_a_device_ranks_are_the_blocks_that_hold_its_answer(blocks):
    held, answers = all_members(blocks), np.arange(blocks.dim)
    for basis in range(blocks.bases):
        mine = held[basis * blocks.size :][: blocks.size, : blocks.dim].T
        bases = np.full(blocks.dim, basis)
        one = blocks.in_basis(basis)
        np.testing.assert_array_equal(one.scores(np.eye(blocks.dim)), mine)
        np.testing.assert_array_equal(blocks.holds(answers, bases), mine)
        holders = blocks.holders(answers, bases)
        assert [row.tolist() for row in holders] == [np.flatnonzero(row).tolist() for row in mine]
        for slot in range(blocks.size):
            contained = blocks.contain(np.full(blocks.dim, slot), answers, bases)
            np.testing.assert_array_equal(contained, mine[:, slot])
            np.testing.assert_array_equal(one.codeword(slot), mine[:, slot])


def exact_mean(made, answer):
    """The mean of the decoded entries of a report, in rationals."""
    blocks, law = made.transform, made.mechanism.selection.law(made.transform.size)
    held = all_members(blocks)
    weights = np.where(held[:, answer], law.maximum, law.minimum).astype(object)
    counts = weights @ held.astype(int).astype(object)
    total = law.total * blocks.bases
    means = [Fraction(int(count), total) for count in counts]
    unit = Fraction(law.total, law.maximum - law.minimum) / (blocks.holding - blocks.sharing)
    mean = sum(means) * unit / blocks.answers
    return [unit * one - mean + Fraction(1, blocks.answers) for one in means][: blocks.dim]


@pytest.mark.parametrize("blocks", DESIGNS, ids=repr)
def test_the_mean_report_is_the_answer(blocks):
    """Exactly, in rationals; and decoding is that map up to rounding."""
    made = of(blocks, Fraction(3, 2))
    for answer in range(blocks.dim):
        assert exact_mean(made, answer) == [int(x == answer) for x in range(blocks.dim)]
    law = made.mechanism.selection.law(blocks.size)
    own = Fraction(law.total, law.maximum - law.minimum) / (blocks.holding - blocks.sharing)
    assert made.alphabet.units[0] == pytest.approx(float(own), rel=1e-12)


@pytest.mark.parametrize("blocks", DESIGNS, ids=repr)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_error_is_that_of_the_law(blocks, epsilon):
    """n times the mean variance of a share, from all reports of all answers."""
    made = of(blocks, epsilon)
    law, held = made.mechanism.selection.law(blocks.size), all_members(blocks)
    probabilities = [
        np.where(held[:, x], law.maximum, law.minimum) / law.total / blocks.bases
        for x in range(blocks.dim)
    ]
    unit = made.alphabet.units[0]
    decoded = np.array([blocks.combine(unit * row.astype(float)) for row in held])
    errors = [p @ (decoded - np.eye(blocks.dim)[x]) ** 2 for x, p in enumerate(probabilities)]
    assert np.mean(errors) == pytest.approx(blocks.error(epsilon), rel=1e-9)


@pytest.mark.parametrize("blocks", DESIGNS, ids=repr)
def test_enumeration_finds_what_the_certificate_says(blocks):
    made = of(blocks)
    found = certify_by_enumeration(made, np.eye(blocks.dim))
    assert found.ratio == made.privacy.ratio
    assert made.privacy.per_report <= 1


def best_error(epsilon, answers):
    """The least error of all block sizes with v = M: that of subset selection."""
    growth, best = math.exp(epsilon), math.inf
    for k in range(1, answers):
        own = k * growth / (k * growth + answers - k)
        other = (own * (k - 1) + (1 - own) * k) / (answers - 1)
        spread = own * (1 - own) + (answers - 1) * other * (1 - other)
        best = min(best, spread / answers / (own - other) ** 2)
    return best


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 4, 8])
@pytest.mark.parametrize("answers", [*range(2, 40), 64, 100, 256, 1000, 10_000])
def test_the_best_blocks_are_as_good_as_any(answers, epsilon):
    """Within 5 % of the least possible, with a few more bits than the answer itself has."""
    blocks = best_blocks(Fraction(str(epsilon)), answers)
    assert blocks.error(epsilon) <= 1.05 * best_error(epsilon, answers)
    assert blocks.bits <= math.log2(answers) + 12
    if epsilon <= 2 and answers >= 64:
        assert blocks.bits <= math.log2(answers) + 5


def test_without_an_answer_all_blocks_are_alike():
    """A vector without a positive entry: no answer, but a report all the same."""
    made = of(Blocks(11, 2, 13, 4))
    law = made.mechanism.report_law([Fraction(0)] * 13)
    assert set(law.values()) == {Fraction(1, 13)}
    np.testing.assert_array_equal(made.transform.scores(np.array([-1.0] * 11)), np.zeros(13))
    assert made.decode(made.encode(np.zeros(11), np.zeros(11))[0]).shape == (11,)


def test_without_reports_every_answer_has_the_same_share():
    made = of(Blocks(10, 1, 11, 5))
    np.testing.assert_allclose(made.expand(made.totals().mean()), np.full(10, 1 / 11))


def test_auto_gives_the_blocks_by_numbers():
    recipe = resolve_auto(Recipe("BR", epsilon=1.0, dim=256), PublicFacts(256, 1000, 1))
    assert (recipe.k, recipe.words, recipe.bases) == (1, 257, 4)
    assert recipe.build().transform == best_blocks(Fraction(1), 256)
    small = resolve_auto(Recipe("BR", epsilon=1.0, dim=6), PublicFacts(6, 1000, 1))
    assert (small.k, small.words, small.bases) == (2, None, None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dim": 1}, "dim = 1: must be"),
        ({"dim": 10**9}, "dim = 1000000000: must be"),
        ({"dim": 7, "k": 7}, "k = 7: must be"),
        ({"dim": 40, "k": 20}, "k = 20: must be such that"),
        ({"dim": 7, "k": 1, "words": 9, "bases": 2}, "words = 9: must be a prime"),
        ({"dim": 7, "k": 1, "words": 5, "bases": 2}, "words = 5: must be"),
        ({"dim": 7, "k": 1, "words": 7, "bases": 4}, "bases = 4: must be a divisor"),
        ({"dim": 7, "k": 3, "words": 7, "bases": 3}, "k = 3: must be"),
        ({"dim": 7, "k": 1, "bases": 3}, "words = 0: must be an integer in 7"),
    ],
)
def test_blocks_that_are_no_design_are_refused(given, said):
    with pytest.raises(InvalidArgument) as found:
        solution("BR", epsilon=1.0, **given)
    assert str(found.value).startswith(said), found.value


def test_a_larger_epsilon_is_never_worse():
    for answers in (2, 5, 30, 500):
        errors = [best_blocks(Fraction(e, 4), answers).error(e / 4) for e in range(1, 40)]
        assert all(b <= a for a, b in pairwise(errors))
