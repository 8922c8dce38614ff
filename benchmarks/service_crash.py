"""Kill the service and PostgreSQL at random instants under load: nothing lost, nothing doubled.

Clients in threads, every third a gateway, send each report until they are answered. After each
few kills, every report that was answered with success must be in its round exactly once, no other
one may be there, and the weights must be those that the reports give, round by round.

- SQLite: ``--kills`` times kill -9 of the one process (200).
- PostgreSQL, two workers: ``--postgres-kills`` times kill -9 of all of PostgreSQL (50), with a
  worker killed between two of them.

Before each kill `fedsel invite` opens and closes the store beside the service.

Example: python benchmarks/service_crash.py --kills 20 --postgres-kills 5
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.service.crashing import TASK, Crowd, Message, check_exactly_once, task_values
from tests.service.postgres import Cluster, installed
from tests.service.support import ServiceProcess, wait_until
from tests.service.test_crashes import workers_of

ROUNDS, REPORTS, CLIENTS, A_TIME = 1_000_000, 20, 12, 10


def ordeal(
    store: str, kills: int, kill: Callable[[ServiceProcess, int], None], *options: str
) -> tuple[int, int]:
    """Kill so many times, look now and then; how many rounds and reports there were."""
    task, rng = task_values(ROUNDS, REPORTS), random.Random(0)
    sent: list[Message] = []
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "crash.toml"
        file.write_text(TASK.format(rounds=ROUNDS, reports=REPORTS))
        done = first = 0
        while done < kills:
            with ServiceProcess(file, store, *options) as service:
                # Names of their own: clients of an earlier part had other tokens.
                with Crowd(task, store, lambda s=service: s.address, CLIENTS, first) as crowd:
                    first += CLIENTS
                    for _ in range(min(A_TIME, kills - done)):
                        goal = len(crowd.accepted) + 20
                        wait_until(lambda: len(crowd.accepted) >= goal)  # noqa: B023
                        invite(file, store)
                        time.sleep(rng.uniform(0, 0.2))
                        kill(service, done)
                        done += 1
                    goal = len(crowd.accepted) + 20
                    wait_until(lambda: len(crowd.accepted) >= goal)  # noqa: B023
                service.stop()
            sent += crowd.sent
            rounds, reports = check_exactly_once(task, store, sent)
            print(f"{done} kills: {rounds:,} rounds, {reports:,} reports, each exactly once")
    return rounds, reports


def invite(file: Path, store: str) -> None:
    """Write an invitation from a process of its own."""
    command = [sys.executable, "-m", "fedsel", "invite", str(file), "--store", store]
    subprocess.run([*command, "--count", "1"], check=True, stdout=subprocess.DEVNULL)


def kill_service(service: ServiceProcess, number: int) -> None:
    """End the one process, and start it again."""
    del number
    service.kill()
    service.start()


def main() -> None:
    """Kill and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--postgres-kills", type=int, default=50)
    options = parser.parse_args()
    if options.kills:
        print("SQLite: kill -9 of the service")
        with tempfile.TemporaryDirectory() as name:
            ordeal(f"{name}/store", options.kills, kill_service)
    if options.postgres_kills and installed():
        print("PostgreSQL, two workers: kill -9 of PostgreSQL, and of a worker in between")
        cluster = Cluster()

        def kill_database(service: ServiceProcess, number: int) -> None:
            if number % 2:
                os.kill(wait_until(lambda: workers_of(service))[0], signal.SIGKILL)
            cluster.kill()
            cluster.start()

        try:
            ordeal(cluster.url, options.postgres_kills, kill_database, "--workers", "2")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
