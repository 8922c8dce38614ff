"""How many durable reports a second the service takes, how long one waits, and how much memory.

- one by one: keep-alive connections, each with one report at a time and a signed invitation for
  each; one process with SQLite, on the first core; the load comes from the last core.
- gateway: batches of 10,000 reports.
- PostgreSQL (where it is installed): the same one by one, with one worker and with two; a
  PostgreSQL of its own that flushes every commit, on the same cores as everything else. Two
  workers, PostgreSQL and the load do not fit on two cores. So each worker is also held to a share
  of a core (``--share``, by a control group, as root on Linux): then there is room for two.
- latency: median and 99th percentile at half of the rate.
- memory: of the process, after many reports and after ten times as many.

Seconds are those of the clock; "per core second" are those of the service's processor alone, which
a busy machine changes least. The ratio is that to answering /healthz in the same run: what is left
of the speed of HTTP when a report is checked, judged and made durable.

Example: python benchmarks/service.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel._internal.progress import patience
from fedsel.service import Task
from fedsel.service.inviting import invitations
from fedsel.service.relay import RelayConfig
from fedsel.wire import Request
from tests.service.support import wait_until

TASK = """
name = "load"
epsilon = 4
dim = 100
clients = 10000000
rounds_per_epoch = 10
close_after = {{ reports = {close} }}
[limits]
per_client = 1e9
per_address = 1e9
waiting = 100000
"""
FIRST, LAST = 0, (os.cpu_count() or 1) - 1
BATCH = 10_000


# --- the service ----------------------------------------------------------------------------------


class Served:
    """``fedsel serve``, or ``fedsel relay``, as a process; one without workers is on one core."""

    def __init__(self, file: Path, store: str, workers: int = 1, relay: bool = False) -> None:
        self.file, self.store, self.relay = file, store, relay
        command = [sys.executable, "-m", "fedsel", "relay" if relay else "serve", str(file)]
        command += ["--store", store, "--port", "0", "--workers", str(workers)]
        command += ["--log-level", "error"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self.process.stdout is None:
            raise SystemExit("no output")
        self.address = self.process.stdout.readline().split()[0]
        self.port = int(self.address.rpartition(":")[2])
        wait_until(self._ready)
        if workers == 1:
            for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {FIRST})

    def _ready(self) -> bool:
        try:
            self.get("/readyz")
        except urllib.error.HTTPError:  # a relay that has not reached its service yet
            return False
        return True

    def get(self, path: str) -> bytes:
        """What is at a path."""
        answer: bytes = urllib.request.urlopen(f"{self.address}{path}").read()  # noqa: S310
        return answer

    @property
    def pids(self) -> list[int]:
        """The process and its workers."""
        me = self.process.pid
        children = Path(f"/proc/{me}/task/{me}/children").read_text().split()
        return [me, *map(int, children)]

    @property
    def core_seconds(self) -> float:
        """Processor time so far."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Memory that is its own, now."""
        return self._memory("VmRSS")

    @property
    def peak_megabytes(self) -> float:
        """The most that it was, since `forget_peak`."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        return float("nan")

    def forget_peak(self) -> None:
        """Begin to measure the peak."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def request(self) -> Request:
        """What devices are asked."""
        return Request.decode(self.get("/v1/rounds/open/request"))

    def tokens(self, count: int, kind: Any = "device") -> list[str]:
        """New invitations."""
        served = RelayConfig.load(self.file) if self.relay else Task.load(self.file)
        return list(invitations(served, self.store, count, kind))

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running(file: Path, store: str, **options: Any) -> Iterator[Served]:
    """A service or a relay, until the end of the block."""
    made = Served(file, store, **options)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def served(store: str | None = None, workers: int = 1, close: int = 10**9) -> Iterator[Served]:
    """A service with a new store in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fedsel-bench-") as name:
        file = Path(name) / "load.toml"
        file.write_text(TASK.format(close=close))
        with running(file, store or f"{name}/store", workers=workers) as made:
            yield made


GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD = 10_000  # microseconds


@contextmanager
def held(server: Served, share: float) -> Iterator[bool]:
    """Each process of a service held to a share of a core; False where that cannot be done."""
    made: list[Path] = []
    try:
        for pid in server.pids:
            group = GROUPS / f"fedsel-bench-{pid}"
            group.mkdir()
            made.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD)))
            (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        possible = False
    else:
        possible = True
    try:
        yield possible
    finally:
        for group in made:
            for pid in (group / "cgroup.procs").read_text().split():
                (GROUPS / "cgroup.procs").write_text(pid)
            group.rmdir()


# --- the load -------------------------------------------------------------------------------------


def reports_of(request: Request, count: int) -> np.ndarray:
    """Well-formed reports, one a row, with slots and symbols drawn uniformly."""
    form, rng = request.format, np.random.default_rng(0)
    rows = np.zeros(count, dtype=[("head", "S4"), ("round", "<u4"), ("pair", "<u4", (2,))])
    rows["head"], rows["round"] = form._head, request.round
    rows["pair"][:, 0] = rng.integers(0, form.slots, count)
    rows["pair"][:, 1] = rng.integers(0, form.symbols, count)
    return rows


def message(method: str, path: str, token: str, body: bytes) -> bytes:
    """A request as it goes over the wire."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Sender(asyncio.Protocol):
    """A connection that sends the next message when the last one is answered, or when it is due."""

    def __init__(self, load: Load) -> None:
        self._load, self._seen, self._due = load, b"", 0.0

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self._transport = transport
        self._next()

    def _next(self) -> None:
        found = next(self._load.messages, None)
        if found is None:
            self._transport.close()
            return
        number, data = found
        self._due = time.perf_counter()
        if self._load.pace:
            self._due = self._load.begin + number * self._load.pace
            wait = self._due - time.perf_counter()
            if wait > 0:
                asyncio.get_running_loop().call_later(wait, self._transport.write, data)
                return
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """An answer, or part of it."""
        self._seen += data
        if not self._seen.endswith(b"}"):
            return
        self._load.waits.append(time.perf_counter() - self._due)
        if not self._seen.startswith(b"HTTP/1.1 200"):
            self._load.errors += 1
        self._seen = b""
        self._next()

    def connection_lost(self, _: Exception | None) -> None:
        """The end."""
        self._load.open -= 1
        if self._load.open == 0:
            self._load.over.set()


class Load:
    """Messages over so many connections; ``pace``: seconds between two, whatever the answers."""

    def __init__(self, messages: list[bytes], connections: int, pace: float = 0.0) -> None:
        self.messages, self.pace = iter(enumerate(messages)), pace
        self.open, self.errors, self.waits = connections, 0, list[float]()
        self._connections = connections

    async def run(self, port: int) -> dict[str, float]:
        """Send all, and say how it went."""
        self.over, self.begin = asyncio.Event(), time.perf_counter()
        loop = asyncio.get_running_loop()
        for _ in range(self._connections):
            await loop.create_connection(lambda: Sender(self), "127.0.0.1", port)
        await self.over.wait()
        seconds = time.perf_counter() - self.begin
        waits = 1000 * np.array(self.waits)
        return {
            "answers": len(waits),
            "errors": self.errors,
            "per_second": len(waits) / seconds,
            "median_ms": float(np.median(waits)),
            "p99_ms": float(np.quantile(waits, 0.99)),
        }


def _loaded(messages: list[bytes], port: int, connections: int, pace: float, out: Any) -> None:
    import uvloop

    os.sched_setaffinity(0, {LAST})
    begin = time.process_time()
    result = uvloop.run(Load(messages, connections, pace).run(port))
    result["load_us"] = 1e6 * (time.process_time() - begin) / len(messages)
    out.put(result)


def load(
    server: Served, messages: list[bytes], connections: int, pace: float = 0.0
) -> dict[str, float]:
    """Send messages from a process of its own."""
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    arguments = (messages, server.port, connections, pace, out)
    child = context.Process(target=_loaded, args=arguments)
    before = server.core_seconds
    with patience(f"sends {len(messages):,} messages"):
        child.start()
        result: dict[str, float] = out.get()
    child.join()
    used = max(1e-9, server.core_seconds - before)
    result["per_core_second"] = result["answers"] / used
    if result["errors"]:
        raise SystemExit(f"{result['errors']} answers were no success")
    return result


# --- what is measured -----------------------------------------------------------------------------


def singles(server: Served, count: int) -> list[bytes]:
    """One message for each report."""
    rows = reports_of(server.request(), count)
    return each_invited(server, [row.tobytes() for row in rows])


def each_invited(server: Served, reports: Sequence[bytes]) -> list[bytes]:
    """One message for each of these reports."""
    tokens = server.tokens(len(reports))
    return [
        message("POST", "/v1/reports", token, report)
        for report, token in zip(reports, tokens, strict=True)
    ]


def one_by_one(
    server: Served, make: Callable[[Served, int], list[bytes]], count: int, connections: int
) -> dict[str, Any]:
    """The rates of one process on one core; ``make`` makes so many messages."""
    health = [b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n"] * count
    plain = load(server, health, connections)
    load(server, make(server, count // 10), connections)  # warm
    full = load(server, make(server, count), connections)
    half = load(server, make(server, count), connections, 2 / full["per_second"])
    ratio = full["per_core_second"] / plain["per_core_second"]
    return {
        "one by one": full,
        "/healthz": plain,
        "ratio to /healthz": ratio,
        "half load": half,
    }


def gateway(reports: int) -> dict[str, Any]:
    """Batches of many reports, and what a process holds after one million and after ten."""
    memory = {}
    with served(close=reports) as server:
        (token,) = server.tokens(1, "gateway")
        body = reports_of(server.request(), BATCH).tobytes()

        def batches(count: int, name: str) -> list[bytes]:
            paths = (f"/v1/batches/{name}-{i}" for i in range(count // BATCH))
            return [message("PUT", path, token, body) for path in paths]

        result = load(server, batches(reports // 10, "a"), 4)
        memory[f"{reports // 10} reports"] = server.megabytes
        result = load(server, batches(reports - reports // 10, "b"), 4)
        while server.request().round == 0:  # closed: all reports were added up
            time.sleep(0.05)
        memory[f"{reports} reports, closed"] = server.megabytes
    for name in ("per_second", "per_core_second"):
        result[name] *= BATCH
    return {"gateway, reports": result, "megabytes": memory}


def postgres(count: int, connections: int, share: float) -> dict[str, Any]:
    """PostgreSQL with one worker and with two, as they are and each held to a share of a core."""
    from tests.service.postgres import Cluster, installed

    if not installed():
        return {}
    rates: dict[str, Any] = {}
    cluster = Cluster(durable=True)
    try:
        for workers in (1, 2):
            with served(cluster.url, workers=workers) as server:
                load(server, singles(server, count // 10), connections)
                name = f"PostgreSQL, {workers} worker(s)"
                rates[name] = load(server, singles(server, count), connections)
                messages = singles(server, count // 2)
                with held(server, share) as possible:
                    if possible:
                        rates[f"{name} held"] = load(server, messages, connections)
    finally:
        cluster.stop()
    for more in ("", " held"):
        names = [f"PostgreSQL, {workers} worker(s){more}" for workers in (1, 2)]
        if names[1] in rates:
            one, two = (rates[name]["per_second"] for name in names)
            rates[f"two workers over one{more}"] = two / one
    return rates


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=50_000)
    parser.add_argument("--connections", type=int, default=128)
    parser.add_argument("--gateway-reports", type=int, default=10_000_000)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--only", choices=["single", "gateway", "postgres"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {"load average before": os.getloadavg()[0]}
    if options.only in (None, "single"):
        with served() as server:
            results |= one_by_one(server, singles, options.reports, options.connections)
    if options.only in (None, "gateway"):
        results |= gateway(options.gateway_reports)
    if options.only in (None, "postgres"):
        results |= postgres(options.reports, options.connections, options.share)
    show(results, options.json)


def show(results: dict[str, Any], as_json: bool) -> None:
    """Print what was measured, one thing a line."""
    results["load average after"] = os.getloadavg()[0]
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for name, value in results.items():
        if isinstance(value, dict):
            parts = (f"{k} {v:,.0f}" if v >= 100 else f"{k} {v:.3g}" for k, v in value.items())
            print(f"{name:<32}{'   '.join(parts)}")
        else:
            print(f"{name:<32}{value:.2f}")


if __name__ == "__main__":
    main()
