"""What is left on disks and in logs links no report with anybody (docs/threat-model.md)."""

import base64
import json
import shutil
import sqlite3
import time

import pytest

from fedsel.server._keys import RunKeys
from fedsel.service import Task
from fedsel.service._store import open_store
from fedsel.service.inviting import invitations_of, relay_settings
from fedsel.service.relay import RelayConfig, _courier
from fedsel.service.relay._run import RelayedRun
from fedsel.wire import Request, Sealing
from tests.service.relay.support import SHUFFLED, config_for, relay_config, relayed
from tests.service.relay.test_run import passed_of, send
from tests.service.support import (
    Http,
    ServiceProcess,
    reports_for,
    running,
    task_of,
    wait_until,
)

ADDRESS = "203.0.113.77"
TASK = """
epsilon = 4
dim = 8
clients = 40
rounds_per_epoch = 3
close_after = { reports = 5 }
shuffle = { n_min = 4, dishonest = 0 }
"""


def raw(store):
    """All bytes of a store: the files of a folder, or every table of a database."""
    if not str(store).startswith("postgresql"):
        return b"".join(file.read_bytes() for file in sorted(store.rglob("*")) if file.is_file())
    import psycopg

    found = b""
    with psycopg.connect(str(store)) as connection:
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'fedsel'"
        for (table,) in connection.execute(tables).fetchall():
            with connection.cursor().copy(f"COPY fedsel.{table} TO STDOUT (FORMAT binary)") as rows:
                found += b"".join(map(bytes, rows))
    return found


def traces(invitations, token, turn, content):
    """What would give away that the holder of a token has sent something, by what it is."""
    part = token.split(".")[1]
    sub = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sub"]
    name = invitations.name(invitations.participant(token), turn)
    return {
        "token": token.encode(),
        "claims": part.encode(),
        "signature": token.split(".")[2].encode(),
        "sub": sub.encode(),
        "sub in bytes": base64.urlsafe_b64decode(sub + "=="),
        "hash": name,
        "hash in text": name.hex().encode(),
        "sealed": content,
        "encapsulated key": content[:32],
        "sealed in text": content[:32].hex().encode(),
    }


def found_in(held, secrets):
    """Which of these are in these bytes."""
    return {what for what, secret in secrets if secret in held}


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_neither_stores_nor_logs_link_anything(quick_path, store_url):
    """Three rounds of five participants; then both parties are killed, and nothing is tidied up."""
    if not store_url.startswith("postgresql"):
        store_url = quick_path / "service"
    task_file, relay_file = quick_path / "task.toml", quick_path / "relay.toml"
    relay_store, reports, secrets = quick_path / "relay", [], []
    task_file.write_text(TASK)
    task = Task.load(task_file)
    with ServiceProcess(task_file, store_url, "--log-level", "debug") as service:
        relay_file.write_text(relay_settings(task, store_url, service.address))
        relay_file.chmod(0o600)
        config = RelayConfig.load(relay_file)
        arguments = (relay_file, relay_store, "--log-level", "debug", "--proxy", "127.0.0.1")
        with ServiceProcess(*arguments, command="relay") as relay:
            invitations = invitations_of(config, relay_store)
            tokens = [invitations.invite("device") for _ in range(5)]
            client = Http(relay.address)
            for number in range(3):
                wait_until(lambda: client.ask("GET", "/readyz")[0] == 200)
                wait_until(lambda n=number: client.get("/v1/rounds/open")["round"] == n)
                message = client.get("/v1/rounds/open/request")
                sealing = Sealing(message, config.server_key)
                rows = reports_for(Request.decode(message), 5, number)
                reports += rows
                for token, row in zip(tokens, rows, strict=True):
                    sent = sealing.seal(row)
                    status = client.ask(
                        "POST", "/v1/reports", sent, token, X_Forwarded_For=ADDRESS
                    )[0]
                    assert status == 200
                    content = Sealing.split(sent).content
                    secrets += traces(invitations, token, 2 * number + 1, content).items()
            wait_until(lambda: client.get("/v1/rounds/open")["finished"])
            client.close()
            service.kill()
            relay.kill()
            logs = {"relay": relay.errors.encode(), "service": service.errors.encode()}
    secrets.append(("address", ADDRESS.encode()))
    for party, log in logs.items():
        assert b"round" in log
        assert not found_in(log, secrets), party
    assert not found_in(raw(store_url), secrets)
    assert all(row in raw(store_url) for row in reports)  # so the search can find something
    kept = raw(relay_store)
    assert found_in(kept, secrets) == {"hash"}
    assert sum(secret in kept for what, secret in secrets if what == "hash") == 15
    assert not any(row in kept for row in reports)


def test_an_invitation_names_nobody(quick_path):
    """Its name is random; a hash of it is of one run, of one round, and of one relay."""
    config = config_for(task_of(**SHUFFLED), quick_path / "service", "http://127.0.0.1:9")
    made = invitations_of(config, quick_path / "relay")
    names = {made.participant(made.invite("device")).name for _ in range(100)}
    assert len(names) == 100
    assert {len(base64.urlsafe_b64decode(name + b"==")) for name in names} == {16}
    token = made.invite("device")
    known = made.participant(token)
    assert made.name(known, 1) != made.name(known, 3)
    other = invitations_of(config, quick_path / "other relay")
    assert other.participant(token) is None
    assert other.name(known, 1) != made.name(known, 1)


def test_the_service_stores_a_function_of_the_multiset(quick_path, monkeypatch):
    """The same sealed messages, from other people and in another order: the same stored bytes."""
    monkeypatch.setattr(_courier, "PART_BYTES", 3 * 64)
    task, begun = task_of(**SHUFFLED), quick_path / "begun"
    invitations_of(task, begun)
    sealed, stored = [], []
    for i, order in enumerate(([0, 1, 2, 3, 4], [3, 0, 4, 2, 1])):
        folder = quick_path / f"service-{i}"
        shutil.copytree(begun, folder)
        with running(task, folder) as service:
            config = config_for(task, folder, service.address)
            with running(config, quick_path / f"relay-{i}") as relay:
                wait_until(lambda relay=relay: relay.ask("GET", "/readyz")[0] == 200)
                message = relay.get("/v1/rounds/open/request")
                sealing = Sealing(message, config.server_key)
                if not sealed:
                    sealed = [sealing.seal(row) for row in reports_for(Request.decode(message), 5)]
                for place in order:
                    assert relay.send(sealed[place]) == (200, "accepted")
                service.wait_for(1)
        with sqlite3.connect(folder / "service.sqlite") as connection:
            stored.append(connection.execute("SELECT * FROM batches ORDER BY batch").fetchall())
        connection.close()
    assert stored[0] == stored[1]
    assert len(stored[0]) == 2  # parts
    store = open_store(begun)
    store.choose("test")
    key = RunKeys.of_secret(store.secret, bytes.fromhex(config.run)).sealing
    store.close()
    in_order = sorted(Sealing.split(one).content for one in sealed)
    opened, _ = key.opened(message, b"".join(in_order))
    assert b"".join(row[-1] for row in stored[0]) == opened


def test_the_relay_forgets_what_was_sent(quick_path, store_url):
    """Sealed reports are there until the next round begins, and no plain one ever."""
    if not store_url.startswith("postgresql"):
        store_url = quick_path / "relay"
    with relayed(quick_path, store=store_url) as (service, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        message = relay.get("/v1/rounds/open/request")
        rows = reports_for(Request.decode(message), 5)
        sealed = [Sealing(message, relay.config.server_key).seal(row) for row in rows]
        contents = [Sealing.split(one).content for one in sealed]
        for one in sealed[:4]:
            assert relay.send(one) == (200, "accepted")
        before = raw(store_url)
        assert all(content in before for content in contents[:4])
        assert not any(row in before for row in rows)
        assert relay.send(sealed[4]) == (200, "accepted")
        service.wait_for(1)
        wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 1)
        after = raw(store_url)
        assert not any(content in after or content[:32] in after for content in contents)
        assert not any(row in after for row in rows)


def test_a_relay_that_was_killed_as_it_forgot_forgets_when_it_begins(quick_path, monkeypatch):
    """Erased bytes are in the database's log until that is emptied."""
    content, killed = b"sealed by somebody", quick_path / "killed"
    store = open_store(quick_path / "store")
    run = RelayedRun(relay_config(), store, time.time)
    run.open(passed_of(0))
    run.read()
    for name in (b"a", b"b", b"c"):
        send(run, (name, content + name))
    run.close()
    run.read()
    monkeypatch.setattr(store, "scrub", lambda: None)
    run.open(passed_of(1))
    shutil.copytree(quick_path / "store", killed)
    store.close()
    assert content in raw(killed)
    store = open_store(killed)
    again = RelayedRun(relay_config(), store, time.time)
    assert again.snapshot.round == 1
    assert content not in raw(killed)
    store.close()
