"""The device client: what it answers, what it refuses, and that nothing else leaves it."""

import gc
import threading
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel._internal.random import Stream, SystemEntropy, stream, words_of
from fedsel.checks import assert_follows
from fedsel.device import Client, Fault, Ledger, LedgerError, Policy, Reason, Refused, Request
from tests.wire.support import complete

D = 8
RUN, OTHER_RUN = bytes(range(16)), bytes(16)
WEIGHTS = np.linspace(-1, 1, D)
UPDATE = np.linspace(-0.5, 0.7, D)


def policy(**changes):
    given = {
        "lifetime": 2.0,
        "per_report": 0.5,
        "solutions": ["PS-PM", "PM", "PE-Duchi", "PS-PM-O", "Duchi-RP", "PS-PM-C", "RJ", "UJ"],
        "dimensions": [D],
        "clip": 1.0,
    }
    return Policy.of({**given, **changes})


def recipe(name="PS-PM", **changes):
    return complete(name, **{"epsilon": 2.0, "dim": D, "epochs": 5, **changes})


def asked(number=0, epoch=None, run=RUN, of=None):
    made = of or recipe()
    return Request(run, number if epoch is None else epoch, number, made).encode()


@pytest.fixture
def client(tmp_path):
    return Client(policy(), tmp_path / "store", create=True)


def refusal(client, request, weights=WEIGHTS, update=UPDATE):
    """The reason of a refusal, after which nothing has changed."""
    before = client.history()
    called = []
    with pytest.raises(Refused) as error:
        client.answer(request, weights, called.append if update is UPDATE else update)
    assert called == []
    assert client.history() == before
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    assert str(error.value) == error.value.reason.value
    return error.value.reason


def test_a_report_is_charged_and_kept_before_it_is_returned(client):
    request = asked()
    report = client.answer(request, WEIGHTS, UPDATE)
    assert len(report) == 16
    assert Request.decode(request).format.decode(report)[0] == 0
    history = client.history()
    assert history.spent == Fraction(2, 5)
    assert history.left == Fraction(8, 5)
    assert [entry.report for entry in history.entries] == [report]
    assert history.recipes == {RUN: recipe()}


def test_a_repeated_request_gets_the_same_bytes_for_nothing(client):
    calls = []

    def update(weights):
        calls.append(weights)
        return UPDATE

    first = [client.answer(asked(i), WEIGHTS, update) for i in range(3)]
    again = [client.answer(asked(i), WEIGHTS, update) for i in range(3)]
    assert first == again
    assert len(calls) == 3
    assert client.history().spent == Fraction(6, 5)


def test_the_update_sees_the_weights_and_cannot_change_the_servers(client):
    weights, seen = WEIGHTS.copy(), []

    def update(w):  # what it raises is dropped, so nothing is asserted in it
        seen.append(w)
        return UPDATE

    client.answer(asked(), weights, update)
    np.testing.assert_array_equal(seen[0], weights)
    assert not np.shares_memory(seen[0], weights)
    assert not seen[0].flags.writeable
    assert weights.flags.writeable
    assert client.answer(asked(1), WEIGHTS.astype(np.float32).tobytes(), UPDATE)
    assert client.answer(asked(2), memoryview(WEIGHTS.tobytes()), UPDATE)
    assert client.answer(asked(3), WEIGHTS.astype(">f8"), UPDATE)


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (b"", Reason.MALFORMED),
        pytest.param(b"\0" * 10**6, Reason.MALFORMED, id="a megabyte"),
        (None, Reason.MALFORMED),
        ("text", Reason.MALFORMED),
        (asked()[:-1], Reason.MALFORMED),
        (asked()[:4] + b"\4" + asked()[5:], Reason.VERSION),
        (asked(of=recipe("HM")), Reason.NOT_ALLOWED),
        (asked(of=recipe("NP")), Reason.NOT_ALLOWED),
        (asked(of=recipe(dim=9)), Reason.NOT_ALLOWED),
        (asked(of=recipe(dim=1 << 32)), Reason.NOT_ALLOWED),
        (asked(of=recipe(clip=1.5)), Reason.NOT_ALLOWED),
        (asked(of=recipe(clip=1e300)), Reason.NOT_ALLOWED),
        (asked(of=recipe(epochs=3)), Reason.TOO_MUCH),
        (asked(of=recipe(epsilon=500.0)), Reason.TOO_MUCH),
        (asked(of=recipe("PS-PM-C", epsilon=2.5, epochs=5)), Reason.TOO_MUCH),
        (asked(of=recipe(epsilon=1e-15)), Reason.MALFORMED),
    ],
)
def test_requests_are_refused_before_anything_is_spent(client, request_bytes, reason):
    assert refusal(client, request_bytes) is reason


class Talkative(np.ndarray):
    """An array that would run the sender's code."""

    def __array_function__(self, *_):
        raise AssertionError("the server's code ran")


@pytest.mark.parametrize(
    "weights",
    [
        None,
        7,
        "weights",
        [0.0] * D,
        b"",
        bytes(4 * D - 1),
        bytes(16 * D),
        np.zeros(D + 1),
        np.zeros((2, D // 2)),
        np.zeros((D, 1)),
        np.zeros(0),
        np.zeros(D, dtype=np.int64),
        np.zeros(D, dtype=np.float16),
        np.zeros(D, dtype=np.longdouble),
        np.zeros(D, dtype=complex),
        np.zeros(D, dtype=object),
        np.array(["x"] * D),
        np.full(D, np.nan),
        np.full(D, np.inf),
        np.full(D, -np.inf, dtype=np.float32),
        np.full(D, 1.1e6),
        np.full(D, np.nan, dtype="<f4").tobytes(),
        np.ma.array(np.zeros(D), mask=[True] * D),
        np.zeros(D).view(Talkative),
    ],
)
def test_weights_that_no_honest_server_sends(client, weights):
    assert refusal(client, asked(), weights) is Reason.WEIGHTS


def test_singles_are_finite_also_where_the_bound_is_beyond_them(tmp_path):
    """numpy compares singles with the bound as a single, which is infinite then."""
    client = Client(policy(weight_bound=1e300), tmp_path / "store", create=True)
    for entry in (np.inf, -np.inf, np.nan):
        assert refusal(client, asked(), np.full(D, entry, dtype="<f4")) is Reason.WEIGHTS
    assert client.answer(asked(), np.full(D, 3e38, dtype="<f4"), UPDATE)


def test_nothing_of_size_d_is_built_for_weights_of_another_length(tmp_path):
    """The law of EXP has d weights: 2 GB were built before the weights were looked at."""
    large = 1 << 25
    client = Client(policy(solutions=["EXP-PM"], dimensions=[large]), tmp_path / "s", create=True)
    request = asked(of=recipe("EXP-PM", dim=large))
    tracemalloc.start()
    assert refusal(client, request, np.zeros(D)) is Reason.WEIGHTS
    assert refusal(client, request, bytes(8)) is Reason.WEIGHTS
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_rounds_go_forward(client):
    client.answer(asked(2), WEIGHTS, UPDATE)
    assert refusal(client, asked(1)) is Reason.OUT_OF_ORDER
    assert refusal(client, asked(5, epoch=1)) is Reason.OUT_OF_ORDER
    assert refusal(client, asked(3, epoch=2)) is Reason.TOO_OFTEN
    client.answer(asked(7, epoch=3), WEIGHTS, UPDATE)


def test_a_round_means_one_request(client):
    client.answer(asked(1), WEIGHTS, UPDATE)
    assert refusal(client, asked(1, epoch=2)) is Reason.CONFLICT
    assert refusal(client, asked(1), WEIGHTS + 1) is Reason.CONFLICT
    assert refusal(client, asked(1, of=recipe(clip=0.5))) is Reason.CONFLICT
    for epochs in (4, 6):  # another recipe, be its bytes less or more
        assert refusal(client, asked(2, of=recipe(epochs=epochs))) is Reason.CONFLICT


def test_a_new_run_closes_the_old_one(client):
    first = client.answer(asked(0), WEIGHTS, UPDATE)
    client.answer(asked(0, run=OTHER_RUN), WEIGHTS, UPDATE)
    assert refusal(client, asked(1)) is Reason.OUT_OF_ORDER
    assert client.answer(asked(0), WEIGHTS, UPDATE) == first
    with client.ledger.transaction() as books:
        assert not books.residual(RUN, D).any()  # erased
        assert books.residual(OTHER_RUN, D).any()


def test_several_runs_where_the_owner_allows_them(tmp_path):
    client = Client(policy(runs=2), tmp_path / "s", create=True)
    runs = [bytes([i]) * 16 for i in range(3)]
    client.answer(asked(0, run=runs[0]), WEIGHTS, UPDATE)
    client.answer(asked(0, run=runs[1]), WEIGHTS, UPDATE)
    client.answer(asked(1, run=runs[0]), WEIGHTS, UPDATE)
    client.answer(asked(0, run=runs[2]), WEIGHTS, UPDATE)
    assert refusal(client, asked(2, run=runs[0])) is Reason.OUT_OF_ORDER
    client.answer(asked(1, run=runs[1]), WEIGHTS, UPDATE)


def test_reports_of_a_day(tmp_path):
    client = Client(policy(reports_per_day=2), tmp_path / "s", create=True)
    now = 1_000_000.0
    client._now = lambda: now
    client.answer(asked(0), WEIGHTS, UPDATE)
    now += 86_000
    client.answer(asked(1), WEIGHTS, UPDATE)
    assert refusal(client, asked(2)) is Reason.TOO_OFTEN
    now -= 200_000  # a clock that is set back wins nothing
    assert refusal(client, asked(2)) is Reason.TOO_OFTEN
    now += 200_000 + 401
    client.answer(asked(2), WEIGHTS, UPDATE)


def test_a_day_is_24_hours_to_the_second(tmp_path):
    client = Client(policy(reports_per_day=1), tmp_path / "s", create=True)
    now = 1_000_000.0
    client._now = lambda: now
    client.answer(asked(0), WEIGHTS, UPDATE)
    now += 24 * 60 * 60 - 1
    assert refusal(client, asked(1)) is Reason.TOO_OFTEN
    now += 1
    client.answer(asked(1), WEIGHTS, UPDATE)
    assert [entry.time for entry in client.history().entries] == [1_000_000, 1_086_400]


def test_several_reports_of_an_epoch_where_the_owner_allows_them(tmp_path):
    client = Client(policy(reports_per_epoch=2), tmp_path / "s", create=True)
    client.answer(asked(0, epoch=0), WEIGHTS, UPDATE)
    client.answer(asked(1, epoch=0), WEIGHTS, UPDATE)
    assert refusal(client, asked(2, epoch=0)) is Reason.TOO_OFTEN


def test_the_residual_is_kept_until_the_last_report_of_a_run(tmp_path):
    client = Client(policy(reports_per_epoch=2), tmp_path / "s", create=True)
    kept = []
    for number, epoch in ((0, 3), (1, 3), (2, 4), (3, 4)):
        client.answer(asked(number, epoch=epoch), WEIGHTS, UPDATE)
        with client.ledger.transaction() as books:
            kept.append(books.residual(RUN, D).any())
    assert kept == [True, True, True, False]


def test_weights_may_be_as_large_as_the_bound(tmp_path):
    client = Client(policy(weight_bound=3.0), tmp_path / "s", create=True)
    assert client.answer(asked(), np.full(D, -3.0), UPDATE)
    assert refusal(client, asked(1), np.full(D, np.nextafter(3.0, 4))) is Reason.WEIGHTS


class Clock:
    """The module `time` of a client, where nothing takes time but what says so."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.slept.append(seconds)


def test_an_answer_can_be_made_to_last(tmp_path, monkeypatch):
    """It takes two seconds, however long the update does, a repeated answer or a refusal, too."""
    client = Client(policy(least_seconds=2.0), tmp_path / "s", create=True)
    clock = Clock()
    monkeypatch.setattr("fedsel.device._client.time", clock)

    def update(seconds):
        def value(weights):
            clock.now += seconds
            return UPDATE

        return value

    client.answer(asked(0), WEIGHTS, update(1.5))
    client.answer(asked(0), WEIGHTS, update(1.5))  # not called again
    client.answer(asked(1), WEIGHTS, update(1.0))
    with pytest.raises(Refused):
        client.answer(b"nonsense", WEIGHTS, UPDATE)
    assert clock.slept == [0.5, 2.0, 1.0, 2.0]
    for number, seconds in ((2, 2.0), (3, 9.0)):
        client.answer(asked(number), WEIGHTS, update(seconds))
    assert len(clock.slept) == 4


def test_no_seed_on_the_way(client):
    assert isinstance(client._entropy, SystemEntropy)
    with pytest.raises(TypeError):
        Client(policy(), "store", seed=1)
    with pytest.raises(TypeError):
        client.answer(asked(), WEIGHTS, UPDATE, seed=1)
    with pytest.raises(InvalidArgument, match=r"^policy = "):
        Client({"lifetime": 1}, "store")


@pytest.mark.parametrize("name", ["PS-PM", "PE-Duchi", "PS-PM-O", "PM", "Duchi-RP", "RJ", "UJ"])
def test_reports_and_residuals_are_those_of_the_solution(tmp_path, name):
    """On the same words the client does what `Solution.encode` does, epoch after epoch."""
    made = recipe(name, momentum=0.5, ratio=0.5, learning_rate=0.25)
    client = Client(policy(), tmp_path / "s", create=True)
    residual = np.zeros(D, dtype=np.float32)
    for epoch in range(5):
        gradient = np.cos(np.arange(D) * (epoch + 1.0)).astype(np.float32)
        client._entropy = stream(3, epoch, 1)
        report = client.answer(asked(epoch, of=made), WEIGHTS, lambda w, g=gradient: g)
        scaled = gradient * np.float32(0.25) if name.endswith("-O") else gradient
        seen = made.build().in_round(epoch)
        said, residual = seen.encode(scaled, residual, stream(3, epoch, 1))
        assert Request(RUN, 0, 0, made).format.decode(report) == (epoch, said)
        with client.ledger.transaction() as books:
            kept = books.residual(RUN, D)
            last = epoch == 4 or not made.build().accumulates
            np.testing.assert_array_equal(kept, np.zeros(D) if last else residual)


@pytest.mark.slow
def test_the_bytes_that_leave_follow_the_certified_law(quick_path):
    """Chi-square on the wire, from the operating system's entropy, at a false alarm of 1e-9.

    Each report is the first of a run of its own, so that the law is that of one report.
    """
    made = complete("PE-Duchi", epsilon=2.0, dim=3, k=1, mu=0.5)
    rich = Policy(500, 2.0, ["PE-Duchi"], [3], runs=1)
    vector = [Fraction(1, 4), Fraction(-3, 4), Fraction(1, 4)]
    update = np.array([float(x) for x in vector])
    law = made.build().mechanism.report_law(vector)
    codes = []
    for store in range(8):
        client = Client(rich, quick_path / str(store), create=True)
        for number in range(250):
            run = number.to_bytes(16, "big")
            report = client.answer(Request(run, 0, 0, made).encode(), np.zeros(3), update)
            assert report[:1] == b"\1"
            symbol = int.from_bytes(report[12:16], "little")
            dimension = -1 if symbol == 2**32 - 1 else int.from_bytes(report[8:12], "little")
            codes.append(dimension * 100 + (0 if dimension < 0 else symbol))
    places = {pairs: pairs[0] if pairs else (-1, 0) for pairs in law}  # none for ⊥
    expected = {100 * j + s: float(law[pairs]) for pairs, (j, s) in places.items()}
    assert_follows(np.array(codes), expected, "wire")


def test_threads_share_a_client(client):
    """Two threads that are asked for the same rounds give the same bytes, paid for once."""
    answers = [[], []]

    def ask(mine):
        mine.extend(client.answer(asked(i), WEIGHTS, UPDATE) for i in range(5))

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers[0]) == 5 or len(answers[1]) == 5
    common = zip(*answers, strict=False)
    assert all(a == b for a, b in common)
    assert client.history().spent == 2


def test_entropy_that_runs_dry_spends_nothing(client):
    client._entropy = Stream([])
    with pytest.raises(Refused) as error:
        client.answer(asked(), WEIGHTS, UPDATE)
    assert error.value.reason is Reason.INTERNAL
    assert client.history().entries == ()
    client._entropy = Stream(words_of(0, 0, 0))
    client.answer(asked(), WEIGHTS, UPDATE)


def test_an_error_on_the_way_to_an_earlier_report_tells_nothing(client, monkeypatch):
    def broken(*given, **named):
        raise RuntimeError("secret")

    monkeypatch.setattr(client.ledger, "transaction", broken)
    with pytest.raises(Refused) as error:
        client.earlier(asked())
    assert error.value.reason is Reason.INTERNAL
    assert error.value.__context__ is None
    assert error.value.__cause__ is None


def test_of_two_processes_that_create_a_store_the_slower_one_uses_it(tmp_path, monkeypatch):
    create = Ledger.create

    def overtaken(ledger, lifetime):
        create(ledger, lifetime)
        raise LedgerError(Fault.OCCUPIED)

    monkeypatch.setattr(Ledger, "create", overtaken)
    client = Client(policy(), tmp_path / "s", create=True)
    assert client.answer(asked(), WEIGHTS, UPDATE)


def test_a_store_that_cannot_be_created_is_said_to_be_so(tmp_path, monkeypatch):
    def fails(ledger, lifetime):
        raise LedgerError(Fault.UNWRITABLE)

    monkeypatch.setattr(Ledger, "create", fails)
    with pytest.raises(LedgerError) as error:
        Client(policy(), tmp_path / "s", create=True)
    assert error.value.fault is Fault.UNWRITABLE


def test_no_store_no_client(tmp_path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Client(policy(), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    gc.collect()


def test_what_would_be_refused_is_known_before_weights_are_fetched(client):
    """And what was answered before is had without them: a device that was killed sends it again."""
    assert client.earlier(asked()) is None
    assert client.history().spent == 0
    report = client.answer(asked(), WEIGHTS, UPDATE)
    assert client.earlier(asked()) == report
    for request, reason in (
        (b"nonsense", Reason.MALFORMED),
        (asked(of=recipe(dim=D + 1)), Reason.NOT_ALLOWED),
        (asked(1, epoch=0), Reason.TOO_OFTEN),
        (asked(of=recipe(epochs=6)), Reason.CONFLICT),
        (asked(run=OTHER_RUN, of=recipe(epsilon=20.0)), Reason.TOO_MUCH),
    ):
        with pytest.raises(Refused) as caught:
            client.earlier(request)
        assert caught.value.reason is reason
        assert caught.value.__context__ is None
    assert len(client.history().entries) == 1


def test_a_client_whose_budget_is_spent_knows_it_before_weights_are_fetched(tmp_path):
    client = Client(policy(lifetime=0.4), tmp_path / "store", create=True)
    client.answer(asked(), WEIGHTS, UPDATE)
    with pytest.raises(Refused) as caught:
        client.earlier(asked(1))
    assert caught.value.reason is Reason.EXHAUSTED


def test_an_update_is_made_of_columns_that_the_policy_allows(tmp_path):
    """Where the owner lists columns, a program that does not say which it uses is refused."""
    client = Client(policy(columns=["age", "job"]), tmp_path / "store", create=True)
    assert refusal(client, b"nonsense") is Reason.MALFORMED
    assert refusal(client, asked()) is Reason.NOT_ALLOWED
    assert refusal(client, asked(), np.zeros(3)) is Reason.NOT_ALLOWED  # before the weights
    with pytest.raises(Refused) as error:
        client.answer(asked(), WEIGHTS, UPDATE, columns=["age", "income"])
    assert error.value.reason is Reason.NOT_ALLOWED
    assert client.history().entries == ()
    report = client.answer(asked(), WEIGHTS, UPDATE, columns=["job"])
    assert client.answer(asked(), WEIGHTS, UPDATE, columns=["age", "job"]) == report
    assert client.earlier(asked()) == report
