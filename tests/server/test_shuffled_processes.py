"""200 devices, a shuffler and a server as real processes, each of them killed again and again.

The model is the one without a shuffler, to the bit, on the same random words. While they live, the
memory of shuffler and server is searched: no report in the clear in the one, no name in the other.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from fedsel._internal.random import stream
from fedsel.device import Ledger
from fedsel.server import Aggregator, ServerKey, Shuffler
from fedsel.wire import Request
from tests.server import shuffled_parts
from tests.server.shuffled_parts import shuffled

ROOT = Path(__file__).parents[2]
DEVICES, ROUNDS = 200, 2
N_MIN = DEVICES // ROUNDS
SHUFFLER = [("receive", 30), ("release", 1), ("begin", 1), ("receive", 50), ("confirm", 1)]
SERVER = [("fetched", 1), ("received", 1), ("stepped", 1), ("stepped", 1)]
"""The points at which each life of a part ends: both rounds, before and after what is durable."""


def start(*words):
    command = [sys.executable, "-m", "tests.server.shuffled_parts", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def memory_of(pid):
    """All of a process's memory that it can write to, part by part."""
    place = Path(f"/proc/{pid}")
    with (place / "mem").open("rb", 0) as memory:
        for line in (place / "maps").read_text().splitlines():
            begin, end, mode = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            if mode.startswith("rw"):
                try:
                    memory.seek(int(begin, 16))
                    yield memory.read(int(end, 16) - int(begin, 16))
                except (OSError, OverflowError, ValueError):  # gone, or of the kernel
                    continue


def files_of(folder):
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # a journal that is gone again
            yield file.read_bytes()


def holds(parts, *texts):
    """Whether any of some bytes, also written in hexadecimal, stands in any of these parts."""
    wanted = [form for text in texts for form in (text, text.hex().encode())]
    return any(text in part for part in parts for text in wanted)


class Run:
    """The processes of one run, its folder, and what must not be found."""

    def __init__(self, folder):
        self.folder, self.port = folder, shuffled.free_port()
        self.token = os.urandom(12).hex()  # in the name of every device
        (folder / "server").mkdir()
        self.key = ServerKey.create(folder / "server" / "key.pem").public
        self.recipe = shuffled.recipe_for(DEVICES)
        with Aggregator(self.recipe, folder / "server", rounds_per_epoch=ROUNDS) as server:
            form = Request.decode(server.request()).format
        self.heads = [form._head + number.to_bytes(4, "little") for number in range(ROUNDS)]
        self.processes = []

    def start(self, *words):
        process = start(*words)
        self.processes.append(process)
        return process

    def live(self, role, lives, last, seen):
        """Start a part again and again, kill it where it stops, and leave the last one alone."""
        place = (self.port, self.folder / role, N_MIN if role == "shuffler" else DEVICES)
        for point, times in lives:
            process = self.start(role, point, times, *place)
            assert process.stdout.readline() == b"reached\n", (role, point)
            seen(process, point)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        process = self.start(role, "never", 1, *place)
        if last:
            assert process.stdout.readline() == b"reached\n"

    def see_shuffler(self, process, point):
        """It never has a report in the clear; names are in its memory, and not on its disk."""
        assert not holds(memory_of(process.pid), *self.heads)
        assert not holds(files_of(self.folder / "shuffler"), *self.heads, self.token.encode())
        if point == "receive":  # the search does find what is there
            assert holds(memory_of(process.pid), self.token.encode())

    def see_server(self, process, point):
        """It never has a name; reports are in its memory."""
        assert not holds(memory_of(process.pid), self.token.encode())
        assert not holds(files_of(self.folder / "server"), self.token.encode())
        if point == "received":
            assert holds(memory_of(process.pid), *self.heads)

    def see_devices(self, process):
        """All of them report in the end; if not, nobody need wait for them."""
        if process.wait():
            self.end()
        assert process.returncode == 0

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def without_a_shuffler(recipe, folder):
    """The same devices and the same random words, straight to the server."""
    solution = recipe.build()
    with Aggregator(recipe, folder, rounds_per_epoch=ROUNDS) as server:
        while not server.finished:
            number, form = server.round, Request.decode(server.request()).format
            for i in range(number, DEVICES, ROUNDS):
                gradient = shuffled.MODEL.gradient(server.weights, *shuffled.records_of(i))
                report, _ = solution.in_round(number).encode(
                    gradient.astype(np.float32),
                    np.zeros(solution.dim, dtype=np.float32),
                    stream(shuffled_parts.SEED, 0, i),
                )
                server.receive(i, form.encode(number, report))
            server.step()
        return server


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="reads /proc")
def test_every_part_is_killed_and_nothing_is_lost_doubled_or_seen(quick_path):
    run = Run(quick_path)
    limit = threading.Timer(900, run.end)  # all that wait for a line then get none
    limit.start()
    try:
        with ThreadPoolExecutor() as threads:
            parts = [
                threads.submit(run.live, "shuffler", SHUFFLER, False, run.see_shuffler),
                threads.submit(run.live, "server", SERVER, True, run.see_server),
            ]
            devices = run.start("devices", run.port, quick_path, run.key, DEVICES, run.token)
            parts.append(threads.submit(run.see_devices, devices))
            try:
                for part in wait(parts, return_when=FIRST_EXCEPTION).done:
                    part.result()
            finally:
                run.end()
    finally:
        limit.cancel()
        run.end()
    expected = without_a_shuffler(run.recipe, quick_path / "plain")
    with Aggregator(run.recipe, quick_path / "server", rounds_per_epoch=ROUNDS) as server:
        assert server.finished
        np.testing.assert_array_equal(server.weights, expected.weights)
        np.testing.assert_array_equal(server.model, expected.model)
        assert server.records == expected.records  # 100 accepted twice, and nothing else
        run_name = server.run
    assert np.abs(expected.model).max() > 0.01
    for i in range(0, DEVICES, 37):  # paid for once
        history = Ledger(quick_path / f"device-{i}").read()
        assert (len(history.entries), history.left) == (1, 0)
    with Shuffler(quick_path / "shuffler", n_min=N_MIN) as shuffler:
        shuffler.confirm(run_name, ROUNDS)
    assert not holds(files_of(quick_path / "shuffler"), *run.heads, run.token.encode())
