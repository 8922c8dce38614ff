"""The web pages of a service: the dashboard at ``/`` and, for people who take part, ``/join``.

The dashboard is complete without JavaScript, and live with it. At ``/join`` a person's browser is a
device. All files are read once, and each has a route of its own: nothing else can be asked for.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final
from urllib.parse import parse_qs

from fedsel import __version__
from fedsel._internal.display import rendered, safe
from fedsel.service import _dashboard as status
from fedsel.service._collector import Collector
from fedsel.service._http import (
    Answer,
    Application,
    Receive,
    Refusal,
    RouteEntry,
    Scope,
    Send,
    cached,
    cached_answer,
)
from fedsel.service._proofs import Proofs
from fedsel.service._snapshot import CachedBytes, RunSnapshot
from fedsel.service._task import Task
from fedsel.service._training import TrainingRun
from fedsel.statements._meaning import SENTENCE, meaning_section

_HERE = Path(__file__).parent
_COMMON = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_OWN = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
POLICY = (b"content-security-policy", f"{_OWN}data:; {_COMMON}".encode())
JOIN_POLICY = (
    b"content-security-policy",
    f"{_OWN}'self'; {_COMMON}; require-trusted-types-for 'script'; trusted-types 'none'".encode(),
)
_KINDS = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_JOIN_PAGE = "join.html"
_OF_NODE = ("node.js", "stores/file.js")
"""Modules of the client that no browser can load."""
ROUNDS_SHOWN = 50
MOST_OFTEN_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
_EVENT_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must not wait for more
)
_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
Header = tuple[bytes, bytes]
News = tuple[Mapping[str, Any], Mapping[str, str]]
"""The open round for programs, and parts of the page by their id."""


@final
class Dashboard:
    """Handlers of the page, its files and its events; ``now`` describes the open round."""

    def __init__(
        self,
        task: Task,
        collector: Callable[[], Collector[TrainingRun]],
        now: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._collector_of, self._now = collector, now
        self._proofs = Proofs(task.begin.recipe, task.close_after)
        self._events = Events(self._news, task.limits.listeners)
        self._of_round: tuple[RunSnapshot, dict[str, str]] | None = None

    def stop(self) -> None:
        """Stop computing proofs."""
        self._proofs.stop()

    def routes(self) -> list[RouteEntry]:
        """The routes of the page and its events; `static_routes` has its files."""
        return [("GET", "/", self._get_page), ("GET", "/v1/events", self._get_events)]

    async def _get_page(self, scope: Scope, _: Receive) -> Answer:
        """Answer with the page: the latest rounds, or the rounds before a given one."""
        self._proofs.begin()
        snapshot = self._collector_of().run.snapshot
        html = rendered(
            "service/dashboard/dashboard.html",
            task=snapshot.task,
            facts=status.task_facts(snapshot),
            fragments={name: safe(html) for name, html in self._fragments(snapshot).items()},
            older=_older(snapshot, scope),
            now=status.utc(time.time()),
            version=__version__,
        )
        return await cached_answer(CachedBytes(html.encode()), scope, _KINDS[".html"], POLICY)

    async def _get_events(self, _scope: Scope, _: Receive) -> Application:
        self._proofs.begin()
        return self._events.listener()

    def _news(self) -> News:
        return self._now(), self._fragments(self._collector_of().run.snapshot)

    def _fragments(self, snapshot: RunSnapshot) -> dict[str, str]:
        """All live parts of the page; parts about past rounds are made once a round."""
        if self._of_round is None or self._of_round[0] is not snapshot:
            past = {"figures": status.figures(snapshot), **listed(snapshot, snapshot.round)}
            self._of_round = snapshot, past
        collector = self._collector_of()
        return {
            "state": status.state(snapshot, collector.counts, time.time(), collector.available),
            "counts": status.counts(snapshot, collector.counts),
            "said": status.said(snapshot, collector.available),
            "privacy": status.guarantees(snapshot, self._proofs),
            **self._of_round[1],
        }


def _older(snapshot: RunSnapshot, scope: Scope) -> dict[str, str] | None:
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if "before" not in query:
        return None
    (number, *more) = query["before"]
    if more or not _NUMBER.fullmatch(number):
        raise Refusal("not_found")
    return listed(snapshot, min(int(number), snapshot.round))


def listed(snapshot: RunSnapshot, beyond: int) -> dict[str, str]:
    """Rows of the rounds before ``beyond``, and links to others."""
    first, size = max(0, beyond - ROUNDS_SHOWN), ROUNDS_SHOWN
    found, measured = snapshot.past[first:beyond], snapshot.task.evaluation is not None
    pager = status.part("pager", first=first, beyond=beyond, over=snapshot.round, size=size)
    return {"rounds": status.part("rounds", listed=found, measured=measured), "pager": pager}


@final
class Events:
    """Server-sent events: each of at most ``most`` listeners gets what has changed.

    Each listener looks twice a second, and all share what they see. Nothing is queued: a slow
    reader gets the latest when there is room again.
    """

    def __init__(self, news: Callable[[], News], most: int) -> None:
        self._news, self._most = news, most
        self._seen: News | None = None
        self._looked = -MOST_OFTEN_SECONDS
        self._listeners = 0

    def listener(self) -> Application:
        """An answer without end; refused where too many listen."""
        if self._listeners >= self._most:
            raise Refusal("crowded")
        return self._listen

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what has changed until the listener is gone, or the server ends."""
        await send({"type": "http.response.start", "status": 200, "headers": _EVENT_HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        self._listeners += 1
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await self._send_changes(send, gone)
        finally:
            self._listeners -= 1
            gone.cancel()

    async def _send_changes(self, send: Send, gone: asyncio.Future[None]) -> None:
        clock = asyncio.get_running_loop().time
        known: dict[str, str] = {}
        text, sent = f"retry: {RETRY_MILLISECONDS}\n\n", clock()
        while not gone.done():
            now, fragments = self._latest(clock())
            fresh = {name: html for name, html in fragments.items() if known.get(name) != html}
            if fresh:
                known.update(fresh)
                data = json.dumps({"now": now, "page": fresh}, ensure_ascii=False, allow_nan=False)
                text += f"event: change\ndata: {data}\n\n"
            elif clock() - sent >= HEARTBEAT_SECONDS:
                text += "event: alive\ndata: {}\n\n"
            if text:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                text, sent = "", clock()
            await asyncio.wait({gone}, timeout=MOST_OFTEN_SECONDS)

    def _latest(self, now: float) -> News:
        if self._seen is None or now - self._looked >= 0.9 * MOST_OFTEN_SECONDS:
            self._seen, self._looked = self._news(), now
        return self._seen


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _shared_style() -> bytes:
    return (_HERE.parent / "pages" / "page.css").read_bytes()


def client_folder() -> Path:
    """The client's modules: within the installed package, or in the checkout it was built from."""
    installed = _HERE / "joining" / "client"
    checkout = _HERE.parents[2] / "clients" / "js" / "src"
    return installed if (installed / "index.js").is_file() else checkout


def join_files() -> dict[str, CachedBytes]:
    """Every file of the page at ``/join``, by its path below ``/join/``."""
    own, client = _HERE / "joining" / "page", client_folder()
    found = {file.name: file.read_bytes() for file in own.iterdir() if file.suffix in _KINDS}
    found["base.css"] = _shared_style()
    for file in sorted(client.rglob("*.js")):
        name = file.relative_to(client).as_posix()
        if name not in _OF_NODE:
            found[f"client/{name}"] = file.read_bytes()
    meaning = meaning_section()
    page = rendered(
        "service/joining/page/join.html",
        modules=[name for name in found if name.endswith(".js")],
        sentence=SENTENCE.format(whose="your device", certainty="{certainty}"),
        meaning=meaning,
        table=meaning.tables[0],
    )
    found[_JOIN_PAGE] = page.encode()
    return {name: CachedBytes(content) for name, content in found.items()}


def _file_route(path: str, name: str, content: CachedBytes, *more: Header) -> RouteEntry:
    return "GET", path, cached(lambda: content, _KINDS[Path(name).suffix], *more)


def style_route() -> RouteEntry:
    """The route of the dashboard's style."""
    style = _shared_style() + (_HERE / "dashboard" / "dashboard.css").read_bytes()
    return _file_route("/dashboard.css", "dashboard.css", CachedBytes(style))


def static_routes(*, with_page: bool = True) -> list[RouteEntry]:
    """A route for each file of the dashboard and of the page at ``/join``: the same in all runs.

    The dashboard's script only puts in place what the events send.
    """
    script = CachedBytes((_HERE / "dashboard" / "dashboard.js").read_bytes())
    found = [style_route(), _file_route("/dashboard.js", "dashboard.js", script)]
    for name, content in (join_files() if with_page else {}).items():
        path = "/join" if name == _JOIN_PAGE else f"/join/{name}"
        found.append(_file_route(path, name, content, JOIN_POLICY))
    return found
