"""The shuffler: who and not what, one report a client, a round as a whole or not at all."""

import os
import random
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from fedsel import InvalidArgument
from fedsel.server import Counts, ServerKey, Shuffler, Verdict
from fedsel.server._shuffler import FILE_NAME
from fedsel.wire import InvalidMessage, Sealing
from tests.server.shuffling import KEY, RUN, SIZE, message_of, recipe, request_of

ACCEPTED, REJECTED = Verdict.ACCEPTED, Verdict.REJECTED
DUPLICATE, LATE = Verdict.DUPLICATE, Verdict.LATE


@pytest.fixture
def shuffler(quick_path):
    with Shuffler(quick_path, n_min=3) as opened:
        opened.begin(request_of(), KEY.public)
        yield opened


def fill(shuffler, clients=3, request=None):
    """Let clients report; what they have sealed."""
    messages = [message_of(i, request) for i in range(clients)]
    for i, message in enumerate(messages):
        assert shuffler.receive(f"client {i}", message) is ACCEPTED
    return [Sealing.split(message).content for message in messages]


def test_a_round_is_released_when_enough_clients_are_there(shuffler):
    request = request_of()
    sealed = fill(shuffler, 2)
    for _ in range(5):  # the same client does not count twice
        assert shuffler.receive("client 0", message_of(7)) is DUPLICATE
    assert shuffler.release(request) is None
    assert shuffler.waiting(request) == 2
    last = message_of(2)
    assert shuffler.receive("client 2", last) is ACCEPTED
    batch = shuffler.release(request)
    assert batch == b"".join(sorted([*sealed, Sealing.split(last).content]))
    assert shuffler.receive("client 3", message_of(3)) is LATE
    assert shuffler.receive("client 0", message_of(0)) is LATE
    assert shuffler.release(request) == batch
    assert shuffler.counts == Counts(accepted=3, rejected=0, duplicate=5, late=2)


def test_the_batch_is_a_function_of_what_was_sealed_alone(quick_path):
    """Whoever sends it, and in whatever order."""
    messages = [message_of(i) for i in range(4)]
    chance, batches = random.Random(0), set()
    for i, order in enumerate(permutations(range(4))):
        with Shuffler(quick_path / str(i), n_min=3) as shuffler:
            shuffler.begin(request_of(), KEY.public)
            for place in order:
                name = chance.choice([f"name {chance.random()}", chance.randbytes(9), place + 10])
                assert shuffler.receive(name, messages[place]) is ACCEPTED
            batches.add(shuffler.release(request_of()))
    assert batches == {b"".join(sorted(Sealing.split(m).content for m in messages))}


def test_the_law_of_a_batch_does_not_depend_on_who_has_which_report(quick_path):
    """Enumerated, with a coin in the place of the sealing's randomness: S1 needs no more."""
    head = message_of(0)[:33]
    laws = []
    for number, reports in enumerate(permutations(b"abc")):
        law = Counter()
        for draws in product((0, 1), repeat=3):
            with Shuffler(quick_path / f"{number}-{draws}", n_min=3) as shuffler:
                shuffler.begin(request_of(), KEY.public)
                for i, (report, draw) in enumerate(zip(reports, draws, strict=True)):
                    sealed = bytes([draw, report]) + bytes(SIZE - 2)
                    assert shuffler.receive(f"client {i}", head + sealed) is ACCEPTED
                law[shuffler.release(request_of())] += 1
        laws.append(law)
    assert len(laws[0]) == 8
    assert all(law == laws[0] for law in laws)


@pytest.mark.slow
def test_where_a_report_stands_does_not_depend_on_when_it_came(quick_path):
    """Sealed anew each time, every order of three clients is as likely as any other.

    What is sealed has entropy of the system: a false alarm once in 1e9 runs. An order that is
    three times as likely as the others would be noticed.
    """
    rounds, clients = 420, 3
    seen = Counter()
    with Shuffler(quick_path, n_min=clients) as shuffler:
        for number in range(rounds):
            request = request_of(number)
            shuffler.begin(request, KEY.public)
            messages = [message_of(i, request) for i in range(clients)]
            shuffler.receive_many(enumerate(messages))
            batch = shuffler.release(request)
            seen[tuple(batch.index(Sealing.split(m).content) // SIZE for m in messages)] += 1
    assert len(seen) == 6
    expected = rounds / 6
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert statistic < chi2.isf(1e-9, 5)


WRONG_NAMES = [None, "", b"", True, 1.5, [], {}, object(), ("a", "b"), float("nan")]


@pytest.mark.parametrize("name", WRONG_NAMES, ids=lambda name: type(name).__name__)
def test_names_that_are_none_are_rejected(shuffler, name):
    assert shuffler.receive(name, message_of(0)) is REJECTED
    assert shuffler.counts == Counts(rejected=1)


@pytest.mark.parametrize("name", ["é", "\ud800", "x" * 10_000, b"\0", 0, -1, 10**40, np.int64(7)])
def test_texts_numbers_and_bytes_are_names(shuffler, name):
    assert shuffler.receive(name, message_of(0)) is ACCEPTED
    assert shuffler.receive(name, message_of(1)) is DUPLICATE


def test_names_of_different_kinds_are_different_clients(shuffler):
    names = [1, "1", b"1", 256, -256, "s1", b"s1", 255, -1]
    outcomes = [shuffler.receive(name, message_of(i)) for i, name in enumerate(names)]
    assert outcomes == [ACCEPTED] * len(names)


def test_wrong_messages_are_rejected_and_counted(shuffler):
    good, other = message_of(0), ServerKey.generate()
    wrong = [
        *(None, 5, "text", b"", b"nonsense", object(), bytearray(good), [good]),
        *(good[:-1], good + b"!", good * 1000, b"\0" + good[1:], bytes(len(good))),
        os.urandom(len(good)),
        message_of(0, request_of(run=bytes(16))),  # another run
        message_of(0, request_of(1)),  # another round
        message_of(0, request_of(epsilon=2.5)),  # asked in another way
        message_of(0, key=other),  # given another key
        good[:33] + Sealing(request_of(), KEY.public).seal(bytes(24))[33:],  # too long
    ]
    for message in wrong:
        assert shuffler.receive("a client", message) is REJECTED
    assert shuffler.receive_many([]) == []
    assert shuffler.counts == Counts(rejected=len(wrong))
    assert shuffler.waiting(request_of()) == 0
    assert shuffler.receive("a client", good) is ACCEPTED


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.none()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANYTHING, st.one_of(ANYTHING, st.binary(min_size=64, max_size=64)), st.integers(0, 97))
def test_nothing_that_arrives_raises(shuffler, client, message, kept):
    """Any name, and any bytes, also behind a head that is right."""
    good = message_of(0)
    parts = [message] if not isinstance(message, bytes) else [message, good[:kept] + message]
    for part in parts:
        outcome = shuffler.receive(client, part)
        right = isinstance(part, bytes) and len(part) == len(good) and part[:33] == good[:33]
        assert (outcome is REJECTED) or (right and client not in (None, "", b""))


def test_a_copy_of_another_clients_message_counts_once(shuffler):
    """It would come out twice, and mark what it is a copy of."""
    message = message_of(0)
    assert shuffler.receive("a client", message) is ACCEPTED
    assert shuffler.receive("a copyist", message) is DUPLICATE
    assert shuffler.waiting(request_of()) == 1


def test_what_does_not_open_is_passed_on_for_the_server_to_count(shuffler):
    """The shuffler cannot tell: a tag of this round with anything of the right length."""
    head = message_of(0)[:33]
    assert shuffler.receive("a client", head + os.urandom(SIZE)) is ACCEPTED


def test_clients_that_are_asked_in_another_way_wait_for_a_round_of_their_own(quick_path):
    """A server that asks one client for something else finds it alone."""
    with Shuffler(quick_path, n_min=3) as shuffler:
        special = request_of(run=bytes(16), epsilon=4.0)
        shuffler.begin(request_of(), KEY.public)
        shuffler.begin(special, KEY.public)
        fill(shuffler, 5)
        assert shuffler.receive("alice", message_of(0, special)) is ACCEPTED
        assert shuffler.release(special) is None
        assert len(shuffler.release(request_of())) == 5 * SIZE


def test_a_round_goes_on_after_a_restart(quick_path):
    request = request_of()
    with Shuffler(quick_path, n_min=3) as shuffler:
        shuffler.begin(request, KEY.public)
        sealed = fill(shuffler, 2)
    with Shuffler(quick_path, n_min=3) as shuffler:
        assert shuffler.release(request) is None  # no fewer after a restart
        assert shuffler.receive("client 1", message_of(1)) is DUPLICATE
        shuffler.begin(request, KEY.public)
        assert shuffler.waiting(request) == 2
        last = message_of(2)
        assert shuffler.receive("client 2", last) is ACCEPTED
        batch = shuffler.release(request)
        assert batch == b"".join(sorted([*sealed, Sealing.split(last).content]))
    with Shuffler(quick_path, n_min=3) as shuffler:
        assert shuffler.receive("client 3", message_of(3)) is LATE
        assert shuffler.release(request) == batch
        shuffler.begin(request, KEY.public)  # the server has restarted, too
        assert shuffler.release(request) == batch
        shuffler.confirm(RUN, 0)
        assert shuffler.release(request) == batch
        shuffler.confirm(RUN, 1)
        shuffler.confirm(RUN, 1)
        assert shuffler.receive("client 4", message_of(4)) is LATE
        for use in (shuffler.release, shuffler.waiting):
            with pytest.raises(
                InvalidArgument,
                match=r"^request = .for round 0.: must be for a round that .begin. has",
            ):
                use(request)


def test_what_the_folder_was_begun_with_is_kept(quick_path):
    Shuffler(quick_path, n_min=3).close()
    for other in (2, 4):
        with pytest.raises(
            InvalidArgument, match=rf"^n_min = {other}: .* 3, as in the folder"
        ) as error:
            Shuffler(quick_path, n_min=other)
        Shuffler(quick_path, n_min=3).close()  # though the error still knows of the other
        assert error.value
    with Shuffler(quick_path, n_min=3) as shuffler:
        assert shuffler.n_min == 3


@pytest.mark.parametrize("n_min", [1, 0, -1, 2.5, None, "3", True, float("nan"), 2**32 + 1])
def test_one_report_is_not_shuffled(tmp_path, n_min):
    with pytest.raises(InvalidArgument, match=r"^n_min = "):
        Shuffler(tmp_path / "never made", n_min=n_min)
    assert not (tmp_path / "never made").exists()


def test_rounds_are_begun_in_their_order_and_once(shuffler):
    first, second, third = (request_of(i) for i in range(3))
    for use in (shuffler.release, shuffler.waiting):
        with pytest.raises(
            InvalidArgument, match=r"^request = .for round 1.: must be for a round that .begin. has"
        ):
            use(second)
    fill(shuffler)
    batch = shuffler.release(first)
    shuffler.begin(third, KEY.public)  # the server has finished those before
    for over in (first, second):
        with pytest.raises(
            InvalidArgument, match=r"^request = .for round .*: must be for a round that is not over"
        ):
            shuffler.begin(over, KEY.public)
        with pytest.raises(InvalidArgument, match="begun and that is not over"):
            shuffler.release(over)
    assert shuffler.receive("client 9", message_of(9, first)) is LATE
    assert shuffler.receive("client 0", message_of(0, third)) is ACCEPTED
    assert batch
    other = ServerKey.generate().public
    with pytest.raises(InvalidArgument, match=r"^server_key = .*that the round began with"):
        shuffler.begin(third, other)
    with pytest.raises(InvalidArgument, match=r"^server_key = .*that the round began with"):
        shuffler.begin(request_of(2, epsilon=9.0), KEY.public)
    shuffler.begin(request_of(0, run=bytes(16)), KEY.public)  # other runs go on beside it
    assert shuffler.waiting(third) == 1


def test_the_key_of_a_round_stays_whichever_tag_is_larger(quick_path):
    keys = sorted(
        (ServerKey.generate().public for _ in range(2)),
        key=lambda key: Sealing(request_of(), key).tag,
    )
    for number, (first, second) in enumerate(permutations(keys)):
        with Shuffler(quick_path / "new" / str(number), n_min=2**32) as shuffler:
            shuffler.begin(request_of(), first)
            shuffler.begin(request_of(), first)
            with pytest.raises(InvalidArgument, match=r"^server_key = .*that the round began with"):
                shuffler.begin(request_of(), second)


def test_a_round_that_was_too_small_is_dropped(shuffler, quick_path):
    """The server has gone on: what has come is erased, and what comes is late."""
    fill(shuffler, 2)
    with closing(sqlite3.connect(quick_path / FILE_NAME)) as base:
        held = [row for rows in base.execute("SELECT client, sealed FROM reports") for row in rows]
        held += base.execute("SELECT secret FROM rounds").fetchone()
    assert len(held) == 5
    shuffler.begin(request_of(1), KEY.public)
    content = (quick_path / FILE_NAME).read_bytes()
    assert not any(part in content for part in held)
    assert shuffler.receive("client 2", message_of(2)) is LATE
    assert shuffler.waiting(request_of(1)) == 0
    with pytest.raises(InvalidArgument, match="begun and that is not over"):
        shuffler.release(request_of(0))


def test_wrong_arguments_of_the_server(shuffler):
    for wrong in (b"nonsense", None, 5):
        for use in (shuffler.release, shuffler.waiting, lambda r: shuffler.begin(r, KEY.public)):
            with pytest.raises(InvalidMessage):
                use(wrong)
    with pytest.raises(InvalidArgument, match=r"^server_key = "):
        shuffler.begin(request_of(1), "abc")
    with pytest.raises(InvalidArgument, match=r"^run = "):
        shuffler.confirm("run", 0)
    with pytest.raises(InvalidArgument, match=r"^rounds = "):
        shuffler.confirm(RUN, -1)
    with pytest.raises(InvalidArgument, match=r"^rounds = "):
        shuffler.confirm(RUN, 2**32 + 1)
    shuffler.confirm(bytes(16), 2**32)
    fill(shuffler)  # nothing of it has done anything
    assert len(shuffler.release(request_of())) == 3 * SIZE


def test_threads_share_a_shuffler(shuffler):
    def send(part):
        for i in range(part, 60, 4):
            shuffler.receive(f"client {i % 20}", message_of(i))

    threads = [threading.Thread(target=send, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shuffler.counts == Counts(accepted=20, duplicate=40)
    assert len(shuffler.release(request_of())) == 20 * SIZE


def test_what_the_fewest_reports_guarantee(quick_path, monkeypatch):
    def composed(solution, **how):
        return solution, how

    monkeypatch.setattr("fedsel.server._shuffler.compose", composed)
    with Shuffler(quick_path, n_min=40) as shuffler:
        solution, how = shuffler.guarantee(request_of(), epochs=5)
        assert solution == recipe().build()
        assert how == {"reports": 40, "epochs": 5, "delta": 1e-6}
        assert shuffler.guarantee(request_of(), delta=1e-3)[1]["epochs"] == 1
