"""Kill a relay, its service and their databases at random instants: every report counts once.

Devices in threads send sealed reports through a relay to a service, again and again until they are
answered. Some messages do not open, and some devices send copies of what others have sealed. Rounds
are short, and go to the service in several parts. After every 20 kills an independent count, from
the devices' own bytes and from what devices were told, must give what the service has: the reports
of each round, each once, and the weights, to the last bit. No round may have been released with
fewer than n_min different messages.

- ``relay``, ``service``, ``both``: kill -9 of processes; both stores are SQLite.
- ``relay-postgres``, ``service-postgres``: kill -9 of all of PostgreSQL, where one has its store.
- ``relay-workers``: a relay of two workers on PostgreSQL; kill -9 of one worker, or of all.
- ``line``: the connection between relay and service is cut after a random number of bytes, by a
  reset or as if that were the end, and at times nobody can connect for a while.

Of three kills one comes at a random instant; one while a round that was released is on its way; one
after the service has stepped and before the relay opens the next round. The table tells into which
of these the kills fell, as far as can be told.

Example: python benchmarks/relay_crash.py --kills 20 --phases relay line
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.service.crashing import children_of
from tests.service.postgres import Cluster, installed
from tests.service.relay.crashing import (
    DELIVERING,
    OPENING,
    RELEASED,
    STAGES,
    Ledger,
    Pair,
    SealedCrowd,
    counted,
    stage_of,
    workers_of,
)
from tests.service.relay.line import Line
from tests.service.support import wait_until

A_TIME, MORE = 20, 15


def await_instant(pair: Pair, rng: random.Random, number: int) -> None:
    """Wait for the next instant to kill at."""
    wanted: tuple[str, ...] = ((), (RELEASED, DELIVERING), (OPENING,))[number % 3]
    with suppress(TimeoutError):
        if wanted:
            wait_until(lambda: stage_of(pair) in wanted, 20)
    time.sleep(rng.uniform(0, (0.5, 0.1, 0.01)[number % 3]))


class Killing:
    """How a phase kills; the two stores are folders where ``relay`` and ``service`` are None."""

    def __init__(self, phase: str, stack: ExitStack) -> None:
        self.phase, self.rng = phase, random.Random(phase)
        self.stages: Counter[str] = Counter()
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.cluster = self.line = None
        options: dict[str, Any] = {}
        if phase in ("relay-postgres", "service-postgres", "relay-workers"):
            self.cluster = Cluster()
            stack.callback(self.cluster.stop)
            of_relay = phase.startswith("relay")
            options["relay_store" if of_relay else "service_store"] = self.cluster.url
        if phase == "relay-workers":
            options["workers"] = 2
        if phase == "line":
            self.line = stack.enter_context(Line(0, self.note))
            options["between"] = self.line.to
        self.pair = Pair(self.folder, **options)
        stack.enter_context(self.pair)

    def note(self) -> None:
        """Note how far the round is now."""
        self.stages[stage_of(self.pair)] += 1

    @property
    def kills(self) -> int:
        """How many there were."""
        return self.stages.total()

    def kill(self, number: int) -> None:
        """Kill at some instant, and start again what does not do so by itself."""
        pair = self.pair
        if self.line is not None:
            wait_until(lambda: self.kills > number)
            return
        await_instant(pair, self.rng, number)
        if self.phase.endswith("postgres"):
            self.note()  # nobody can look afterwards
            self.cluster.kill()
            self.cluster.start()
        elif self.phase == "relay-workers" and number % 2:
            os.kill(self.rng.choice(wait_until(lambda: workers_of(pair.relay))), signal.SIGKILL)
            self.note()
        else:
            killed = [p for p in (pair.relay, pair.service) if self._is_hit(p)]
            for process in killed:
                process.process.send_signal(signal.SIGSTOP)  # it begins no further worker
                for one in (process.process.pid, *children_of(process.process.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(one, signal.SIGKILL)
            self.note()
            self.rng.shuffle(killed)
            for process in killed:
                process.kill()
                wait_until(process.refuses)  # a worker may end a little later
                process.start()

    def _is_hit(self, process: Any) -> bool:
        name = "relay" if process is self.pair.relay else "service"
        return self.phase == "both" or self.phase.startswith(name)


def ordeal(phase: str, kills: int) -> dict[str, Any]:
    """Kill so many times, count now and then; a row of the table."""
    begin, ledger, first = time.monotonic(), Ledger(), 0
    with ExitStack() as stack:
        killing = Killing(phase, stack)
        pair = killing.pair
        while killing.kills < kills:
            # Devices of their own for each part: what one has sent in the open round counts.
            with SealedCrowd(pair, ledger, first) as crowd:
                first += crowd.size
                for number in range(killing.kills, min(killing.kills + A_TIME, kills)):
                    ledger.grows(MORE)
                    killing.kill(number)
                ledger.grows(MORE)
            pair.quiet(ledger)
            found = counted(pair, ledger)
            verdict = "exactly once" if found.exactly_once else f"NOT exactly once: {found}"
            print(
                f"{phase}: {killing.kills} kills, {found.rounds:,} rounds, {found.counted:,}"
                f" reports, {verdict}; {time.monotonic() - begin:.0f} s",
                flush=True,
            )
            if not found.exactly_once:
                break
    stages = {stage: killing.stages[stage] for stage in STAGES}
    other = killing.kills - sum(stages.values())
    return {
        "phase": phase,
        "kills": killing.kills,
        **stages,
        "unknown": other,
        "accepted": ledger.successes,
        "copies": found.copies,
        "unopened": found.unopened,
        "waiting": found.waiting,
        "counted": found.counted,
        "lost": found.lost,
        "doubled": found.doubled,
        "late": ledger.told["late"],
        "rejected": ledger.told.total() - ledger.successes - ledger.told["late"],
        "rounds": found.rounds,
        "under n_min": found.too_small,
        "weights equal": found.weights_equal,
        "unanswered": ledger.failures,
    }


def main() -> None:
    """Kill and report."""
    phases = ["relay", "service", "both"]
    if installed():
        phases += ["relay-postgres", "service-postgres", "relay-workers"]
    phases.append("line")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="of each phase (200)")
    parser.add_argument("--phases", nargs="+", choices=phases, default=phases)
    parser.add_argument("--json", action="store_true", help="print the table as JSON at the end")
    options = parser.parse_args()
    rows = [ordeal(phase, options.kills) for phase in options.phases]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    heads = list(rows[0])
    print(f"| {' | '.join(heads)} |\n|---{'|---:' * (len(heads) - 1)}|")
    for row in rows:
        print(f"| {' | '.join(_cell(row[name]) for name in heads)} |")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
