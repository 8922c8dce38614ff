"""kill -9 at any instant: of the service, of its workers, of PostgreSQL. Nothing lost or doubled.

`benchmarks/service_crash.py` does it hundreds of times.
"""

import os
import random
import signal
import socket
import subprocess
import time

import pytest

from tests.service.crashing import TASK, Crowd, check_exactly_once, task_values
from tests.service.support import Http, ServiceProcess, wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]
ROUNDS, REPORTS, CLIENTS = 100_000, 20, 9


@pytest.fixture
def task_file(quick_path):
    path = quick_path / "crash.toml"
    path.write_text(TASK.format(rounds=ROUNDS, reports=REPORTS))
    return path


def progress(crowd, more):
    """Wait until so many more reports were accepted."""
    goal = len(crowd.accepted) + more
    wait_until(lambda: len(crowd.accepted) >= goal)


def test_kill_minus_nine_of_the_service(task_file, quick_path):
    task, store, rng = task_values(ROUNDS, REPORTS), quick_path / "store", random.Random(1)
    with ServiceProcess(task_file, store) as service:
        with Crowd(task, store, lambda: service.address, CLIENTS) as crowd:
            for _ in range(3):
                progress(crowd, 60)
                time.sleep(rng.uniform(0, 0.1))
                service.kill()
                service.start()
            progress(crowd, 60)
        assert service.stop() == 0
        rounds, reports = check_exactly_once(task, store, crowd.accepted)
        assert rounds >= 5
        assert reports >= 100
        assert crowd.failures > 0  # kills were noticed


def children_of(pid):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def test_kill_minus_nine_of_workers_and_of_postgresql(task_file, postgres_url, cluster):
    task = task_values(ROUNDS, REPORTS)
    with ServiceProcess(task_file, postgres_url, "--workers", "2") as service:
        with Crowd(task, postgres_url, lambda: service.address, CLIENTS) as crowd:
            progress(crowd, 60)
            # Half of the workers: one of two, and not the tracker of multiprocessing's resources.
            workers = wait_until(lambda: workers_of(service))
            os.kill(workers[0], signal.SIGKILL)
            progress(crowd, 60)
            cluster.kill()
            cluster.start()
            progress(crowd, 60)
            wait_until(lambda: len(workers_of(service)) == 2)
        assert service.stop() == 0
        rounds, reports = check_exactly_once(task, postgres_url, crowd.accepted)
        assert rounds >= 5
        assert reports >= 100


def test_workers_end_with_their_supervisor(task_file, postgres_url):
    """Killed, it cannot end them; whoever starts the service again needs the port."""
    with ServiceProcess(task_file, postgres_url, "--workers", "2") as service:
        wait_until(lambda: len(workers_of(service)) == 2)
        service.kill()

        def refused():
            try:
                socket.create_connection(("127.0.0.1", int(service.port))).close()
            except ConnectionRefusedError:
                return True
            return False

        wait_until(refused)
        service.start()
        assert wait_until(lambda: workers_of(service))
        assert service.stop() == 0


def workers_of(service):
    """The processes that serve, by the lines that they have written."""
    living = set(children_of(service.process.pid))
    client = Http(service.address)
    seen = set()
    for _ in range(20):
        try:
            text = client.get("/metrics").decode()
        except (OSError, AssertionError):
            break
        for line in text.splitlines():
            if line.startswith("fedsel_requests_total{"):
                seen.add(int(line.split('worker="')[1].split('"')[0]))
        client.close()
    return sorted(seen & living)
