"""A service that asks: about the model that its devices train, and about people."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, Policy
from fedsel.device import Client, Ending, RawRecords, Session, _session
from fedsel.service import Task
from fedsel.wire import Announcement, Model, measured_question
from tests.service.relay.support import relayed
from tests.service.support import FREE, running, wait_until

pytestmark = pytest.mark.xdist_group("processes")
FEATURES = ["age", "pay", "bias"]
MEASURED = {
    "name": "measured",
    "epsilon": 6.0,
    "features": FEATURES,
    "feature_range": [-1, 1],
    "labels": ["no", "yes"],
    "clients": 60,
    "rounds_per_epoch": 6,
    "close_after": {"reports": 10},
    "invitations": "open",
    "measure": 0.34,
    "centre": 0.0,
    "limits": FREE,
}
ASKED = {
    "name": "asked",
    "epsilon": 8.0,
    "question": "histogram",
    "columns": {"job": ["cook", "smith", "other"]},
    "clients": 40,
    "close_after": {"reports": 40},
    "invitations": "open",
    "limits": FREE,
}


def person(number):
    rng = np.random.default_rng(number)
    row = rng.uniform(-1, 1, 3).round(3)
    return [*row.tolist()], "yes" if row[0] + row[1] > 0 else "no"


def joined(address, folder, number, records, **policy):
    OWN.number = number
    limits = {"lifetime": 8.0, "per_report": 8.0, "solutions": ["FJ", "BR", "OW"]}
    limits["dimensions"] = range(1, 65)
    client = Client(Policy(**{**limits, **policy}), folder / str(number), create=True)
    with Session(address, every=0.05) as session:
        return session.join(client, records), client.history()


def all_of(address, folder, count, records_of, **policy):
    with ThreadPoolExecutor(count) as pool:
        one = lambda n: joined(address, folder, n, records_of(n), **policy)  # noqa: E731
        return list(pool.map(one, range(count)))


def labelled(number):
    row, label = person(number)
    return RawRecords([row], [label], FEATURES)


OWN = threading.local()


def chosen(first, last):
    """In place of chance: every third device measures, and each round has ten of its devices."""
    measures = OWN.number % 3 == 0
    if (first, last) == (1, 6):  # whether it measures
        return 1 if measures else 6
    place = OWN.number // 3 % 2 + 4 if measures else OWN.number // 3 % 2 + 2 * (OWN.number % 3 - 1)
    return max(first, min(last, place))


@pytest.fixture
def roles(monkeypatch):
    monkeypatch.setattr(_session, "random_round", chosen)
    monkeypatch.setattr(_session, "_OVERDUE", 1e9)


@pytest.mark.slow
@pytest.mark.usefixtures("roles")
def test_some_devices_measure_and_never_train(quick_path):
    task = Task.of(MEASURED)
    with running(task, quick_path / "store") as service:
        announced = Announcement.decode(json.dumps(service.get("/v1/task")).encode())
        assert announced.measure.rounds == 2
        outcomes = all_of(service.address, quick_path, 60, labelled)
        service.wait_for(6)
        said, model = service.get("/v1/rounds"), service.get("/v1/model.json")
        page = service.get("/").decode()
    for number, (outcome, history) in enumerate(outcomes):
        assert outcome.regular
        (entry,) = history.entries  # one report, whatever it was of
        assert history.spent <= 6
        assert (entry.run != outcome.run) == (number % 3 == 0)
        asked = measured_question(outcome.run, entry.run)
        assert (asked is not None) == (entry.round >= 4) == (number % 3 == 0)
    assert [one["accepted"] for one in said["rounds"]] == [10] * 6
    (found,) = said["measurements"]
    assert found["epoch"] == 0
    assert found["clients"] == 20
    assert "Measured by devices" in page
    rows, labels = zip(*map(person, range(60)), strict=True)
    known = Model.decode(json.dumps(model).encode())
    right = known.predict(np.array(rows), FEATURES) == np.array(labels)
    accuracy = found["metrics"]["accuracy"]
    assert abs(accuracy["value"] - right.mean()) < 7 * accuracy["error"] + 0.2
    assert 0 <= found["metrics"]["accuracy"]["low"] <= found["metrics"]["accuracy"]["high"] <= 1
    assert found["epsilon"] == 6


def test_a_question_about_people_is_answered_once_by_each(quick_path):
    task = Task.of(ASKED)
    jobs = ["cook", "smith", "nurse"]

    def records_of(number):
        return RawRecords([{"job": jobs[number % 3]}])

    with running(task, quick_path / "store") as service:
        outcomes = all_of(service.address, quick_path, 40, records_of)
        (found,) = service.get("/v1/rounds")["answers"]
        assert service.get("/v1/answers") == {"answers": [found]}
        assert [service.ask("GET", f"/v1/model{end}")[0] for end in ("", ".json")] == [404, 404]
    assert {outcome.ending for outcome, _ in outcomes} <= {Ending.FINISHED, Ending.DONE}
    assert all(outcome.accepted == 1 for outcome, _ in outcomes)
    assert found["clients"] == 40
    shares = {one["answer"]: one["value"] for one in found["shares"]}
    truth = {"cook": 14 / 40, "smith": 13 / 40, "other": 13 / 40}
    assert shares == pytest.approx(truth, abs=0.2)
    # The same question again is the same run: each device repeats its report, and pays nothing.
    with running(task, quick_path / "another store") as service:
        again = all_of(service.address, quick_path, 40, records_of)
        (repeated,) = service.get("/v1/rounds")["answers"]
    assert repeated == found
    for (_, before), (_, after) in zip(outcomes, again, strict=True):
        assert after.spent == before.spent > Fraction(0)


def through_relay(quick_path, task, count, records_of):
    """Outcomes of devices that take part by a relay, and what the service says at the end."""
    with relayed(quick_path, task=task) as (service, relay):
        keys = {name: getattr(relay.config, name) for name in ("server_key", "signing_key")}
        limits = {"lifetime": 8.0, "per_report": 8.0, "solutions": ["FJ", "BR"], **keys}
        limits["dimensions"] = range(1, 65)
        tokens = [relay.invitations.invite("device") for _ in range(count)]

        def device(number):
            OWN.number = number
            client = Client(Policy(**limits), quick_path / f"{number}", create=True)
            with Session(relay.address, every=0.05, token=tokens[number]) as session:
                return session.join(client, records_of(number))

        with ThreadPoolExecutor(count) as pool:
            outcomes = list(pool.map(device, range(count)))
        wait_until(lambda: service.get("/v1/rounds/open")["finished"])
        return outcomes, service.get("/v1/rounds"), service.get("/v1/task")


@pytest.mark.slow
@pytest.mark.usefixtures("roles")
def test_devices_behind_a_relay_measure_too(quick_path):
    signed = {"invitations": "signed", "shuffle": {"n_min": 10, "dishonest": 0.0}}
    task = Task.of({**MEASURED, **signed})
    outcomes, said, announced = through_relay(quick_path, task, 60, labelled)
    assert all(outcome.accepted == 1 for outcome in outcomes)
    (found,) = said["measurements"]
    assert found["clients"] == 20
    # The central number is that of the client whom shuffling protects least.
    each = [task.begin.recipe, *task.begin.measuring.recipes]
    proved = [task.shuffle.guarantee(recipe, composed=True).epsilon for recipe in each]
    assert announced["shuffle"]["epsilon"] == max(proved)


@pytest.mark.slow
def test_a_question_is_answered_behind_a_relay(quick_path):
    signed = {"invitations": "signed", "shuffle": {"n_min": 40, "dishonest": 0.0}}
    jobs = ["cook", "smith", "nurse"]
    task = Task.of({**ASKED, **signed})
    outcomes, said, _ = through_relay(
        quick_path, task, 40, lambda number: RawRecords([{"job": jobs[number % 3]}])
    )
    assert all(outcome.accepted == 1 for outcome in outcomes)
    (found,) = said["answers"]
    assert found["clients"] == 40


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"question": "histogramm"}, "question = 'histogramm': must be one of"),
        ({"columns": {"job": ["cook"]}}, "levels = 1: must be"),
        ({"columns": {"age": [0, 1]}, "bins": 10**9}, "bins = 1000000000: must be"),
        ({"columns": None}, "columns = None: must be a table"),
        ({"columns": {"age": "private"}}, "column = 'age': must be one with public bounds"),
        ({"clients": 3, "epsilon": 0.5}, "clients = 3: must be at least"),
        ({"measure": 0.1}, "measure = 0.1: must be omitted with a question"),
        ({"solution": "PM"}, "solution = 'PM': must be omitted with a question"),
        ({"schema": {"columns": {"a": [0, 1]}}}, "columns = "),
        ({"where": {"job": "cook"}}, "where = "),
        ({"question": None}, "columns = "),
        ({"dim": 3}, "dim = 3: must be omitted with a question"),
        ({"rounds_per_epoch": 2}, "rounds_per_epoch = 2: must be 1 with a question"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_before_it_is_asked(given, said):
    values = {k: v for k, v in {**ASKED, **given}.items() if v is not None}
    with pytest.raises(InvalidArgument) as found:
        Task.of(values)
    assert str(found.value).startswith(said), found.value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rounds_per_epoch": 1}, "rounds_per_epoch = 1: must be at least 2 with measure"),
        ({"measure": 1}, "measure = 1: must be in"),
        ({"features": None, "labels": None, "feature_range": None, "dim": 4}, "measure = 0.34"),
    ],
)
def test_what_cannot_be_measured_is_refused(given, said):
    values = {k: v for k, v in {**MEASURED, **given}.items() if v is not None}
    with pytest.raises(InvalidArgument) as found:
        Task.of(values)
    assert str(found.value).startswith(said), found.value


def test_a_question_that_changed_is_another_run(quick_path):
    """A device refuses what does not fit its task, and a store refuses another task."""
    asked, other = Task.of(ASKED), Task.of({**ASKED, "columns": {"job": ["cook", "other"]}})
    assert asked.begin.run == Task.of({**ASKED, "name": "again", "clients": 60}).begin.run
    different = [{"epsilon": 4.0}, {"purpose": "Why"}, {"recipient": "Who"}, {"epochs": 2}]
    runs = [Task.of({**ASKED, **one}).begin.run for one in different]
    assert len({asked.begin.run, other.begin.run, *runs}) == 6
    with running(asked, quick_path / "store"):
        pass
    renamed = Task.of({**ASKED, "columns": {"job": ["cook", "smith", "baker"]}})
    for changed in (other, renamed):  # of another and of the same number of answers
        with pytest.raises(InvalidArgument), running(changed, quick_path / "store"):
            pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"question": "mean"}, lambda said: said["mean"]["value"] == pytest.approx(30, abs=12)),
        (
            {"question": "quantiles", "quantiles": [0.5], "bins": 4},
            lambda said: said["quantiles"][0]["value"] == pytest.approx(30, abs=15),
        ),
        (
            {"question": "count", "where": {"age": [0, 50]}},
            lambda said: said["number"]["value"] == pytest.approx(40, abs=8),
        ),
        (
            {
                "question": "cross table",
                "columns": {"age": [0, 100], "job": ["cook", "smith"]},
                "bins": 2,
            },
            lambda said: said["shares"][0]["value"] == pytest.approx(0.5, abs=0.3),
        ),
    ],
    ids=lambda one: one["question"] if isinstance(one, dict) else "",
)
def test_every_kind_of_question_makes_its_way(quick_path, asked, found):
    """Devices with two records each answer about one."""
    task = Task.of({**ASKED, "columns": {"age": [0, 100]}, **asked})
    rows = [{"age": "30", "job": "cook"}, {"age": 30, "job": "smith"}]

    def records_of(number):
        return RawRecords([rows[number % 2], rows[number % 2]])

    with running(task, quick_path / "store") as service:
        outcomes = all_of(service.address, quick_path, 40, records_of)
        service.wait_for(1)
        (said,) = service.get("/v1/answers")["answers"]
    assert all(outcome.accepted == 1 for outcome, _ in outcomes)
    assert said["clients"] == 40
    assert found(said), said
