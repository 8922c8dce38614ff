"""A dishonest relay for the tests of a page: it alters what the service has signed."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.service.support import PATIENCE

_ASKED = ("authorization", "content-type")
_ANSWERED = ("content-type", "content-security-policy", "retry-after")


class AlteringRelay:
    """Stands before an honest relay; ``alter`` has a function of the bytes of what it alters."""

    def __init__(self, address):
        relay, alter = urlsplit(address).netloc, {}
        self.alter = alter

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
                headers = {name: self.headers[name] for name in _ASKED if self.headers[name]}
                upstream = http.client.HTTPConnection(relay, timeout=PATIENCE)
                upstream.request(self.command, self.path, body, headers)
                reply = upstream.getresponse()
                content = reply.read()
                upstream.close()
                self.send_response_only(reply.status)
                for name in _ANSWERED:
                    if reply.headers[name]:
                        self.send_header(name, reply.headers[name])
                self.end_headers()
                change = alter.get(self.path.rpartition("/")[2], lambda same: same)
                self.wfile.write(change(content))

            do_POST = do_GET  # noqa: N815 - their names in the library

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
