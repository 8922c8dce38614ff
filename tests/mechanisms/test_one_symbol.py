"""One-symbol solutions: J, UJ, RJ and RC, their codebooks, and the automatic step."""

import math
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from fedsel import InvalidArgument, InvalidData, Reports, solution
from fedsel._internal.exact import exceeds_exp
from fedsel._internal.models import LinearModel
from fedsel.data import synthetic
from fedsel.mechanisms import SignedSampling, UnbiasedJoint, certify
from fedsel.mechanisms._decimals import best_top, upper_sum
from fedsel.mechanisms._one_symbol import MINUS, PLUS, UNIT
from fedsel.mechanisms._reports import BOTTOM
from fedsel.sampling._kernels import native
from fedsel.sampling.simulated import cohort, report
from fedsel.simulation import Population, Simulation, Training, train
from fedsel.simulation._clients import LinearClients
from fedsel.solutions._rotated import Rotated, hadamard
from fedsel.solutions._transforms import Coordinates, RandomDirections
from tests.sampling.support import many_reports

NAMES = ("J", "UJ", "RJ", "RC")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [1, 2, 32, 100, 124, 1000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_exact_epsilon_is_certified_at_every_size(name, dim, epsilon):
    made = solution(name, epsilon=epsilon, dim=dim, rho=1.0)
    ratio = certify(made.mechanism, made.transform.size).ratio
    assert certify(made).ratio == ratio
    assert not exceeds_exp(ratio, Fraction(epsilon))
    assert made.privacy.within_budget
    # What is paid for is used, but for the last digits.
    assert made.privacy.per_report > epsilon - 1e-6
    assert made.bits <= 16


def test_the_best_k_beats_all_others():
    for epsilon in (Fraction(1, 2), Fraction(2), Fraction(5)):
        for d in (3, 17, 128):
            growth = math.expm1(epsilon)
            found = [growth * upper_sum(k, d) / (k * growth + 2 * d) for k in range(1, d + 1)]
            assert best_top(epsilon, d) == int(np.argmax(found)) + 1


def test_half_normal_sums_are_those_of_normal_magnitudes():
    """The mean over 4000 draws of 128: three per cent is far out."""
    drawn = np.sort(np.abs(np.random.default_rng(0).normal(size=(4000, 128))), axis=1)[:, ::-1]
    for k in (1, 5, 40, 128):
        tolerance = 0.12 if k == 1 else 0.03
        assert upper_sum(k, 128) == pytest.approx(drawn[:, :k].sum(axis=1).mean(), rel=tolerance)


class Counted(np.ndarray):
    """A vector that notes what is computed from it, and on how many numbers."""

    noted: list

    def __array_finalize__(self, source):
        self.noted = getattr(source, "noted", [])

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [np.asarray(one) for one in inputs]
        self.noted.append((ufunc.__name__, method, [one.shape for one in plain]))
        found = getattr(ufunc, method)(*plain, **options)
        return self.taken(found) if isinstance(found, np.ndarray) else found

    def __array_function__(self, function, types, inputs, options):
        plain = [np.asarray(one) if isinstance(one, Counted) else one for one in inputs]
        self.noted.append((function.__name__, [np.shape(one) for one in plain]))
        found = function(*plain, **options)
        return self.taken(found) if isinstance(found, np.ndarray) else found

    def taken(self, plain):
        own = plain.view(Counted)
        own.noted = self.noted
        return own


class Exactly:
    """Entropy that gives one integer."""

    def __init__(self, integer):
        self.integer = integer

    def below(self, n):
        assert 0 <= self.integer < n
        return self.integer


def test_uj_does_the_same_work_whatever_its_report_depends_on():
    """Short, long and zero vectors; reports that come from them, that do not, and ⊥."""
    d, made = 40, UnbiasedJoint(1.0, k=2)
    low, _ = made.weights(d)
    base, total = 2 * d * low * UNIT, made.total(d)
    work, told = [], []
    for vector in (np.zeros(d), np.full(d, 0.01), np.linspace(-1, 1, d), np.full(d, 1e300)):
        for x in (0, base - 1, base, (base + total) // 2, total - 1):
            counted = vector.view(Counted)
            counted.noted = []
            scores = SimpleNamespace(size=d, values=lambda counted=counted: counted)
            drawn = made.draw(scores, Exactly(x))
            work.append(counted.noted)
            told.append((int(drawn.slot[0]), x < base))
    assert len(work[0]) > 5
    assert all(one == work[0] for one in work)
    assert {(slot == BOTTOM, noise) for slot, noise in told} == {
        (True, False),
        (False, True),
        (False, False),
    }


def test_uj_is_exactly_unbiased_on_its_grid():
    vector = [Fraction(1, 2), Fraction(-1, 4), Fraction(0), Fraction(3, 4)]
    made = UnbiasedJoint(1.5, k=2)
    law = made.report_law(vector)
    low, high = made.weights(4)
    scale = Fraction(made.total(4), UNIT * (high - low))
    means = [scale * (law[((j, PLUS),)] - law[((j, MINUS),)]) for j in range(4)]
    assert means == vector
    assert made.unit(4) == pytest.approx(float(scale))


def test_uj_shortens_what_is_too_long():
    made = UnbiasedJoint(1.0, k=1)
    assert sum(made.entries([Fraction(9), Fraction(-9), Fraction(9)])) <= UNIT
    assert made.entries([Fraction(1, 2), Fraction(0)]) == [UNIT // 2, 0]


def test_the_radius_makes_the_mean_proportional_to_the_norm():
    """P[right] − P[wrong] of the only entry grows linearly up to the radius, then stays."""
    made = SignedSampling(2.0, k=1, radius=2.0)

    def lead(norm):
        law = made.report_law([Fraction(norm)])
        return float(law[((0, PLUS),)] - law[((0, MINUS),)])

    assert lead(1) == pytest.approx(lead(2) / 2, rel=1e-6)
    assert lead(5) == lead(2)
    assert lead(-1) == -lead(1)
    assert lead(0) == 0


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 64, 1024, 8192, 32768])
def test_the_fast_transform_is_the_readable_one_to_the_bit(n):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    for variant in native.variants():
        fast = x.copy()
        native.use(variant)
        native.hadamard(fast)
        assert (fast == hadamard(x)).all()
    np.testing.assert_allclose(hadamard(hadamard(x.astype(float))) / n, x, rtol=1e-6)


@pytest.mark.parametrize(
    "book", [Coordinates(20), Rotated(20, seed=3), RandomDirections(20, words=64, seed=3)]
)
def test_codewords_have_norm_one_and_scores_are_inner_products(book):
    words = np.stack([book.combine(row) for row in np.eye(book.size)])
    if not isinstance(book, Rotated):  # a rotated basis of 32 is cut to 20 entries
        np.testing.assert_allclose(np.linalg.norm(words, axis=1), 1, rtol=1e-6)
    v = np.random.default_rng(0).normal(size=20).astype(np.float32)
    scores = np.asarray(book.scores(v), dtype=float)
    expected = words @ v
    factor = scores[0] / expected[0]
    assert factor > 0
    np.testing.assert_allclose(scores, factor * expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "dim"), [("RJ", 64), ("RC", 64), ("UJ", 6)])
def test_the_decoded_mean_is_the_mean_update(name, dim):
    """The projection of the decoded mean on the update, over 20 000 reports of one client.

    Its standard error is s/√n; six of them are the limit (2e-9), and for the codebooks, which are
    unbiased over directions only, a tenth of the update beside it.
    """
    rng = np.random.default_rng(1)
    update = rng.normal(size=dim)
    update *= 0.8 / np.linalg.norm(update)
    made = solution(name, epsilon=4.0, dim=dim, rho=1.0, k=dim, words=512 if name == "RC" else None)
    n = 20_000
    mean = made.decode(many_reports(made, update, n, seed=5))
    share = float(mean @ update) / float(update @ update)
    error = 6 * made.noise / np.linalg.norm(update) / math.sqrt(n)
    assert abs(share - 1) < error + (0.0 if name == "UJ" else 0.1)


def test_a_regulariser_does_not_decide_ties():
    """Equal entries tie; λw on the clients' side would break them all in one direction."""
    data = synthetic(d=16, n=400, seed=1)
    X = np.sign(data.X).astype(np.float32)
    made = solution("RJ", epsilon=8.0, dim=16)
    assert made.decays_at_server
    one, two = (
        train(Training(made, 0.01, reg=reg, batch=40, seed=0), Population(X, data.y)).weights
        for reg in (0.0, 1e-9)
    )
    np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-9)


def test_overflowing_scores_do_not_silence_a_client():
    made = solution("RJ", epsilon=1.0, dim=8, rho=1.0)
    huge = np.full(8, 3e38, dtype=np.float32)
    said, _ = made.encode(huge, np.zeros(8, dtype=np.float32))
    assert len(said.pairs()[0]) == 1
    with pytest.raises(InvalidData):
        made.encode(np.full(8, np.nan), np.zeros(8))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PM", "PS-PM", "PE-HM", "PM-RP", "RJ", "RC", "J", "UJ"])
def test_the_size_of_a_report_is_measured(name):
    """√mean ‖decoded‖² of 4000 reports of a zero update: within five per cent."""
    dim, n = 40, 4000
    made = solution(name, epsilon=2.0, dim=dim, rho=1.0, k=0.1)
    reports = many_reports(made, np.zeros(dim), n, seed=2)
    kinds, times = np.unique(np.hstack([reports.slot, reports.symbol]), axis=0, return_counts=True)
    squares = [np.sum(made.decode(Reports(*np.split(kind, 2))) ** 2) for kind in kinds]
    assert math.sqrt(np.average(squares, weights=times)) == pytest.approx(made.noise, rel=0.08)


def test_joint_reports_of_a_cohort():
    who = cohort(50, seed=1)
    vectors = np.random.default_rng(0).normal(size=(50, 9))
    for made in (SignedSampling(2.0, radius=1.0), UnbiasedJoint(2.0)):
        kernel, batch = report(made, vectors, who), report(made, vectors, who, "batch")
        assert kernel == batch
        assert kernel.slot.shape == (50, 1)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rho": -1.0}, "rho = -1.0"),
        ({"rho": math.nan}, "rho = nan"),
        ({"words": 0, "name": "RC"}, "words = 0"),
        ({"words": 1 << 27, "name": "RC"}, "words = "),
        ({"epsilon": None}, "epsilon = None"),
        ({"k": 0, "name": "UJ"}, "k = 0"),
    ],
)
def test_wrong_parameters(changes, complaint):
    given = {"name": "RJ", "epsilon": 1.0, "dim": 10, **changes}
    with pytest.raises(InvalidArgument, match=complaint):
        solution(**given)


def test_every_round_has_a_basis_of_its_own_on_both_ends():
    made = solution("RJ", epsilon=4.0, dim=10, seed=5)
    first, second = made.in_round(1), made.in_round(2)
    assert not np.array_equal(first.transform.signs, second.transform.signs)
    assert first.in_round(2) == second
    assert first.privacy.ratio == made.privacy.ratio
    for name in ("J", "UJ", "RC"):
        other = solution(name, epsilon=4.0, dim=10)
        assert other.in_round(7) == other
    # A run in one piece, and the same rounds one after the other.
    data = synthetic(d=10, n=300, seed=1)
    training = Training(made, batch=50, seed=2)
    people = Population(data.X, data.y)
    whole = train(training, people).weights
    runner = Simulation(training, LinearClients(people, LinearModel()), np.zeros(10))
    clients, ends = training.schedule(people.taking_part, people.clients, 0)
    for first, end in pairwise([0, *ends.tolist()]):
        runner.run(0, clients[first:end], np.array([end - first]), keep=False)
    np.testing.assert_array_equal(runner.state.weights, whole)


def test_no_public_matrix_is_drawn_from_the_stream_of_simulated_data():
    """Data of seed s and a projection of seed s once shared a stream: a row was the true model."""
    for seed in (0, 1):
        data = synthetic(d=50, n=4000, c1=1.0, c2=0.0, seed=seed)
        # c2 = 0: x = x̄ ⊙ B, and the weights are to be found up to the strengths.
        direction = np.linalg.lstsq(data.X, data.y.astype(float), rcond=None)[0]
        rows = np.vstack(
            [
                solution("PM-RP", epsilon=1.0, dim=50, seed=seed).transform.matrix,
                solution("RC", epsilon=1.0, dim=50, seed=seed).transform.matrix,
                solution("RJ", epsilon=1.0, dim=50, seed=seed).transform.signs(0, 0)[None],
            ]
        )
        cosine = rows @ direction / np.linalg.norm(rows, axis=1) / np.linalg.norm(direction)
        # About √(2·ln 820/50) ≈ 0.5 by chance at most; the true model has 0.9 and more.
        assert np.abs(cosine).max() < 0.75


def test_without_a_radius_no_vector_is_negated():
    mechanism = SignedSampling(1.0, k=1)
    assert mechanism.keeps(Fraction(1, 100)) == 1
    atoms = mechanism.law(3)
    law = mechanism.report_law([Fraction(-3), Fraction(1), Fraction(0)])
    assert law[((0, MINUS),)] == Fraction(atoms.maximum, atoms.total)
    assert {p for pairs, p in law.items() if pairs != ((0, MINUS),)} == {
        Fraction(atoms.minimum, atoms.total)
    }


@pytest.mark.parametrize("epsilon", [1e-15, 0.1, 20.0, 40.0, 500.0])
@pytest.mark.parametrize(("k", "dim"), [(1, 1), (1, 1 << 20), (8, 1 << 24)])
def test_the_weights_of_unbiased_reports_fit_the_samplers(epsilon, k, dim):
    """2^59 at most in all, whatever ε asks for, and at least one for every atom."""
    mechanism = UnbiasedJoint(epsilon, k=k)
    low, high = mechanism.weights(dim)
    assert 1 <= low <= high
    assert mechanism.total(dim) <= 1 << 59
    assert not exceeds_exp(mechanism.loss_ratio(dim), Fraction(epsilon))


def test_reports_of_a_law_that_tells_nothing_apart_count_nothing():
    mechanism = UnbiasedJoint(1e-15, k=1)
    assert mechanism.loss_ratio(4) == 1
    assert mechanism.unit(4) == 0
    assert mechanism.unit(4, Rotated(4)) == 0


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_flip_scales_every_mean_by_twice_its_share_less_one(k):
    """In rationals: P[(j, +)] − P[(j, −)] with a radius is min(1, ‖v‖/ρ) times that without."""
    for vector, radius, share in (([3, -4, 0], 10.0, (1, 2)), ([0, 0, 5], 2.0, (1, 1))):
        plain = SignedSampling(1.0, k=k).report_law([Fraction(v) for v in vector])
        turned = SignedSampling(1.0, k=k, radius=radius).report_law([Fraction(v) for v in vector])
        for j in range(3):
            one, other = (law[((j, PLUS),)] - law[((j, MINUS),)] for law in (plain, turned))
            assert other == Fraction(*share) * one


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_places_left_over_are_shared_by_zeros_and_wrong_signs(m):
    """In rationals: with m < k entries that are not zero the mean sign is less than the lift."""
    made, vector = SignedSampling(1.0, k=4), [Fraction(j + 1) for j in range(m)] + [Fraction(0)] * 3
    d = len(vector)
    law, atoms = made.report_law(vector), made.law(d)
    lift = Fraction(atoms.maximum - atoms.minimum, atoms.total)
    for j in range(m):
        mean = law[((j, PLUS),)] - law[((j, MINUS),)]
        assert mean == lift * (1 - Fraction(4 - m, 2 * d - m))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_signed_reports_of_k_equal_magnitudes_are_unbiased(k):
    """In rationals: the mean sign is the lift where the vector is not zero, and else nothing."""
    vector = [Fraction(v) for v in ([3, -3, 3][:k] + [0] * (4 - k))]
    made = SignedSampling(1.5, k=k, radius=3 * math.sqrt(k) * (1 - 1e-12))
    law, atoms = made.report_law(vector), made.law(4)
    lift = Fraction(atoms.maximum - atoms.minimum, atoms.total)
    for j, v in enumerate(vector):
        assert law[((j, PLUS),)] - law[((j, MINUS),)] == lift * v / 3
    assert made.unit(4) * float(lift) == pytest.approx(3, rel=1e-9)
