"""The ledger on full and read-only disks, between processes, and under kill -9."""

import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from fedsel.device import Client, Fault, Ledger, LedgerError, Refused
from fedsel.device import _storage as storage
from tests.device.test_ledger import POLICY, answer, used

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path):
    return used(tmp_path / "store")


def test_a_ledger_that_another_process_holds(store):
    client = Client(POLICY, store)
    client.ledger.timeout = 0.05
    with client.ledger.transaction(write=True), pytest.raises(LedgerError) as error:
        answer(client, 3)
    assert error.value.fault is Fault.BUSY
    answer(client, 3)


def test_a_full_disk_sends_nothing(store, monkeypatch):
    client = Client(replace(POLICY, lifetime=4.0), store, raised_by="The owner")
    connect = storage.connect

    def full(*arguments, **options):
        connection = connect(*arguments, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(storage, "connect", full)
    said = [outcome_of(client, number) for number in range(3, 40)]
    sent = [report for report in said if not report.startswith("LEDGER")]
    assert len(sent) < len(said)
    assert said[len(sent) :] == [f"LEDGER {Fault.UNWRITABLE.value}"] * (37 - len(sent))
    history = client.history()
    assert [entry.report.hex() for entry in history.entries[3:]] == sent
    monkeypatch.undo()
    answer(client, 39)


def in_child(work):
    """Run in a process of its own; returns what it returned, as text."""
    mine, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other tests may have left threads: the child needs none
        pid = os.fork()
    if pid == 0:
        try:
            os.write(theirs, str(work()).encode())
        except BaseException as error:
            os.write(theirs, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(pid, 0)
    with os.fdopen(mine, "rb") as pipe:
        return pipe.read().decode()


def outcome_of(client, number):
    try:
        return answer(client, number).hex()
    except Refused as refused:
        return f"{refused.reason.name} {refused}"


@pytest.mark.parametrize("room", [0, 4096])
def test_a_disk_without_room_sends_nothing(store, room):
    """The system itself refuses to write more than so many bytes of a file."""
    client = Client(POLICY, store)

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        return outcome_of(client, 3)

    assert in_child(work) == f"LEDGER {Fault.UNWRITABLE.value}"
    assert len(client.history().entries) == 3
    answer(client, 3)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without rights")
def test_a_read_only_store_sends_nothing(quick_path):
    quick_path.chmod(0o755)
    store = quick_path / "store"
    client = Client(POLICY, store, create=True)
    answer(client, 0)
    store.chmod(0o755)
    for file in store.iterdir():
        file.chmod(0o644)

    def work():
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        return [outcome_of(client, 1), outcome_of(client, 0), len(client.history().entries)]

    said = in_child(work)
    assert f"LEDGER {Fault.UNWRITABLE.value}" in said
    assert client.history().entries[0].report.hex() in said  # it had left before
    assert len(client.history().entries) == 1


def test_a_read_only_folder_sends_nothing(store):
    """Without root's rights over permissions, or with them taken away by SQLite itself."""
    client = Client(POLICY, store)
    original = storage.connect

    def read_only(*arguments, **options):
        connection = original(*arguments, **options)
        connection.execute("PRAGMA query_only = ON")
        return connection

    storage.connect = read_only
    try:
        said = outcome_of(client, 3)
    finally:
        storage.connect = original
    assert said == f"LEDGER {Fault.UNWRITABLE.value}"
    assert len(client.history().entries) == 3


WORKER = """
import sys
import numpy as np
from fedsel import Recipe
from fedsel.device import Client, Policy, Refused, Request

store, worker = sys.argv[1], int(sys.argv[2])
policy = Policy(lifetime=2.0, per_report=0.1, solutions=["PS-PM"], dimensions=[16], runs=99)
client = Client(policy, store)
sys.stdin.readline()
for number in range(40):
    for run in (bytes(16), bytes([worker + 1]) * 16):
        recipe = Recipe("PS-PM", epsilon=4.0, dim=16, epochs=40, mu=0.1, learning_rate=1.0)
        request = Request(run, number, number, recipe).encode()
        try:
            report = client.answer(request, np.zeros(16), lambda w: np.ones(16))
        except Refused as refused:
            assert refused.reason.name in ("EXHAUSTED", "OUT_OF_ORDER"), refused.reason
        else:
            print(run.hex(), report.hex(), flush=True)
"""


@pytest.mark.slow
def test_ten_processes_on_one_store_spend_what_left(quick_path):
    """Ten at once, on a common run and on runs of their own: the ledger is what left them all."""
    store = quick_path / "store"
    Client(POLICY, store, create=True)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(store), str(i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(10)
    ]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    left = [line for worker in workers for line in worker.communicate()[0].splitlines()]
    assert all(worker.returncode == 0 for worker in workers)
    history = Ledger(store).read()
    held = {(entry.run.hex(), entry.report.hex()) for entry in history.entries}
    assert {tuple(line.split()) for line in left} == held
    assert len(held) == len(history.entries) == 20
    assert history.spent == history.lifetime == 2


@pytest.mark.slow
def test_hundreds_of_kills(quick_path):
    """Real processes, SIGKILL at random instants; `benchmarks/crash.py` says what is checked.

    Two hundred processes are started, and their stores read again; `make torture` kills 20,000. On
    a busy machine they live longer, so that reports leave there, too.
    """
    command = [sys.executable, str(ROOT / "benchmarks" / "crash.py"), "--json"]
    command += ["--kills", "200", "--longest", "0.012", "--dir", str(quick_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)
    assert totals["kills"] >= 200
    assert totals["reports"] >= totals["released"] >= 100
