"""The connection of a device: what it unpacks, how long it waits, and who is no service."""

import gzip
import socket
import threading
import tracemalloc

import numpy as np
import pytest

from fedsel.device import Ending, join
from fedsel.device import _connection as connections
from fedsel.device._connection import Ended
from tests.device.joining import RECORDS, Script, Server, taken_part

pytestmark = pytest.mark.usefixtures("hurry")


def test_what_is_packed_is_unpacked_no_further_than_it_may_be_long():
    packed = gzip.compress(bytes(1 << 25))
    tracemalloc.start()
    with pytest.raises(Ended, match="too long"):
        connections._unpacked(packed, 1000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 20


def test_an_answer_that_is_packed_and_cut_is_asked_for_again(client):
    script = Script()
    cut = gzip.compress(np.arange(3.0).tobytes())[:-9]
    script.next["/v1/rounds/0/weights"] = [(200, cut, {"content-encoding": "gzip"})]
    assert taken_part(script, client).accepted == 1
    assert script.seen["/v1/rounds/0/weights"] == 2


def test_nobody_there(client, clock):
    with Server(Script()) as server:
        url = server.url
    outcome = join(url, client, RECORDS, token="invitation", patience=1.0, every=0.01)
    assert outcome.ending is Ending.UNREACHABLE
    assert outcome.detail == "connection refused"
    assert outcome.run is None


DONE = b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"outcome": "accepted"}'


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("beginning", "part", "then"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", DONE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b" ", b"x" * 5000),
        (b"HTTP/1.1 200 ", b"K", DONE[15:]),
        (CHUNKED + b"\r\n", b"1\r\n \r\n", b"4\r\nnull\r\n0\r\n\r\n"),
        (CHUNKED + b"\r\n0\r\n", b"a: b\r\n", b"\r\n"),
    ],
    ids=["100 Continue", "body", "status line", "chunks", "trailers"],
)
def test_who_answers_without_end_is_given_up_in_time(client, clock, beginning, part, then):
    gone = threading.Event()

    def answer(_):
        """A part every five seconds of the device's clock until it has gone, or all of it."""
        yield beginning
        for _ in range(1000):
            yield part
            clock[0] += 5.0
            if gone.wait(0.02):
                return
        yield then

    script = Script()
    script.next["/v1/reports"] = [answer] * 3
    with Server(script) as server:
        outcome = join(server.url, client, RECORDS, token="invitation", every=0.01, patience=60.0)
        gone.set()
    assert (outcome.ending, outcome.detail) == (Ending.UNREACHABLE, "no answer in time")
    assert len(script.bodies) == 1


def test_addresses_that_lead_nowhere_share_one_deadline(client, clock, monkeypatch):
    """A name may have any number of them."""
    given, nowhere = [], (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))

    def connect(address, seconds):
        given.append(seconds)
        clock[0] += seconds
        raise TimeoutError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [nowhere] * 1000)
    monkeypatch.setattr(socket, "create_connection", connect)
    outcome = join("http://nowhere", client, RECORDS, token="invitation", patience=70.0)
    assert (outcome.ending, outcome.detail) == (Ending.UNREACHABLE, "no answer in time")
    assert given == [30.0, 30.0, 10.0]


@pytest.mark.parametrize("length", [15, 17, 19, 30, 38, 40, 42, 50])
def test_an_answer_that_is_cut_anywhere_is_asked_for_again(client, length):
    """In its status line, in and after its headers, or in its body: the report counts already."""
    script = Script()
    script.next["/v1/reports"] = [lambda _: iter([DONE[:length]])]
    outcome = taken_part(script, client)
    assert (outcome.accepted, outcome.ending) == (1, Ending.DONE), outcome
    assert len(script.bodies) == 2
    assert len(set(script.bodies)) == 1


@pytest.mark.parametrize("answer", [(404, b"", {}), (200, b"<html>", {}), (200, b"[1]", {})])
def test_what_is_no_service_of_fedsel_is_told(client, answer):
    script = Script()
    script.next["/v1/task"] = [answer]
    assert taken_part(script, client).ending is Ending.NOT_UNDERSTOOD
