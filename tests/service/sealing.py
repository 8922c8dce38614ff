"""A relay for the tests of a page: in front of a service, it announces keys, signs, and unseals.

It gives the service what it has opened at once, so that no round waits for others.
"""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsel.server import ServerKey
from fedsel.wire import Sealing, SignedRound
from tests.service.support import PATIENCE

SHUFFLE = {"n_min": 6667, "dishonest": 0.1, "delta": 1e-6, "epsilon": 0.2}


class SealedFront:
    """``url`` is where devices are; ``altered``: a part that they get otherwise than signed."""

    def __init__(self, address):
        front, service = self, urlsplit(address).netloc
        self.key, self.signing = ServerKey.generate(), Ed25519PrivateKey.generate()
        self.shuffle = {
            **SHUFFLE,
            "server_key": self.key.public,
            "signing_key": self.signing.public_key().public_bytes_raw().hex(),
        }
        self.altered, self.messages = None, []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
                upstream = http.client.HTTPConnection(service, timeout=PATIENCE)
                status, headers, content = front.answer(upstream, self, body)
                upstream.close()
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - their names in the library

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def keys(self):
        """What an invitation link says of them."""
        return f"server-key={self.key.public}&signing-key={self.shuffle['signing_key']}"

    def answer(self, upstream, asked, body):
        """Status, headers and content for a device."""

        def ask(path, body=None):
            kept = ("authorization", "content-type")
            headers = {n: asked.headers[n] for n in kept if asked.headers[n]}
            upstream.request("GET" if body is None else "POST", path, body, headers)
            reply = upstream.getresponse()
            names = ("content-type", "content-security-policy", "retry-after")
            return (
                reply.status,
                [(n, reply.headers[n]) for n in names if reply.headers[n]],
                reply.read(),
            )

        path, part = asked.path, asked.path.rpartition("/")[2]
        if body is not None:
            self.messages.append(body)
            return ask(path, self._opened(ask("/v1/rounds/open/request"), body))
        if part == "signature":
            return 200, [], self._signed(ask)
        status, headers, content = ask(path)
        if path == "/v1/task":
            content = self._announced(content)
        if path == "/v1/rounds/open":
            content = json.dumps({**json.loads(content), "n_min": self.shuffle["n_min"]}).encode()
        return status, headers, content

    def _announced(self, task):
        return json.dumps({**json.loads(task), "shuffle": self.shuffle}).encode()

    def _signed(self, ask):
        place = "/v1/rounds/open"
        parts = {part: ask(f"{place}/{part}")[2] for part in ("request", "weights", "preparing")}
        parts["task"] = self._announced(ask("/v1/task")[2])
        if self.altered is not None:
            parts[self.altered] += b" "
        return SignedRound.sign(self.signing, int(time.time()), **parts)

    def _opened(self, asked, message):
        sealing, sealed = Sealing(asked[2], self.key.public), Sealing.split(message)
        assert sealed.tag == sealing.tag
        return sealing.unseal(sealed.content, self.key._private)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
