"""``fedsel statement`` as people run it."""

import json

import pytest

from fedsel.service.inviting import invitations_of
from tests.cli.support import run_here
from tests.service.relay.support import sealed_for
from tests.service.support import Http, ServiceProcess, reports_for
from tests.service.test_running import TASK

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]


@pytest.fixture
def task_file(quick_path):
    path = quick_path / "trial.toml"
    path.write_text(TASK)
    return path


def test_a_run_is_stated_while_it_is_served(task_file, quick_path):
    tokens = run_here("invite", task_file, "--count", 3).stdout.split()
    with ServiceProcess(task_file, quick_path / "trial.store") as service:
        before = json.loads(run_here("statement", task_file, "--json").stdout)
        client = Http(service.address)
        for row, token in zip(reports_for(client.request(), 3), tokens, strict=True):
            assert client.send(row, token) == (200, "accepted")
        client.wait_for(1)
        client.close()
        page = quick_path / "statement.html"
        said = run_here("statement", task_file, "--html", page).stdout
    assert before["run"] == json.loads(run_here("statement", task_file, "--json").stdout)["run"]
    assert "ε = 2" in said
    assert f"written: {page}" in said
    assert "trusted shuffler" in page.read_text()


def test_a_run_behind_a_relay_has_both_numbers_of_itself(task_file, quick_path):
    """Nobody says the rule: the run has it."""
    task_file.write_text(TASK + "shuffle = { n_min = 3, dishonest = 0.0 }\n")
    relay = quick_path / "relay.toml"
    run_here("invite", task_file, "--relay", "http://127.0.0.1:9", "--out", relay)
    with ServiceProcess(task_file, quick_path / "trial.store") as service:
        client = Http(service.address)
        key = client.get("/v1/task")["shuffle"]["server_key"]
        sealed = sealed_for(client.get("/v1/rounds/open/request"), key, 3)
        token = invited(task_file)
        rows = b"".join(sorted(row[33:] for row in sealed))
        assert client.ask("POST", "/v1/rounds/0/shuffled/0", rows, token)[0] == 200
        assert client.ask("POST", "/v1/rounds/0/released/3", b"", token)[0] == 200
        client.close()
        said = run_here("statement", task_file).stdout
    assert "A relay has shuffled the reports: ε = 2 against everybody; ε = " in said
    assert "at least 3 honest reports" in said


def invited(task_file):
    """A token of a relay."""
    from fedsel.service import Task

    return invitations_of(Task.load(task_file), task_file.with_suffix(".store")).invite("relay")


def test_stores_that_are_none(task_file, quick_path):
    error = run_here("statement", task_file, status=2).stderr
    assert "--store = " in error
    assert "must be the store of a service" in error
    assert not (quick_path / "trial.store").exists()
    run_here("invite", task_file)
    other = task_file.with_name("other.toml")
    other.write_text(TASK)
    error = run_here("statement", other, "--store", quick_path / "trial.store", status=2).stderr
    assert "TASK = 'other': must be in the store, which has 'trial'" in error
