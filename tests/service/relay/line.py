"""A line between a relay and its service that breaks again and again."""

import asyncio
import math
import random
import socket
import struct
import threading
from contextlib import suppress
from urllib.parse import urlsplit

_MOST_BYTES, _REFUSED_SECONDS = 60_000, 1.0
_RESET = struct.pack("ii", 1, 0)


class Line:
    """Carries bytes to a service, from an address of its own, and cuts every connection.

    Each connection is cut after a random number of bytes in one direction, by a reset or as if that
    were the end; after some cuts nobody can connect for a while. ``seen`` is called at each cut.
    """

    def __init__(self, seed, seen=int):
        self._rng, self._seen = random.Random(seed), seen
        self.cuts = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server, self._service, self._port = None, None, 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, address):
        """The address of this line, which leads to the service at another address from now on."""
        parts = urlsplit(address)
        self._service = parts.hostname, parts.port
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return f"http://127.0.0.1:{self._port}"

    async def _listen(self):
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _end(self):
        if self._server is not None:
            self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _carry(self, *near):
        try:
            far = await asyncio.open_connection(*self._service)
        except OSError:
            near[1].close()
            return
        rng, budgets = self._rng, [math.inf, math.inf]
        budgets[rng.randrange(2)] = int(math.exp(rng.uniform(0, math.log(_MOST_BYTES))))
        ways = ((near[0], far[1], budgets[0]), (far[0], near[1], budgets[1]))
        pumps = [asyncio.create_task(_pumped(*way)) for way in ways]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if any(one.result() for one in done):
                await self._cut((near[1], far[1]))
        finally:
            for one in pumps:
                one.cancel()
            for writer in (near[1], far[1]):
                writer.close()

    async def _cut(self, writers):
        self.cuts += 1
        self._seen()
        reset, refuse = self._rng.random() < 0.5, self._rng.random() < 0.25
        for writer in writers:
            if reset:
                known = writer.get_extra_info("socket")
                known.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.close()
        if refuse and self._server.is_serving():
            self._server.close()
            await asyncio.sleep(self._rng.uniform(0, _REFUSED_SECONDS))
            await self._listen()


async def _pumped(reader, writer, budget):
    """Carry bytes until there are no more; whether so many were carried that the line is cut."""
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data[: int(min(budget, len(data)))])
            await writer.drain()
            budget -= len(data)
            if budget <= 0:
                return True
    return False
