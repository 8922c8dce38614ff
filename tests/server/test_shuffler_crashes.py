"""kill -9 of a shuffler at any instant: nothing is lost, nothing is doubled.

A child takes the part of a shuffler, and writes to a pipe what it has acknowledged, as a service
would. It kills itself when SQLite is about to run its k-th statement, or is killed after so many
seconds. Then clients and server, who know what the pipe said and no more, go on with a new shuffler
on the same folder.
"""

import json
import os
import signal
import sqlite3
import time
import warnings

import pytest

from fedsel.server import Shuffler, Verdict
from fedsel.wire import Request
from tests.server.shuffling import KEY, RUN, message_of, request_of

CLIENTS, ROUNDS = 4, 2


def killed_at(k):
    """SQLite's connections, which end the process before the k-th statement of all."""
    connect, ran = sqlite3.connect, [0]

    def count(_):
        ran[0] += 1
        if ran[0] == k:
            os.kill(os.getpid(), signal.SIGKILL)

    def connected(*arguments, **named):
        connection = connect(*arguments, **named)
        connection.set_trace_callback(count)
        return connection

    return connected


def session(folder, tell):
    """Two rounds, and what leaves the shuffler on the way."""
    with Shuffler(folder, n_min=CLIENTS) as shuffler:
        for number in range(ROUNDS):
            request = request_of(number)
            shuffler.begin(request, KEY.public)
            for i in range(CLIENTS):
                assert shuffler.release(request) is None
                outcome = shuffler.receive(f"client {i}", message_of(i, request))
                tell({"acknowledged": i, "round": number, "outcome": outcome.value})
            tell({"batch": shuffler.release(request).hex(), "round": number})
            tell({"stepped": number})
        shuffler.confirm(RUN, ROUNDS)


def child(folder, k=None, seconds=None):
    """What a shuffler told before it was killed, and whether it was."""
    told, tells = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other tests may have left threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            sqlite3.connect = killed_at(k)
            session(folder, lambda what: os.write(tells, json.dumps(what).encode() + b"\n"))
            status = 0
        finally:
            os._exit(status)
    os.close(tells)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(told) as lines:
        said = [json.loads(line) for line in lines]
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return said, True
    assert os.WEXITSTATUS(status) == 0
    return said, False


def go_on(folder, said):
    """The rest of the session, with what its parts know; the batches of all rounds."""
    acknowledged = {(line["round"], line["acknowledged"]) for line in said if "outcome" in line}
    batches = {line["round"]: bytes.fromhex(line["batch"]) for line in said if "batch" in line}
    done = max((line["stepped"] + 1 for line in said if "stepped" in line), default=0)
    with Shuffler(folder, n_min=CLIENTS) as shuffler:
        for number in range(done, ROUNDS):
            request = request_of(number)
            shuffler.begin(request, KEY.public)
            for i in range(CLIENTS):
                outcome = shuffler.receive(f"client {i}", message_of(i, request))
                if (number, i) in acknowledged:  # it is there, once
                    assert outcome in (Verdict.DUPLICATE, Verdict.LATE)
                if number in batches:
                    assert outcome is Verdict.LATE
            batch = shuffler.release(request)
            assert batches.setdefault(number, batch) == batch  # what had left, to the byte
        shuffler.confirm(RUN, ROUNDS)
        assert shuffler.receive("client 0", message_of(0, request_of(1))) is Verdict.LATE
    return [batches[number] for number in range(ROUNDS)]


def check(folder, said):
    """Every round comes out with each client's report, once."""
    for number, batch in enumerate(go_on(folder, said)):
        opened, _ = KEY.opened(request_of(number), batch)
        form = Request.decode(request_of(number)).format
        reports = [form.decode(opened[i : i + 16])[1] for i in range(0, len(opened), 16)]
        assert sorted(report.pairs()[0] for report in reports) == [
            ((i, i),) for i in range(CLIENTS)
        ]


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_shuffler_that_is_killed_before_any_of_its_statements(quick_path):
    killed, k = True, 0
    while killed:
        k += 1
        said, killed = child(quick_path / str(k), k)
        check(quick_path / str(k), said)
    assert k > 60  # creation, two rounds of four reports, two releases, confirmation


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_shuffler_that_is_killed_at_any_time(quick_path):
    """In the middle of a statement, too: while it writes its journal, or flushes."""
    start = time.monotonic()
    assert not child(quick_path / "whole")[1]
    longest = time.monotonic() - start
    kills = 40
    for i in range(kills):
        said, _ = child(quick_path / str(i), seconds=longest * i / kills)
        check(quick_path / str(i), said)
