"""Stores in a folder: private, flushed, of one service, and never mistaken for another's."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from fedsel.server import FolderInUse
from fedsel.service._store import StoreUnavailable, open_store
from tests.service.test_store import row

pytestmark = pytest.mark.xdist_group("processes")


def test_only_its_owner_reads_a_database_in_a_folder(tmp_path):
    """It holds the key that signs invitations, and so does the log beside it."""
    before = os.umask(0)
    try:
        opened = open_store(tmp_path / "s")
        opened.begin("a run", b"begun", 10.0)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "s").iterdir()}
    opened.close()
    assert "service.sqlite-wal" in modes
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("kind", ["cut", "text", "another", "alike"])
def test_a_damaged_or_foreign_database_is_named_and_left_as_it_is(quick_path, kind):
    opened = open_store(quick_path)
    opened.begin("a run", b"begun", 10.0)
    opened.close()
    file = quick_path / "service.sqlite"
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:3000])
    elif kind == "text":
        file.write_bytes(b"no database")
    else:
        file.unlink()
        with closing(sqlite3.connect(file)) as other:
            other.execute(f"CREATE TABLE {'mine' if kind == 'another' else 'runs'} (x)")
    before = file.read_bytes()
    for alone in (True, False):  # and no lock is left
        with pytest.raises(StoreUnavailable, match=r"service.sqlite: .*; restore it from a backup"):
            open_store(quick_path, alone=alone)
    assert file.read_bytes() == before


def test_a_folder_belongs_to_one_service(quick_path):
    first = open_store(quick_path / "store")
    with pytest.raises(FolderInUse):
        open_store(quick_path / "store")
    first.begin("a", b"begun", 0.0)
    reader = open_store(quick_path / "store", alone=False)
    assert reader.choose("a")
    assert reader.key() == first.key()
    reader.close()
    first.close()
    open_store(quick_path / "store").close()


def test_a_commit_in_a_folder_is_flushed(quick_path):
    """With every transaction, into a log that was ordered before: what is told is durable."""
    opened = open_store(quick_path / "store")
    asked = {
        name: opened.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode")
    }
    opened.close()
    assert asked == {"synchronous": 2, "journal_mode": "wal"}  # 2 is FULL


def test_the_folder_is_held_until_the_last_run_has_ended(quick_path):
    first = open_store(quick_path / "store")
    second = first.another()
    first.close()
    with pytest.raises(FolderInUse):
        open_store(quick_path / "store")
    second.begin("a", b"begun", 0.0)
    second.close()
    open_store(quick_path / "store").close()


@pytest.mark.parametrize("again", [False, True])
def test_a_reader_that_comes_and_goes_loses_no_commit(quick_path, again):
    """`fedsel invite` does so; if the service had lost its locks, SQLite would delete the log."""
    opened = [open_store(quick_path / "store")]
    if again:  # a further run of the service, or invitations that are made in its process
        opened.append(opened[0].another())
    read = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    read += "print(*(n for n, in c.execute('SELECT name FROM runs ORDER BY name'))); c.close()"
    for names in ("a", "a b", "a b c"):
        opened[-1].begin(names[-1], b"begun", 0.0)
        command = [sys.executable, "-c", read, quick_path / "store" / "service.sqlite"]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        assert said.stdout.strip() == names
    for store in opened:
        store.close()


def test_runs_that_write_at_once_take_turns(quick_path):
    stores = [open_store(quick_path / "store")]
    stores += [stores[0].another() for _ in range(3)]
    for number, store in enumerate(stores):
        store.begin(f"run {number}", b"begun", 0.0)

    def write(store):
        for i in range(50):
            with store.writing() as transaction:
                assert transaction.add(0, [row(i)]) == [None]

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread, store in zip(threads, stores, strict=True):
        thread.join()
        with store.writing() as transaction:
            assert b"".join(transaction.reports(0)) == b"r" * 50
    for store in stores:
        store.close()
