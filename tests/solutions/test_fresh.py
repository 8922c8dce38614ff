"""FJ: every report in a basis of its own, and a mean that no vector bends."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, Reports, certify_by_enumeration, solution
from fedsel.sampling._kernels import ReportKernel, native
from fedsel.sampling.simulated import cohort, report
from fedsel.solutions import _fresh as fresh
from fedsel.solutions._baselines import PrivUnit
from fedsel.solutions._fresh import LENGTH, Fresh

SHAPES = ("one", "two", "ones", "geometric", "positive", "random")
SIZES = (2, 3, 4, 5, 8, 16, 33, 128, 129, 1000)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
SOME = [(2, 4.0), (5, 8.0), (63, 2.0), (64, 1.0), (65, 8.0), (129, 2.0), (300, 4.0)]


def shaped(shape, d):
    rng = np.random.default_rng(d)
    v = {
        "one": np.eye(d)[d // 2],
        "two": np.eye(d)[0] + np.eye(d)[1],
        "ones": np.ones(d),
        "geometric": 0.5 ** np.arange(d),
        "positive": rng.uniform(0, 1, d),
        "random": rng.standard_normal(d),
    }[shape]
    return v / np.linalg.norm(v)


def expected(made, v, basis):
    """The mean of a decoded report of v in one basis, exactly: what the law raises, over the rest.

    Of equal scores at the edge of the top each is raised as often.
    """
    own = made.transform.in_basis(basis)
    scores, size = own.scores(v.astype(np.float32)).astype(np.float64), own.size
    k, magnitudes = made.mechanism.top(size), np.abs(scores)
    edge = np.partition(magnitudes, size - k)[size - k]
    above, equal = magnitudes > edge, magnitudes == edge
    raised = above + equal * (k - above.sum()) / equal.sum()
    slots = np.flatnonzero(raised)
    words = own.codewords(basis * size + slots).astype(np.float64)
    signed = (raised * np.sign(scores))[slots]
    return float(made.alphabet.units[0]) * made.mechanism.lift(size) * (signed @ words)


def mean_of(made, v, count):
    """Along v, across it without the noise of so many bases, and the error of the first."""
    means = np.array([expected(made, v, 37 * basis) for basis in range(count)])
    mean, noise = means.mean(axis=0), means.var(axis=0, ddof=1).sum() / count
    along = float(mean @ v)
    across = float(((mean - along * v) ** 2).sum()) - noise * (1 - 1 / len(v))
    return along, across, noise, float((means @ v).std(ddof=1)) / math.sqrt(count)


@pytest.mark.slow  # about ten seconds in all
@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_is_the_update(shape, d):
    """Within 2 % along v, and across it. False alarms: 7 deviations of the bases' noise, 1e-11.

    The squares of what is across add up over d entries; their sum is off by about √(2/d) of the
    noise, seldom by four times that, and for few entries by more: a factor that 60 covers.
    """
    v = shaped(shape, d)
    for epsilon in EPSILONS if d < 1000 else (1.0, 4.0, 16.0):
        made = solution("FJ", epsilon=epsilon, dim=d)
        count = 200 if made.transform.size * d < 1 << 16 else 40
        along, across, noise, error = mean_of(made, v, count)
        assert abs(along - 1) < 0.02 + 7 * error, (epsilon, along, error)
        assert across < 0.02**2 + 60 * noise / math.sqrt(d), (epsilon, across, noise)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "epsilon"), [
    *((d, e) for d in (2, 5, 33, 128, 129) for e in (2.0, 8.0, 16.0)), (300, 5.0), (1000, 6.0)
])  # fmt: skip
def test_the_mean_is_the_update_more_closely(d, epsilon):
    """With many more bases, for the vectors that bent the most in one rotation: one and two."""
    made = solution("FJ", epsilon=epsilon, dim=d)
    count = min(1500, max(300, (1 << 20) // made.transform.size))
    for shape in ("one", "two"):
        along, _, _, error = mean_of(made, shaped(shape, d), count)
        assert error < 0.008
        assert abs(along - 1) < 0.02, (shape, along, error)


@pytest.mark.parametrize("d", [3, 70])
def test_entries_that_are_zero_stay_so(d):
    """Complement what entry 1 is made of, and its total changes its sign while no score does."""
    made = solution("FJ", epsilon=4.0, dim=d)
    v = np.zeros(d)
    v[0] = 1
    means = np.array([expected(made, v, basis) for basis in range(3000)])
    errors = means.std(axis=0, ddof=1) / math.sqrt(len(means))
    assert (np.abs(means.mean(axis=0))[1:] < 7 * errors[1:]).all()  # false alarms: 1e-11 each


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [4.0, 8.0, 12.0])
def test_similar_clients_of_a_round_do_not_bend(epsilon):
    """20,000 clients with the same update in one round: their mean is the update, but for noise."""
    d, n = 101, 20_000
    made = solution("FJ", epsilon=epsilon, dim=d, rho=1.0)
    v = shaped("positive", d)
    decoded = made.decode(report(made, v[None].astype(np.float32), cohort(n, seed=1)))
    noise = (made.noise**2 - 1) / n
    along = float(decoded @ v)
    across = float(((decoded - along * v) ** 2).sum())
    assert abs(along - 1) < 0.02 + 7 * math.sqrt(noise / d)  # false alarms: 1e-11
    assert across < noise * (1 + 10 / math.sqrt(d)) + 0.02**2
    rotated = solution("RJ", epsilon=epsilon, dim=d, rho=1.0, bases=1)
    bent = rotated.decode(report(rotated, v[None].astype(np.float32), cohort(n, seed=1)))
    assert ((bent - float(bent @ v) * v) ** 2).sum() > 9 * across


@pytest.mark.parametrize("d", [2, 3, 4, 8, 16, 33, 48, 64, 90, 100, 128, 129, 300, 512, 1000, 1024])
def test_the_error_is_near_that_of_the_best_directions(d):
    """Within 6 % of PrivUnit's, from the scale of a report."""
    assert max(error_over_the_best(d)) < 1.06
    assert min(error_over_the_best(d)) > 0.999


@pytest.mark.parametrize("d", [65, 70, 80])
def test_where_blocks_are_cut_in_half_the_error_is_a_little_larger(d):
    found = error_over_the_best(d)
    assert max(found[:-2]) < 1.06
    assert max(found) < 1.1


def error_over_the_best(d):
    found = []
    for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
        best = PrivUnit(Fraction(epsilon), d).scale ** 2 - 1
        found.append((solution("FJ", epsilon=epsilon, dim=d).noise ** 2 - 1) / best)
    return found


@pytest.mark.parametrize(("d", "epsilon"), SOME)
def test_a_report_loses_what_it_loses_in_its_basis(d, epsilon):
    made = solution("FJ", epsilon=epsilon, dim=d)
    assert made.privacy.ratio == made.mechanism.loss_ratio(made.transform.size)
    assert made.privacy.within_budget
    few = replace(made, transform=made.transform.with_fewer_bases(3))
    assert few.loss_ratio() == made.loss_ratio()


def test_every_basis_of_a_few_is_within_the_certificate():
    made = solution("FJ", epsilon=1.0, dim=2)
    few = replace(made, transform=made.transform.with_fewer_bases(2))
    found = certify_by_enumeration(few, [(1.0, 0.3), (-1.0, -0.3), (0.2, -1.0)])
    assert found.ratio == made.privacy.ratio


@pytest.mark.parametrize(("d", "epsilon"), SOME)
def test_reports_and_totals_of_every_executor(d, epsilon, monkeypatch):
    """Kernels of each set of instructions, a device, and numpy alone: the same to the bit."""
    made = solution("FJ", epsilon=epsilon, dim=d, rho=1.0).in_round(3)
    rng, n = np.random.default_rng(1), 24
    rows = (rng.standard_normal((n, d)) / 9).astype(np.float32)
    rows[0], rows[1], rows[2, 0] = 0, 3e38, 1e-40
    before = native.use(native.variants()[-1])
    try:
        for name in native.variants():
            native.use(name)
            kernel = ReportKernel(made, 5)
            found = kernel.reports(0, np.arange(n), rows)
            assert found == report(made, rows, cohort(n, seed=5), "batch")
            compiled = made.totals()
            compiled.add(found)
            with monkeypatch.context() as pure:
                pure.setattr(fresh, "native", None)
                plain = made.totals()
                plain.add(found)
            np.testing.assert_array_equal(compiled.sums, plain.sums)
            np.testing.assert_array_equal(kernel.totals.sums, plain.sums)
    finally:
        native.use(before)


@pytest.mark.parametrize(("d", "epsilon"), SOME)
def test_a_codeword_has_one_length_and_the_direction_of_its_score(d, epsilon):
    made = solution("FJ", epsilon=epsilon, dim=d)
    own = made.transform.in_round(2).in_basis(12345)
    words = np.array([own.codeword(slot) for slot in range(own.size)])
    lengths = np.linalg.norm(words, axis=1)
    np.testing.assert_allclose(lengths, LENGTH, rtol=1e-3)
    influence = made.influence
    assert (lengths * made.alphabet.units[0]).max() <= influence.norm
    assert influence.norm <= 1.01 * made.noise
    v = shaped("random", d)
    scores = own.scores(v)
    if d >= fresh.SMALL:  # ranked by inner products, which lengths before the factor change
        lengths = lengths / LENGTH / own.width ** ((own.factors) / 2)
        assert np.corrcoef(scores, words @ v)[0, 1] > 0.98
    else:
        np.testing.assert_allclose(scores / LENGTH, words @ v / LENGTH, atol=1e-3)


def test_every_round_and_every_seed_has_its_own_bases():
    made = solution("FJ", epsilon=2.0, dim=10, seed=1).transform
    others = [made.in_round(1), replace(made, seed=2), made.in_basis(1)]
    for other in others:
        assert not np.array_equal(made.codeword(0), other.codeword(0))
    assert np.array_equal(made.codeword(0), made.in_round(1).in_round(0).codeword(0))


def test_many_totals_are_those_of_each():
    made = solution("FJ", epsilon=2.0, dim=70)
    rng = np.random.default_rng(0)
    slots = rng.integers(0, made.alphabet.slots, (50, 1))
    signs = rng.integers(0, 2, (50, 1))
    whole, one, other = made.totals(), made.totals(), made.totals()
    whole.add(Reports(slots, signs))
    one.add(Reports(slots[:20], signs[:20]))
    other.add(Reports(slots[20:], signs[20:]))
    one.merge(other)
    np.testing.assert_array_equal(whole.sums, one.sums)
    assert whole.sums.shape == (1, 70)
    expected_sums = sum(
        (1 - 2 * int(s)) * made.transform.codewords(np.array([j]))[0]
        for j, s in zip(slots[:, 0], signs[:, 0], strict=True)
    )
    np.testing.assert_array_equal(whole.sums[0], expected_sums)


def test_what_no_basis_is():
    with pytest.raises(InvalidArgument, match=r"^words = 100: must be a multiple of 128$"):
        Fresh(100, 100, 3)
    with pytest.raises(InvalidArgument, match=r"^factors = 0: must be 0 for fewer"):
        Fresh(100, 128)
    with pytest.raises(InvalidArgument, match=r"^basis = "):
        Fresh(3, 64, basis=1 << 26)
    sums = np.zeros(3, dtype=np.int64)
    for numbers in ((3, 64, 1 << 26, 1, 2), (100, 128, 1, 64, 3), (0, 64, 1, 1, 0)):
        with pytest.raises(ValueError, match=r"fresh basis|entries"):
            native.add_codewords(numbers, (1, 2), np.zeros(1, int), np.ones(1, int), sums)
    outside = np.array([1 << 32])
    with pytest.raises(ValueError, match="outside"):
        native.add_codewords((3, 64, 1 << 26, 1, 0), (1, 2), outside, np.ones(1, int), sums)
