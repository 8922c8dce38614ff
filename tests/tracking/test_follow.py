"""Following the run of a real service, from the first round or later."""

import threading

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.device import Ended
from fedsel.tracking import follow
from tests.tracking.test_callbacks import Failing, Recorder

pytest.importorskip("starlette", reason="needs the extra fedsel[service]")

from tests.service.support import PATIENCE, reports_for, running, task_of, wait_until
from tests.service.test_monitoring import LINEAR, ROWS


def play(client, rounds):
    """Send the reports of these rounds."""
    for number in rounds:
        for row in reports_for(client.request(), 5, seed=number):
            assert client.send(row)[0] == 200
        client.wait_for(number + 1)


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("before", [0, 2, 4])
def test_every_round_of_a_service_is_followed(quick_path, before):
    (quick_path / "test.csv").write_text(ROWS)
    judged = {"data": str(quick_path / "test.csv"), "label": "gone"}
    task = task_of(**LINEAR, evaluation=judged, purpose="a trial")
    seen, broken, found = Recorder(), Failing("round"), []
    with running(task, quick_path / "store") as client:
        play(client, range(before))
        thread = threading.Thread(
            target=lambda: found.append(follow(client.address, [broken, seen], every=0.01))
        )
        thread.start()
        wait_until(lambda: len(seen.records) == before and seen.run is not None)
        play(client, range(before, 4))
        thread.join(PATIENCE)
        rounds = client.get("/v1/rounds")["rounds"]
        model = np.frombuffer(client.get("/v1/model"), "<f8")
    assert (seen.run.name, seen.run.rounds) == ("test", 4)
    assert seen.run.parameters["purpose"] == "a trial"
    assert seen.run.epsilon == 4.0
    assert [r["round"] for r in seen.records] == [1, 2, 3, 4]
    for record, kept in zip(seen.records, rounds, strict=True):
        assert record["accuracy"] == kept["measured"]["accuracy"]
        assert record["reports"] == kept["accepted"] == 5
        assert record["epsilon"] == pytest.approx(4.0, rel=1e-6)
    assert broken.calls == 4
    assert found[0] is seen.history
    np.testing.assert_array_equal(found[0].weights, model)
    assert (found[0].fewest_reports, found[0].epochs_heard) == (5, 1)


def test_what_is_no_service_is_said(quick_path):
    with running(task_of(), quick_path / "store") as client:
        with pytest.raises(Ended, match=r"status 404 from .*/elsewhere"):
            follow(f"{client.address}/elsewhere", [print])
        with pytest.raises(OSError, match="full"):
            follow(client.address, [Failing("start")])
    with pytest.raises(Ended, match="does not answer"):
        follow("http://127.0.0.1:9", [print], patience=0.1)
    with pytest.raises(InvalidArgument, match="every = 0"):
        follow("http://127.0.0.1:9", [print], every=0)
