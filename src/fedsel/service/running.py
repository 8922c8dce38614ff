"""Run the service: sockets, TLS, workers, and a clean end."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess as Worker
from pathlib import Path
from typing import cast, final

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument, check_count
from fedsel.service._connections import Listener, Network
from fedsel.service._front import Served
from fedsel.service._monitoring import log_event, log_to_stderr
from fedsel.service._runs import Runs
from fedsel.service._store import open_store
from fedsel.service._task import Limits
from fedsel.service.app import create_app, front_of

with needed("service", "fedsel.service"):
    import uvicorn

SHUTDOWN_SECONDS = 10
RESTART_SECONDS = 1.0
"""Seconds before a worker that has ended is replaced, lest one that cannot begin keep us busy."""
BACKLOG = 2048


@final
@dataclass(frozen=True)
class Serving:
    """Where and how tasks are served; ``port`` 0 takes any that is free.

    ``store``: one for all tasks, or one for each, in their order.
    ``proxies``: addresses whose X-Forwarded-For is believed; without any nobody's is.
    """

    store: str | tuple[str, ...]
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
            raise InvalidArgument("tls_cert + tls_key", given, "set together")
        _ = self.networks
        for name in ("tls_cert", "tls_key"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise InvalidArgument(name, str(path), "a file that exists")

    @property
    def networks(self) -> list[Network]:
        """The proxies as networks."""
        found = []
        for proxy in self.proxies:
            try:
                found.append(ipaddress.ip_network(proxy, strict=False))
            except ValueError:
                raise InvalidArgument("proxy", proxy, "an address, or a network") from None
        return found

    def listener(self, limits: Limits) -> Listener:
        """The listener of one process."""
        if self.tls_cert is None or self.tls_key is None:
            return Listener(limits, self.networks)
        try:
            return Listener(limits, self.networks, (self.tls_cert, self.tls_key))
        except OSError as error:  # of TLS, too
            given = f"{self.tls_cert} + {self.tls_key}"
            allowed = f"a certificate and its key in PEM, not encrypted ({error.strerror})"
            raise InvalidArgument("tls_cert + tls_key", given, allowed) from None


@final
class _Server(uvicorn.Server):
    """uvicorn's server with our `Listener`."""

    def __init__(self, runs: Runs, serving: Serving) -> None:
        self._listener = serving.listener(runs.limits)
        super().__init__(_config(runs, serving, self._listener))
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and start to end slow connections."""
        await super().startup(sockets if self._listener.tls is None else [])
        self._tasks.append(asyncio.create_task(self._listener.sweep()))
        if self._listener.tls is not None:
            of_uvicorn = {"server_state": self.server_state, "app_state": self.lifespan.state}
            make = partial(self._listener, config=self.config, **of_uvicorn)
            for one in sockets or []:
                self._tasks.append(asyncio.create_task(self._listener.accept(one, make)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        self._listener.close()
        await super().shutdown(sockets)


def serve(
    served: Served | Sequence[Served], serving: Serving, ready: Callable[[str], object] = id
) -> None:
    """Serve one task or several until interrupted; ``ready`` gets the address once it is bound.

    If any store cannot be used, or has begun with another task, nothing is served.
    """
    runs = Runs.of(served, serving.store)
    log_to_stderr(serving.log_level)
    _check(runs, serving)
    _allow_connections(runs.limits)
    listening, address = _bound(serving)
    with listening:
        ready(address)
        if serving.workers == 1:
            _worker(runs, serving, listening)  # ends by itself when a signal asks it to
        else:
            _supervise(runs, serving, listening)


@contextmanager
def background(served: Served | Sequence[Served], serving: Serving) -> Iterator[str]:
    """Serve from a thread of this process, until the block ends; yields the address."""
    runs = Runs.of(served, serving.store)
    _check(runs, serving)
    listening, address = _bound(serving)
    server = _Server(runs, serving)
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


def _check(runs: Runs, serving: Serving) -> None:
    """Refuse now what would fail later: test sets, certificate, stores."""
    serving.listener(runs.limits)
    for place, served in runs.by_store.items():
        store = open_store(place)
        try:
            if serving.workers > 1 and not store.several_processes:
                allowed = "1 with SQLite; give --store postgresql://… for more"
                raise InvalidArgument("workers", serving.workers, allowed)
            for one in served:
                front_of(one).check(one, store)
            for name in store.names():
                if name not in [one.name for one in served]:
                    log_event("run stays in the store, not served: no task has its name", run=name)
        finally:
            store.close()


def _allow_connections(limits: Limits) -> None:
    """Let the process hold as many sockets as connections are allowed, where it may."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = limits.connections + 256
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


def _supervise(runs: Runs, serving: Serving, listening: socket.socket) -> None:
    """Keep the workers alive until a signal arrives; then end them.

    uvicorn's own supervisor is not part of its interface, and has changed.
    """
    spawn = multiprocessing.get_context("spawn")

    def begun() -> Worker:
        process = spawn.Process(target=_worker, args=(runs, serving, listening))
        process.start()
        return process

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workers: list[Worker] = []
    try:
        while True:
            workers = [worker for worker in workers if worker.is_alive()]
            while len(workers) < serving.workers:
                workers.append(begun())
            wait([worker.sentinel for worker in workers])
            log_event("worker ended", level="error")
            time.sleep(RESTART_SECONDS)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(2 * SHUTDOWN_SECONDS)
            worker.kill()  # does nothing to one that has ended


def _worker(runs: Runs, serving: Serving, listening: socket.socket) -> None:
    """Serve, as the only process or one of several."""
    log_to_stderr(serving.log_level)
    # uvicorn ends in order, then raises the signal that it got once more: the order is enough.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        _Server(runs, serving).run(sockets=[listening])


def _end_with(supervisor: Worker) -> None:
    """End this process when its supervisor was killed: it would keep the port."""
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _config(runs: Runs, serving: Serving, listener: Listener) -> uvicorn.Config:
    return uvicorn.Config(
        partial(create_app, runs.served, runs.stores),
        factory=True,
        http=cast(type[asyncio.Protocol], listener),
        ws="none",
        lifespan="on",
        interface="asgi3",
        loop="auto",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=bool(serving.proxies),
        forwarded_allow_ips=[name for one in serving.networks for name in _names(one)] or None,
        limit_concurrency=runs.limits.connections,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(runs.limits.idle_seconds),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def _names(network: Network) -> list[str]:
    """The forms that sockets give a network's addresses: IPv4 has two.

    >>> _names(ipaddress.ip_network("10.0.0.0/8"))
    ['10.0.0.0/8', '::ffff:10.0.0.0/104']
    """
    if network.version == 6:
        return [str(network)]
    return [str(network), f"::ffff:{network.network_address}/{96 + network.prefixlen}"]
