"""The clients of the crash tests know what became of each report, whichever worker answers them."""

import threading
from collections import Counter

import pytest

from tests.service import crashing
from tests.service.crashing import Crowd, Threads, check_exactly_once, task_values
from tests.service.support import running, wait_until

pytestmark = [pytest.mark.xdist_group("processes")]


def lagging(ask):
    """Every second question for the round is answered by a worker that is one round behind."""
    mine = threading.local()

    def asked(client, method, path, *more):
        found = ask(client, method, path, *more)
        if method != "GET" or found[0] != 200:
            return found
        if not hasattr(mine, "rounds"):
            mine.rounds, mine.turn = [found], 0
        if found[1] != mine.rounds[-1][1]:
            mine.rounds.append(found)
        mine.turn += 1
        return mine.rounds[-2:][mine.turn % 2 - 1]

    return asked


@pytest.fixture
def crowd(quick_path, monkeypatch):
    """Clients whose workers lag, once some gateway has two batches in a round; and their store."""
    monkeypatch.setattr(crashing, "ask", lagging(crashing.ask))
    # 27: what they send for the first round, before which there is none to be led back to.
    task, store = task_values(100_000, 27), quick_path / "store"
    with (
        running(task, store) as service,
        Crowd(task, store, lambda: service.address, 9) as crowd,
    ):
        wait_until(lambda: len(crowd.accepted) > 60 and max(of_each(crowd).values()) > 1)
    return task, store, crowd


def of_each(crowd):
    """How many accepted messages each client has in each round."""
    return Counter((one.client, one.round) for one in list(crowd.accepted))


def test_batches_of_a_gateway_that_was_led_back_a_round_are_all_known(crowd):
    task, store, crowd = crowd
    accepted = of_each(crowd)
    assert {client.split()[0] for (client, _), n in accepted.items() if n > 1} == {"gateway"}
    rounds, reports = check_exactly_once(task, store, crowd.sent)
    assert rounds >= 2
    assert reports == sum(len(one.rows) for one in crowd.accepted)


@pytest.mark.parametrize("accepted", [True, False])
def test_a_report_that_is_not_as_its_client_was_told_is_shown(crowd, accepted):
    """With what its client was told and when."""
    task, store, crowd = crowd
    one = crowd.accepted[30]
    if accepted:
        one.rows[0] = one.rows[0][:8] + b"\xff" * 8
    else:
        one.accepted = False
    with pytest.raises(AssertionError) as found:
        check_exactly_once(task, store, crowd.sent)
    said = str(found.value)
    assert said.startswith(f"round {one.round}, while ")
    assert ("lost: ffffffffffffffff × 1" in said) is accepted
    assert "not known to clients: " in said
    assert str(one) in said
    assert "200 {'outcome': 'accepted'" in str(one)


def test_what_ends_a_client_is_told():
    def live(word):
        raise AssertionError(word)

    with pytest.raises(AssertionError, match="why"), Threads(live, [("why",)]):
        pass
