"""kill -9 at any instant: of the service, of its workers, of PostgreSQL. Nothing lost or doubled.

`benchmarks/service_crash.py` does it hundreds of times.
"""

import os
import random
import signal
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.service.crashing import TASK, Crowd, check_exactly_once, children_of, task_values
from tests.service.support import Http, ServiceProcess, wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]
ROUNDS, REPORTS, CLIENTS = 100_000, 20, 9
TASKS = [task_values(ROUNDS, REPORTS, name) for name in ("crash", "smash")]


@pytest.fixture
def task_files(quick_path):
    """Of two runs."""
    files = [quick_path / f"{task.name}.toml" for task in TASKS]
    for file in files:
        file.write_text(TASK.format(rounds=ROUNDS, reports=REPORTS))
    return files


def progress(crowds, more):
    """Wait until each crowd has so many more accepted reports."""
    for crowd in crowds:
        goal = len(crowd.accepted) + more
        wait_until(lambda: len(crowd.accepted) >= goal)  # noqa: B023


@contextmanager
def crowds_of(service, store):
    """Clients of each run."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Crowd(task, store, lambda n=task.name: f"{service.address}/runs/{n}", CLIENTS)
            )
            for task in TASKS
        ]


def check_each(store, crowds):
    """All reports of each run count once, in enough rounds."""
    for task, crowd in zip(TASKS, crowds, strict=True):
        rounds, reports = check_exactly_once(task, store, crowd.sent)
        assert rounds >= 5
        assert reports >= 100


def test_kill_minus_nine_of_the_service(task_files, quick_path):
    store, rng = quick_path / "store", random.Random(1)
    with ServiceProcess(task_files[0], store, task_files[1]) as service:
        with crowds_of(service, store) as crowds:
            for _ in range(3):
                progress(crowds, 40)
                time.sleep(rng.uniform(0, 0.1))
                service.kill()
                service.start()
            progress(crowds, 40)
        assert service.stop() == 0
        check_each(store, crowds)
        assert all(crowd.failures > 0 for crowd in crowds)  # kills were noticed


def test_kill_minus_nine_of_workers_and_of_postgresql(task_files, postgres_url, cluster):
    first, second = task_files
    with ServiceProcess(first, postgres_url, second, "--workers", "2") as service:
        with crowds_of(service, postgres_url) as crowds:
            progress(crowds, 40)
            # Half of the workers: one of two, and not the tracker of multiprocessing's resources.
            workers = wait_until(lambda: workers_of(service))
            os.kill(workers[0], signal.SIGKILL)
            progress(crowds, 40)
            cluster.kill()
            cluster.start()
            progress(crowds, 40)
            wait_until(lambda: len(workers_of(service)) == 2)
        assert service.stop() == 0
        check_each(postgres_url, crowds)


def test_workers_end_with_their_supervisor(task_files, postgres_url):
    """Killed, it cannot end them; whoever starts the service again needs the port."""
    with ServiceProcess(task_files[0], postgres_url, "--workers", "2") as service:
        wait_until(lambda: len(workers_of(service)) == 2)
        service.kill()
        wait_until(service.refuses)
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
