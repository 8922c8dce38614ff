"""kill -9 of a relay, its service and PostgreSQL, and a line that breaks: nothing lost or doubled.

`benchmarks/relay_crash.py` does it hundreds of times.
"""

import os
import random
import signal
import time

import pytest

from tests.service.relay.crashing import (
    DELIVERING,
    OPENING,
    RELEASED,
    Ledger,
    Pair,
    SealedCrowd,
    counted,
    stage_of,
    workers_of,
)
from tests.service.relay.line import Line
from tests.service.support import wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]


def check(pair, ledger):
    """All reports count once, in more rounds than one."""
    pair.quiet(ledger)
    found = counted(pair, ledger)
    assert found.exactly_once, found
    assert found.rounds >= 2
    assert found.counted + found.unopened + found.copies + found.waiting == ledger.successes
    assert set(ledger.told) <= {"accepted", "duplicate", "late"}


def test_kill_minus_nine_of_relay_and_service(quick_path):
    """While a round is collected, while it is on its way, and before the next one is opened."""
    rng, ledger = random.Random(1), Ledger()
    with Pair(quick_path) as pair:
        kills = [
            ((), (pair.relay, pair.service)),
            ((RELEASED, DELIVERING), (pair.service,)),
            ((OPENING,), (pair.relay,)),
        ]
        with SealedCrowd(pair, ledger):
            for stages, processes in kills:
                ledger.grows(20)
                wait_until(lambda: not stages or stage_of(pair) in stages)  # noqa: B023
                time.sleep(rng.uniform(0, 0.02))
                for process in processes:
                    process.process.kill()
                for process in processes:
                    process.kill()
                    process.start()
            ledger.grows(40)
        check(pair, ledger)
        assert ledger.failures > 0  # kills were noticed


def test_kill_minus_nine_of_workers_and_of_postgresql(quick_path, postgres_url, cluster):
    ledger = Ledger()
    with Pair(quick_path, relay_store=postgres_url, workers=2) as pair:
        with SealedCrowd(pair, ledger):
            ledger.grows(20)
            os.kill(wait_until(lambda: workers_of(pair.relay))[0], signal.SIGKILL)
            wait_until(lambda: stage_of(pair) in (RELEASED, DELIVERING))
            cluster.kill()
            cluster.start()
            ledger.grows(40)
        check(pair, ledger)


def test_a_line_that_breaks(quick_path):
    ledger = Ledger()
    with Line(1) as line, Pair(quick_path, between=line.to) as pair:
        with SealedCrowd(pair, ledger):
            wait_until(lambda: line.cuts >= 5)
            ledger.grows(40)
        check(pair, ledger)
