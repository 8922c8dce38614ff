"""Reports and their sums: what one adds, which are equal, and which do not go together."""

import numpy as np
import pytest

from fedsel import InvalidArgument, Reports, solution
from fedsel.mechanisms import BOTTOM
from fedsel.mechanisms._reports import Alphabet, Totals, slot_means

TWO_WINDOWS = Alphabet(
    slots=3,
    symbols=5,
    picks=2,
    abstains=True,
    offsets=np.array([0, 2]),
    first=np.array([-1, 10]),
    stride=2,
    units=np.array([100.0, 0.5]),
)
"""Symbols 0 and 1 add −1 and 1 to the first window, 2, 3 and 4 add 10, 12 and 14 to the second."""


def test_reports_are_equal_if_all_of_them_are():
    one = Reports([[1, 2], [0, 3]], [[0, 1], [1, 1]])
    assert one == Reports([[1, 2], [0, 3]], [[0, 1], [1, 1]])
    assert one != Reports([[1, 2], [0, 2]], [[0, 1], [1, 1]])
    assert one != Reports([[1, 2], [0, 3]], [[0, 1], [1, 0]])
    assert one != Reports([[1, 2]], [[0, 1]])
    assert one != "reports"


@pytest.mark.parametrize(
    ("slot", "symbol"),
    [([1], [1, 2]), ([1, 2], [1]), ([[1], [2]], [1, 2]), ([[[1]]], [[[1]]]), (1, 1)],
)
def test_a_slot_has_a_symbol(slot, symbol):
    with pytest.raises(InvalidArgument, match=r"^symbol = "):
        Reports(slot, symbol)


@pytest.mark.parametrize(
    ("symbols", "kind"),
    [
        (np.array([1], dtype=np.uint8), np.int64),
        (np.array([True]), np.int64),
        (np.array([1.5], dtype=np.float32), np.float64),
        (np.array([object()]), np.object_),  # undecided draws of an enumeration
    ],
)
def test_symbols_are_integers_or_numbers(symbols, kind):
    assert Reports([0], symbols).symbol.dtype == kind


def test_some_none_and_one():
    none = Reports.of([])
    assert (none.slot.shape, none.symbol.shape, none.clients, none.pairs()) == (
        (0, 1),
        (0, 1),
        0,
        [],
    )
    one = Reports([2, BOTTOM], [4, 0])
    assert (one.clients, one.pairs()) == (1, [((2, 4),)])
    three = Reports([[2], [BOTTOM], [0]], [[4], [0], [1]])
    assert (three.clients, three.pairs()) == (3, [((2, 4),), (), ((0, 1),)])
    assert three.rows(np.array([2, 0])) == Reports([[0], [2]], [[1], [4]])
    assert three.moved(10) == Reports([[12], [BOTTOM], [10]], [[4], [0], [1]])


@pytest.mark.parametrize("wrong", [-1, 5, 10**12])
def test_symbols_that_no_report_has(wrong):
    with pytest.raises(InvalidArgument, match=r"^symbols = .*: must be integers in 0 … 4$"):
        TWO_WINDOWS.steps(np.array([0, wrong]))
    totals = Totals(TWO_WINDOWS)
    with pytest.raises(InvalidArgument, match=r"^symbols = "):
        totals.add(Reports([0], [wrong]))
    assert not totals.sums.any()


def test_every_symbol_adds_its_step_to_its_window():
    windows, steps = TWO_WINDOWS.steps(np.arange(5))
    assert (windows.tolist(), steps.tolist()) == ([0, 0, 1, 1, 1], [-1, 1, 10, 12, 14])
    assert TWO_WINDOWS.steps(np.array([], dtype=int))[0].size == 0
    assert TWO_WINDOWS.bound == 100
    assert Alphabet(**{**vars(TWO_WINDOWS), "units": np.array([1.0, 0.5])}).bound == 7
    assert Alphabet.of_numbers(3, 1, 2.0).bound == float("inf")


def test_totals_are_sums_over_clients_and_servers():
    one, other = Totals(TWO_WINDOWS), Totals(TWO_WINDOWS)
    one.add(Reports([[0, 2], [BOTTOM, BOTTOM], [2, 1]], [[1, 4], [0, 0], [3, 0]]))
    other.add(Reports([2, 0], [2, 0]))
    one.merge(other)
    assert one.count == 4
    assert one.sums.tolist() == [[0, -1, 0], [0, 0, 36]]
    np.testing.assert_array_equal(one.mean(), [0.0, -25.0, 4.5])
    one.clear()
    assert (one.count, one.sums.any(), one.mean().tolist()) == (0, False, [0.0, 0.0, 0.0])


def test_numbers_are_added_up_as_they_are():
    totals = Totals(Alphabet.of_numbers(2, 1, 2.0))
    totals.add(Reports([[0], [1], [0]], [[0.5], [-1.0], [0.25]]))
    np.testing.assert_array_equal(totals.mean(), [0.5, -2 / 3])
    assert totals.sums.shape == (1, 2)


@pytest.mark.parametrize("dim", [2, 4])
def test_totals_of_other_slots_are_not_merged(dim):
    mine, others = (Totals(solution("J", epsilon=1.0, dim=d).alphabet) for d in (3, dim))
    with pytest.raises(InvalidArgument, match=r"^other = "):
        mine.merge(others)
    with pytest.raises(InvalidArgument, match=r"^other = "):
        mine.merge(np.zeros((1, 3)))
    assert (mine.count, mine.sums.any()) == (0, False)


def test_means_have_a_unit_for_every_row():
    sums = np.array([[1, 2], [3, 4]])
    assert slot_means(sums, [2.0, 10.0], 2).tolist() == [16.0, 22.0]
    for units in ([2.0], [2.0, 10.0, 1.0]):
        with pytest.raises(ValueError, match="zip"):
            slot_means(sums, units, 2)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_mean_is_over_as_many_as_there_are(count):
    totals = Totals(Alphabet.of_numbers(2, 1, 1.0))
    for _ in range(count):
        totals.add(Reports([1], [3.0]))
    assert totals.mean().tolist() == [0.0, 3.0 if count else 0.0]


def test_the_largest_that_a_symbol_adds_lies_at_an_end_of_some_window():
    alphabet = Alphabet(2, 5, 1, False, np.array([0, 3]), np.array([0, 1]), 1, np.array([1.0, 0.1]))
    window, steps = alphabet.steps(np.arange(5))
    assert (window.tolist(), steps.tolist()) == ([0, 0, 0, 1, 1], [0, 1, 2, 1, 2])
    assert alphabet.bound == 2.0


def test_numbers_have_no_symbols_and_no_bound():
    numbers = Alphabet.of_numbers(3, 2, 0.5)
    assert (numbers.slots, numbers.symbols, numbers.picks) == (3, 0, 2)
    assert (numbers.abstains, numbers.plain, numbers.units.tolist()) == (False, True, [0.5])
    assert numbers.bound == float("inf")
    assert Alphabet.of_numbers(3, 2, 0.5, abstains=True).abstains
