"""Requests and recipes on the wire: what is encoded is decoded, and nothing else is taken."""

import math
import struct
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsel import InvalidArgument, Recipe, solution
from fedsel.solutions import names
from fedsel.wire import (
    InvalidMessage,
    Request,
    UnknownVersion,
    check_sendable,
    decode_recipe,
    encode_recipe,
)
from fedsel.wire._request import MOST_PROJECTED, RECIPE_BYTES, REQUEST_BYTES
from tests.wire.support import complete

RUN = bytes(range(16))


def private_names():
    for name in names():
        made = solution(name, epsilon=8.0, dim=20)
        if made.privacy.charge is not None:
            yield name


PRIVATE = list(private_names())


@pytest.mark.parametrize("name", PRIVATE)
def test_requests_of_every_private_solution_make_the_way_and_back(name):
    given_ = {"epsilon": 8.0, "dim": 20, "epochs": 3, "k": 4, "momentum": 0.5, "seed": 7}
    recipe = check_sendable(complete(name, **given_))
    request = Request(RUN, 2, 17, recipe)
    data = request.encode()
    assert len(data) == REQUEST_BYTES
    assert Request.decode(data) == request
    assert Request.decode(memoryview(data)).encode() == data
    assert recipe.build() == solution(name, **given_)
    assert Request.decode(data).recipe.build() == recipe.build()
    told = encode_recipe(recipe)
    assert len(told) == RECIPE_BYTES
    assert data.endswith(told)
    assert decode_recipe(told) == recipe


@pytest.mark.parametrize("name", sorted(set(names()) - set(PRIVATE)))
def test_what_is_not_private_is_not_asked_for(name):
    with pytest.raises(InvalidArgument, match="a private solution"):
        check_sendable(complete(name, epsilon=8.0, dim=20))
    with pytest.raises(InvalidArgument, match="a private solution"):
        _ = complete(name, epsilon=8.0, dim=20).charge


def test_one_tenth_is_one_tenth():
    assert complete("PM", epsilon=0.1, dim=4).charge == Fraction(1, 10)
    assert complete("PM", epsilon=0.3, dim=4, epochs=3).charge == Fraction(1, 10)
    assert complete("PM", epsilon=Fraction(1, 3), dim=4).charge == Fraction(1, 3)


def test_the_charge_is_that_of_the_law_not_of_the_claim():
    """Above the budget where the law is, and below it where it is."""
    control = complete("PS-PM-C", epsilon=1.0, dim=10, mu=0.2)
    assert 1.2 - 1e-9 < control.charge < 1.2 + 1e-9
    published = complete("PE-published-PM", epsilon=1.0, dim=10, mu=0.5)
    assert published.charge > 1.05
    everything = complete("PS-PM", epsilon=1.0, dim=10, k=10, mu=0.5)  # the selection is uniform
    assert 0.5 - 1e-9 < everything.charge <= 0.5
    for recipe in (control, published, everything):
        assert float(recipe.charge) >= recipe.build().privacy.per_report - 1e-15


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("epsilon", math.inf),
        ("epsilon", 501.0),
        ("epsilon", 1e-300),
        ("epsilon", "2"),
        ("dim", 0),
        ("dim", (1 << 32) + 1),
        ("dim", 2.0),
        ("epochs", 0),
        ("epochs", 1 << 32),
        ("mu", 1.0),
        ("mu", "auto"),
        ("mu", "most"),
        ("k", 0),
        ("k", 9),
        ("k", 1.5),
        ("clip", 0.0),
        ("clip", math.nan),
        ("momentum", math.inf),
        ("ratio", 0.0),
        ("seed", -1),
        ("seed", 1 << 64),
        ("learning_rate", -1.0),
        ("learning_rate", "auto"),
        ("learning_rate", None),
        ("rho", 0.0),
        ("rho", "auto"),
        ("words", 0),
        ("dim", None),
        ("epsilon", None),
        ("averaging", -1.0),
        ("reg", math.nan),
        ("theta", 1.0),
        ("solution", 7),
        ("solution", "PS-PN"),
    ],
)
def test_impossible_recipes_are_named(name, value):
    solution_ = "RJ" if name == "rho" else "PS-PM"
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        check_sendable(complete(**{"solution": solution_, "epsilon": 2.0, "dim": 8, name: value}))


def test_a_projection_that_no_device_can_hold_is_not_built():
    with pytest.raises(InvalidArgument, match=r"^dim = 4294967296: must be smaller"):
        check_sendable(complete("PM-RP", epsilon=1.0, dim=1 << 32))
    most = complete("RC", epsilon=1.0, dim=1 << 16, words=MOST_PROJECTED >> 16)
    assert check_sendable(most) is most
    with pytest.raises(InvalidArgument, match=r"^dim = 65536: must be smaller"):
        check_sendable(replace(most, words=most.words + 1))


def test_what_does_not_matter_to_a_solution_may_stay_open():
    """Neither μ nor ρ is the concern of a flat solution; all else must be a number."""
    recipe = Recipe("PM", epsilon=1.0, dim=8, learning_rate=0.5)
    told = decode_recipe(encode_recipe(check_sendable(recipe)))
    assert (told.mu, told.rho) == (0.0, None)
    assert told.build() == recipe.build()
    assert told.charge == recipe.charge == 1


def test_what_the_server_does_alone_is_not_told():
    """λ, the average and how the recipe was come to: other servers, the same requests."""
    recipe = complete("RJ", epsilon=2.0, dim=8, rho=0.4)
    alone = {"averaging": 3.0, "reg": 0.01, "theta": 0.5, "requested_solution": "PS-PM"}
    request = Request(RUN, 0, 0, replace(recipe, **alone))
    assert request.recipe == recipe == recipe.wire_part
    assert request == Request(RUN, 0, 0, recipe)
    assert encode_recipe(replace(recipe, **alone)) == encode_recipe(recipe)


@pytest.mark.parametrize(
    ("run", "epoch", "number"), [(b"", 0, 0), (RUN, 2, 0), (RUN, 0, 1 << 32), ("x" * 16, 0, 0)]
)
def test_impossible_requests(run, epoch, number):
    with pytest.raises(InvalidArgument):
        Request(run, epoch, number, complete("PM", epsilon=1.0, dim=8, epochs=2))


GOOD = Request(RUN, 1, 4, complete("PS-PM", epsilon=2.0, dim=100, epochs=5)).encode()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"FSRQ", b"\0" * REQUEST_BYTES, GOOD[:-1], GOOD + b"\0", GOOD * 2, b"x" * 10_000),
        *(None, "FSRQ", 7, [1, 2], bytearray(), np.zeros(3)),
        b"XSRQ" + GOOD[4:],
        b"ASRQ" + GOOD[4:],
    ],
)
def test_what_is_no_request(data):
    with pytest.raises(InvalidMessage, match=r"^not a request$"):
        Request.decode(data)


@pytest.mark.parametrize("version", [0, 4, 255])
def test_other_versions(version):
    with pytest.raises(UnknownVersion):
        Request.decode(GOOD[:4] + bytes([version]) + GOOD[5:])


def test_one_request_has_one_encoding():
    """A fraction that is not reduced, bytes after the name, a lower-case name: all refused."""
    place = GOOD.index(b"PS-PM")
    unreduced = bytearray(GOOD)
    struct.pack_into("<QQ", unreduced, place + 24, 4, 2)
    stray = bytearray(GOOD)
    stray[place + 20] = 1
    lower = GOOD.replace(b"PS-PM", b"ps-pm")
    for data in (bytes(unreduced), bytes(stray), lower):
        with pytest.raises(InvalidMessage):
            Request.decode(data)


@settings(max_examples=300)
@given(st.binary(max_size=2 * REQUEST_BYTES))
def test_any_bytes_are_a_request_or_none(data):
    check_request(data)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(5, REQUEST_BYTES - 1), st.integers(0, 255)), max_size=4))
def test_a_changed_request_is_another_request_or_none(changes):
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    check_request(bytes(data))


def check_request(data: bytes) -> None:
    """It is refused, or means exactly what its own encoding says."""
    try:
        request = Request.decode(data)
    except InvalidMessage as error:
        caught = error
    else:
        assert request.encode() == data
        assert request.recipe.epsilon > 0
        return
    assert caught.__cause__ is None
    assert caught.__context__ is None
