"""Devices, a shuffler and a server as processes of their own, on sockets of this machine.

Hundreds of devices report once each, a third of them in every round. A report leaves its device
sealed for the server. The shuffler sees who sends, and cannot open what it takes. The server opens
what the shuffler hands over, and does not see who sent it. At the end stand both guarantees: the
local one, which holds against everybody, and the central one, which needs an honest shuffler.

Example: python examples/shuffled.py --devices 300
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import socketserver
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fedsel import PublicFacts, Recipe, amplify, resolve_auto
from fedsel.device import Client, LinearModel, Policy, Request
from fedsel.server import Aggregator, ServerKey, Shuffler

D, RECORDS, ROUNDS, EPSILON, DELTA = 6, 20, 3, 2.0, 1e-6
PROCESSES = 3
PATIENCE = 120.0
MODEL = LinearModel(reg=0.0)


def recipe_for(devices: int) -> Recipe:
    """What the server asks for: one report of each device."""
    return resolve_auto(Recipe(epsilon=EPSILON), PublicFacts(dim=D, clients=devices, rounds=ROUNDS))


def records_of(i: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """The records of one device, which never leave it."""
    truth = np.linspace(-1, 1, D)
    rng = np.random.default_rng(i)
    X = rng.normal(size=(RECORDS, D))
    return X, np.where(X @ truth + 0.3 * rng.normal(size=RECORDS) > 0, 1, -1).astype(np.int8)


# --- a small transport: a line of JSON, and a line that answers it ----------------------------


def serve(port: int, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer until the process ends. A real service would say who a client is, and use TLS."""

    class Lines(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(json.dumps(answer(json.loads(line))).encode() + b"\n")

    class Sockets(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Sockets(("127.0.0.1", port), Lines) as server:
        server.serve_forever()


def ask(port: int, **question: object) -> dict[str, Any]:
    """The answer of the shuffler, also of one that is just being started again."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(json.dumps(question).encode() + b"\n")
                line = connection.makefile().readline()
            if line:
                return dict(json.loads(line))
        except ConnectionError:
            pass
        if time.monotonic() > end:
            raise ConnectionError("no shuffler answers")
        time.sleep(0.02)


# --- the three parts --------------------------------------------------------------------------


def be_shuffler(port: int, folder: Path, n_min: int) -> None:
    """Take sealed reports from devices, and hand rounds over to the server."""
    shuffler = Shuffler(folder, n_min=n_min)
    task: dict[str, Any] = {}  # request and weights: public, and passed on

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        match asked:
            case {"do": "begin", "request": request, "key": key, "weights": weights}:
                shuffler.begin(bytes.fromhex(request), key)
                task.update(request=request, weights=weights)
                return {}
            case {"do": "release", "request": request}:
                batch = shuffler.release(bytes.fromhex(request))
                return {"batch": None if batch is None else batch.hex()}
            case {"do": "confirm", "run": run, "rounds": rounds}:
                shuffler.confirm(bytes.fromhex(run), rounds)
                return {}
            case {"do": "report", "client": client, "message": message}:
                return {"outcome": shuffler.receive(client, bytes.fromhex(message)).value}
            case {"do": "count"}:
                return {"accepted": shuffler.counts.accepted}
            case _:
                return task

    serve(port, answer)


def be_server(port: int, folder: Path, devices: int) -> None:
    """Train: ask for reports, and step when the shuffler hands a round over."""
    server = Aggregator(recipe_for(devices), folder, rounds_per_epoch=ROUNDS)
    key = ServerKey.load(folder / "key.pem")
    while not server.finished:
        server.receive_sealed(fetched(port, server, key), key)
        server.step()
        np.save(folder / "model.npy", server.model)
    # Right at any time: after a restart, too, it says what is durable.
    ask(port, do="confirm", run=server.run.hex(), rounds=server.round)


def fetched(port: int, server: Aggregator, key: ServerKey) -> bytes:
    """The batch of the server's round, once the shuffler has enough reports."""
    request, weights = server.request().hex(), server.weights.tobytes().hex()
    while True:
        ask(port, do="begin", request=request, key=key.public, weights=weights)
        batch = ask(port, do="release", request=request)["batch"]
        if batch is not None:
            return bytes.fromhex(batch)
        time.sleep(0.1)


class Device:
    """A person's device. Its policy names the key that it seals for."""

    def __init__(self, store: Path, i: int, key: str) -> None:
        policy = Policy(
            lifetime=EPSILON,
            per_report=EPSILON,
            solutions=["FJ"],
            dimensions=[D],
            weight_bound=1e9,
            server_key=key,
        )
        self.i, self.name, self.records = i, f"device {i}", records_of(i)
        self.client = Client(policy, store / f"device-{i}", create=True)

    def gradient(self, weights: NDArray[np.floating]) -> NDArray[np.float64]:
        """What this device would like to tell, and never does."""
        return MODEL.gradient(weights, *self.records)

    def report(self, port: int, task: dict[str, Any]) -> str:
        """Answer a task; what became of the report."""
        request, weights = (bytes.fromhex(task[name]) for name in ("request", "weights"))
        message = self.client.answer(request, weights, self.gradient)
        sent = ask(port, do="report", client=self.name, message=message.hex())
        return str(sent["outcome"])


def be_devices(port: int, store: Path, key: str, numbers: range) -> None:
    """Some devices in one process: each reports in one round."""
    devices = [Device(store, i, key) for i in numbers]
    for number in range(ROUNDS):
        while (task := ask(port, do="task")).get("request") is None or round_of(task) < number:
            time.sleep(0.02)
        for device in devices:
            if device.i % ROUNDS == number:
                device.report(port, task)


def round_of(task: dict[str, Any]) -> int:
    """The round that a task belongs to."""
    return Request.decode(bytes.fromhex(task["request"])).round


# --- all of them ------------------------------------------------------------------------------


def free_port() -> int:
    """A port that nobody uses now, and that the system gives to no connection by itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def start(*words: object) -> subprocess.Popen[bytes]:
    """A part as a process of its own."""
    return subprocess.Popen([sys.executable, __file__, *map(str, words)])  # noqa: S603


def run(folder: Path, devices: int, progress: Progress) -> NDArray[np.float64]:
    """Start everybody, wait for the server, and return its model."""
    port, bar = free_port(), progress.add_task("reports", total=devices)
    (folder / "server").mkdir()
    key = ServerKey.create(folder / "server" / "key.pem").public  # what owners pin
    parts = [
        start("server", port, folder / "server", devices),
        start("shuffler", port, folder / "shuffler", devices // ROUNDS),
        *(start("devices", port, folder, key, devices, i) for i in range(PROCESSES)),
    ]
    try:
        while parts[0].poll() is None:
            if any(part.poll() for part in parts):
                sys.exit("a part has failed")
            progress.update(bar, completed=ask(port, do="count")["accepted"])
            progress.refresh()
            time.sleep(0.1)
        progress.update(bar, completed=devices)
    finally:
        for part in parts:
            part.kill()
            part.wait()
    return np.asarray(np.load(folder / "server" / "model.npy"))


def show(console: Console, devices: int, model: NDArray[np.float64]) -> None:
    """How good the model is, and what the reports guarantee."""
    others = [records_of(i) for i in range(10**6, 10**6 + 200)]
    X, y = (np.concatenate(part) for part in zip(*others, strict=True))
    accuracy = np.mean(np.where(X @ model >= 0, 1, -1) == y)
    solution, n_min = recipe_for(devices).build(), devices // ROUNDS
    guarantee = amplify(solution, reports=n_min, delta=DELTA)
    console.print(f"accuracy {accuracy:.1%} on records of other devices")
    console.print(f"local ε = {guarantee.local:g}: whoever colludes with whom")
    console.print(
        f"central ε = {guarantee.epsilon:.3g} at δ = {DELTA:g}: against whoever sees the server,"
        f" if the shuffler is honest and {n_min} honest devices have reported in the round"
    )


def main() -> None:
    """Run all parts, or one of them."""
    match sys.argv[1:]:
        case ["shuffler", port, folder, n_min]:
            be_shuffler(int(port), Path(folder), int(n_min))
            return
        case ["server", port, folder, devices]:
            be_server(int(port), Path(folder), int(devices))
            return
        case ["devices", port, folder, key, devices, process]:
            be_devices(int(port), Path(folder), key, range(int(process), int(devices), PROCESSES))
            return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=300)
    parser.add_argument("--dir", type=Path, help="where the stores go for a while")
    options = parser.parse_args()
    if options.devices < 10 * ROUNDS:
        sys.exit(f"--devices must be at least {10 * ROUNDS}")
    console = Console(width=None if sys.stdout.isatty() else 100)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        with Progress(
            *columns, TimeElapsedColumn(), console=Console(stderr=True), auto_refresh=False
        ) as progress:
            model = run(Path(name), options.devices, progress)
        show(console, options.devices, model)


if __name__ == "__main__":
    main()
