"""The service as people run it: commands, TLS, proxies, logs, and a clean end."""

import ssl

import pytest

from fedsel.service.running import Serving
from tests.cli.support import run_here
from tests.service.support import (
    FREE,
    Http,
    certificate,
    reports_for,
    running,
    task_of,
)

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]
TASK = """
epsilon = 2
dim = 8
clients = 40
rounds_per_epoch = 2
close_after = { reports = 3 }
purpose = "Try it"
"""


@pytest.fixture
def task_file(quick_path):
    path = quick_path / "trial.toml"
    path.write_text(TASK)
    return path


def test_a_changed_task_says_what_has_changed(task_file):
    run_here("invite", task_file)
    for change, name, value, before in (
        (("epsilon = 2", "epsilon = 3"), "epsilon", "3.0", "2.0"),
        (("dim = 8", "dim = 9"), "dim", "9", "8"),
        (("epoch = 2", "epoch = 3"), "rounds_per_epoch", "3", "2"),
        (("Try it", "Sell it"), "purpose", "'Sell it'", "'Try it'"),
    ):
        task_file.write_text(TASK.replace(*change))
        error = run_here("serve", task_file, status=2).stderr
        said = f"{name} of the task 'trial' in trial.toml = {value}: must be {before}, as in the"
        assert said in error
        assert "undo the change, or give the task another name or another --store" in error
        assert "Recipe(" not in error
    task_file.write_text(TASK.replace("epsilon = 2", "epsilon = 3\nclip = 2.0"))
    error = run_here("serve", task_file, status=2).stderr
    assert "must be 2.0, as in the checkpoint; " in error
    assert "; clip was 1.0, is 2.0" in error


def test_over_tls(quick_path):
    cert, key = certificate(quick_path)
    with running(task_of(), quick_path / "s", tls_cert=cert, tls_key=key) as plain:
        assert plain.address.startswith("https://")
        client = Http(plain.address, ssl.create_default_context(cafile=cert))
        client.invitations = plain.invitations
        assert client.send(reports_for(client.request(), 1)[0]) == (200, "accepted")
        _, headers, _ = client.ask("GET", "/v1/task")
        assert headers["strict-transport-security"]
        client.close()
        untrusting = Http(plain.address, ssl.create_default_context())
        with pytest.raises(ssl.SSLCertVerificationError):
            untrusting.get("/v1/task")
    with pytest.raises(ValueError, match="must be set together"):
        Serving("x", tls_cert=cert)
    wrong = Serving(str(quick_path / "w"), port=0, tls_cert=key, tls_key=key)
    with pytest.raises(ValueError, match="must be a certificate and its key"):
        Serving.listener(wrong, task_of().limits)


def test_behind_a_proxy_addresses_are_those_of_clients(quick_path):
    limits = {**FREE, "per_address": 0.001}

    def statuses(client, *addresses):
        return [client.ask("GET", "/v1/task", X_Forwarded_For=a)[0] for a in addresses]

    with running(task_of(limits=limits), quick_path / "a", proxies=("127.0.0.1",)) as client:
        assert statuses(client, "10.0.0.1", "10.0.0.2", "10.0.0.1") == [200, 200, 429]
    with running(task_of(limits=limits), quick_path / "b") as client:  # nobody is believed
        assert statuses(client, "10.0.0.1", "10.0.0.2") == [200, 429]
    with running(task_of(limits=limits), quick_path / "c", proxies=("10.9.9.9",)) as client:
        assert statuses(client, "10.0.0.1", "10.0.0.2") == [200, 429]
