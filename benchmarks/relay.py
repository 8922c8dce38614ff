"""How many sealed reports a second a relay takes, how long a release takes, and in what memory.

Relay and service are two processes on the first core; the load comes from the last one.

- one by one: as in ``benchmarks/service.py``, sealed reports to the relay; the same of the plain
  service, whose reports are not sealed.
- round of …: from the last report's acceptance until the service has its next round open, and until
  the relay has it, too: release, delivery, opening, step. The store of the relay is filled directly
  but for the last report. "over opening": processor time of both, over that of opening as many
  sealed reports and nothing else. Pauses: the longest that an answer took meanwhile, of /healthz
  and of a report sent again. Memory: the peak of each process, and how far it was above the
  beginning.
- PostgreSQL (where it is installed): the same with a PostgreSQL of its own, which flushes every
  commit; its processor time is not counted.

Seconds are those of the clock; "per core second" are those of the processes' processor alone, which
a busy machine changes least.

Example: python benchmarks/relay.py --reports 5000 --rounds 10000 --postgres-round 10000
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import service as plain
from benchmarks.service import (
    Served,
    each_invited,
    load,
    message,
    one_by_one,
    reports_of,
    running,
    show,
)
from fedsel._internal.progress import note, patience
from fedsel.server._keys import RunKeys, ServerKey
from fedsel.service import Task
from fedsel.service._judging import IncomingReport, tallied
from fedsel.service._store import open_store
from fedsel.service._training import opened
from fedsel.service.inviting import relay_settings
from fedsel.service.relay import RelayConfig
from fedsel.service.relay._run import RelayedRun
from fedsel.wire import Request, Sealing
from tests.service.postgres import Cluster, installed
from tests.service.support import OCTETS, wait_until

N_MIN = 1000
SHUFFLE = f"""
[shuffle]
n_min = {N_MIN}
dishonest = 0.0
"""
LIMITS = plain.TASK[plain.TASK.index("[limits]") :]
A_COMMIT = 4096
PROBE_SECONDS = 0.01


# --- the run --------------------------------------------------------------------------------------


def written(folder: Path, close: int) -> Path:
    """The task of a run whose rounds are released with so many reports."""
    file = folder / "load.toml"
    file.write_text(plain.TASK.format(close=close) + SHUFFLE)
    return file


def begun(folder: Path, store: str) -> tuple[bytes, ServerKey]:
    """The request of the first round of a new run, and what its reports are sealed for."""
    kept = open_store(store)
    try:
        state = opened(Task.load(written(folder, 10**9)), kept)
        return state.request().encode(), RunKeys.of_secret(kept.secret, state.run).sealing
    finally:
        kept.close()


def sealed(request: bytes, key: str, count: int) -> list[bytes]:
    """So many sealed reports."""
    rows, sealing = reports_of(Request.decode(request), count), Sealing(request, key)
    found = []
    with note(f"seals {count:,} reports", count) as advance:
        for row in rows:
            found.append(sealing.seal(row.tobytes()))
            advance(1)
    return found


def settings(service: Served, folder: Path) -> Path:
    """The file of the relay of a service."""
    text = relay_settings(Task.load(service.file), service.store, service.address)
    file = folder / "relay.toml"
    # Another name than the task's: they may share a database.
    file.write_text(text.replace('name = "load"', 'name = "relay"') + LIMITS.format())
    file.chmod(0o600)
    return file


# --- one by one -----------------------------------------------------------------------------------


def taken(relay: Served, count: int) -> list[bytes]:
    """Messages with sealed reports of the open round."""
    key = RelayConfig.load(relay.file).server_key
    return each_invited(relay, sealed(relay.get("/v1/rounds/open/request"), key, count))


def singles(count: int, connections: int, store: str | None = None) -> dict[str, Any]:
    """The rates of a relay, with SQLite or in this store."""
    with tempfile.TemporaryDirectory(prefix="fedsel-bench-") as name:
        folder = Path(name)
        with (
            running(written(folder, 10**9), f"{name}/service") as service,
            running(settings(service, folder), store or f"{name}/relay", relay=True) as relay,
        ):
            return one_by_one(relay, taken, count, connections)


# --- a round --------------------------------------------------------------------------------------


def content_of(message: bytes) -> bytes:
    """What is sealed in a message."""
    found = Sealing.split(message)
    if found is None:
        raise SystemExit("a message is no sealed report")
    return found.content


def fill(file: Path, store: str, messages: Sequence[bytes]) -> None:
    """Put sealed reports of as many participants into the open round of a relay that has ended."""
    kept = open_store(store)
    try:
        run = RelayedRun(RelayConfig.load(file), kept, time.time)
        turn, count = run.snapshot.turn, len(messages)
        with note(f"puts {count:,} reports into the store", count) as advance:
            for i in range(0, count, A_COMMIT):
                items = [
                    IncomingReport(turn, secrets.token_bytes(16), content_of(message))
                    for message in messages[i : i + A_COMMIT]
                ]
                with kept.writing() as transaction:
                    transaction.tally(tallied(run.judged(transaction, items), 0))
                advance(len(items))
    finally:
        kept.close()


class Probe:
    """Asks the same again and again from a thread of its own, and keeps the longest wait.

    Beside its seconds it keeps how long the server's processor worked meanwhile.
    """

    def __init__(self, server: Served, method: str, path: str, *rest: Any) -> None:
        self.longest, self.refused = (0.0, 0.0), 0
        self._server, self._asked = server, (method, path, *rest)
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._over.wait(PROBE_SECONDS):
            begin, used = time.perf_counter(), self._server.core_seconds
            self._connection.request(*self._asked)
            answer = self._connection.getresponse()
            answer.read()
            used = self._server.core_seconds - used
            self.longest = max(self.longest, (time.perf_counter() - begin, used))
            if answer.status != 200:
                self.refused = answer.status
                return

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._connection.close()


def opening_seconds(request: bytes, key: ServerKey, messages: Sequence[bytes]) -> float:
    """Processor time of opening a part of a round, for each report."""
    some = [content_of(message) for message in messages[: 1 << 14]]
    begin = time.process_time()
    key.opened(request, b"".join(some))
    return (time.process_time() - begin) / len(some)


def released(service: Served, relay: Served, last: bytes) -> dict[str, float]:
    """Send the last report of a round, and see what follows."""
    (token,) = relay.tokens(1)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": OCTETS}
    report = ("POST", "/v1/reports", last, headers)
    both = (service, relay)
    before = [one.megabytes for one in both]
    used = [one.core_seconds for one in both]
    for one in both:
        one.forget_peak()

    def now(server: Served) -> bool:
        found = json.loads(server.get("/v1/rounds/open"))
        return bool(found["round"] == 1 and not found.get("released"))

    load(relay, [message("POST", "/v1/reports", token, last)], 1)
    begin = time.perf_counter()
    with Probe(relay, "GET", "/healthz") as health, Probe(relay, *report) as again:
        wait_until(partial(now, service), 3600)
        stepped = time.perf_counter() - begin
        wait_until(partial(now, relay), 3600)
        reopened = time.perf_counter() - begin
    if health.refused or again.refused:
        raise SystemExit(f"status {health.refused or again.refused} while the round was released")
    used = [one.core_seconds - spent for one, spent in zip(both, used, strict=True)]
    peaks = [one.peak_megabytes for one in both]
    return {
        "until the service's next round": stepped,
        "until the relay's": reopened,
        "service's core seconds": used[0],
        "relay's core seconds": used[1],
        "longest pause of /healthz": health.longest[0],
        "its core seconds": health.longest[1],
        "of a report": again.longest[0],
        "core seconds of that": again.longest[1],
        "service's MB": peaks[0],
        "more than before": peaks[0] - before[0],
        "relay's MB": peaks[1],
        "more than it had": peaks[1] - before[1],
    }


def one_round(
    folder: Path, stores: tuple[str, str], request: bytes, key: ServerKey, messages: Sequence[bytes]
) -> dict[str, float]:
    """Release a round of these sealed reports, of which the last one comes over HTTP."""
    alone, count = opening_seconds(request, key, messages), len(messages)
    with running(written(folder, count), stores[0]) as service:
        file = settings(service, folder)
        with running(file, stores[1], relay=True):
            pass  # it opens the first round
        fill(file, stores[1], messages[:-1])
        with (
            running(file, stores[1], relay=True) as relay,
            patience(f"releases {count:,} reports"),
        ):
            result = released(service, relay, messages[-1])
    used = result["service's core seconds"] + result["relay's core seconds"]
    result["reports per core second"] = count / used
    result["over opening"] = used / (alone * count)
    return result


def rounds(counts: Sequence[int], repeat: int) -> dict[str, Any]:
    """Rounds of so many reports, each of a new run from the same beginning, with SQLite."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="fedsel-bench-") as name:
        folder, stores = Path(name), (f"{name}/service", f"{name}/relay")
        request, key = begun(folder, f"{name}/begun")
        messages = sealed(request, key.public, max(counts))
        for count in counts:
            for again in range(repeat):
                shutil.copytree(f"{name}/begun", stores[0])
                found = one_round(folder, stores, request, key, messages[:count])
                results[f"round of {count:,}" + (f" ({again + 1})" if again else "")] = found
                for store in stores:
                    shutil.rmtree(store)
    return results


# --- PostgreSQL -----------------------------------------------------------------------------------


def postgres(count: int, connections: int, in_round: int) -> dict[str, Any]:
    """One by one, and a round, in a PostgreSQL of our own."""
    if not installed():
        return {}
    results: dict[str, Any] = {}
    cluster = Cluster(durable=True)
    try:
        results["PostgreSQL, one by one"] = singles(count, connections, cluster.url)["one by one"]
    finally:
        cluster.stop()
    cluster = Cluster(durable=True)
    try:
        with tempfile.TemporaryDirectory(prefix="fedsel-bench-") as name:
            folder, stores = Path(name), (cluster.url, cluster.url)
            request, key = begun(folder, cluster.url)
            messages = sealed(request, key.public, in_round)
            found = one_round(folder, stores, request, key, messages)
            results[f"PostgreSQL, round of {in_round:,}"] = found
    finally:
        cluster.stop()
    return results


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=50_000, help="sent one by one")
    parser.add_argument("--connections", type=int, default=128)
    parser.add_argument("--rounds", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeat", type=int, default=1, help="each round so often")
    parser.add_argument("--postgres-round", type=int, default=100_000)
    parser.add_argument("--only", choices=["single", "rounds", "postgres"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if min(*options.rounds, options.postgres_round) < N_MIN:
        parser.error(f"no round is released with fewer than {N_MIN:,} reports")
    results: dict[str, Any] = {"load average before": os.getloadavg()[0]}
    if options.only in (None, "single"):
        found = singles(options.reports, options.connections)
        results |= {f"relay, {name}": value for name, value in found.items()}
        with plain.served() as server:
            found = one_by_one(server, plain.singles, options.reports, options.connections)
        results |= {f"service, {name}": value for name, value in found.items()}
    if options.only in (None, "rounds"):
        results |= rounds(options.rounds, options.repeat)
    if options.only in (None, "postgres"):
        results |= postgres(options.reports, options.connections, options.postgres_round)
    show(results, options.json)


if __name__ == "__main__":
    main()
