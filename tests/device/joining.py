"""A service that fails as told: what a device meets on the way, without the service extra."""

import gzip
import json
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from fedsel import PublicFacts, Recipe, resolve_auto
from fedsel.device import Policy, RawRecords, join
from fedsel.preparation import FeatureScale, Preparation
from fedsel.wire import Intent, RecordPipeline, Request

RECORDS = RawRecords([[30, 50], [60, 20]], ["yes", "no"], ["age", "pay"])
POLICY = Policy(lifetime=2.0, per_report=2.0, solutions=["RJ"], dimensions=[3])
RUN = bytes(range(16))
SCHEMA = {
    "classes": ["no", "yes"],
    "columns": [{"name": "age", "range": [0, 100]}, {"name": "pay", "range": [0, 100]}],
}
TASK = {
    "name": "test",
    "run": RUN.hex(),
    "invitations": "signed",
    "rounds_per_epoch": 1,
    "close_after": {"reports": 1},
    "schema": SCHEMA,
    "loss": "logistic",
}
CUT = "cut"
"""In place of an answer: the connection is closed."""


def recipe_of(epochs=1, dim=3, **changes):
    setting = PublicFacts(dim=dim, clients=10, rounds=epochs)
    return resolve_auto(Recipe("RJ", epsilon=2.0, epochs=epochs, **changes), setting)


class Script:
    """What is answered: ``next[path]`` first, one after another, then what a service would say."""

    def __init__(self, epochs=1, features=2, rows=1, **task):
        self.task = {**TASK, **task}
        self.recipe = recipe_of(epochs, rows * (features + 1))
        self.round, self.epoch, self.finished = 0, 0, False
        self.next = defaultdict(list)
        self.bodies, self.tokens, self.seen = [], [], Counter()
        self.posted = threading.Event()
        scale, plain = FeatureScale.of((0, 100), features), Preparation.plain(features, unit=False)
        self.preparing = RecordPipeline(scale, plain).encode().encode()

    def request(self):
        intent = Intent("Testing", "Testers")
        return Request(RUN, self.epoch, self.round, self.recipe, intent).encode()

    def answer(self, path, body):
        """(status, body, headers), or CUT, or an iterator over bytes as they are to be sent."""
        self.seen[path] += 1
        if self.next[path]:
            told = self.next[path].pop(0)
            return told(self) if callable(told) else told
        if path == "/v1/task":
            return 200, json.dumps(self.task).encode(), {}
        if path == "/v1/invitation":
            return 200, b'{"kind": "device"}', {}
        if path == "/v1/reports":
            return self.took(body)
        if self.finished:
            return 410, b'{"error": "finished"}', {}
        part = path.rpartition("/")[2]
        if part == "request":
            return 200, self.request(), {"etag": f'"{self.round}"'}
        if part == "weights":
            weights = np.zeros(self.recipe.dim).tobytes()
            return 200, gzip.compress(weights), {"content-encoding": "gzip"}
        return 200, self.preparing, {}

    def took(self, body):
        self.finished = self.epoch == self.recipe.epochs - 1
        self.round, self.epoch = self.round + 1, min(self.epoch + 1, self.recipe.epochs - 1)
        return 200, b'{"outcome": "accepted"}', {}


class Server:
    """A script at an address of its own."""

    def __init__(self, script):
        self.script = script

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet, else each answer waits for an ACK

            def do_GET(self):
                self.answer(None)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                script.bodies.append(body)
                script.tokens.append(self.headers["authorization"])
                script.posted.set()
                self.answer(body)

            def answer(self, body):
                told = script.answer(self.path, body)
                if not isinstance(told, tuple):
                    self.close_connection = True
                    with suppress(OSError):  # the device has gone
                        for data in () if told == CUT else told:
                            self.wfile.write(data)
                            self.wfile.flush()
                    return
                status, data, headers = told
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def taken_part(script, client, records=RECORDS, **options):
    options = {"token": "invitation", "every": 0.01, **options}
    with Server(script) as server:
        return join(server.url, client, records, **options)
