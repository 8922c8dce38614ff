"""Invitations: signed, for one run and one purpose, and what is made of them."""

import time

import jwt
import pytest

from fedsel.errors import InvalidArgument
from fedsel.service._store import KEY_VARIABLE
from fedsel.service.inviting import Invitations, Participant

KEY, RUN = bytes(range(32)), bytes(range(16))


def of_run(key=KEY, run=RUN, **options):
    return Invitations(key, run, **options)


def test_a_token_is_for_one_run_key_and_purpose():
    token = of_run().invite("device")
    assert of_run().participant(token).kind == "device"
    assert of_run().participant(token) == of_run().participant(token)
    assert of_run().participant(of_run().invite("gateway")).kind == "gateway"
    assert of_run(run=bytes(16)).participant(token) is None
    assert of_run(key=bytes(32)).participant(token) is None
    head, body, seal = token.split(".")
    for wrong in (f"{head}.{body}.", f"{head}.{body}x.{seal}", token[:-2], f"x{token}", ""):
        assert of_run().participant(wrong) is None


def test_a_token_tells_nothing_but_a_random_name():
    claims = jwt.decode(of_run().invite("device"), options={"verify_signature": False})
    assert set(claims) == {"sub", "aud", "kind"}
    assert claims["aud"] == RUN.hex()
    assert len({of_run().participant(of_run().invite("device")).name for _ in range(50)}) == 50


def test_a_token_may_end():
    assert of_run().participant(of_run().invite("device", days=1.0)) is not None
    assert of_run().participant(of_run().invite("device", days=-1.0)) is None


def test_unsigned_and_other_algorithms_are_refused():
    claims = {"sub": "a" * 22, "aud": RUN.hex(), "kind": "device"}
    signing = of_run()._signing
    assert of_run().participant(jwt.encode(claims, signing, algorithm="HS256")) is not None
    assert of_run().participant(jwt.encode(claims, None, algorithm="none")) is None
    assert of_run().participant(jwt.encode(claims, signing, algorithm="HS512")) is None
    for change in ({"kind": "admin"}, {"kind": None}, {"aud": "other"}, {"exp": time.time() - 9}):
        assert (
            of_run().participant(jwt.encode({**claims, **change}, signing, algorithm="HS256"))
            is None
        )
    del claims["sub"]
    assert of_run().participant(jwt.encode(claims, signing, algorithm="HS256")) is None


def test_names_of_rounds_are_not_linked():
    participant = Participant("device", b"someone")
    names = {of_run().name(participant, number) for number in range(100)}
    assert len(names) == 100
    assert of_run().name(participant, 3) == of_run().name(participant, 3)
    assert of_run(key=bytes(32)).name(participant, 3) not in names
    assert of_run().name(Participant("gateway", b"someone"), 3) not in names


def test_in_an_open_task_any_name_will_do():
    assert of_run(open_to_all=True).participant("x" * 16) == Participant("device", b"x" * 16)
    assert of_run(open_to_all=True).participant("x" * 15) is None
    assert of_run(open_to_all=True).participant("x" * 2000) is None
    token = of_run().invite("gateway")
    assert of_run(open_to_all=True).participant(token).kind == "gateway"
    assert of_run(open_to_all=True).participant(token[:-3]) is None  # a damaged one is no name


def test_the_key_may_come_from_the_environment(monkeypatch):
    token = of_run().invite("device")
    monkeypatch.setenv(KEY_VARIABLE, "ab" * 32)
    assert of_run().participant(token) is None
    assert of_run(key=bytes(32)).participant(of_run().invite("device")) is not None
    monkeypatch.setenv(KEY_VARIABLE, "abc")
    with pytest.raises(InvalidArgument, match="64 hexadecimal digits"):
        of_run()
