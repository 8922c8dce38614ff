"""Dates and their parts."""

import datetime
import math

import numpy as np
import pytest

from fedsel.wire import Date
from fedsel.wire._dates import circle, days_of


def cells(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def test_every_day_of_some_centuries_has_its_parts():
    column = Date(["year", "days", "weekday"], "1899-12-25", "2101-01-07")
    first = datetime.date(1899, 12, 25)
    days = [first + datetime.timedelta(days=i) for i in range(0, 73_000, 37)]
    encoded = column.encode(cells(*(day.isoformat() for day in days)))
    assert encoded[:, 0].tolist() == [day.year for day in days]
    assert encoded[:, 1].tolist() == [(day - first).days for day in days]
    assert [circle("weekday", d.weekday()) for d in days] == list(
        map(tuple, encoded[:, 2:].tolist())
    )
    assert days_of(1970, 1, 1) == 0


def test_points_of_a_circle_are_rounded_alike_by_any_library():
    """Nothing to be rounded lies so near to a half that the last bits of a sine could matter."""
    for part, period in (("month", 12), ("day", 31), ("weekday", 7), ("hour", 24)):
        for number in range(period):
            exact = [f(2 * math.pi * number / period) * 1e6 for f in (math.cos, math.sin)]
            assert all(abs(x - math.floor(x) - 0.5) > 1e-3 for x in exact)
            assert circle(part, number) == pytest.approx([x / 1e6 for x in exact], abs=5.1e-7)


def test_objects_and_texts_are_the_same_date():
    column = Date(["hour", "day"], missing="2000-01-02", indicator=True)
    at = datetime.datetime(2024, 2, 29, 13, 45)
    texts = column.encode(cells("2024-02-29T13:45"))
    assert column.encode(cells(at)).tolist() == texts.tolist()
    assert column.encode(np.array([at], dtype="datetime64[ns]")).tolist() == texts.tolist()
    assert column.encode(cells(at.date()))[0, :2].tolist() == [1, 0]
    missing = column.encode(np.array(["NaT"], dtype="datetime64[ns]"))
    assert missing.tolist() == column.encode(cells(None)).tolist() == [[1, 0, *circle("day", 1), 1]]
