"""``fedsel serve`` and ``fedsel relay`` as people run them."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fedsel.cli import serve
from fedsel.service import Task
from fedsel.service.relay import RelayConfig
from tests.cli.support import run_here
from tests.service.relay.support import sealed_for
from tests.service.support import (
    Http,
    ServiceProcess,
    reports_for,
    wait_until,
)
from tests.service.test_running import TASK

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]


@pytest.fixture
def task_file(quick_path):
    path = quick_path / "trial.toml"
    path.write_text(TASK)
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_command_serves_and_ends_cleanly(task_file, quick_path, number):
    tokens = run_here("invite", task_file, "--count", 3).stdout.split()
    assert len(tokens) == len(set(tokens)) == 3
    with ServiceProcess(task_file, quick_path / "trial.store", "--log-level", "debug") as service:
        client = Http(service.address)
        for row, token in zip(reports_for(client.request(), 3), tokens, strict=True):
            assert client.send(row, token) == (200, "accepted")
        client.wait_for(1)
        client.close()
        assert "in use by another server" in run_here("serve", task_file, status=1).stderr
        other = ("--store", quick_path / "other", "--port", service.port)
        assert "--port" in run_here("serve", task_file, *other, status=2).stderr
        assert len(run_here("invite", task_file).stdout.split()) == 1  # while it runs
        service.process.send_signal(number)
        assert service._ended() == 0
        lines = [json.loads(line) for line in service.errors.splitlines()]
    events = [line["event"] for line in lines]
    assert events[0] == "started"
    assert events[-1] == "stopped"
    assert {"event": "round closed", "round": 0, "accepted": 3}.items() <= next(
        line for line in lines if line["event"] == "round closed"
    ).items()
    assert "request" in events
    everything = json.dumps(lines)
    assert not any(token in everything for token in tokens)
    assert "127.0.0.1" not in everything


def test_wrong_tasks_and_options_are_named(task_file, quick_path):
    for change, named in (
        ("epsilon = 2", "epsilon in trial.toml = -1: must be a number > 0"),
        ("dim = 8", "schema in trial.toml = None: must be set, or features, or dim"),
        ("clients = 40", "clients in trial.toml = None: must be set"),
        ("close_after = { reports = 3 }", "close_after in trial.toml = None: must be set"),
    ):
        replaced = "epsilon = -1" if change.startswith("eps") else ""
        task_file.write_text(TASK.replace(change, replaced))
        assert named in run_here("serve", task_file, status=2).stderr
    task_file.write_text(TASK + "client = 3\n")
    error = run_here("serve", task_file, status=2).stderr
    assert "client in trial.toml = 3: must be a known key, such as clients" in error
    task_file.write_text(TASK)
    error = run_here("serve", task_file, "--workers", 2, status=2).stderr
    assert "--workers = 2: must be 1 with SQLite" in error
    assert "nothing.toml" in run_here("serve", quick_path / "nothing.toml", status=2).stderr
    for wrong in ("postgresq://x:SECRET@db/y", "postgresql://x:a@SECRET@db/y"):
        error = run_here("serve", task_file, "--store", wrong, status=2).stderr
        assert "--store = " in error
        assert "SECRET" not in error
    nowhere = ("--store", "postgresql://x@/y?host=/no/where")
    assert "the store cannot be used" in run_here("serve", task_file, *nowhere, status=1).stderr


SHUFFLED = TASK.replace("reports = 3", "reports = 4") + "shuffle = { n_min = 3 }\n"


def test_a_relay_is_started_as_a_service_is(quick_path):
    task_file, relay_file = quick_path / "trial.toml", quick_path / "relay.toml"
    task_file.write_text(SHUFFLED)
    address = "http://127.0.0.1:9"
    run_here("invite", task_file, "--relay", address, "--out", relay_file)
    with ServiceProcess(task_file, quick_path / "trial.store") as service:
        relay_file.write_text(relay_file.read_text().replace(address, service.address))
        tokens = run_here("invite", relay_file, "--count", 4).stdout.split()
        with ServiceProcess(relay_file, quick_path / "relay.store", command="relay") as relay:
            client = Http(relay.address)
            wait_until(lambda: client.ask("GET", "/readyz")[0] == 200)
            key = RelayConfig.load(relay_file).server_key
            rows = sealed_for(client.get("/v1/rounds/open/request"), key, 4)
            for row, token in zip(rows, tokens, strict=True):
                assert client.send(row, token) == (200, "accepted")
            wait_until(lambda: client.get("/v1/rounds/open")["round"] == 1)
            client.close()
            assert relay.stop() == 0
            lines = [json.loads(line) for line in relay.errors.splitlines()]
        assert service.stop() == 0
    assert [line["event"] for line in lines] == [
        "started", "round opened", "round released", "round delivered", "round opened", "stopped",
    ]  # fmt: skip
    everything = relay_file.read_text() + json.dumps(lines)
    assert not any(token in everything for token in tokens)


def test_serve_says_both_numbers_and_who_may_have_to_wait(quick_path):
    task_file = quick_path / "trial.toml"
    task_file.write_text(SHUFFLED)
    with ServiceProcess(task_file, quick_path / "trial.store") as service:
        said = "".join(iter(service.process.stdout.readline, "Ctrl-C ends it.\n"))
    assert "ε = 2 against everybody; ε = " in said
    assert "at least 3 honest reports" in said
    assert "releases a round with at least 3 reports, or never" in said
    assert "some round has to wait for its 4 reports is less than 1 in 1,000" in said
    settings = f"fedsel invite {task_file} --store {quick_path / 'trial.store'} --relay ADDRESS"
    assert f"{settings} --out relay.toml" in said


def test_wrong_rules_of_a_relay_are_named(task_file):
    for rule, named in (
        ("shuffle = { n_min = 1 }", "shuffle.n_min in trial.toml = 1: must be"),
        ("shuffle = { n_min = 4 }", "close_after.reports in trial.toml = 3: must be at least"),
        ("shuffle = { nmin = 3 }", "shuffle.nmin in trial.toml = 3: must be a known key"),
        ("shuffle = 3", "shuffle in trial.toml = 3: must be a table with n_min, dishonest, delta"),
        ("shuffle = { dishonest = 1 }", "shuffle.dishonest in trial.toml = 1: must be a share"),
        ("shuffle = {}\ninvitations = 'open'", "invitations in trial.toml = 'open': must be"),
    ):
        task_file.write_text(TASK + rule + "\n")
        assert named in run_here("serve", task_file, status=2).stderr, rule
    task_file.write_text(TASK.replace("clients = 40", "clients = 4") + "shuffle = {}\n")
    assert "clients in trial.toml = 4: must be" in run_here("serve", task_file, status=2).stderr


@pytest.fixture
def task_files(quick_path):
    for name in ("a", "b"):
        (quick_path / f"{name}.toml").write_text(TASK)
    return [quick_path / "a.toml", quick_path / "b.toml"]


def test_one_command_serves_several_tasks(task_files, quick_path):
    first, second = task_files
    store = quick_path / "all"
    (token,) = run_here("invite", first, "--store", store).stdout.split()
    with ServiceProcess(first, store, second) as service:
        client = Http(f"{service.address}/runs/a")
        (row,) = reports_for(client.request(), 1)
        assert client.send(row, token) == (200, "accepted")
        assert len(run_here("invite", second, "--store", store).stdout.split()) == 1
        (quick_path / "c.toml").write_text(TASK)
        refused = run_here("invite", quick_path / "c.toml", "--store", store, status=2).stderr
        assert "'c': must be in the store, which has 'a', 'b'" in refused
        client.close()
        assert service.stop() == 0
        lines = [json.loads(line) for line in service.errors.splitlines()]
    events = [(line["event"], line["task"]) for line in lines]
    assert events[:2] == [("started", "a"), ("started", "b")]
    assert sorted(events[2:]) == [("stopped", "a"), ("stopped", "b")]
    second.write_text(TASK.replace("epsilon = 2", "epsilon = 3"))
    error = run_here("serve", first, second, "--store", store, status=2).stderr
    assert "epsilon of the task 'b' in b.toml = 3.0: must be 2.0, as in the checkpoint" in error
    second.write_text(TASK + 'name = "A"\n')
    error = run_here("serve", first, second, "--store", store, status=2).stderr
    assert "name in b.toml = 'A': must be another one: /runs/a is the path of the task 'a'" in error
    error = run_here("serve", first, second, "--demo", status=2).stderr
    assert "omitted with --demo" in error


def test_people_are_told_how_to_invite(task_file):
    """With the store, in which the key lies: other invitations are not valid."""
    run = {"address": "http://x", "rounds": 1, "epsilon_per_report": 2.0, "store": "runs"}
    run["new_store"] = True
    told = [*serve._described(Task.load(task_file), run)]
    assert f"  devices need invitations: fedsel invite {task_file} --store runs" in told
    assert any(line.endswith("; a new store: runs") for line in told)


def test_without_a_store_each_task_has_its_own(task_files, quick_path):
    """As each has alone: another task beside it changes nothing."""
    tokens = [run_here("invite", file).stdout.strip() for file in task_files]
    with background_process(task_files) as told:
        assert [run["store"] for run in told["runs"]] == [
            str(quick_path / f"{n}.store") for n in "ab"
        ]
        assert [run["address"] for run in told["runs"]] == [
            f"{told['address']}/runs/{n}" for n in "ab"
        ]
        for run, token in zip(told["runs"], tokens, strict=True):
            client = Http(run["address"])
            assert client.ask("GET", "/v1/invitation", token=token)[0] == 200
            client.close()


@contextmanager
def background_process(files):
    command = [sys.executable, "-m", "fedsel", "serve", *map(str, files), "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
