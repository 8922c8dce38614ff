"""EXP, PE, PS, Uniform and TopK: their textbook probabilities, edge cases and the false Lemma 2."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, certify
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    PublishedPerturbedEncoding,
    TopK,
    TwoStage,
    Uniform,
)
from fedsel.mechanisms import _decimals as encoding

DIMENSIONS = (2, 3, 10, 100, 1000)
EPSILONS = (0.05, 0.5, 1.0, 4.0, 8.0)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exp_is_the_exponential_law(d, epsilon):
    law = Exponential(epsilon).law(d)
    textbook = np.exp(-epsilon * np.arange(d) / (d - 1))
    ours = np.array([law.weight(rank) for rank in range(d)], dtype=float)
    np.testing.assert_allclose(ours / ours.sum(), textbook / textbook.sum(), rtol=1e-10)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [1, 0.1, 0.5])
def test_ps_is_the_sampling_law(d, epsilon, k):
    selection = PerturbedSampling(epsilon, k)
    law, top = selection.law(d), selection.top(d)
    norm = top * math.exp(epsilon) + d - top
    assert float(law.probability(0)) == pytest.approx(math.exp(epsilon) / norm, rel=1e-12)
    assert float(law.probability(d - 1)) == pytest.approx(1 / norm, rel=1e-12)


def exact_published_pe(p: Fraction, k: int, d: int) -> tuple[Fraction, Fraction, Fraction]:
    """P[a top dimension], P[another one] and P[⊥] of PE as printed, by enumerating all flips."""
    top = other = bottom = Fraction(0)
    for bits in itertools.product([0, 1], repeat=d):
        chance = Fraction(1)
        for j, bit in enumerate(bits):
            keep = p if j < k else 1 - p
            chance *= keep if bit else 1 - keep
        ones = sum(bits)
        if ones == 0:
            bottom += chance
        else:
            top += chance * Fraction(bits[0], ones)
            other += chance * Fraction(bits[-1], ones)
    return top, other, bottom


@pytest.mark.parametrize(("d", "k"), [(2, 1), (4, 1), (4, 3), (8, 2), (10, 1)])
@pytest.mark.parametrize("odds", [Fraction(3, 2), Fraction(3), Fraction(50)])
def test_true_loss_of_published_pe_against_enumeration(d, k, odds):
    top, other, bottom = exact_published_pe(odds / (1 + odds), k, d)
    epsilon = math.log(odds)
    assert encoding.true_epsilon(epsilon, k, d) == pytest.approx(math.log(top / other), rel=1e-13)
    law = PublishedPerturbedEncoding(epsilon, k).law(d)
    assert float(law.probability(0)) == pytest.approx(float(top), rel=1e-12)
    assert float(law.probability(d - 1)) == pytest.approx(float(other), rel=1e-12)
    assert float(law.bottom_probability) == pytest.approx(float(bottom), rel=1e-12)


def exact_published_pe_by_counts(p: Fraction, k: int, d: int) -> float:
    """The same loss at larger d, by the numbers of other ones: exact rationals, O(d²)."""

    def binomial(n: int, q: Fraction) -> list[Fraction]:
        return [math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(n + 1)]

    def chosen(keep: Fraction, tops: int, others: int) -> Fraction:
        return keep * sum(
            a * b / (1 + i + j)
            for i, a in enumerate(binomial(tops, p))
            for j, b in enumerate(binomial(others, 1 - p))
        )

    return math.log(chosen(p, k - 1, d - k) / chosen(1 - p, k, d - k - 1))


@pytest.mark.parametrize(("d", "k"), [(32, 3), (60, 30)])
@pytest.mark.parametrize("odds", [Fraction(11, 10), Fraction(20)])
def test_true_loss_of_published_pe_at_larger_d(d, k, odds):
    exact = exact_published_pe_by_counts(odds / (1 + odds), k, d)
    assert encoding.true_epsilon(math.log(odds), k, d) == pytest.approx(exact, rel=1e-13)


THEORY_TABLE = {
    2: (1.333, 1.332, 1.327, 1.311, 1.260, 1.167, 1.087),
    10: (1.113, 1.122, 1.141, 1.173, 1.204, 1.161, 1.087),
    32: (1.033, 1.035, 1.040, 1.050, 1.069, 1.065, 1.036),
    100: (1.0103, 1.0110, 1.0124, 1.0150, 1.0201, 1.0207, 1.0119),
    123: (1.0084, 1.0089, 1.0101, 1.0122, 1.0164, 1.0172, 1.0100),
    300: (1.0034, 1.0036, 1.0041, 1.0049, 1.0066, 1.0070, 1.0041),
}


@pytest.mark.parametrize("d", THEORY_TABLE)
def test_lemma_2_is_false_by_this_much(d):
    for epsilon, ratio in zip((0.05, 0.2, 0.5, 1, 2, 4, 8), THEORY_TABLE[d], strict=True):
        published = PublishedPerturbedEncoding(float(epsilon))
        half_digit = 0.51e-3 if d <= 32 else 0.51e-4
        assert published.true_epsilon(d) / epsilon == pytest.approx(ratio, abs=half_digit)
        certificate = certify(published, d)
        assert not certificate.holds
        assert certificate.exact == pytest.approx(published.true_epsilon(d), rel=1e-11)


@pytest.mark.parametrize("d", [2, 10, 123, 10_000, 10_000_000])
@pytest.mark.parametrize("epsilon", [0.001, 0.2, 1.0, 8.0])
def test_calibrated_pe_has_the_claimed_loss_and_is_thinned_ps(d, epsilon):
    pe, ps = PerturbedEncoding(epsilon), PerturbedSampling(epsilon)
    flip = encoding.calibrated_epsilon(epsilon, pe.top(d), d)
    assert epsilon / 2 <= flip <= epsilon
    assert encoding.true_epsilon(flip, pe.top(d), d) == pytest.approx(epsilon, rel=1e-12)
    # Safe for every d: the closed form flips at least as much.
    k = pe.top(d)
    assert flip >= math.log((k * math.exp(epsilon) + 1) / (k + 1)) * (1 - 1e-9)
    law = pe.law(d)
    assert (law.weights.tolist(), law.counts.tolist()) == (
        ps.law(d).weights.tolist(),
        ps.law(d).counts.tolist(),
    )
    assert float(law.bottom_probability) == pytest.approx(
        encoding.bottom_probability(flip, k, d), rel=1e-9, abs=1e-15
    )


PE_LAWS = {  # ε, k, d: the weights of ⊥, of the top k and of the others
    (0.45, 3, 9): (1718550687378062, 84453599283391492, 53849992408874834),
    (1.0, 1, 2): (160035326200662432, 421426578214924084, 155034174088499401),
    (8.0, 2, 7): (145351780886, 287988852408622112, 96609497235625),
}
PUBLISHED_LAWS = {
    (0.45, 3, 9): (1769561440247175, 87263092420957259, 52445245840091950),
    (1.0, 1, 2): (141076358534315248, 454023481096159919, 122437271207263565),
    (8.0, 2, 7): (64719987768, 288069279317134912, 64438733830433),
}


@pytest.mark.parametrize(("epsilon", "k", "d"), PE_LAWS)
def test_pe_has_the_same_law_on_every_machine_whatever_its_settings(epsilon, k, d):
    """Draws depend on the last unit of a weight: one word in thirty is drawn again by it."""
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_UP, traps=[decimal.Inexact]):
        laws = [
            make(epsilon, k).build_law(d)
            for make in (PerturbedEncoding, PublishedPerturbedEncoding)
        ]
    for law, weights in zip(laws, (PE_LAWS, PUBLISHED_LAWS), strict=True):
        assert (law.bottom, *law.weights.tolist()) == weights[epsilon, k, d]


EXP_LAWS = {  # ε, d: the second weight, the last, and all of them together
    (1.0, 10): (51583974576149310, 21206805941465267, 367717195423761419),
    (4.0, 17): (26408710900225727, 621073351336327, 151111581992051212),
    (4.0, 50): (
        10625445035598820,
        211164939454351,
        144593288787006577,
    ),  # one of them by the steps of the table
}


@pytest.mark.parametrize(("epsilon", "d"), EXP_LAWS)
def test_exp_has_the_same_weights_on_every_machine(epsilon, d):
    weights = Exponential(epsilon).law(d).weights.tolist()
    assert (weights[1], weights[-1], sum(weights)) == EXP_LAWS[epsilon, d]


def test_where_the_weights_do_not_suffice_for_epsilon_the_least_is_one():
    assert PerturbedSampling(500.0, k=1).law(3).weights.tolist() == [2**59 - 2, 1]
    assert PerturbedSampling(500.0, k=2).law(5).weights.tolist() == [2**58 - 2, 1]


def test_what_does_not_depend_on_the_data_claims_nothing():
    assert Uniform().claimed == 0
    assert TwoStage(Uniform(), Duchi(0.5)).claimed == Fraction(1, 2)


@pytest.mark.parametrize("make", [Exponential, PerturbedSampling, PerturbedEncoding])
@pytest.mark.parametrize("d", [1, 2, 7, 1000, pytest.param(10_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0, 50.0, 500.0])
def test_every_claim_holds_at_the_edges(make, d, epsilon):
    certificate = certify(make(epsilon), d)
    assert certificate.holds
    if d > 1 and 1e-6 < epsilon <= 8:
        assert certificate.exact == pytest.approx(epsilon, rel=1e-9)
    if d == 1 or epsilon == 0:
        assert certificate.exact == 0


def test_zero_epsilon_is_uniform():
    for selection in (Exponential(0.0), PerturbedSampling(0.0), PerturbedEncoding(0.0)):
        law = selection.law(5)
        assert len({law.probability(rank) for rank in range(5)}) == 1


def test_all_dimensions_on_top_is_uniform():
    for selection in (PerturbedSampling(3.0, k=1.0), PerturbedEncoding(3.0, k=5)):
        assert certify(selection, 5).exact == 0
        assert len({selection.law(5).probability(rank) for rank in range(5)}) == 1


def test_large_epsilon_tends_to_the_top():
    assert float(Exponential(50.0).law(10).probability(0)) > 0.99
    assert float(3 * PerturbedSampling(50.0, k=3).law(10).probability(0)) == pytest.approx(1)


def test_uniform_and_topk():
    assert certify(Uniform(), 7).exact == 0
    assert certify(TopK(), 7).exact == math.inf
    assert certify(TopK(k=7), 7).exact == 0
    assert not TopK().private


@pytest.mark.parametrize(
    ("k", "d", "count"), [(1, 10, 1), (1.0, 10, 10), (0.1, 5, 1), (0.29, 100, 29), (0.3, 10, 3)]
)
def test_k_counts_or_is_a_fraction(k, d, count):
    assert PerturbedSampling(1.0, k).top(d) == count


def test_one_dimension_is_not_all_of_them():
    """1 == 1.0 in Python; here they mean different laws, in whatever order they are built."""
    for make in (lambda k: PerturbedSampling(1.25, k), TopK):
        assert make(1) != make(1.0)
        assert make(1.0) == make(1.0)
        assert hash(make(1)) != hash(make(1.0))
        assert (make(1).law(4).counts.tolist(), make(1.0).law(4).counts.tolist()) == ([1, 3], [4])
        assert (make(1.0).law(5).counts.tolist(), make(1).law(5).counts.tolist()) == ([5], [1, 4])


@pytest.mark.parametrize("k", [0, -1, 0.0, 1.5, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("make", [PerturbedSampling, PerturbedEncoding, PublishedPerturbedEncoding])
def test_impossible_k_is_refused_by_name(make, k):
    with pytest.raises(InvalidArgument, match=r"^k = .*must be a count ≥ 1"):
        make(1.0, k)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf, -math.inf, 501, "1", None, True])
@pytest.mark.parametrize("make", [Exponential, PerturbedSampling, PerturbedEncoding])
def test_impossible_epsilon_is_refused_by_name(make, epsilon):
    with pytest.raises(InvalidArgument, match=r"^epsilon = .*≤ 500"):
        make(epsilon)


@pytest.mark.parametrize(("d", "epsilon"), [(4, 1.0), (6, 2.5)])
def test_ps_hits_the_top_k_as_often_as_any_private_law_can(d, epsilon):
    """Among laws with max/min ≤ e^ε the extreme points are two-level laws: try them all."""
    for k in range(1, d):
        ps = PerturbedSampling(epsilon, k).law(d)
        hit = float(k * ps.probability(0))
        for raised in range(1, d):
            weights = [math.exp(epsilon)] * raised + [1.0] * (d - raised)
            assert sum(weights[:k]) / sum(weights) <= hit + 1e-12


def times(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    """The product of two polynomials, by their coefficients."""
    product = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def integral(polynomial: list[Fraction]) -> Fraction:
    """Over [0, 1]."""
    return sum((c / (i + 1) for i, c in enumerate(polynomial)), Fraction(0))


@pytest.mark.parametrize(("d", "k"), [(2, 1), (4, 1), (5, 3), (7, 2)])
@pytest.mark.parametrize("odds", [Fraction(3, 2), Fraction(50)])
def test_the_integrals_of_pe_are_its_enumeration(d, k, odds):
    """ε_true by polynomials in rationals: the formula itself, without quadrature."""
    p = odds / (1 + odds)
    q = 1 - p
    f = [Fraction(1)]
    for factor in [[q, p]] * (k - 1) + [[p, q]] * (d - k - 1):
        f = times(f, factor)
    gap, norm = integral(times([Fraction(1), Fraction(-1)], f)), integral(times([q, p], f))
    top, other, bottom = exact_published_pe(p, k, d)
    assert top / other == odds * (1 + (2 * p - 1) * gap / norm) > odds
    assert k * top + (d - k) * other + bottom == 1
    assert bottom == q**k * p ** (d - k)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "k", "epsilon"), [(3, 1, 1.0), (4, 2, 0.5), (4, 3, 2.0)])
def test_no_private_choice_of_an_index_hits_the_top_k_more_often(d, k, epsilon):
    """Over all ε-private laws, not those over ranks alone: a linear program in P[index | top]."""
    from scipy.optimize import linprog

    tops = list(itertools.combinations(range(d), k))
    place = {(s, j): s * d + j for s in range(len(tops)) for j in range(d)}
    least = len(place)  # the last variable: how often the worst top k is hit
    above, within = [], []
    for s, top in enumerate(tops):
        row = np.zeros(least + 1)
        row[least] = 1
        row[[place[s, j] for j in top]] = -1
        above.append((row, 0.0))
        row = np.zeros(least + 1)
        row[[place[s, j] for j in range(d)]] = 1
        within.append((row, 1.0))
        for other, j in itertools.product(range(len(tops)), range(d)):
            row = np.zeros(least + 1)
            row[place[s, j]] += 1
            row[place[other, j]] -= math.exp(epsilon)
            above.append((row, 0.0))
    rows, limits = zip(*(above + within), strict=True)
    best = linprog(-np.eye(least + 1)[least], A_ub=np.array(rows), b_ub=limits)
    ps = PerturbedSampling(epsilon, k).law(d)
    assert -best.fun == pytest.approx(float(k * ps.probability(0)), rel=1e-7)
