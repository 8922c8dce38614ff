"""The wire at its limits: the last number that is taken, and the first that is not."""

import struct
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import pytest

from fedsel import InvalidArgument, Recipe, Reports, solution
from fedsel.wire import ReportFormat, Request, check_sendable, decode_recipe, encode_recipe
from fedsel.wire._request import MOST_SLOTS
from tests.wire.support import complete

RUN = bytes(range(16))
NOTHING = (1 << 32) - 1
ONE = ReportFormat(RUN, slots=10, symbols=4)
BOTTOM = replace(ONE, bottom=True)
TWO = replace(ONE, picks=2)
THREE = replace(ONE, symbols=300, picks=3)


@pytest.mark.parametrize(
    ("form", "pairs", "report"),
    [
        (ONE, [9, 3], Reports([9], [3])),
        (ONE, [0, 0], Reports([0], [0])),
        (ONE, [10, 0], None),
        (ONE, [0, 4], None),
        (ONE, [0, NOTHING], None),
        (BOTTOM, [9, 3], Reports([9], [3])),
        (BOTTOM, [0, NOTHING], Reports([-1], [0])),
        (BOTTOM, [1, NOTHING], None),
        (BOTTOM, [0, NOTHING - 1], None),
        (BOTTOM, [NOTHING, NOTHING], None),
        (BOTTOM, [10, 0], None),
        (THREE, [9, 299, 8, 0, 0, 1], Reports([9, 8, 0], [299, 0, 1])),
        (THREE, [0, 0, 1, 0, 2, 0], Reports([0, 1, 2], [0, 0, 0])),
        (THREE, [1, 0, 0, 0, 1, 0], None),
        (THREE, [2, 0, 2, 1, 0, 0], None),
        (THREE, [0, 0, 1, 0, 1, 0], None),
        (THREE, [0, 0, 0, 1, 1, 0], None),
        (THREE, [0, 0, 1, 0, 10, 0], None),
        (TWO, [1, 0, 0, 3], Reports([1, 0], [0, 3])),
        (TWO, [1, 0, 1, 0], None),
        (THREE, [0, 0, 1, 300, 2, 0], None),
    ],
)
def test_a_report_is_taken_or_not_however_it_is_read(form, pairs, report):
    head = form.encode(0, Reports(range(form.picks), [0] * form.picks))[:4]
    data = struct.pack(f"<4s{1 + len(pairs)}I", head, 77, *pairs)
    batch = form.decode_many(data)
    assert batch.round.tolist() == [77]
    assert form.decode(data) == (None if report is None else (77, report))
    assert form.round_of(data) == (None if report is None else 77)
    assert batch.valid.tolist() == [report is not None]
    if report is not None:
        assert form.encode(77, report) == data
        assert batch.reports == Reports.of([report])
    wrong = [data[:-1], data + b"\0", data[:-8], data * 2, bytearray(data), bytes([2]) + data[1:]]
    wrong += [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(4)]
    for other in wrong:
        assert form.decode(other) is None
        assert form.round_of(other) is None
    assert not form.decode_many(wrong[-1]).valid.any()


@pytest.mark.parametrize(
    ("most", "too_much"),
    [
        (Fraction(2**64 - 1, 2**63), Fraction(2**64, 3**40)),
        (Fraction(2**63, 2**64 - 1), Fraction(3**40, 2**64)),
    ],
)
def test_an_epsilon_is_a_ratio_of_64_bits(most, too_much):
    recipe = complete("PM", epsilon=most, dim=4)
    assert decode_recipe(encode_recipe(check_sendable(recipe))).epsilon == most
    with pytest.raises(InvalidArgument, match="integers of 64 bits"):
        check_sendable(replace(recipe, epsilon=too_much))


def test_a_report_tells_four_billion_slots_apart():
    recipe = complete("RJ", epsilon=1.0, dim=1 << 20, bases=1 << 12, rho=0.5)
    assert check_sendable(recipe).build().transform.slots == MOST_SLOTS
    assert decode_recipe(encode_recipe(recipe)) == recipe
    with pytest.raises(InvalidArgument, match=r"^bases = 4097: must be fewer"):
        check_sendable(replace(recipe, bases=(1 << 12) + 1))


def test_a_device_is_asked_to_hold_sixteen_million_entries_at_most():
    recipe = complete("RC", epsilon=1.0, dim=1 << 16, words=256)
    assert check_sendable(recipe) is recipe
    with pytest.raises(InvalidArgument, match=r"^dim = 65536: must be smaller"):
        check_sendable(replace(recipe, words=257))


@pytest.mark.parametrize("change", [{"dim": None}, {"learning_rate": "auto"}])
def test_a_recipe_that_is_open_has_no_bytes(change):
    with pytest.raises(InvalidArgument, match=f"^{next(iter(change))} = "):
        encode_recipe(complete("PM", **{"epsilon": 1.0, "dim": 8, **change}))


def test_what_has_no_epsilon_is_not_asked_for():
    with pytest.raises(InvalidArgument, match=r"^solution = 'NP': must be a private solution"):
        check_sendable(Recipe("NP", dim=3, learning_rate=1.0))


def test_reports_of_what_is_not_private_have_no_format():
    with pytest.raises(InvalidArgument, match="a private solution"):
        ReportFormat.of(solution("NP", dim=4), RUN)


@pytest.mark.parametrize("bases", [None, 3])
def test_a_request_is_not_changed_on_the_way_nor_afterwards(bases):
    request = Request(RUN, 0, 5, complete("RJ", epsilon=1.0, dim=8, rho=0.5, bases=bases))
    assert Request.decode(request.encode()) == request
    with pytest.raises(FrozenInstanceError):
        request.round = 6
    with pytest.raises(FrozenInstanceError):
        request.format.slots = 10**6
    for run in (RUN[:-1], RUN + b"x"):
        with pytest.raises(InvalidArgument, match=r"^run = "):
            replace(request, run=run)


@pytest.mark.parametrize("bases", [None, 3])
def test_what_is_no_recipe(bases):
    """Whatever is wrong with it, it is a ValueError: ledgers and servers rely on that."""
    recipe = complete("PS-PM" if bases is None else "RJ", epsilon=2.0, dim=8, bases=bases, rho=None)
    data = encode_recipe(recipe)
    assert decode_recipe(data) == recipe
    place = 24 + 8
    no_number = data[:place] + bytes(8) + data[place + 8 :]
    for wrong in (b"", data[:-1], data + b"\0", data * 2, bytes(len(data)), no_number):
        with pytest.raises(ValueError, match="not a recipe"):
            decode_recipe(wrong)


@pytest.mark.parametrize("k", [1, 8, 0.125, 1.0])
def test_a_count_is_no_share(k):
    recipe = complete("PS-PM", epsilon=2.0, dim=8, k=k)
    told = decode_recipe(encode_recipe(recipe))
    assert told == recipe
    assert isinstance(told.k, int) == isinstance(k, int)


@pytest.mark.parametrize(
    ("epoch", "number"), [(2, 0), (-1, 0), (0, 1 << 32), (0, -1)], ids=["late", "early"] * 2
)
def test_rounds_and_epochs_that_no_request_has(epoch, number):
    recipe = complete("PM", epsilon=1.0, dim=8, epochs=2)
    assert Request.decode(Request(RUN, 1, NOTHING, recipe).encode()).round == NOTHING
    with pytest.raises(InvalidArgument):
        Request(RUN, epoch, number, recipe)
