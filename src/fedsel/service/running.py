"""Run the service: sockets, TLS, workers, and a clean end."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from fedsel.errors import InvalidArgument, check_count
from fedsel.extras import needed
from fedsel.service.app import create_app
from fedsel.service.collector import opened
from fedsel.service.connections import TimedConnection, sweep
from fedsel.service.evaluation import Evaluation
from fedsel.service.logs import log_to_stderr
from fedsel.service.storage import open_store
from fedsel.service.task import Task

with needed("service", "fedsel.service"):
    import uvicorn
    from uvicorn.supervisors import Multiprocess

SHUTDOWN_SECONDS = 10
BACKLOG = 2048


@final
@dataclass(frozen=True)
class Serving:
    """Where and how a task is served; ``port`` 0 takes any that is free.

    ``proxies``: addresses whose X-Forwarded-For is believed; without any nobody's is.
    """

    store: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    tls_cert: Path | None = None
    tls_key: Path | None = None
    proxies: tuple[str, ...] = ()
    log_level: str = "info"

    def __post_init__(self) -> None:
        check_count("port", self.port, least=0, most=65535)
        check_count("workers", self.workers, most=256)
        if (self.tls_cert is None) != (self.tls_key is None):
            given = str(self.tls_cert or self.tls_key)
            raise InvalidArgument("tls_cert + tls_key", given, "given together")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                raise InvalidArgument("proxy", proxy, "an address, or a network") from None
        for name in ("tls_cert", "tls_key"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise InvalidArgument(name, str(path), "a file that exists")


@final
class _Server(uvicorn.Server):
    """uvicorn's server, with a sweep of slow connections."""

    def __init__(self, config: uvicorn.Config, task: Task) -> None:
        super().__init__(config)
        self._task = task
        self._sweeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and begin to sweep."""
        await super().startup(sockets)
        connections: set[Any] = self.server_state.connections
        self._sweeping = asyncio.create_task(sweep(connections, self._task.limits))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the sweep, and listen no more."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await super().shutdown(sockets)


def serve(task: Task, serving: Serving, ready: Callable[[str], object] = id) -> None:
    """Serve a task until it is interrupted; ``ready`` is told the address once it is bound.

    What is wrong with the store is told before anything listens.
    """
    _check_store(task, serving)
    _allow_connections(task)
    listening, address = _bound(serving)
    with listening:
        ready(address)
        if serving.workers == 1:
            _worker(task, serving, [listening])  # ends by itself when a signal asks it to
        else:
            log_to_stderr(serving.log_level)
            target = partial(_worker, task, serving)
            Multiprocess(_config(task, serving), target=target, sockets=[listening]).run()


@contextmanager
def background(task: Task, serving: Serving) -> Iterator[str]:
    """Serve a task from a thread of this process, until the block ends; yields the address."""
    _check_store(task, serving)
    listening, address = _bound(serving)
    server = _Server(_config(task, serving), task)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the service did not start")
            time.sleep(0.005)
        yield address
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _check_store(task: Task, serving: Serving) -> None:
    Evaluation.of(task)
    store = open_store(serving.store)
    try:
        if serving.workers > 1 and not store.several_processes:
            allowed = "1 with SQLite; give --store postgresql://… for more"
            raise InvalidArgument("workers", serving.workers, allowed)
        opened(task, store)
    finally:
        store.close()


def _allow_connections(task: Task) -> None:
    """Let the process hold as many sockets as the task allows connections, where it may."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = task.limits.connections + 256
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _bound(serving: Serving) -> tuple[socket.socket, str]:
    """A socket that listens, and the address for clients."""
    host, port = serving.host, serving.port
    try:
        if not host:
            raise OSError
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InvalidArgument("host", host, "an address or a name of this machine") from None
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place)
        listening.listen(BACKLOG)  # whoever comes before the first worker is ready waits for it
    except OSError as error:
        listening.close()
        raise InvalidArgument("port", port, f"free at {host} ({error.strerror})") from None
    listening.set_inheritable(True)
    host, port = listening.getsockname()[:2]
    scheme = "http" if serving.tls_cert is None else "https"
    return listening, f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _worker(task: Task, serving: Serving, sockets: list[socket.socket] | None) -> None:
    """One of several processes."""
    log_to_stderr(serving.log_level)
    # uvicorn ends in order, then raises the signal that it got once more: the order is enough.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        _Server(_config(task, serving), task).run(sockets=sockets)


def _config(task: Task, serving: Serving) -> uvicorn.Config:
    return uvicorn.Config(
        partial(create_app, task, serving.store),
        factory=True,
        http=TimedConnection,
        ws="none",
        lifespan="on",
        interface="asgi3",
        loop="auto",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=bool(serving.proxies),
        forwarded_allow_ips=list(serving.proxies) or None,
        limit_concurrency=task.limits.connections,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(task.limits.idle_seconds),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        workers=serving.workers,
        ssl_certfile=None if serving.tls_cert is None else os.fspath(serving.tls_cert),
        ssl_keyfile=None if serving.tls_key is None else os.fspath(serving.tls_key),
    )
