"""A service that asks: about the model that its devices train, and about people."""

import json
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from fedsel import Policy
from fedsel.device import Client, Ending, RawRecords, Session
from fedsel.service import Task
from fedsel.wire import Announcement, measured_question
from tests.service.support import FREE, running

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
    "close_after": {"seconds": 1.0, "least": 0},
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


@pytest.mark.slow
def test_some_devices_measure_and_never_train(quick_path):
    task = Task.of(MEASURED)
    with running(task, quick_path / "store") as service:
        announced = Announcement.decode(json.dumps(service.get("/v1/task")).encode())
        assert announced.measure.rounds == 2
        outcomes = all_of(service.address, quick_path, 60, labelled)
        service.wait_for(6)
        said = service.get("/v1/rounds")
    taken = {"trains": 0, "measures": 0}
    for outcome, history in outcomes:
        assert outcome.regular
        if not history.entries:  # the run was over before its turn
            continue
        (entry,) = history.entries  # one report, whatever it was of
        assert history.spent <= 6
        role = "trains" if entry.run == outcome.run else "measures"
        assert role == "trains" or measured_question(outcome.run, entry.run) is not None
        assert (entry.round >= 4) == (role == "measures")
        taken[role] += outcome.accepted  # the others were late
    rounds = {one["round"]: one["accepted"] for one in said["rounds"]}
    assert sum(rounds[n] for n in range(4)) == taken["trains"]
    assert rounds[4] + rounds[5] == taken["measures"]
    (found,) = said["measurements"]
    assert found["epoch"] == 0
    assert found["clients"] == taken["measures"] > 0
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
