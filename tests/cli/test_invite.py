"""``fedsel invite`` as people run it."""

import stat
import sys
import tomllib

import pytest

from fedsel.service.relay import RelayConfig
from tests.cli.support import run_here
from tests.service.test_running import TASK

SHUFFLED = TASK + "shuffle = { n_min = 3 }\n"


@pytest.fixture
def task_file(quick_path):
    path = quick_path / "trial.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def relay_file(task_file):
    task_file.write_text(SHUFFLED)
    file = task_file.with_name("relay.toml")
    run_here("invite", task_file, "--relay", "https://learn.example", "--out", file)
    return file


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


def test_the_settings_of_a_relay_are_a_secret(task_file, relay_file):
    if sys.platform != "win32":
        assert stat.S_IMODE(relay_file.stat().st_mode) == 0o600
    config = RelayConfig.load(relay_file)
    assert (config.name, config.service) == ("trial", "https://learn.example")
    printed = run_here("invite", task_file, "--relay", "https://learn.example").stdout
    again = tomllib.loads(printed)
    assert again.pop("token") != config.token
    assert all(getattr(config, name) == value for name, value in again.items())


def test_a_relay_invites_devices(relay_file):
    config = RelayConfig.load(relay_file)
    tokens = run_here("invite", relay_file, "--count", 3).stdout.split()
    assert len(set(tokens)) == 3
    link = run_here("invite", relay_file, "--links", "https://relay.example").stdout.strip()
    assert link.startswith("https://relay.example/join#token=ey")
    keys = f"&server-key={config.server_key}&signing-key={config.signing_key}"
    assert link.endswith(keys)


def test_who_cannot_invite_whom(task_file, relay_file):
    for arguments, named in (
        ([task_file], "must be the settings of its relay, which invites its devices"),
        ([relay_file, "--gateway"], "--gateway = True: must be omitted: a relay takes"),
        ([relay_file, "--relay", "https://a.example"], "omitted: TASK is the settings of a relay"),
        ([task_file, "--relay", "learn.example"], "--relay = 'learn.example': must be the address"),
        ([task_file, "--relay", "https://a.example", "--count", 2], "must be without --count"),
    ):
        assert named in run_here("invite", *arguments, status=2).stderr
    task_file.write_text(TASK)
    plain = run_here("invite", task_file, "--relay", "https://a.example", status=2).stderr
    assert "omitted: the task 'trial' in trial.toml has no table [shuffle]" in plain
