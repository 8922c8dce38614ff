"""The device client: nothing that it does or says depends on its data, but the report."""

import asyncio
import logging
import math
import sys
import time
import traceback

import numpy as np
import pytest

from fedsel._internal.random import stream
from fedsel.device import Client, Refused
from tests.device.test_client import RUN, UPDATE, WEIGHTS, D, asked, policy, recipe

SECRET = 123.456


@pytest.fixture
def client(tmp_path):
    return Client(policy(), tmp_path / "store", create=True)


def explosive(weights):
    raise RuntimeError(f"the record {SECRET} is broken")


class Panic(BaseException):
    """What bindings to native code raise when that code has failed."""


def leaving(error):
    """An update that leaves by an exception of any kind, with its data in it."""

    def update(weights):
        record = np.full(D, SECRET)
        raise error(f"the record {record[0]} is broken")

    return update


class Unreadable:
    """An update's value that fails when it is read."""

    def __array__(self, dtype=None, copy=None):
        raise SystemExit(f"the record {SECRET} is broken")


STOPS = [SystemExit, GeneratorExit, asyncio.CancelledError, Panic, MemoryError, RecursionError]
UPDATES = [
    explosive,
    *map(leaving, STOPS),
    lambda w: sys.exit(f"{SECRET}"),
    lambda w: Unreadable(),
    lambda w: [SECRET, math.nan],
    lambda w: None,
    lambda w: "secret",
    lambda w: np.full(D, SECRET + 1j),
    lambda w: np.ma.array(np.full(D, SECRET), mask=[True] * D),
    lambda w: np.full(D + 1, SECRET),
    np.full(D - 1, SECRET),
    np.full((1, D), SECRET),
    None,
]


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_that_fails_counts_as_zeros_and_says_nothing(client, update, caplog):
    """Whether a device answers must not depend on its data, so it answers."""
    with caplog.at_level(logging.DEBUG):
        report = client.answer(asked(), WEIGHTS, update)
    assert len(report) == 16
    assert "123" not in caplog.text
    assert "the update failed" in caplog.text
    assert all(record.exc_info is None for record in caplog.records)
    with client.ledger.transaction() as books:
        assert not books.residual(RUN, D).any()


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (math.nan, 0.0),
        (math.inf, LARGEST),
        (-math.inf, -LARGEST),
        (1e300, LARGEST),
        (-1e300, -LARGEST),
    ],
)
def test_updates_that_are_not_finite_pass_as_finite_ones(tmp_path, value, meant):
    """On the same words the same reports and residuals, of a vector and of a function."""
    seen = []
    for name, number in (("given", value), ("meant", meant)):
        client = Client(policy(), tmp_path / name, create=True)
        update = UPDATE.copy()
        update[3] = number
        for epoch, what in enumerate((update, lambda _, update=update: update)):
            client._entropy = stream(7, epoch, 0)
            seen.append(client.answer(asked(epoch), WEIGHTS, what))
            with client.ledger.transaction() as books:
                seen.append(books.residual(RUN, D).tolist())
    assert seen[:4] == seen[4:]
    assert np.isfinite(seen[1] + seen[3]).all()


@pytest.mark.parametrize("size", [1.0, 1e38, 1e-40])
@pytest.mark.parametrize("rate", [1e-300, 1e308])
def test_a_rate_that_overflows_is_no_error(client, size, rate):
    """Warnings are errors here: one that depends on the data would tell."""
    request = asked(of=recipe("PS-PM-O", learning_rate=rate))
    client.answer(request, WEIGHTS, lambda w: UPDATE * size)
    with client.ledger.transaction() as books:
        assert np.isfinite(books.residual(RUN, D)).all()


def test_a_huge_longdouble_is_no_error(client):
    client.answer(asked(), WEIGHTS, np.full(D, np.finfo(np.longdouble).max))
    with client.ledger.transaction() as books:
        assert books.residual(RUN, D).any()


@pytest.mark.parametrize(
    "update",
    [
        lambda w: [1] * D,
        lambda w: (True,) * D,
        lambda w: np.ones(D, dtype=np.float16),
        lambda w: np.ones(D, dtype=np.int8),
        np.ones(D, dtype=bool),
        np.ones(D, dtype=np.uint64),
        np.ones(D, dtype=">f4"),
        np.ones(D, dtype=np.longdouble),
    ],
)
def test_any_real_numbers_are_an_update(tmp_path, update, caplog):
    """On the same words the report and the residual of the same numbers in double precision."""
    seen = []
    for name, what in (("doubles", np.ones(D)), ("others", update)):
        client = Client(policy(), tmp_path / name, create=True)
        client._entropy = stream(7, 0, 0)
        report = client.answer(asked(), WEIGHTS, what)
        with client.ledger.transaction() as books:
            seen.append((report, books.residual(RUN, D).tolist()))
    assert seen[0] == seen[1]
    assert any(seen[0][1])
    assert caplog.text == ""


def test_errors_hold_nothing_private(tmp_path, monkeypatch):
    """Whatever breaks inside, what comes out has no context and no frame with the data."""
    client = Client(policy(), tmp_path / "s", create=True)

    def broken(self, *_):
        raise ValueError(f"inside: {SECRET}")

    monkeypatch.setattr("fedsel.solutions._solution.Solution.encode", broken)
    for update in (np.full(D, SECRET), lambda w: np.full(D, SECRET)):
        try:
            client.answer(asked(), WEIGHTS, update)
        except Refused as error:
            caught = error
        assert caught.__context__ is None
        assert caught.__cause__ is None
        said = "".join(traceback.format_exception(caught))
        assert "123.456" not in said
        for frame, _ in traceback.walk_tb(caught.__traceback__):
            if frame.f_code.co_name != "test_errors_hold_nothing_private":
                assert set(frame.f_locals) <= {"self", "begin", "rest", "outcome"}
    assert client.history().entries == ()


def test_an_update_that_leaves_takes_as_long_as_any(tmp_path):
    client = Client(policy(least_seconds=0.2), tmp_path / "s", create=True)
    begin = time.monotonic()
    client.answer(asked(), WEIGHTS, leaving(SystemExit))
    assert time.monotonic() - begin >= 0.2
    assert len(client.history().entries) == 1


def interruption_of(client, update):
    """What comes out of an answer that the owner interrupts."""
    with pytest.raises(KeyboardInterrupt) as error:
        client.answer(asked(), WEIGHTS, update)
    return error.value


class Telling(KeyboardInterrupt):
    """An interruption with more in it than one has."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Telling])
def test_an_interruption_stops_the_program_and_says_nothing(tmp_path, kind):
    client = Client(policy(least_seconds=60.0), tmp_path / "s", create=True)
    begin = time.monotonic()
    caught = interruption_of(client, leaving(kind))
    assert time.monotonic() - begin < 30  # the owner need not wait
    assert_silent(caught)
    assert client.history().entries == ()


def test_an_interruption_of_the_device_itself_says_nothing(client, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt(f"{SECRET}")

    monkeypatch.setattr("fedsel.solutions._solution.Solution.encode", interrupted)
    assert_silent(interruption_of(client, lambda w: np.full(D, SECRET)))
    assert client.history().entries == ()


def assert_silent(caught):
    """No text, no other exception, and no frame below `answer`."""
    assert type(caught) is KeyboardInterrupt
    assert caught.args == ()
    assert caught.__context__ is None
    assert caught.__cause__ is None
    assert "123.456" not in "".join(traceback.format_exception(caught))
    frames = [frame for frame, _ in traceback.walk_tb(caught.__traceback__)]
    assert [frame.f_code.co_name for frame in frames] == ["interruption_of", "answer"]
    assert set(frames[-1].f_locals) <= {"self", "begin", "rest", "outcome"}
