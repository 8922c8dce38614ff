"""The two inputs of a blanket are the worst of all: exact, over inputs that show every case."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, solution
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    FlatPicks,
    Hybrid,
    OptimalWindow,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    RankLaw,
    SignedSampling,
    SymbolLaw,
    TopK,
    TwoStage,
    UnbiasedJoint,
    Uniform,
    Unperturbed,
    Window,
)
from fedsel.mechanisms._certificate import Blanket, OutputClass
from fedsel.mechanisms.central._lattice import values_of
from fedsel.solutions import names
from tests.mechanisms.central.support import exact_bound, shuffled_delta

PRIVATE = [name for name in names() if solution(name, epsilon=2.0, dim=6).private]

MECHANISMS = {
    "J": (SignedSampling(1.5, k=1), 2),
    "J, two of three": (SignedSampling(1.0, k=2), 3),
    "J, all": (SignedSampling(1.0, k=2), 2),
    "J, radius": (SignedSampling(1.5, k=1, radius=1.0), 2),
    "UJ": (UnbiasedJoint(1.5, k=1), 2),
    "UJ, two": (UnbiasedJoint(1.0, k=2), 3),
    "PS-Duchi": (TwoStage(PerturbedSampling(0.7, k=1), Duchi(0.8)), 3),
    "PS-Duchi, two of three": (TwoStage(PerturbedSampling(0.7, k=2), Duchi(0.8)), 3),
    "EXP-Duchi": (TwoStage(Exponential(1.0), Duchi(0.5)), 3),
    "PE-Duchi": (TwoStage(PerturbedEncoding(1.0, k=1), Duchi(0.5)), 3),
    "PS-OW": (TwoStage(PerturbedSampling(0.5, k=1), OptimalWindow(3.0)), 2),
    "uniform-HM": (TwoStage(Uniform(), Hybrid(1.0, grid=4)), 2),
    "flat PM": (FlatPicks(Piecewise(1.0, grid=4)), 2),
    "flat, two picks": (FlatPicks(Duchi(0.5), picks=2), 3),
}


def inputs(size):
    """Vectors with orders, signs, ties, zeros, values off the grid and beyond the clip."""
    magnitudes = [Fraction(m) for m in (2, 3, 4)][:size]
    orders = list(itertools.permutations(magnitudes))[:4]
    signs = [(1,) * size, (-1,) * size, (1, -1, 1)[:size]]
    for order, sign in itertools.product(orders, signs):
        yield tuple(m * s for m, s in zip(order, sign, strict=True))
        yield tuple(-m * s for m, s in zip(order[::-1], sign, strict=True))
    few = [Fraction(0), Fraction(-1, 3), Fraction(3)]
    yield from itertools.islice(itertools.product(few, repeat=size), 0, None, size)


def laws_of(mechanism, size):
    """The different laws of a report over all inputs."""
    laws = {}
    for vector in inputs(size):
        law = mechanism.report_law(vector)
        laws[tuple(sorted(law.items()))] = law
    return list(laws.values())


def stop_loss(values, at):
    """E[(G − at)₊], with the rest of the probability at 0."""
    rest = 1 - sum(p for _, p in values)
    return sum(p * max(g - at, 0) for g, p in values) + rest * max(-at, 0)


@pytest.mark.slow
@pytest.mark.parametrize("growth", [Fraction(9, 8)])
@pytest.mark.parametrize("name", MECHANISMS)
def test_no_pair_of_inputs_is_worse_in_the_convex_order(name, growth):
    """Stop-losses are convex and piecewise linear: the kinks of the larger one decide."""
    mechanism, size = MECHANISMS[name]
    laws = laws_of(mechanism, size)
    reports = list(laws[0])
    least = {y: min(law[y] for law in laws) for y in reports}
    worst = values_of(mechanism.blanket(size), growth)
    assert sum(p * g for g, p in worst) == 1 - growth  # as of every pair
    bounds = {s: stop_loss(worst, s) for s in [*(g for g, _ in worst), Fraction(0)]}
    reached = False
    for one, other in itertools.product(laws, repeat=2):
        pair = [((one[y] - growth * other[y]) / least[y], least[y]) for y in reports]
        losses = {s: stop_loss(pair, s) for s in bounds}
        assert all(losses[s] <= bounds[s] for s in bounds)
        reached |= losses == bounds
    assert reached


@pytest.mark.parametrize("window", [Window(2, 5, 1, 3), Window(3, 3, 1, 3), Window(4, 1, 2, 5)])
def test_the_ends_of_a_window_are_the_worst_of_its_cells(window):
    law = SymbolLaw((window,))
    growth = Fraction(9, 8)
    worst = values_of(Blanket.of_symbols(law), growth)
    rows = [window.weights(cell).tolist() for cell in range(window.G + 1)]
    least = [min(column) for column in zip(*rows, strict=True)]
    places = [*(g for g, _ in worst), Fraction(0)]
    for one, other in itertools.product(rows, repeat=2):
        triples = zip(one, other, least, strict=True)
        pair = [((a - growth * b) / w, Fraction(w, window.total)) for a, b, w in triples]
        assert all(stop_loss(pair, s) <= stop_loss(worst, s) for s in places)


@pytest.mark.parametrize("name", MECHANISMS)
def test_one_report_by_itself_is_its_certificate(name):
    mechanism, size = MECHANISMS[name]
    blanket = mechanism.blanket(size)
    assert blanket.loss_ratio == mechanism.loss_ratio(size)
    assert sum(c.first * c.outputs for c in blanket.classes) == blanket.total
    assert sum(c.second * c.outputs for c in blanket.classes) == blanket.total
    assert 0 < blanket.share < 1


def orders_of(law):
    """The laws over the outputs, one for each order of them."""
    weights = np.repeat(law.weights, law.counts).tolist()
    orders = sorted(set(itertools.permutations(weights)))
    return [{y: Fraction(w, law.total) for y, w in enumerate(order)} for order in orders]


@pytest.mark.parametrize(
    ("law", "n", "tight"),
    [
        (RankLaw([3, 1], [1, 2]), 2, True),
        (RankLaw([3, 1], [1, 3]), 3, True),
        (RankLaw([3, 1], [2, 2]), 3, False),
        (RankLaw([4, 2, 1]), 2, False),
    ],
    ids=["1 of 3", "1 of 4", "2 of 4", "three weights"],
)
@pytest.mark.parametrize("growth", [Fraction(5, 4), Fraction(3, 2), Fraction(2)], ids=str)
def test_shuffling_by_brute_force_is_never_above_the_bound(law, n, tight, growth):
    bound = exact_bound(values_of(Blanket.of_ranks(law), growth), n)
    true = shuffled_delta(orders_of(law), n, growth)
    assert 0 < true <= bound
    if tight or growth == Fraction(5, 4):
        assert (true == bound) == tight


@pytest.mark.parametrize("name", ["J", "UJ", "flat PM"])
def test_two_shuffled_reports_of_a_mechanism_are_within_its_bound(name):
    mechanism, size = MECHANISMS[name]
    laws = laws_of(mechanism, size)
    common = sum(min(law[y] for law in laws) for y in laws[0])
    assert mechanism.blanket(size).share == common
    clearest = max(max(law.values()) for law in laws)
    laws = [law for law in laws if max(law.values()) == clearest][:4]
    for growth in (Fraction(9, 8), Fraction(2)):
        bound = exact_bound(values_of(mechanism.blanket(size), growth), 2)
        assert 0 < shuffled_delta(laws, 2, growth) <= bound


@pytest.mark.parametrize("name", names())
def test_every_private_name_has_a_blanket_and_the_others_say_so(name):
    built = solution(name, epsilon=2.0, dim=6)
    if built.private:
        assert built.blanket().loss_ratio == built.loss_ratio()
    else:
        with pytest.raises(InvalidArgument, match="certified"):
            built.blanket()


@pytest.mark.parametrize("name", PRIVATE)
def test_every_round_has_the_same_law(name):
    """Those that prepare as well: only public codewords change."""
    built = solution(name, epsilon=2.0, dim=66)
    for number in (1, 2, 1000):
        turned = built.in_round(number)
        assert turned.mechanism == built.mechanism
        assert turned.blanket() == built.blanket()
        assert turned.loss_ratio() == built.loss_ratio()


def test_many_ranks_are_paired_without_listing_them():
    blanket = Blanket.of_ranks(RankLaw([7, 5, 2], [3, 1, 10**9]))
    assert [tuple(c) for c in blanket.classes] == [
        (2, 2, 2, 10**9 - 4),
        (2, 5, 2, 1),
        (2, 7, 2, 3),
        (5, 2, 2, 1),
        (7, 2, 2, 3),
    ]
    listed = RankLaw(np.repeat([7, 5, 2], [3, 1, 3]))
    assert Blanket.of_ranks(listed) == Blanket.of_ranks(RankLaw([7, 5, 2], [3, 1, 3]))


def test_silence_is_an_output_that_all_inputs_have_alike():
    blanket = Blanket.of_ranks(RankLaw([3, 1], [1, 3], bottom=5))
    assert blanket.total == 11
    assert [tuple(c) for c in blanket.classes] == [
        (1, 1, 1, 2),
        (1, 3, 1, 1),
        (3, 1, 1, 1),
        (5, 5, 5, 1),
    ]
    pe = PerturbedEncoding(1.0, k=1)
    law, blanket = pe.law(3), pe.blanket(3)
    assert blanket.loss_ratio == pe.loss_ratio(3)
    assert blanket.total == law.total + law.bottom
    assert sum(c.first * c.outputs for c in blanket.classes) == blanket.total


def test_what_some_inputs_never_have_hides_nobody():
    for wrong in (
        [],
        [OutputClass(1, 0, 0, 1)],
        [OutputClass(2, 1, 1, 1), OutputClass(1, 0, 0, 2)],
    ):
        with pytest.raises(ValueError, match="outputs that every input can have"):
            Blanket.of(wrong, 3)
    with pytest.raises(ValueError, match="outputs that every input can have"):
        TopK(k=1).blanket(3)
    with pytest.raises(InvalidArgument, match=r"^value = Unperturbed\(\): must be a private"):
        Unperturbed().blanket()


def test_a_window_as_wide_as_the_grid_has_nothing_in_between():
    blanket = Blanket.of_symbols(SymbolLaw((Window(3, 3, 1, 4),)))
    assert [tuple(c) for c in blanket.classes] == [(1, 4, 1, 3), (4, 1, 1, 3)]
