"""Invitations: signed, for one run and one purpose, and what is made of them."""

import time

import jwt
import pytest

from fedsel.errors import InvalidArgument
from fedsel.service.admission import KEY_VARIABLE, Admission, Guest

KEY, RUN = bytes(range(32)), bytes(range(16))


def door(key=KEY, run=RUN, invitations="signed"):
    return Admission(key, run, invitations)


def test_a_token_is_for_one_run_key_and_purpose():
    token = door().invite("device")
    assert door().guest(token).kind == "device"
    assert door().guest(token) == door().guest(token)
    assert door().guest(door().invite("gateway")).kind == "gateway"
    assert door(run=bytes(16)).guest(token) is None
    assert door(key=bytes(32)).guest(token) is None
    head, body, seal = token.split(".")
    for wrong in (f"{head}.{body}.", f"{head}.{body}x.{seal}", token[:-2], f"x{token}", ""):
        assert door().guest(wrong) is None


def test_a_token_tells_nothing_but_a_random_name():
    claims = jwt.decode(door().invite("device"), options={"verify_signature": False})
    assert set(claims) == {"sub", "aud", "kind"}
    assert claims["aud"] == RUN.hex()
    assert len({door().guest(door().invite("device")).name for _ in range(50)}) == 50


def test_a_token_may_end():
    assert door().guest(door().invite("device", days=1.0)) is not None
    assert door().guest(door().invite("device", days=-1.0)) is None


def test_unsigned_and_other_algorithms_are_refused():
    claims = {"sub": "a" * 22, "aud": RUN.hex(), "kind": "device"}
    signing = door()._signing
    assert door().guest(jwt.encode(claims, signing, algorithm="HS256")) is not None
    assert door().guest(jwt.encode(claims, None, algorithm="none")) is None
    assert door().guest(jwt.encode(claims, signing, algorithm="HS512")) is None
    for change in ({"kind": "admin"}, {"kind": None}, {"aud": "other"}, {"exp": time.time() - 9}):
        assert door().guest(jwt.encode({**claims, **change}, signing, algorithm="HS256")) is None
    del claims["sub"]
    assert door().guest(jwt.encode(claims, signing, algorithm="HS256")) is None


def test_names_of_rounds_are_not_linked():
    guest = Guest("device", b"someone")
    names = {door().name(guest, number) for number in range(100)}
    assert len(names) == 100
    assert door().name(guest, 3) == door().name(guest, 3)
    assert door(key=bytes(32)).name(guest, 3) not in names
    assert door().name(Guest("gateway", b"someone"), 3) not in names


def test_in_an_open_task_any_name_will_do():
    assert door(invitations="open").guest("x" * 16) == Guest("device", b"x" * 16)
    assert door(invitations="open").guest("x" * 15) is None
    assert door(invitations="open").guest("x" * 2000) is None
    token = door().invite("gateway")
    assert door(invitations="open").guest(token).kind == "gateway"
    assert door(invitations="open").guest(token[:-3]) is None  # a damaged one is no name


def test_the_key_may_come_from_the_environment(monkeypatch):
    token = door().invite("device")
    monkeypatch.setenv(KEY_VARIABLE, "ab" * 32)
    assert door().guest(token) is None
    assert door(key=bytes(32)).guest(door().invite("device")) is not None
    monkeypatch.setenv(KEY_VARIABLE, "abc")
    with pytest.raises(InvalidArgument, match="64 hexadecimal digits"):
        door()
