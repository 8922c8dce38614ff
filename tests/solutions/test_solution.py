"""Solutions composed by a user, of any transform, mechanism and feedback.

What holds for the registry holds for them: `encode` is within the certificate on every draw that
matters, and the kernels send what devices send, epoch after epoch.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from fedsel import (
    Coordinates,
    Feedback,
    FlatPicks,
    Projection,
    RandomDirections,
    Rotated,
    SignedSampling,
    Solution,
    TwoStage,
    certify,
    certify_by_enumeration,
)
from fedsel._internal.random import stream
from fedsel.checks import check_solution
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import Duchi, Hybrid, PerturbedEncoding, PerturbedSampling, UnbiasedJoint
from fedsel.sampling._kernels import known, native
from fedsel.sampling.simulated import cohort, report
from fedsel.simulation._stages import VectorReports
from fedsel.solutions._baselines import PrivUnit
from fedsel.solutions._solution import TransformedScores
from fedsel.solutions._transforms import Transform
from tests.sampling.support import instructions  # noqa: F401 (a fixture)

TRANSFORMS = {
    "coordinates": Coordinates,
    "rotated": lambda dim: Rotated(dim, seed=2),
    "rotations": lambda dim: Rotated(dim, seed=2, rotations=2, bases=3),
    "directions": lambda dim: RandomDirections(dim, words=2 * dim, seed=2),
    "projection": lambda dim: Projection(dim, ratio=0.7, seed=2),
}
MECHANISMS = {
    "two stages": TwoStage(PerturbedSampling(0.5, k=1), Duchi(1.0), clip=0.8),
    "flat": FlatPicks(Duchi(1.0), clip=0.8),
    "signed": SignedSampling(1.0, radius=2.0),
    "unbiased": UnbiasedJoint(1.0, k=1, clip=0.8),
}
FEEDBACKS = {"nothing kept": Feedback(), "kept": Feedback(accumulate=True, momentum=0.5)}

every_transform = pytest.mark.parametrize("transform", TRANSFORMS)
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
every_feedback = pytest.mark.parametrize("feedback", FEEDBACKS)


def compose(transform, mechanism, feedback, dim, epochs=2):
    name = f"{mechanism}, {transform}, {feedback}"
    parts = TRANSFORMS[transform](dim), FEEDBACKS[feedback]
    return Solution(name, dim, MECHANISMS[mechanism], epochs, *parts)


@pytest.mark.slow
@every_transform
@every_mechanism
@every_feedback
@pytest.mark.parametrize("dim", [2, 3])
def test_every_transcript_of_two_epochs_is_within_the_certificate(
    transform, mechanism, feedback, dim
):
    made = compose(transform, mechanism, feedback, dim)
    ratio = made.mechanism.loss_ratio(made.transform.size)
    assert certify(made).ratio == ratio == made.privacy.ratio
    inputs = [(5.0, 0.1, -0.3), (-5.0, 9.0, 0.2), (0.0, 0.0, 0.0)]
    found = certify_by_enumeration(made, [v[:dim] for v in inputs])
    assert found.holds
    assert found.claimed == 2 * made.claimed
    assert 1 < found.ratio <= ratio**2


@pytest.mark.slow
@every_transform
@every_mechanism
def test_what_overflows_is_reported_within_the_certificate_in_later_epochs(transform, mechanism):
    """A residual that is not finite would silence a client: that alone would tell of its data."""
    made = compose(transform, mechanism, "kept", 2)
    large = list(product((3.4e38, -3.4e38), repeat=2))
    assert certify_by_enumeration(made, large).ratio <= made.privacy.ratio**2
    for dtype in (np.float32, np.float64):
        update = np.array([1, -1], dtype=dtype) * np.finfo(dtype).max
        residual = np.zeros(2, dtype=dtype)
        for epoch in range(4):
            said, residual = made.encode(update, residual, stream(1, epoch, 0))
            assert said.slot.shape == (1,)
            assert np.isfinite(residual).all()


def one_by_one(made, vectors, seed):
    """As devices do it: totals of every epoch, and the residuals that are left."""
    found, kept = [], np.zeros_like(vectors[0])
    for epoch, rows in enumerate(vectors):
        in_round, totals = made.in_round(epoch), made.totals()
        for client, row in enumerate(rows):
            said, kept[client] = in_round.encode(row, kept[client], stream(seed, epoch, client))
            totals.add(said)
        found.append(totals)
    return found, kept


def ordinary(rng, shape):
    return rng.normal(size=shape)


def about_the_largest(rng, shape):
    """Entries whose sums are beyond what a float can be, and ordinary ones."""
    large = rng.choice([-1.0, 1.0], size=shape) * 3.4e38
    return np.where(rng.random(shape) < 0.7, large, rng.normal(size=shape))


def assert_kernel_is_encode(made, seed=4, clients=40, vectors=ordinary):
    """The same reports, so the same integers; residuals but for the last bits."""
    rng = np.random.default_rng(seed)
    vectors = vectors(rng, (made.epochs, clients, made.dim)).astype(np.float32)
    slow, kept = one_by_one(made, vectors, seed)
    assert known(made)
    fast = VectorReports(made, clients, seed=seed)
    for epoch, rows in enumerate(vectors):
        fast.begin(epoch)
        fast.report(epoch, np.arange(clients), [rows])
        assert fast.totals.count == slow[epoch].count == clients
        np.testing.assert_array_equal(fast.totals.sums, slow[epoch].sums)
    if made.accumulates:
        np.testing.assert_allclose(fast.residual, kept, atol=1e-4, rtol=1e-4)
        assert np.isfinite(kept).all()
        assert np.abs(kept).max() > 1
    else:
        assert len(fast.residual) == 0


@pytest.mark.slow
@every_transform
@every_mechanism
@every_feedback
def test_kernels_send_what_devices_send(transform, mechanism, feedback):
    assert_kernel_is_encode(compose(transform, mechanism, feedback, dim=6, epochs=3))


@pytest.mark.parametrize(
    ("transform", "mechanism"),
    [
        *product(["coordinates", "rotated"], MECHANISMS),
        *product(["projection"], ["flat", "unbiased"]),  # ranks of such sums depend on their order
    ],
)
def test_kernels_saturate_as_devices_do(transform, mechanism, instructions):  # noqa: F811
    """With every set of instructions: a residual that overflows stays the largest float."""
    made = compose(transform, mechanism, "kept", dim=33, epochs=4)
    for variant in instructions:
        native.use(variant)
        assert_kernel_is_encode(made, vectors=about_the_largest)


@every_transform
def test_kernels_send_what_devices_send_of_several_picks_windows_and_nothing(transform):
    """Two picks, two windows, and ⊥."""
    basis, kept = TRANSFORMS[transform](6), FEEDBACKS["kept"]
    for mechanism in (
        FlatPicks(Hybrid(1.5, grid=8), picks=2, clip=1.5),
        TwoStage(PerturbedEncoding(0.5, k=2), Hybrid(2.0, grid=8)),
    ):
        assert_kernel_is_encode(Solution("x", 6, mechanism, 3, basis, kept))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transform", "mechanism", "feedback", "dim"),
    [
        ("rotated", "two stages", "kept", 3),
        ("rotated", "unbiased", "nothing kept", 3),
        ("directions", "flat", "kept", 2),
        ("directions", "unbiased", "kept", 7),
        ("projection", "signed", "kept", 10),
        ("projection", "two stages", "nothing kept", 10),
        ("coordinates", "signed", "kept", 3),
    ],
)
def test_the_contract_of_a_solution(transform, mechanism, feedback, dim):
    check_solution(compose(transform, mechanism, feedback, dim))


@every_transform
@pytest.mark.parametrize("mechanism", ["flat", "unbiased"])
def test_what_is_unbiased_stays_so_on_every_transform(transform, mechanism):
    """The mean of 20 000 reports of one client against what all its scores stand for.

    A codebook tells an update but for what its words do not span evenly; seven standard errors.
    """
    made = compose(transform, mechanism, "nothing kept", dim=4, epochs=1)
    update, n = np.array([0.2, -0.1, 0.05, 0.15], dtype=np.float32), 20_000
    basis = made.transform
    weight = 1.0 if basis.rms_correlation is None else 1 / (basis.size * basis.rms_correlation**2)
    each = [basis.in_basis(b).values(update) / basis.bases for b in range(basis.bases)]
    target = basis.combine(weight * np.concatenate(each))
    fast = VectorReports(made, n, seed=3)
    fast.report(0, np.arange(n), [np.tile(update, (n, 1))])
    mean = made.expand(fast.totals.mean())
    assert np.linalg.norm(mean - target) < 7 * made.noise / np.sqrt(n)


class Backwards(Coordinates):
    """A transform that the kernels do not know."""


def test_parts_that_kernels_do_not_know_are_reported_as_devices_report():
    rows = np.random.default_rng(5).normal(size=(30, 5))
    mechanism = MECHANISMS["two stages"]
    strange = Solution("strange", 5, mechanism, transform=Backwards(5))
    assert not known(strange)
    who = cohort(30, seed=3)
    found, usual = report(strange, rows, who), report(mechanism, rows, who)
    np.testing.assert_array_equal(found.slot, usual.slot)
    np.testing.assert_array_equal(found.symbol, usual.symbol)
    assert report(strange, rows[:1], who).slot.shape == (30, 1)


def test_a_baseline_of_another_dimension_is_refused():
    with pytest.raises(InvalidArgument, match="mechanism"):
        Solution("wrong", 5, PrivUnit(1.0, dim=4))


def test_only_reports_are_decoded():
    with pytest.raises(InvalidArgument, match=r"^reports = \[\]: must be a Reports"):
        Solution("flat", 5, MECHANISMS["two stages"]).decode([])


@every_transform
def test_a_value_is_finite_and_the_one_that_is_among_all(transform):
    """Also of an update beyond all numbers, such as a large momentum makes of a finite one."""
    told = np.array([np.inf, -np.inf, 1e308, 0.5])
    made = TRANSFORMS[transform](len(told))
    scores = TransformedScores(made, np.zeros(len(told)), told)
    one_by_one = [scores.value(slot) for slot in range(scores.size)]
    assert np.isfinite(one_by_one).all()
    assert one_by_one == scores.values().tolist()


@pytest.mark.parametrize("momentum", [float("nan"), float("inf"), "1", None])
def test_impossible_momenta(momentum):
    with pytest.raises(InvalidArgument, match=r"^momentum = "):
        Feedback(accumulate=True, momentum=momentum)
    assert type(Feedback(momentum=1).momentum) is float


@dataclass(frozen=True)
class Growing(Transform):
    """A transform of one's own whose rounds have ever more slots."""

    name = "growing"
    more: int = 0

    @property
    def size(self):
        return self.dim + self.more

    def in_round(self, number):
        return replace(self, more=number)

    def scores(self, vectors):
        return vectors

    def codeword(self, slot):
        return np.eye(self.dim)[slot]

    def combine(self, means):
        return means[: self.dim]


def test_a_transform_has_as_many_slots_in_every_round():
    """The certificates are for one number of them."""
    made = Solution("growing", 3, FlatPicks(Duchi(1.0)), transform=Growing(3))
    assert made.in_round(0).transform.size == 3
    with pytest.raises(InvalidArgument, match=r"^transform = .*3 slots in every round"):
        made.in_round(1)
