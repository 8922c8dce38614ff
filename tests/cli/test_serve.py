"""``fedsel serve`` and ``fedsel invite`` as people run them."""

import json
import signal

import pytest

from tests.cli.support import run_here
from tests.service.support import (
    Http,
    ServiceProcess,
    reports_for,
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


def test_invitations_as_links(task_file):
    """The token is in the fragment, which browsers do not send."""
    lines = run_here("invite", task_file, "--count", 2, "--links", "https://learn.example/")
    links = lines.stdout.split()
    assert len(set(links)) == 2
    assert all(link.startswith("https://learn.example/join#token=ey") for link in links)
    below = run_here("invite", task_file, "--links", "https://learn.example/some/where/").stdout
    assert below.startswith("https://learn.example/some/where/join#token=ey")
    for wrong in ("learn.example", "ftp://learn.example", "https://a/b c", "https://a?b=c"):
        refused = run_here("invite", task_file, "--links", wrong, status=2).stderr
        assert "--links" in refused
    refused = run_here("invite", task_file, "--gateway", "--links", "https://a", status=2)
    assert "omitted with --gateway" in refused.stderr


def test_wrong_tasks_and_options_are_named(task_file, quick_path):
    for change, named in (
        ("epsilon = 2", "epsilon in trial.toml = -1: must be a number > 0"),
        ("dim = 8", "features in trial.toml = None: must be set, or dim"),
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
