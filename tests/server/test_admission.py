"""Which reports an aggregator takes, and what it begins with: limits are met, not passed."""

import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel import InvalidArgument
from fedsel.server import Aggregator, CheckpointError
from fedsel.server._aggregator import FILE_NAME
from fedsel.server._checkpoint import SEAL_BYTES
from tests.server.test_aggregator import D, recipe, reports_of, same_run

clients = st.sampled_from([None, "a", "b", "c", "d"])
batches = st.lists(st.lists(st.tuples(clients, st.integers(0, 3)), max_size=6), max_size=3)
invited = st.none() | st.sets(clients.filter(bool))


@pytest.fixture(scope="module")
def pair():
    """Two servers of one run, and reports: two of this round, one of a later one, and nonsense."""
    with tempfile.TemporaryDirectory() as folder:
        one, many = (Aggregator(recipe(), f"{folder}/{name}") for name in ("one", "many"))
        same_run(many, one)
        _, (first, second) = reports_of(one, range(2))
        later = first[:4] + (7).to_bytes(4, "little") + first[8:]
        yield one, many, [first, second, later, b"\xff" * len(first)]
        one.close()
        many.close()


@given(batches, invited, st.none() | st.integers(1, 5))
def test_many_at_once_are_judged_as_one_by_one(pair, sent, names, limit):
    """Whatever the names, the invited and the limit; batch after batch."""
    one, many, reports = pair
    for server in (one, many):
        server._open_round()
        server.limit = limit
        server.invite(names)
    for batch in sent:
        data = b"".join(reports[kind] for _, kind in batch)
        for client, kind in batch:
            one.receive(client, reports[kind])
        many.receive_many(data, [client for client, _ in batch])
        assert many.counts == one.counts
    assert many._seen == one._seen
    np.testing.assert_array_equal(many.mean(), one.mean())


@given(st.lists(st.integers(0, 3), max_size=6), invited, st.none() | st.integers(1, 3))
def test_so_are_those_without_names(pair, sent, names, limit):
    one, many, reports = pair
    for server in (one, many):
        server._open_round()
        server.limit = limit
        server.invite(names)
    for _ in range(2):
        for kind in sent:
            one.receive(None, reports[kind])
        many.receive_many(b"".join(reports[kind] for kind in sent))
    assert many.counts == one.counts


@pytest.mark.parametrize(
    "names", [["a"], ["a", "b", "c"], [[], {}], ["a", []], [float("nan"), "a"]]
)
def test_a_report_has_one_name(pair, names):
    _, many, reports = pair
    many._open_round()
    wrong = repr(len(names)) if len(names) != 2 else repr(next(n for n in names if n != "a"))
    with pytest.raises(InvalidArgument) as error:
        many.receive_many(reports[0] + reports[1], names)
    assert str(error.value).startswith(f"clients = {wrong}: ")
    assert sum(many.counts) == 0


MOST = (1 << 32) // recipe().epochs


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds_per_epoch": 0},
        {"rounds_per_epoch": MOST + 1},
        {"limit": 0},
        {"weights": np.zeros(D - 1)},
        {"weights": np.zeros(D + 1)},
    ],
    ids=["no round", "many rounds", "no report", "few weights", "many weights"],
)
def test_what_no_server_begins_with(tmp_path, wrong):
    with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))} = "):
        Aggregator(recipe(), tmp_path / "folder", **wrong)
    assert not (tmp_path / "folder").exists()


def test_a_run_may_have_as_many_rounds_as_a_request_can_number(tmp_path):
    with Aggregator(recipe(), tmp_path / "deep" / "folder", rounds_per_epoch=MOST) as server:
        assert server.rounds_per_epoch == MOST
    with pytest.raises(InvalidArgument, match=r"^recipe = "):
        Aggregator({"solution": "PS-PM"}, tmp_path)


@pytest.mark.parametrize("rounds", [2, 4])
def test_a_run_keeps_its_rounds(tmp_path, rounds):
    Aggregator(recipe(), tmp_path, rounds_per_epoch=3).close()
    with pytest.raises(InvalidArgument, match=r"^rounds_per_epoch = "):
        Aggregator(recipe(), tmp_path, rounds_per_epoch=rounds)


@pytest.mark.parametrize("seal", [bytes(SEAL_BYTES), b"\xff" * SEAL_BYTES], ids=["low", "high"])
def test_a_checkpoint_that_is_not_its_own_is_not_replaced(tmp_path, seal):
    with Aggregator(recipe(), tmp_path) as server:
        file = tmp_path / FILE_NAME
        foreign = seal + file.read_bytes()[SEAL_BYTES:]
        file.write_bytes(foreign)
        with pytest.raises(CheckpointError, match="another process"):
            server.step()
        assert file.read_bytes() == foreign
        assert server.round == 0
