"""Clients that never give up, and a look at whether each of their reports counted exactly once."""

import http.client
import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from fedsel import Reports
from fedsel.server._checkpoint import Checkpoint
from fedsel.service._store import open_store
from fedsel.service.inviting import invitations_of
from fedsel.wire import InvalidMessage, Request
from tests.service.support import Http, task_of

TASK = """
epsilon = 4.0
dim = 8
solution = "PS-PM"
k = 2
mu = 0.1
learning_rate = 0.5
clients = 1000000
rounds_per_epoch = {rounds}
close_after = {{ reports = {reports} }}
[limits]
per_client = 1e9
per_address = 1e9
"""


def task_values(rounds, reports, name="crash"):
    """The same task as in the file of this name."""
    return task_of(
        name=name, clients=1_000_000, rounds_per_epoch=rounds, close_after={"reports": reports}
    )


def children_of(pid):
    """The processes that a process has begun."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


class Threads:
    """Clients in threads, one for each of these arguments of ``live``, until the block ends.

    What ends one of them before is raised then: nobody knows what became of what it has sent last.
    """

    def __init__(self, live, lives):
        self._over, self._ended = threading.Event(), []
        self._threads = [
            threading.Thread(target=self._watched, args=(live, one), daemon=True) for one in lives
        ]

    def _watched(self, live, one):
        try:
            live(*one)
        except BaseException as error:
            self._ended.append(error)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads)
        for error in self._ended:
            raise error


@dataclass
class Message:
    """What a client has sent, and each answer until it knew what became of it; None: no answer."""

    client: str
    number: int
    round: int
    rows: list
    answers: list = field(default_factory=list)
    accepted: bool = False

    def __str__(self):
        told = "; ".join(f"{seconds:.3f} {status} {data}" for seconds, status, data in self.answers)
        rows = " ".join(row[8:].hex() for row in self.rows)
        word = "accepted" if self.accepted else "not accepted"
        return f"{self.client}, message {self.number}, {word}: {rows}: {told}"


class Crowd(Threads):
    """Clients in threads: each answers the rounds it sees, and sends until it is answered.

    ``sent`` is their ledger: each message, and whether the service has said that it counts. Every
    third one is a gateway. A connection to another worker may show a client the round before the
    one that it has answered. A device refuses such a request, as fedsel's own do; a gateway has a
    batch for it, and one more for the next round.
    """

    def __init__(self, task, store, address, clients, first=0):
        self._address = address
        self.sent, self.accepted, self.failures = [], [], 0
        new = invitations_of(task, store).invite
        kinds = ["gateway" if i % 3 == 2 else "device" for i in range(clients)]
        super().__init__(self._live, [(i, k, new(k)) for i, k in enumerate(kinds, first)])

    def _live(self, client, kind, token):
        rng, http_client = random.Random(client), Http(self._address())
        answered, sent = -1, 0
        while not self._over.is_set():
            status, data = ask(http_client, "GET", "/v1/rounds/open/request")
            if status == 410:
                return  # the run is over
            try:
                request = Request.decode(data) if status == 200 else None
            except InvalidMessage:
                request = None
            known = request is None or request.round == answered
            if known or (kind == "device" and request.round < answered):
                time.sleep(0.005)
                continue
            rows = plain_reports(request, rng, 7 if kind == "gateway" else 1)
            sent += 1
            path = f"/v1/batches/{client}-{sent}" if kind == "gateway" else "/v1/reports"
            method = "PUT" if kind == "gateway" else "POST"
            message = Message(f"{kind} {client}", sent, request.round, rows)
            self.sent.append(message)
            while True:  # to the end, so that it is known what became of it
                status, data = ask(http_client, method, path, b"".join(rows), token)
                message.answers.append((time.monotonic(), status, data))
                if status in (200, 410):
                    break
                assert status in (None, 503), str(message)
                self.failures += 1
                time.sleep(0.01)
            if status == 200 and (kind == "device" or data["accepted"]):
                assert kind == "device" or data["accepted"] == len(rows), str(message)
                message.accepted = True
                self.accepted.append(message)
            answered = request.round
        http_client.close()


def ask(client, method, path, body=None, token=None):
    """The status and the answer that a client gets; None where the exchange did not come about."""
    try:
        status, _, data = client.ask(method, path, body, token)
        return status, data
    except (OSError, http.client.HTTPException):
        return None, None


def plain_reports(request, rng, count):
    """So many well-formed reports of a request."""
    form = request.format
    return [
        form.encode(
            request.round,
            Reports(
                rng.sample(range(form.slots), form.picks),
                [rng.randrange(form.symbols) for _ in range(form.picks)],
            ),
        )
        for _ in range(count)
    ]


def check_exactly_once(task, store_url, sent):
    """Every report that was said to be accepted is in its round once, and there is no other one.

    And the checkpoint is what these reports give, round by round. How many rounds and reports.
    """
    messages = defaultdict(list)
    for message in sent:
        messages[message.round].append(message)
    with closing(open_store(store_url, alone=False)) as store:
        store.choose(task.name)
        kept = Checkpoint.decode(store.checkpoint())
        state, reports = replace(task.begin, run=kept.run), 0
        assert max(messages, default=0) <= kept.round
        for number in range(kept.round + 1):
            with store.closing() as transaction:
                rows = b"".join(transaction.reports(number))
            found = Counter(rows[i : i + 16] for i in range(0, len(rows), 16))
            told = Counter(row for one in messages[number] if one.accepted for row in one.rows)
            assert found == told, difference(number, kept.round, found, told, messages[number])
            reports += found.total()
            if number < kept.round:
                totals = kept.recipe.build().in_round(number).totals()
                totals.add(request_format(state).decode_many(rows).reports)
                record = kept.records[number]
                assert record.accepted == totals.count == found.total()
                state = state.advanced(totals, record.counts)
    np.testing.assert_array_equal(state.state.weights, kept.state.weights)
    np.testing.assert_array_equal(state.state.average, kept.state.average)
    return kept.round, reports


def difference(number, of, found, told, messages):
    """Where a store and its clients disagree about a round, and all that clients sent for it."""
    lines = [f"round {number}, while {of} is open"]
    for word, reports in (("lost", told - found), ("not known to clients", found - told)):
        lines += [f"{word}: {report[8:].hex()} × {n}" for report, n in sorted(reports.items())]
    return "\n  ".join([*lines, *map(str, messages)])


def request_format(state):
    """The format of a run's reports."""
    return state.request().format
