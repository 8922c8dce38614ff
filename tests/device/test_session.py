"""A device that takes part: it pays once, sends the same bytes, and tells nothing by silence."""

import gzip
import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.device import Client, Ending, Policy, RawRecords, join
from fedsel.device import _client as clients
from fedsel.device import _session as sessions
from fedsel.wire import Announcement
from tests.device.joining import (
    CUT,
    POLICY,
    RECORDS,
    RUN,
    SCHEMA,
    Script,
    Server,
    taken_part,
)

pytestmark = pytest.mark.usefixtures("hurry")


def test_the_same_bytes_are_sent_until_they_are_acknowledged(client):
    script, told = Script(), []
    busy = (503, b'{"error": "busy"}', {"retry-after": "0"})
    script.next["/v1/reports"] = [
        *(busy, CUT, (500, b"", {}), (429, b"", {}), (408, b"", {}), CUT, (502, b"<html>", {})),
    ]
    outcome = taken_part(script, client, tell=told.append)
    assert outcome.ending is Ending.FINISHED or outcome.ending is Ending.DONE
    assert (outcome.accepted, outcome.late, outcome.regular) == (1, 0, True)
    assert len(script.bodies) == 8
    assert set(script.bodies) == {outcome.history.entries[0].report}
    assert len(outcome.history.entries) == 1
    assert outcome.history.spent == 2
    assert outcome.run == RUN
    assert set(script.tokens) == {"Bearer invitation"}
    assert "the service answers again" in told
    assert told[-1] == "round 0: accepted"


def test_a_duplicate_has_arrived(client):
    script = Script()
    script.next["/v1/reports"] = [(200, b'{"outcome": "duplicate"}', {})]
    outcome = taken_part(script, client)
    assert (outcome.ending, outcome.accepted) == (Ending.DONE, 1)


def test_a_report_that_comes_too_late_is_paid_for_and_counted(client):
    script = Script()
    script.next["/v1/reports"] = [(410, b'{"error": "late"}', {})]
    outcome = taken_part(script, client)
    assert (outcome.accepted, outcome.late) == (0, 1)
    assert outcome.history.spent == 2
    assert outcome.ending is Ending.DONE  # and it does not pay for another of the epoch


def test_a_device_that_came_late_says_how_many_reports_it_has_made(quick_path):
    script = Script(epochs=4)
    script.round = script.epoch = 1
    outcome = taken_part(script, Client(POLICY, quick_path / "ledger", create=True))
    assert (outcome.ending, outcome.accepted) == (Ending.DONE, 3)
    told = outcome.as_dict()["message"]
    assert told == "the run asks this device for no further report: it has made 3 of 4"


def test_a_service_that_has_gone_back_gets_the_report_once_it_is_there_again(client):
    script = Script()
    script.next["/v1/reports"] = [(409, b'{"error": "early"}', {})] * 3
    outcome = taken_part(script, client)
    assert (outcome.accepted, len(script.bodies), len(set(script.bodies))) == (1, 4, 1)


def test_a_service_that_stays_behind_is_given_up(client, clock):
    script = Script()
    script.took = lambda body: (409, b'{"error": "early"}', {})
    outcome = taken_part(script, client, patience=1.0)
    assert outcome.ending is Ending.UNREACHABLE
    assert set(script.bodies) == {outcome.history.entries[0].report}


@pytest.mark.parametrize(
    ("status", "body", "ending"),
    [
        (409, b'{"error": "conflict"}', Ending.CONFLICT),
        (401, b'{"error": "not_invited"}', Ending.UNINVITED),
        (400, b'{"error": "malformed"}', Ending.NOT_UNDERSTOOD),
        (301, b"", Ending.NOT_UNDERSTOOD),
    ],
)
def test_a_report_that_is_refused_for_good_ends_it(client, status, body, ending):
    """Else the device would pay, round after round, for reports that nobody takes."""
    script = Script(epochs=5)
    script.next["/v1/reports"] = [(status, body, {})]
    outcome = taken_part(script, client)
    assert (outcome.ending, outcome.regular, len(script.bodies)) == (ending, False, 1)


@pytest.mark.parametrize(
    ("token", "answer"),
    [
        ("wrong", (401, b'{"error": "not_invited"}', {})),
        ("a gateway's", (200, b'{"kind": "gateway"}', {})),
        (None, None),
    ],
)
def test_who_is_not_invited_pays_nothing(client, token, answer):
    script = Script()
    script.next["/v1/invitation"] = [answer] if answer else []
    outcome = taken_part(script, client, token=token and token.replace(" ", "-"))
    assert outcome.ending is Ending.UNINVITED
    assert outcome.history.entries == ()
    assert not script.bodies


def test_a_round_that_ends_before_it_is_paid_for_costs_nothing(client):
    def ends(script):
        script.round += 1
        return 410, b'{"error": "late"}', {}

    script = Script()
    script.next["/v1/rounds/0/weights"] = [ends]
    outcome = taken_part(script, client)
    assert [entry.round for entry in outcome.history.entries] == [1]
    assert outcome.accepted == 1


@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"features": 3, "octaves": 6, "low": 0, "high": 1}',
        b'{"features": 2, "octaves": 6, "low": 0, "high": 0}',
        b" " * (1 << 20),
    ],
)
def test_what_makes_no_sense_about_records_is_refused_before_anything_is_spent(client, text):
    script = Script()
    script.preparing = text
    outcome = taken_part(script, client)
    assert outcome.ending is Ending.NOT_UNDERSTOOD
    assert outcome.history.entries == ()


@pytest.mark.parametrize(
    "weights",
    [
        gzip.compress(bytes(1 << 26)),  # which nobody unpacks
        gzip.compress(bytes(8)),
        gzip.compress(np.full(3, np.nan).tobytes()),
    ],
)
def test_weights_that_are_none_are_refused_before_anything_is_spent(client, weights):
    script = Script()
    script.next["/v1/rounds/0/weights"] = [(200, weights, {"content-encoding": "gzip"})]
    outcome = taken_part(script, client)
    assert outcome.ending in (Ending.NOT_UNDERSTOOD, Ending.REFUSED)
    assert outcome.history.entries == ()


@pytest.mark.parametrize("change", [{"dimensions": [4]}, {"per_report": 0.1}, {"purposes": ["x"]}])
def test_what_the_policy_forbids_is_not_even_fetched(quick_path, change):
    fields = {"lifetime": 2.0, "per_report": 2.0, "solutions": ["RJ"], "dimensions": [3], **change}
    script = Script()
    client = Client(Policy(**fields), quick_path / "ledger", create=True)
    outcome = taken_part(script, client)
    assert outcome.ending is Ending.REFUSED
    assert not script.bodies
    assert script.seen["/v1/rounds/0/weights"] == 0


def test_it_ends_when_the_budget_is_spent(quick_path):
    policy = Policy(lifetime=1.0, per_report=1.0, solutions=["RJ"], dimensions=[3])
    client = Client(policy, quick_path / "ledger", create=True)
    outcome = taken_part(Script(epochs=4), client)
    assert (outcome.ending, outcome.regular, outcome.accepted) == (Ending.SPENT, True, 2)
    assert outcome.history.left == 0


def test_a_run_that_is_over_asks_for_nothing(client):
    script = Script()
    script.finished = True
    outcome = taken_part(script, client, token=None)
    assert (outcome.ending, outcome.accepted) == (Ending.FINISHED, 0)


def test_another_run_in_its_place_is_not_joined(client):
    script = Script()
    script.task["run"] = bytes(16).hex()
    outcome = taken_part(script, client)
    assert (outcome.ending, outcome.history.entries) == (Ending.FINISHED, ())


@pytest.mark.parametrize("labels", [["yes", "no"], ["maybe", "perhaps"], ["", "yes"], ["7", "8"]])
def test_whether_it_answers_does_not_depend_on_labels(client, labels):
    """A service could else name labels, and see from who comes what the others have."""
    told, script = [], Script()
    records = RawRecords([[30, 50], [60, 20]], labels, ["age", "pay"])
    outcome = taken_part(script, client, records, tell=told.append)
    assert outcome.accepted == 1
    assert outcome.left_out == sum(label not in ("yes", "no") for label in labels)
    assert any("left out" in line for line in told) == (outcome.left_out > 0)


def test_whether_it_answers_does_not_depend_on_values(client):
    records = RawRecords([["thirty", "nan"], ["inf", ""]], ["yes", "no"], ["age", "pay"])
    outcome = taken_part(Script(), client, records)
    assert (outcome.accepted, outcome.left_out) == (1, 0)


@pytest.mark.parametrize(
    "records",
    [
        [{"job": "smith", "day": "2024-02-30"}, {"job": "nurse", "left": "no"}],
        [{"left": "perhaps"}, {}],
        [{"job": None, "day": 3.5, "left": None}, {"job": [1], "day": object(), "left": {}}],
        [{"job": float("nan"), "left": float("nan")}, {"job": "", "day": "soon", "left": "yes"}],
    ],
)
@pytest.mark.parametrize("classes", [["no", "yes"], ["no", "yes", "never"]])
def test_whatever_its_cells_hold_a_device_answers(quick_path, classes, records):
    """Missing cells, unknown levels, no dates, labels that are no class: its own affair."""
    columns = [{"name": "job", "levels": ["smith"]}, {"name": "day", "date": ["weekday"]}]
    schema = {"label": "left", "classes": classes, "columns": columns}
    script = Script(schema=schema, features=3, rows=len(classes) if len(classes) > 2 else 1)
    policy = replace(POLICY, dimensions=[script.recipe.dim])
    client = Client(policy, quick_path / "ledger", create=True)
    outcome = taken_part(script, client, RawRecords(records))
    known = sum(record.get("left") in ("no", "yes") for record in records)
    assert (outcome.accepted, outcome.left_out) == (1, len(records) - known)


def test_a_column_that_is_missing_is_told_before_anything_is_spent(client):
    records = RawRecords([[30, 50]], ["yes"], ["age", "shoe"])
    with pytest.raises(InvalidArgument, match="column = 'pay': must be in the records"):
        taken_part(Script(), client, records)
    assert client.history().entries == ()


class Cell:
    """A cell that notes when it is read."""

    def __init__(self, value, note):
        self.value, self.note = value, note

    def __str__(self):
        self.note()
        return str(self.value)

    def __float__(self):
        self.note()
        return float(self.value)


@pytest.fixture
def watched(monkeypatch):
    """Records, and where they were read: within an update, or not."""
    reads, where = [], ["outside"]
    evaluated = clients.evaluated

    def update(*given, **more):
        where.append("within an update")
        try:
            return evaluated(*given, **more)
        finally:
            where.pop()

    def cell(value):
        return Cell(value, lambda: reads.append(where[-1]))

    monkeypatch.setattr(clients, "evaluated", update)
    table = [[cell(30), cell(50)], [cell(60), cell(20)]]
    return RawRecords(table, [cell("yes"), cell("maybe")], ["age", "pay"]), reads


def test_records_are_read_within_an_update_alone(client, watched):
    """What a report costs in time and memory is told by the report, and `least_seconds` hides it.

    Read any sooner, the records would tell how many and how long they are for nothing.
    """
    records, reads = watched
    outcome = taken_part(Script(epochs=2), client, records)
    assert (outcome.accepted, outcome.left_out) == (2, 1)
    assert set(reads) == {"within an update"}


@pytest.mark.parametrize(
    ("task", "limits", "next_", "ending"),
    [
        ({}, {"dimensions": [4]}, {}, Ending.REFUSED),
        ({}, {"per_report": 0.1}, {}, Ending.REFUSED),
        ({}, {"purposes": ["x"]}, {}, Ending.REFUSED),
        (
            {"schema": {"columns": {"age": [0, 9], "pay": ["1", "2"]}}},
            {},
            {},
            Ending.NOT_UNDERSTOOD,
        ),
        ({"schema": {"columns": 2, "classes": ["a", "b", "c"]}}, {}, {}, Ending.NOT_UNDERSTOOD),
        ({"schema": {"columns": 2 << 20}}, {}, {}, Ending.NOT_UNDERSTOOD),
        ({"schema": {"columns": {"age": [0, 9], "shoe": [0, 9]}}}, {}, {}, InvalidArgument),
        ({}, {}, {"/v1/invitation": (401, b"{}", {})}, Ending.UNINVITED),
        ({}, {}, {"/v1/rounds/0/weights": (200, b"x", {})}, Ending.REFUSED),
        ({}, {}, {"/v1/rounds/0/preparing": (200, b"{}", {})}, Ending.NOT_UNDERSTOOD),
    ],
)
def test_nothing_is_read_for_what_is_not_answered(quick_path, watched, task, limits, next_, ending):
    records, reads = watched
    fields = {"lifetime": 2.0, "per_report": 2.0, "solutions": ["RJ"], "dimensions": [3], **limits}
    client = Client(Policy(**fields), quick_path / "ledger", create=True)
    script = Script(**task)
    script.next.update({path: [answer] for path, answer in next_.items()})
    try:
        found = taken_part(script, client, records).ending
    except InvalidArgument:
        found = InvalidArgument
    assert found is ending
    assert reads == []
    assert client.history().entries == ()


def test_an_update_of_ones_own(client):
    script = Script(schema=None, loss=None)
    script.preparing = b"null"
    asked = []

    def update(weights):
        asked.append(weights.shape)
        return np.array([0.1, 0.2, 0.3])

    assert taken_part(script, client, update).accepted == 1
    assert asked == [(3,)]
    with pytest.raises(InvalidArgument, match="must be RawRecords"):
        taken_part(Script(), client, update)
    with pytest.raises(InvalidArgument, match="must be an update"):
        taken_part(Script(schema=None, loss=None), client, RECORDS)


def test_a_device_answers_one_round_of_an_epoch_at_random(quick_path, monkeypatch):
    """The round that it has chosen; an earlier one only if that waits for long."""
    drawn = []
    monkeypatch.setattr(sessions, "random_round", lambda a, b: drawn.append((a, b)) or 2)

    def later(script):
        script.round += 1
        return 200, script.request(), {}

    script = Script(rounds_per_epoch=4, close_after={"reports": 1, "seconds": 600})
    script.next["/v1/rounds/open/request"] = [lambda s: (200, s.request(), {})] * 2 + [later] * 2
    client = Client(POLICY, quick_path / "a", create=True)
    outcome = taken_part(script, client)
    assert drawn == [(0, 3)]
    assert [entry.round for entry in outcome.history.entries] == [2]
    client = Client(POLICY, quick_path / "b", create=True)
    script = Script(rounds_per_epoch=4, close_after={"reports": 1, "seconds": 0.05})
    outcome = taken_part(script, client)
    assert [entry.round for entry in outcome.history.entries] == [0]


def test_a_guest_of_an_open_task_keeps_its_name_and_has_another_in_every_run(client, quick_path):
    other = Client(POLICY, quick_path / "other", create=True)
    names = []
    for device, run in ((client, RUN), (client, RUN), (client, bytes(16)), (other, RUN)):
        script = Script(invitations="open", run=run.hex())
        session = sessions.Session("http://127.0.0.1:1", every=0.01)
        session._connection.ask = lambda *_, **__: sessions.Reply(200, b'{"kind": "device"}')
        session._introduce(device, Announcement.decode(json.dumps(script.task).encode()))
        names.append(session._token)
        assert len(session._token) >= 16
        assert "." not in session._token
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_two_processes_of_one_device_pay_once(client):
    """They share a ledger: both send the same bytes."""
    script = Script()
    script.took = lambda body: (200, b'{"outcome": "duplicate"}', {})
    outcomes = []

    def device():
        outcomes.append(taken_part_at(server.url, client))

    def taken_part_at(url, client):
        return join(url, client, RECORDS, token="invitation", every=0.01)

    with Server(script) as server:
        threads = [threading.Thread(target=device) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 2
    assert len(set(script.bodies)) == 1
    assert len(client.history().entries) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"run": "00"},
        {"run": 5},
        {"invitations": "x"},
        {"schema": None},
        {"schema": {}},
        {"schema": {"columns": []}},
        {"schema": {"columns": [{"name": "a", "range": [0, 1]}] * 2}},
        {"schema": {"columns": [{"name": "a", "range": [1, 0]}]}},
        {"schema": {"columns": [{"name": "a", "colour": "red"}]}},
        {"schema": {"columns": -1}},
        {"schema": {**SCHEMA, "classes": ["a"]}},
        {"schema": {**SCHEMA, "label": "age"}},
        {"schema": {"columns": 2, "target_range": [1, 0]}, "loss": "squared"},
        {"loss": "x"},
        {"loss": None},
        {"loss": "squared"},
        {"rounds_per_epoch": 0},
        {"close_after": None},
        {"name": ""},
    ],
)
def test_a_task_that_makes_no_sense_ends_it(client, change):
    outcome = taken_part(Script(**change), client)
    assert (outcome.ending, outcome.history.entries) == (Ending.NOT_UNDERSTOOD, ())


@pytest.mark.parametrize(
    "options",
    [
        {"url": "ftp://x"},
        {"url": "example.org"},
        {"url": "http://a b"},
        {"url": "http://u:p@a"},
        {"url": "http://a:99999"},
        {"every": 0.0},
        {"patience": float("nan")},
        {"token": "two words"},
        {"token": ""},
        {"ca": "nothing.pem"},
        {"url": "https://a", "ca": "nothing.pem"},
    ],
)
def test_wrong_options_are_named(client, options):
    values = {"url": "http://127.0.0.1:1", "token": "x", **options}
    with pytest.raises(InvalidArgument) as caught:
        join(values.pop("url"), client, RECORDS, **values)
    assert caught.value.name in options or caught.value.name == "url"
    assert "two words" not in str(caught.value)


def test_the_old_name_of_a_session_still_works():
    import fedsel.device

    with pytest.warns(DeprecationWarning, match=r"fedsel\.device\.Visit is now .*Session"):
        assert fedsel.device.Visit is fedsel.device.Session


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"counts": {"accepted": 12}}', 12),
        (b'{"counts": {"accepted": -1}}', None),
        (b'{"counts": {"accepted": "many"}}', None),
        (b'{"counts": 3}', None),
        (b"{}", None),
        (b"<html>", None),
    ],
)
def test_how_many_reports_a_round_has_is_no_matter_of_life_and_death(body, expected):
    script = Script()
    script.next["/v1/rounds/open"] = [(200, body, {})]
    with Server(script) as server, sessions.Session(server.url, patience=5) as session:
        assert session.reports_so_far() == expected
