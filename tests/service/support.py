"""What the tests of the service share: tasks, clients, and services as processes of their own."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest

from fedsel import Reports
from fedsel.service import Task
from fedsel.service.inviting import invitations_of
from fedsel.service.running import Serving, background
from fedsel.wire import Request

PATIENCE = 120.0
FREE = {"per_client": 1e9, "per_address": 1e9}
OCTETS = "application/octet-stream"


def task_of(**changes):
    """A small task; anyone may take part, as often as they like."""
    values = {
        "name": "test",
        "epsilon": 4.0,
        "dim": 8,
        "solution": "PS-PM",
        "k": 2,
        "mu": 0.1,
        "learning_rate": 0.5,
        "clients": 40,
        "rounds_per_epoch": 4,
        "close_after": {"reports": 5},
        "limits": FREE,
    }
    return Task.of({k: v for k, v in {**values, **changes}.items() if v is not None})


@contextmanager
def running(task, store, **options):
    """A service in a thread; yields a client of it."""
    with background(task, Serving(str(store), port=0, **options)) as address:
        client = Http(address)
        client.invitations = invitations_of(task, store)
        try:
            yield client
        finally:
            client.close()


class Http:
    """One connection to a service, opened again when it was closed."""

    def __init__(self, address, context=None):
        self.address, parts = address, urlsplit(address)
        self._base = parts.path
        kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
        more = {"context": context} if context else {}
        self._connection = kind(parts.hostname, parts.port, timeout=PATIENCE, **more)

    def ask(self, method, path, body=None, token=None, **headers):
        """Status, headers and body of the answer; JSON is read."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers.setdefault("Content-Type", OCTETS)
        try:
            self._connection.request(method, self._base + path, body, headers)
            response = self._connection.getresponse()
            data = response.read()
        except BaseException:
            self._connection.close()
            raise
        kind = response.headers.get_content_type()
        if kind == "application/json" and data and response.headers["content-encoding"] is None:
            data = json.loads(data)
        return response.status, response.headers, data

    def get(self, path, **headers):
        """What is at a path; it must be there."""
        status, _, data = self.ask("GET", path, **headers)
        assert status == 200, (path, status, data)
        return data

    def request(self):
        """What devices are asked now."""
        return Request.decode(self.get("/v1/rounds/open/request"))

    def send(self, report, token=None):
        """The status and the word that a report gets."""
        token = self.invitations.invite("device") if token is None else token
        status, _, data = self.ask("POST", "/v1/reports", report, token)
        return status, data.get("outcome", data.get("error"))

    def wait_for(self, number):
        """Wait until a round is open (or the run is over)."""
        return wait_until(lambda: (now := self.get("/v1/rounds/open"))["round"] >= number and now)

    def close(self):
        self._connection.close()


def wait_until(condition, seconds=PATIENCE):
    """What a condition gives, once that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return value


def reports_for(request, count, seed=0):
    """Well-formed reports of a request, one for each of so many clients."""
    form, rng = request.format, np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        slots = rng.choice(form.slots, form.picks, replace=False).tolist()
        symbols = rng.integers(0, form.symbols, form.picks).tolist()
        rows.append(form.encode(request.round, Reports(slots, symbols)))
    return rows


def certificate(folder):
    """A certificate of our own for this machine."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True, cwd=folder,
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


class ServiceProcess:
    """``fedsel serve``, or relay, as a process which can be killed and started again."""

    def __init__(
        self,
        task_file,
        store,
        *arguments,
        python=sys.executable,
        program=("-m", "fedsel"),
        command="serve",
        **environment,
    ):
        self._command = [str(python), *program, command, str(task_file)]
        self._command += ["--store", str(store), *arguments]
        self._environment = {**os.environ, **environment}
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
        self.process, self.address, self.port = None, None, "0"

    def start(self):
        """Start it; on the same port as before."""
        self.process = subprocess.Popen(
            [*self._command, "--port", self.port],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=self._environment,
        )
        line = self.process.stdout.readline()
        if not line.startswith("http"):
            self.process.wait(PATIENCE)
            raise RuntimeError(f"{line}{self.errors}")
        self.address = line.split()[0]
        self.port = self.address.rpartition(":")[2]
        return self

    @property
    def errors(self):
        """What it has written to standard error."""
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def kill(self):
        """End it without a warning."""
        self.process.kill()
        self._ended()

    def refuses(self):
        """Whether nobody listens at its port."""
        try:
            socket.create_connection(("127.0.0.1", int(self.port))).close()
        except ConnectionRefusedError:
            return True
        return False

    def stop(self):
        """Ask it to end; its status."""
        self.process.terminate()
        return self._ended()

    def _ended(self):
        self.process.stdout.close()
        return self.process.wait(PATIENCE)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        self.process.stdout.close()
        self.log.close()


def three_files(folder):
    """A run, its reports of two rounds, and three files of them with some of no run."""
    state = task_of(solution=None, k=None, mu=None, learning_rate=None).begin
    request = state.request()
    rows = reports_for(request, 300)
    rows[200:] = [row[:4] + (1).to_bytes(4, "little") + row[8:] for row in rows[200:]]
    wrong = [b"\xff" * 16, bytes(16)]
    (folder / "a.bin").write_bytes(b"".join(rows[:120]))
    (folder / "b.bin").write_bytes(b"".join(rows[120:250] + wrong))
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"day": [1] * 52, "report": [*rows[250:], b"short", None]})
    pq.write_table(table, folder / "c.parquet", row_group_size=20)
    return state, rows, [folder / name for name in ("a.bin", "b.bin", "c.parquet")]
