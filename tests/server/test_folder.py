"""A folder has one server at a time: with real processes, kills, forks and what they leave."""

import copy
import gc
import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from fedsel import Recipe
from fedsel.server import Aggregator, CheckpointError, FolderInUse
from fedsel.server._aggregator import FILE_NAME
from fedsel.server._folder import LOCK_NAME, FolderLock
from tests.server.test_aggregator import play_round, recipe

RACES = 60
WON, REFUSED, FAILED = b"won", b"ref", b"bad"


class Child:
    """A forked process that reports three letters, and then waits until it is let go."""

    def __init__(self, act, start):
        self.said, says = os.pipe()
        heard, self.tell = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other tests may have left threads
            self.pid = os.fork()
        if self.pid:
            os.close(says)
            os.close(heard)
            return
        held, word = None, FAILED  # what was opened stays open until the end
        try:
            os.read(start, 1)
            held = act()
            word = WON
        except FolderInUse:
            word = REFUSED
        finally:
            try:
                os.write(says, word)
                os.read(heard, 1)
            finally:
                os._exit(0 if held is None else 1)

    def word(self):
        return os.read(self.said, 3)

    def end(self):
        os.write(self.tell, b"!")
        for handle in (self.tell, self.said):
            os.close(handle)
        os.waitpid(self.pid, 0)


@contextmanager
def racing(*acts):
    """Processes that all begin at the same byte."""
    start, go = os.pipe()
    children = [Child(act, start) for act in acts]
    try:
        os.write(go, b"!" * len(acts))
        yield children
    finally:
        for child in children:
            child.end()
        os.close(start)
        os.close(go)


@pytest.mark.slow
def test_of_two_processes_that_step_at_once_exactly_one_wins(quick_path):
    long = recipe(epochs=2 * RACES)
    with Aggregator(long, quick_path) as server:
        play_round(server)  # laws are built once, before the children
        records = list(server.records)

    def act():
        server = Aggregator(long, quick_path)
        play_round(server)
        return server

    for _ in range(RACES):
        with racing(act, act) as children:
            assert sorted(child.word() for child in children) == [REFUSED, WON]
        with Aggregator(long, quick_path) as server:  # the winner's round is there, once
            assert server.records[:-1] == records
            assert server.records[-1].accepted == 5
            records = list(server.records)
    assert len(records) == RACES + 1


HOLDER = """
import os, sys, time
from fedsel import Recipe
from fedsel.server import Aggregator
recipe = Recipe("PM", epsilon=3.0, dim=4, epochs=3, learning_rate=0.3, averaging=0.0)
server = Aggregator(recipe, sys.argv[1])
server.step()
{further}
print("held", flush=True)
time.sleep(600)
"""


FORK = """
told, tells = os.pipe()
worker = os.fork()
if not worker:
    os.write(tells, b".")
    time.sleep(600)
os.read(told, 1)
with open(sys.argv[1] + "/worker", "w") as file:
    file.write(str(worker))
"""


def held_by_another_process(folder, further=""):
    script = [sys.executable, "-c", HOLDER.format(further=further), str(folder)]
    process = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    process.stdout.close()
    assert line == "held\n"
    return process


def flat():
    return Recipe("PM", epsilon=3.0, dim=4, epochs=3, learning_rate=0.3, averaging=0.0)


def test_kill_minus_nine_frees_the_folder(tmp_path):
    process = held_by_another_process(tmp_path)
    try:
        (tmp_path / f".{FILE_NAME}.4711").write_bytes(b"being written")
        with pytest.raises(FolderInUse, match=str(tmp_path)):
            Aggregator(flat(), tmp_path)
        assert (tmp_path / f".{FILE_NAME}.4711").exists()  # the holder's own business
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Aggregator(flat(), tmp_path) as server:
        assert server.round == 1
        server.step()
    assert {file.name for file in tmp_path.iterdir()} == {FILE_NAME, LOCK_NAME}


def test_a_child_of_a_killed_holder_does_not_keep_the_folder(tmp_path):
    """A worker that was forked off lives on: it lets go of the lock before it does anything."""
    process = held_by_another_process(tmp_path, FORK)
    worker = int((tmp_path / "worker").read_text())
    try:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(worker, 0)  # still there
        with Aggregator(flat(), tmp_path) as server:
            server.step()
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_second_server_is_refused_until_the_first_is_closed(tmp_path):
    folder = tmp_path / "of the server"

    def refused():
        with pytest.raises(FolderInUse, match=r"of the server.* is in use") as error:
            Aggregator(recipe(), folder)
        return error.value.folder == folder

    first = Aggregator(recipe(), folder)
    assert refused()
    assert refused()  # a refusal takes nothing from the holder
    first.close()
    first.close()
    with Aggregator(recipe(), folder) as second:
        assert first.closed
        assert not second.closed
        assert refused()
    third = Aggregator(recipe(), folder)
    assert refused()
    del third
    gc.collect()
    Aggregator(recipe(), folder).step()


def test_what_is_closed_can_be_read_but_takes_nothing(tmp_path):
    with Aggregator(recipe(), tmp_path) as server:
        request = server.request()
        record = play_round(server)
    assert server.records == [record]
    assert (server.round, server.mean().tolist()) == (1, [0.0] * len(server.weights))
    for use in (
        server.request,
        server.step,
        lambda: server.receive(0, b""),
        lambda: server.receive_many(b""),
    ):
        with pytest.raises(CheckpointError, match=f"{tmp_path}.* was closed, or belongs"):
            use()
    with Aggregator(recipe(), tmp_path) as again:
        assert again.request() != request
        np.testing.assert_array_equal(again.weights, server.weights)


def test_a_failed_opening_leaves_no_lock(tmp_path):
    Aggregator(recipe(), tmp_path).step()
    whole = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match="damaged") as kept:
        Aggregator(recipe(), tmp_path)
    (tmp_path / FILE_NAME).write_bytes(whole)
    assert Aggregator(recipe(), tmp_path).round == 1
    assert kept.tb  # the traceback, and all that it refers to, was alive meanwhile


def test_a_forked_process_has_no_part_in_the_lock(quick_path):
    server = Aggregator(recipe(), quick_path)

    def act():
        with pytest.raises(CheckpointError, match="belongs to another process"):
            server.step()
        return Aggregator(recipe(), quick_path)  # refused: the parent holds it

    with racing(act) as (child,):
        assert child.word() == REFUSED
    assert server.step().round == 0
    with pytest.raises(FolderInUse):
        Aggregator(recipe(), quick_path)


def test_a_copy_of_a_server_does_not_hold_its_folder(tmp_path):
    server = Aggregator(recipe(), tmp_path)
    twin = copy.deepcopy(server)
    with pytest.raises(CheckpointError, match="was closed, or belongs"):
        twin.step()
    del twin
    gc.collect()
    server.step()
    with pytest.raises(FolderInUse):
        Aggregator(recipe(), tmp_path)


def test_a_folder_that_is_replaced_under_a_server(tmp_path):
    folder = tmp_path / "server"
    server = Aggregator(recipe(), folder)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="was replaced"):
        server.step()
    Aggregator(recipe(), folder).step()
    with pytest.raises(CheckpointError, match="was replaced"):
        server.step()
    assert server.round == 0


def test_what_killed_servers_left_is_removed(tmp_path):
    Aggregator(recipe(), tmp_path)
    left = [tmp_path / f".{FILE_NAME}.{pid}" for pid in (1, 4711, os.getpid())]
    others = [tmp_path / f".{FILE_NAME}.mine", tmp_path / ".model.json.12", tmp_path / "x.1"]
    for file in (*left, *others):
        file.write_bytes(b"half a checkpoint")
    Aggregator(recipe(), tmp_path).step()
    assert not any(file.exists() for file in left)
    assert all(file.exists() for file in others)


def test_a_lock_in_what_is_no_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):  # and no server is said to hold it
        FolderLock(tmp_path / "file")
