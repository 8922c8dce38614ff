"""The laws themselves: tie rule, windows and mixtures, by brute force in rationals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsel import InvalidArgument
from fedsel.mechanisms import RankLaw, SymbolLaw, Window
from fedsel.mechanisms._laws import REJECTION_LIMIT


def by_random_order_of_ties(law: RankLaw, vector: list[int]) -> list[Fraction]:
    """Average over all strict orders of the dimensions that agree with the magnitudes."""
    d = len(vector)
    total, orders = [Fraction(0)] * d, 0
    for order in itertools.permutations(range(d)):
        magnitudes = [abs(vector[j]) for j in order]
        if magnitudes == sorted(magnitudes, reverse=True):
            orders += 1
            for rank, j in enumerate(order):
                total[j] += law.probability(rank)
    return [x / orders for x in total]


@given(
    st.lists(st.integers(-2, 2), min_size=1, max_size=5),
    st.lists(st.integers(0, 9), min_size=5, max_size=5),
    st.integers(0, 5),
)
def test_ties_are_a_uniformly_random_order(vector, weights, bottom):
    weights = weights[: len(vector)]
    weights[0] += 1
    law = RankLaw(weights, [1] * len(vector), bottom)
    assert law.over(vector) == by_random_order_of_ties(law, vector)
    assert sum(law.over(vector)) + law.bottom_probability == 1


def test_tied_ranks_would_break_exp_but_the_rule_does_not():
    """With tied ranks in place of random ones, d = 4 and ε = 1 would lose up to 1.26."""
    from fedsel.mechanisms import Exponential

    law = Exponential(1.0).law(4)
    seen = [law.over(v) for v in itertools.product([0, 1, 2], repeat=4)]
    for j in range(4):
        column = [p[j] for p in seen]
        assert float(max(column) / min(column)) <= np.e


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.lists(st.integers(1, 4), min_size=4))
def test_runs_expand_to_ranks(weights, counts):
    counts = counts[: len(weights)]
    law = RankLaw(weights, counts)
    expanded = [w for w, c in zip(weights, counts, strict=True) for _ in range(c)]
    assert [law.weight(rank) for rank in range(law.d)] == expanded
    at = [law.rank_at(x) for x in range(law.total)]
    assert at == [rank for rank, w in enumerate(expanded) for _ in range(w)]


@pytest.mark.parametrize(
    ("weights", "counts", "bottom"),
    [
        ([2**59, 1], [1, 1], 0),
        ([2**62], [4], 0),
        ([0], [3], 0),
        ([-1, 5], [1, 1], 0),
        ([1], [1], -1),
        ([1], [1], 2**60),
        ([2**59 + 1], [1], 0),
        ([1], [1], 2**59 + 1),
        ([1, 1], [1, 0], 0),
        ([1, 1], [2], 0),
        ([1], [1, 1], 0),
    ],
)
def test_impossible_rank_laws_are_refused(weights, counts, bottom):
    with pytest.raises(ValueError, match="rank law"):
        RankLaw(weights, counts, bottom)


@pytest.mark.parametrize("size", [1, 3])
def test_a_vector_has_as_many_entries_as_the_law_has_ranks(size):
    with pytest.raises(ValueError, match="over 2 ranks"):
        RankLaw([2, 1]).over([1.0] * size)


def test_laws_may_use_all_of_the_budget():
    """The samplers can draw from these; one more, and they could not."""
    law = RankLaw([2**59], [1], 2**59)
    assert law.total == law.bottom == 2**59
    assert law.bottom_probability == Fraction(1, 2)
    assert Window(1, 1, 2**58 - 1, 2**58 + 1).total == 2**59
    assert Window(2**31, 1, 0, 1).symbols == 2**31 + 1
    pair = (Window(1, 1, 1, 2), Window(2, 1, 1, 2))
    assert sum(SymbolLaw(pair, (2**59 - 1, 1)).shares) == 1


def test_laws_are_equal_if_every_number_is():
    law = RankLaw([3, 1], [1, 2], bottom=4)
    assert law == RankLaw([3, 1], [1, 2], bottom=4)
    for other in (
        *(RankLaw([3, 1], [1, 2], bottom) for bottom in (3, 5)),
        RankLaw([3, 2], [1, 2], 4),
        RankLaw([3, 1], [1, 3], 4),
        RankLaw([3, 1, 1], [1, 1, 1], 4),
        "a law",
    ):
        assert law != other


def test_windows_are_numbered_through():
    law = SymbolLaw((Window(1, 1, 1, 3), Window(2, 3, 1, 2), Window(1, 2, 0, 1)), (1, 1, 1))
    assert law.offsets == (0, 2, 7)
    assert law.symbols == 10
    which, steps = law.steps(np.arange(10))
    assert which.tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    assert steps.tolist() == [-1, 1, -4, -2, 0, 2, 4, -2, 0, 2]
    assert law.decode_exact(6) == law.windows[1].decode(4)


def test_laws_are_sealed():
    law = RankLaw([3, 1], [1, 2])
    with pytest.raises(AttributeError, match="cannot be changed"):
        law.maximum = 1
    for array in (law.weights, law.counts, law.edges, law.cumulative):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


@pytest.mark.parametrize("weights", [[2.7, 1.2], [], [[1]], ["1"]])
def test_weights_are_integers(weights):
    with pytest.raises(ValueError, match="must be integers"):
        RankLaw(weights)


@pytest.mark.parametrize(
    "window",
    [
        (0, 1, 1, 2),
        (1, 0, 1, 3),
        (1, 2, 3, 1),
        (1, 1, 2, 2),
        (1, 1, -1, 2),
        (1, 3, 2**57, 2**58),
        (1, 1, 2**58 - 1, 2**58 + 2),
        (2**31 + 1, 1, 0, 1),
    ],
)
def test_impossible_windows_are_refused(window):
    with pytest.raises(ValueError, match="window"):
        Window(*window)


@pytest.mark.parametrize("coins", [(1,), (1, 0), (2**59, 1), (1, 1, 1)])
def test_impossible_coins_are_refused(coins):
    with pytest.raises(ValueError, match="coins"):
        SymbolLaw((Window(1, 1, 1, 2), Window(2, 1, 1, 2)), coins)


def test_decoding_takes_only_symbols_that_exist():
    law = SymbolLaw((Window(1, 1, 1, 3),))
    for wrong in ([-1], [2], [0, -1], [0, 2], [10**12, 0]):
        with pytest.raises(InvalidArgument, match=r"symbols = .*must be integers in 0 … 1"):
            law.decode(np.array(wrong))
    assert law.decode(np.array([], dtype=int)).size == 0
    with pytest.raises(InvalidArgument, match="symbols"):
        law.decode(np.array([0.5]))


windows = st.builds(
    lambda G, W, L, extra: Window(G, W, L, L + extra),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 4),
    st.integers(1, 9),
)
inputs = st.fractions(-1, 1, max_denominator=50)


@given(windows, windows, st.integers(1, 5), st.integers(1, 5), inputs)
def test_mixtures_of_windows_are_exactly_unbiased_with_the_stated_variance(a, b, x, y, t):
    law = SymbolLaw((a, b), coins=(x, y))
    probabilities = law.probabilities(t)
    values = [law.decode_exact(s) for s in range(law.symbols)]
    assert sum(probabilities) == 1
    assert sum(p * v for p, v in zip(probabilities, values, strict=True)) == t
    moment = sum(p * v**2 for p, v in zip(probabilities, values, strict=True))
    assert law.variance(t) == moment - t**2
    assert float(law.variance(t)) <= float(law.variance(law.worst_input)) * (1 + 1e-9) + 1e-12
    assert max(map(abs, values)) == law.bound
    np.testing.assert_allclose(law.decode(np.arange(law.symbols)), [float(v) for v in values])


@pytest.mark.parametrize("pair", [((1, 1, 1, 3), (4, 3, 1, 9)), ((2, 1, 1, 9), (3, 2, 0, 1))])
def test_the_worst_input_of_a_mixture_beats_a_fine_grid(pair):
    law = SymbolLaw(tuple(Window(*numbers) for numbers in pair), (1, 3))
    worst = law.variance(law.worst_input)
    others = [law.variance(Fraction(i, 120)) for i in range(-120, 121)]
    assert max(others) <= worst * (1 + Fraction(1, 10**12))
    # No grid point: the slope vanishes between two of them.
    assert law.worst_input * 120 % 1 != 0


@given(windows, windows, st.integers(1, 5), st.integers(1, 5))
def test_integer_weights_of_each_cell_are_the_probabilities(a, b, x, y):
    law = SymbolLaw((a, b), coins=(x, y))
    totals = set()
    for cell in range(law.cells + 1):
        weights = law.weights(cell)
        t = Fraction(2 * cell, law.cells) - 1
        assert tuple(Fraction(w, sum(weights)) for w in weights) == law.probabilities(t)
        totals.add(sum(weights))
    assert len(totals) == 1


@pytest.mark.slow
@given(windows)
def test_worst_input_of_a_window_beats_a_fine_grid(window):
    worst = window.variance(window.worst_input)
    for i in range(-200, 201):
        assert window.variance(Fraction(i, 200)) <= worst


@settings(max_examples=30)
@given(windows, st.lists(inputs, min_size=2, max_size=6))
def test_inputs_between_the_cells_lose_no_more_than_the_cells(window, between):
    """A mixture of two cells, for each of which a symbol weighs L or H."""
    law = SymbolLaw((window,))
    columns = zip(
        *(law.probabilities(t) for t in [*between, Fraction(-1), Fraction(1)]), strict=True
    )
    for column in columns:
        assert Fraction(window.L, window.total) <= min(column)
        assert max(column) <= Fraction(window.H, window.total)
    ends = [law.probabilities(Fraction(t))[0] for t in (-1, 1)]
    assert [p * window.total for p in ends] == [window.H, window.L]


@given(windows)
def test_every_window_has_the_moments_of_theory(window):
    """E = η(2g − G) of the step 2·symbol − N + 1, and its second moment, cell by cell."""
    G, W, N, eta = window.G, window.W, window.symbols, window.eta
    assert 1 - eta == Fraction(N * window.L, window.total)
    for cell in range(G + 1):
        weights = [Fraction(int(w), window.total) for w in window.weights(cell)]
        steps = [2 * symbol - N + 1 for symbol in range(N)]
        mean = sum(p * s for p, s in zip(weights, steps, strict=True))
        square = sum(p * s**2 for p, s in zip(weights, steps, strict=True))
        assert mean == eta * (2 * cell - G)
        inside = (2 * cell - G) ** 2 + Fraction(W**2 - 1, 3)
        assert square == eta * inside + (1 - eta) * Fraction(N**2 - 1, 3)


def test_a_dimension_is_drawn_first_up_to_the_limit_of_attempts():
    """Which words a report takes depends on it: the choice is part of the law."""
    limit = REJECTION_LIMIT
    assert limit == 16
    for heavy, first in ((limit**2, True), (limit**2 + 1, False)):
        law = RankLaw([heavy, 1], [1, limit])
        assert (law.d * law.maximum == limit * law.total) == first
        assert law.by_rejection == first
