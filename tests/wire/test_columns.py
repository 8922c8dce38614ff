"""Cells of columns: many at once are what each is alone."""

import numpy as np
import pytest

from fedsel.wire import Category, Date, Number
from fedsel.wire._columns import ABSENT, UNKNOWN, listed, matcher

CELLS = [
    "1",
    1,
    1.0,
    True,
    "true",
    "TRUE",
    "",
    None,
    "x",
    " 1 ",
    "2024-02-29",
    np.nan,
    -0.0,
    "+1e0",
]
COLUMNS = [
    Number(0, 3, indicator=True),
    Number(missing=7.0),
    Category(["1", "true", "x"], indicator=True),
    Category(["other", "x"], missing="x"),
    Date(["year", "weekday"], "2000-01-01", "2040-01-01", indicator=True),
]


@pytest.mark.parametrize("column", COLUMNS, ids=repr)
def test_many_cells_are_what_each_is_alone(column):
    cells = np.empty(len(CELLS), dtype=object)
    cells[:] = CELLS
    together = column.encode(cells)
    alone = np.vstack([column.encode(cells[i : i + 1]) for i in range(len(cells))])
    assert together.tobytes() == alone.tobytes()
    assert together.shape[1] == len(column.features)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, bool])
def test_an_array_of_numbers_is_what_its_numbers_are(dtype):
    numbers = np.array([0, 1, 1, 0, 1], dtype=dtype)
    for column in (Number(0, 1), Category(["0", "1"])):
        as_objects = column.encode(numbers.astype(object))
        assert column.encode(numbers).tobytes() == as_objects.tobytes()


def test_a_level_is_found_by_its_text_first_and_by_its_number_then():
    code = matcher(("1.0", "1", "true", "a b"))
    assert [code(c) for c in ("1", "1.0", 1, "01", True, "TRUE", 0)] == [1, 0, 0, 0, 2, 2, UNKNOWN]
    assert [code(c) for c in (None, "  ", float("nan"), " a b\n", "A B")] == [
        ABSENT,
        ABSENT,
        ABSENT,
        3,
        UNKNOWN,
    ]


def test_long_lists_are_shortened():
    assert listed("abc") == "a, b, c"
    assert listed(range(20)).endswith("7, …")
