"""Reports on the wire: of one length, of one run, and judged alike however many."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsel import InvalidArgument, Reports
from fedsel._internal.random import stream
from fedsel.wire import (
    ReportFormat,
    Request,
)
from tests.wire.support import complete
from tests.wire.test_messages import PRIVATE, RUN

NOTHING = Reports([-1], [0])


@pytest.mark.parametrize("name", PRIVATE)
def test_reports_have_one_length_whatever_they_say(name):
    recipe = complete(name, epsilon=8.0, dim=20, epochs=1, k=4)
    form, made = Request(RUN, 0, 0, recipe).format, recipe.build()
    for client in range(20):
        gradient = np.sin(np.arange(20) * (client + 1))
        said, _ = made.encode(gradient, np.zeros(20), stream(0, 0, client))
        data = form.encode(5, said)
        assert len(data) == form.size == 8 + 8 * form.picks
        assert form.decode(data) == (5, said)
        batch = form.decode_many(data)
        assert batch.valid.all()
        assert batch.round.tolist() == [5]
        assert batch.reports == Reports.of([said])
        assert batch.reports.pairs() == said.pairs()


def test_one_pick_of_four_billion_dimensions_takes_sixteen_bytes():
    form = ReportFormat(RUN, slots=1 << 32, symbols=1 << 17, bottom=True)
    assert form.size == 16
    largest = Reports([(1 << 32) - 1], [(1 << 17) - 1])
    assert form.decode(form.encode(3, largest)) == (3, largest)
    assert form.decode(form.encode(3, NOTHING)) == (3, NOTHING)
    assert len(form.encode(3, NOTHING)) == 16
    assert NOTHING.pairs() == [()]


FORMATS = [
    ReportFormat(RUN, slots=10, symbols=4),
    ReportFormat(RUN, slots=10, symbols=4, bottom=True),
    ReportFormat(RUN, slots=10, symbols=300, picks=3),
    ReportFormat(RUN, slots=1 << 32, symbols=1 << 16, bottom=True),
]


small = st.integers(0, 12) | st.sampled_from([(1 << 32) - 1, 1 << 16])


@settings(max_examples=200)
@given(st.sampled_from(FORMATS), st.lists(small, min_size=8, max_size=8), st.binary(max_size=40))
def test_reports_one_by_one_and_many_at_once_are_judged_alike(form, numbers, noise):
    head = form.encode(0, Reports(range(form.picks), [0] * form.picks))[:4]
    words = struct.pack("<7I", *numbers[: form.size // 4 - 1], *[0] * (8 - form.size // 4))
    for data in (head + words[: form.size - 4], noise, noise.ljust(form.size, b"\0")[: form.size]):
        one = form.decode(data)
        if one is None:
            if len(data) == form.size:
                assert not form.decode_many(data).valid.any()
            continue
        number, report = one
        (pairs,) = report.pairs()
        assert form.encode(number, report) == data
        assert all(j < form.slots and s < form.symbols for j, s in pairs)
        assert len({j for j, _ in pairs}) == len(pairs) in (form.picks, 0 if form.bottom else -1)
        batch = form.decode_many(data)
        assert batch.valid.all()
        assert batch.round.tolist() == [number]
        assert batch.reports == Reports.of([report])


def test_a_report_of_another_run_is_none():
    one, other = (ReportFormat(run, slots=10, symbols=4) for run in (RUN, bytes(16)))
    assert other.decode(one.encode(0, Reports([1], [2]))) is None
    assert one.decode(bytearray(one.encode(0, Reports([1], [2])))) is None


def test_bottom_is_no_report_where_the_law_has_none():
    with_bottom = ReportFormat(RUN, slots=10, symbols=4, bottom=True)
    without = ReportFormat(RUN, slots=10, symbols=4)
    assert without.decode(with_bottom.encode(0, NOTHING)) is None
    with pytest.raises(struct.error):
        without.encode(0, NOTHING)
    with pytest.raises(InvalidArgument):
        ReportFormat(RUN, 10, 4, picks=2, bottom=True)
