"""A reverse proxy for the tests: it serves a service below a path, and takes that path away."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.service.support import PATIENCE

OF_A_CONNECTION = ("connection", "keep-alive", "transfer-encoding")


class PrefixProxy:
    """``url`` is the service's address with a path; what is asked outside of it is a stray."""

    def __init__(self, address, prefix="/some/where"):
        strays = self.strays = []
        service = urlsplit(address).netloc

        class Handler(BaseHTTPRequestHandler):
            """An answer is passed on as it comes, and ends with its connection: events do not."""

            def do_GET(self):
                if not self.path.startswith(f"{prefix}/"):
                    strays.append(self.path)
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
                upstream = http.client.HTTPConnection(service, timeout=PATIENCE)
                upstream.request(
                    self.command, self.path.removeprefix(prefix), body, dict(self.headers)
                )
                answer = upstream.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in OF_A_CONNECTION:
                        self.send_header(name, value)
                self.end_headers()
                try:
                    while part := answer.read1():
                        self.wfile.write(part)
                except OSError:  # who asked, or the service, is gone
                    pass
                finally:
                    upstream.close()

            do_POST = do_GET  # noqa: N815 - their names in the library

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{prefix}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
