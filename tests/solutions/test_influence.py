"""How far one report moves the mean: over every report that there is, and no farther."""

import math
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pytest

from fedsel import FlatPicks, Projection, RandomDirections, Reports, Rotated, Solution, solution
from fedsel._internal.random import stream
from fedsel.mechanisms import Duchi
from fedsel.solutions import Influence, Transform, names
from fedsel.solutions._privacy import influence_of
from fedsel.solutions._transforms import LEAST_SINGULAR

FAMILIES = ["PM", "HM", "RS-OW", "PM-RP", "PS-PM", "PE-HM", "EXP-OW-O", "J", "UJ", "RJ", "RC"]
"""One of each kind of mechanism, transform and alphabet."""


def built(name, dim, epsilon=1.0, ratio=0.7):
    given = {"mu": 0.1, "k": 1, "rho": 0.4, "ratio": ratio, "words": 16, "clip": 0.8}
    return solution(name, epsilon=epsilon, dim=dim, **given)


PRIVATE = [name for name in names() if built(name, 3).private and name != "FJ"]
"""FJ has more reports than can be listed: see test_fresh.py."""


def moved(made, report, others=3):
    """n times what a report changes in the decoded mean of n, against ⊥ in its place."""
    nothing, n, picks = np.zeros(made.dim), others + 1, made.alphabet.picks
    rest = [made.encode(nothing, nothing, stream(1, 0, i))[0] for i in range(others)]
    silent = Reports([-1] * picks, [0] * picks)
    with_it, without = (made.decode(Reports.of([*rest, last])) for last in (report, silent))
    return n * (with_it - without)


def pairs(made):
    """What each pair (slot, symbol) adds to the sum: (M, symbols, d), by decoding one of each."""
    says, nothing = made.alphabet, made.expand(made.totals().mean())
    alone = [
        [made.decode(Reports([slot], [symbol])) - nothing for symbol in range(says.symbols)]
        for slot in range(says.slots)
    ]
    return np.array(alone)


def every_report(made):
    """What every report adds, set of slots after set: (reports, d)."""
    each, picks = pairs(made), made.alphabet.picks
    for slots in combinations(range(len(each)), picks):
        total = np.zeros((1, made.dim))
        for slot in slots:
            total = (total[:, None] + each[slot]).reshape(-1, made.dim)
        yield slots, total


def assert_attained(made):
    """The largest of all reports is the influence, as decoding finds it among other reports."""
    found, worst = [0.0, 0.0], [None, None]
    for slots, total in every_report(made):
        sizes = np.abs(total).max(axis=1), np.linalg.norm(total, axis=1)
        for kind, size in enumerate(sizes):
            at = int(size.argmax())
            if size[at] > found[kind]:
                shape = [made.alphabet.symbols] * len(slots)
                symbols = [int(s) for s in np.unravel_index(at, shape)]
                found[kind], worst[kind] = size[at], Reports(slots, symbols)
    assert found == pytest.approx([made.influence.largest, made.influence.norm], rel=1e-12)
    assert np.abs(moved(made, worst[0])).max() == pytest.approx(made.influence.largest, rel=1e-9)
    assert np.linalg.norm(moved(made, worst[1])) == pytest.approx(made.influence.norm, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIVATE)
def test_it_is_the_largest_of_all_reports(name):
    assert_attained(built(name, 3))


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2, 5, 8])
@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_so_in_every_dimension(name, dim):
    """Rotated bases of 5 are padded to 8: a codeword loses what is cut off."""
    assert_attained(built(name, dim, epsilon=2.0))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("dim", [2, 6, 9])
def test_it_is_so_for_every_projection(dim, ratio):
    assert_attained(built("Duchi-RP", dim, ratio=ratio))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dim", "epsilon", "picks"),
    [("PM", 3, 5.0, 2), ("HM", 2, 5.0, 2), ("Duchi", 5, 8.0, 3), ("RS-OW", 4, 8.0, 3)],
)
def test_several_picks_are_of_distinct_slots(name, dim, epsilon, picks):
    """√picks times that of one, and in no entry more than one."""
    made = built(name, dim, epsilon)
    assert made.alphabet.picks == picks
    assert_attained(made)
    bound = made.alphabet.bound
    assert made.influence == Influence(bound, pytest.approx(bound * math.sqrt(picks)))


@pytest.mark.parametrize("picks", [2, 3])
@pytest.mark.parametrize(
    "transform", [Rotated(5, seed=1), RandomDirections(4, 9, seed=1), Projection(6, 0.7, seed=1)]
)
def test_several_picks_of_dense_codewords(transform, picks):
    """The largest entry is attained; the norm is a bound, which two of a rotated basis attain."""
    made = Solution("x", transform.dim, FlatPicks(Duchi(1.0), picks), transform=transform)
    largest, norm = 0.0, 0.0
    for _, total in every_report(made):
        largest = max(largest, np.abs(total).max())
        norm = max(norm, np.linalg.norm(total, axis=1).max())
    assert largest == pytest.approx(made.influence.largest, rel=1e-12)
    assert 0.8 * made.influence.norm <= norm <= made.influence.norm * (1 + 1e-12)
    if isinstance(transform, Rotated) and picks == 2:
        assert norm == pytest.approx(made.influence.norm, rel=1e-12)


@pytest.mark.parametrize("name", ["NP", "NP-K", "NP-RS", "PS", "PrivUnit", "SignDS"])
def test_numbers_as_they_are_have_no_bound(name):
    assert built(name, 3).influence == Influence(math.inf, math.inf)


def test_a_dense_report_moves_every_entry():
    """One pair of RJ moves all d entries: the largest entry tells little of the norm."""
    made = built("RJ", 64)
    change = moved(made, Reports([5], [1]))
    assert np.count_nonzero(np.abs(change) > 1e-9) == 64
    np.testing.assert_allclose(np.abs(change), made.influence.largest)
    assert made.influence.norm == pytest.approx(8 * made.influence.largest)


def test_it_needs_no_memory_where_it_is_known():
    bound = built("PM", 1 << 32).influence
    assert bound.largest == bound.norm == pytest.approx(built("PM", 1).influence.norm * 2.0**32)
    assert built("RJ", 1 << 30).influence.norm > 0


@dataclass(frozen=True)
class Sums(Transform):
    """A transform of one's own: the sums of neighbours."""

    name = "sums"

    @property
    def size(self):
        return self.dim - 1

    def scores(self, vectors):
        return vectors[..., 1:] + vectors[..., :-1]

    def codeword(self, slot):
        return np.eye(self.dim)[slot] + np.eye(self.dim)[slot + 1]

    def combine(self, means):
        return np.append(means, 0) + np.append(0, means)


def test_a_transform_of_ones_own_has_an_influence():
    """Two neighbouring slots meet in one entry: 2 there, and 1 on each side."""
    assert Sums(4).influence() == Influence(1.0, math.sqrt(2))
    assert Sums(4).influence(picks=2).largest == 2.0
    assert_attained(Solution("sums", 4, FlatPicks(Duchi(1.0)), transform=Sums(4)))


@pytest.mark.parametrize("picks", [1, 2, 3])
def test_closed_forms_are_those_of_the_rows(picks):
    several = Rotated(5, seed=3, rotations=2, bases=3), Rotated(3, seed=3, rotations=8)
    for transform in (Rotated(5, seed=3), Rotated(8, seed=3), *several):
        rows = np.array([transform.combine(one) for one in np.eye(transform.slots)])
        known, found = transform.influence(picks), influence_of(rows, picks)
        assert known.largest == pytest.approx(found.largest, rel=1e-12)
        assert known.norm == pytest.approx(found.norm, rel=1e-12)


def test_many_columns_are_taken_block_by_block(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(4, 30))
    whole = influence_of(rows, 2)
    monkeypatch.setattr("fedsel.solutions._privacy._COLUMNS", 28)
    assert influence_of(rows, 2) == whole


# --- the recovery of projections ------------------------------------------------------------------


def test_no_recovery_enlarges_a_report_more_than_sixteen_times():
    """Nearly square projections have singular values near zero; one of dim 1 has nothing else."""
    sizes = []
    for dim, ratio in product((1, 2, 3, 10, 60), (0.1, 0.5, 0.9, 1.0)):
        for seed in range(10):
            projection = Projection(dim, ratio, seed)
            limit = 1 / (LEAST_SINGULAR * (1 + math.sqrt(dim / projection.size)))
            size = np.linalg.norm(projection.recovery, 2)
            assert size <= limit * (1 + 1e-12) <= 16 * (1 + 1e-12)
            assert projection.influence().norm <= size * (1 + 1e-12)
            sizes.append(size)
    assert max(sizes) > 14


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.7])
def test_well_conditioned_projections_are_inverted_as_ever(ratio):
    """To the bit the pseudo-inverse."""
    for dim, seed in product((2, 7, 9, 30, 100), range(5)):
        projection = Projection(dim, ratio, seed)
        assert projection.rank == projection.size
        inverse = np.linalg.pinv(projection.matrix.astype(np.float64))
        np.testing.assert_array_equal(projection.recovery, inverse.T)


def test_what_is_not_inverted_is_lost_and_nothing_else():
    """Recovered is the orthogonal projection onto the directions of the other singular values."""
    projection = Projection(100, ratio=1.0)
    matrix = projection.matrix.astype(np.float64)
    assert 90 <= projection.rank < 100
    seen = projection.recovery.T @ matrix
    np.testing.assert_allclose(seen, seen.T, atol=1e-10)
    np.testing.assert_allclose(seen @ seen, seen, atol=1e-10)
    assert np.trace(seen) == pytest.approx(projection.rank)
    lost = np.linalg.norm(matrix @ (np.eye(100) - seen), 2)
    assert lost <= LEAST_SINGULAR * 2


@pytest.mark.parametrize(("dim", "bases"), [(2, 2), (4, 8), (5, 4)])
def test_a_hostile_report_may_take_codewords_of_several_bases(dim, bases):
    """Two parallel codewords of two bases add up, which no two of one basis do."""
    transform = Rotated(dim, seed=1, bases=bases)
    made = Solution("x", dim, FlatPicks(Duchi(1.0), 2), transform=transform)
    largest, norm = 0.0, 0.0
    for _, total in every_report(made):
        largest = max(largest, np.abs(total).max())
        norm = max(norm, np.linalg.norm(total, axis=1).max())
    assert largest == pytest.approx(made.influence.largest, rel=1e-12)
    assert norm == pytest.approx(made.influence.norm, rel=1e-12)
    one_basis = math.sqrt(2) * made.alphabet.bound
    assert norm > one_basis * (1 + 1e-9)


@dataclass(frozen=True)
class Halves(Transform):
    """A transform of one's own with two bases, of which the second is twice as long."""

    name = "halves"
    basis: int = 0

    @property
    def size(self):
        return self.dim

    @property
    def bases(self):
        return 2

    def in_basis(self, number):
        return Halves(self.dim, number)

    def scores(self, vectors):
        return vectors

    def codeword(self, slot):
        return (1 + self.basis) * np.eye(self.dim)[slot]

    def combine(self, means):
        return means[: self.dim] + 2 * means[self.dim :]


def test_a_transform_of_ones_own_is_measured_in_every_basis():
    assert Halves(3).influence() == Influence(2.0, 2.0)
