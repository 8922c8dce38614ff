"""Where a shuffler keeps its rounds: erased when they are over, refused if it is not ours."""

import gc
import os
import sqlite3
import stat

import pytest

from fedsel.server import CheckpointError, Counts, FolderInUse, Shuffler, Verdict
from fedsel.server._shuffler import FILE_NAME
from fedsel.wire import Sealing
from tests.server.shuffling import KEY, RUN, SIZE, message_of, request_of


def contents(folder):
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_what_is_over_is_erased(quick_path):
    """Names go with the release, reports with the confirmation: from every page of every file."""
    request, clients = request_of(), 200
    with Shuffler(quick_path, n_min=3) as shuffler:
        shuffler.begin(request, KEY.public)
        messages = [message_of(i) for i in range(clients)]
        names = [f"a client called {os.urandom(8).hex()}" for _ in messages]
        shuffler.receive_many(zip(names, messages, strict=True))
        base = sqlite3.connect(quick_path / FILE_NAME)
        hashes = [row[0] for row in base.execute("SELECT client FROM reports")]
        (secret,) = base.execute("SELECT secret FROM rounds").fetchone()
        base.close()
        sealed = [Sealing.split(message).content for message in messages]
        assert len(secret) == 32
        held = contents(quick_path)
        assert all(part in held for part in (*hashes, secret, *sealed))  # the search finds things
        assert not any(name.encode() in held for name in names)
        batch = shuffler.release(request)
        held = contents(quick_path)
        assert not any(part in held for part in (*hashes, secret))
        shuffler.confirm(RUN, 1)
        held = contents(quick_path)
        assert not any(part in held for part in (*hashes, secret, *sealed, batch[:SIZE]))
        assert {file.name for file in quick_path.iterdir()} == {FILE_NAME, "server.lock"}


def test_the_store_is_for_its_owner_alone(quick_path):
    before = os.umask(0)
    try:
        Shuffler(quick_path, n_min=3).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((quick_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_folder_has_one_shuffler_at_a_time(quick_path):
    first = Shuffler(quick_path, n_min=3)
    with pytest.raises(FolderInUse):
        Shuffler(quick_path, n_min=3)
    first.close()
    first.close()
    with pytest.raises(CheckpointError, match="was closed, or belongs"):
        first.receive("a client", message_of(0))
    second = Shuffler(quick_path, n_min=3)
    del second
    gc.collect()
    Shuffler(quick_path, n_min=3).close()


def test_files_that_are_not_ours_are_refused(quick_path):
    (quick_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(CheckpointError, match=r"shuffler\.sqlite' cannot be used"):
        Shuffler(quick_path, n_min=3)
    (quick_path / FILE_NAME).unlink()
    other = sqlite3.connect(quick_path / FILE_NAME)
    other.execute("CREATE TABLE something (x)")
    other.commit()
    other.close()
    with pytest.raises(CheckpointError, match=r"was not written by this version"):
        Shuffler(quick_path, n_min=3)
    (quick_path / FILE_NAME).unlink()
    Shuffler(quick_path, n_min=3).close()  # no lock was left


@pytest.mark.parametrize("change", ["application_id = 1", "application_id = 2000000000"])
@pytest.mark.parametrize("also", ["", "user_version = 0", "user_version = 2"])
def test_a_store_of_another_program_or_version_is_refused(quick_path, change, also):
    Shuffler(quick_path, n_min=3).close()
    other = sqlite3.connect(quick_path / FILE_NAME)
    other.execute(f"PRAGMA {also or change}")
    other.close()
    with pytest.raises(CheckpointError, match="was not written by this version"):
        Shuffler(quick_path, n_min=3)


@pytest.mark.parametrize("change", ["DROP TABLE reports", "CREATE INDEX i ON reports (sealed)"])
def test_a_store_without_a_table_or_with_more_is_refused(quick_path, change):
    Shuffler(quick_path, n_min=3).close()
    other = sqlite3.connect(quick_path / FILE_NAME)
    other.execute(change)
    other.close()
    with pytest.raises(CheckpointError, match="was not written by this version"):
        Shuffler(quick_path, n_min=3)


def test_what_is_deleted_is_overwritten_and_what_is_written_is_flushed(quick_path):
    """Asked of SQLite itself: how it was compiled decides what it does unless told."""
    expected = {"journal_mode": "delete", "secure_delete": 1, "synchronous": 3}
    expected |= {"fullfsync": 1, "temp_store": 2, "trusted_schema": 0}
    expected |= {"application_id": int.from_bytes(b"FSSH"), "user_version": 1}
    with Shuffler(quick_path, n_min=3) as shuffler:
        base = shuffler._database
        found = {name: base.execute(f"PRAGMA {name}").fetchone()[0] for name in expected}
        assert shuffler._close.atexit is False
    assert found == expected
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        base.execute("SELECT 1")


def test_a_trigger_of_somebody_else_is_refused(quick_path):
    Shuffler(quick_path, n_min=3).close()
    other = sqlite3.connect(quick_path / FILE_NAME)
    other.execute("CREATE TRIGGER t AFTER INSERT ON reports BEGIN DELETE FROM settings; END")
    other.commit()
    other.close()
    with pytest.raises(CheckpointError, match="was not written by this version"):
        Shuffler(quick_path, n_min=3)


def test_what_cannot_be_written_is_not_acknowledged(quick_path):
    """Another connection holds the file: the message is neither accepted nor counted."""
    shuffler = Shuffler(quick_path, n_min=3)
    shuffler.begin(request_of(), KEY.public)
    shuffler.receive_many((i, message_of(i)) for i in range(2))
    shuffler._database.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(quick_path / FILE_NAME)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(CheckpointError, match="cannot be used: database is locked"):
        shuffler.receive(2, message_of(2))
    assert shuffler.counts == Counts(accepted=2)
    other.close()
    assert shuffler.receive(2, message_of(2)) is Verdict.ACCEPTED
