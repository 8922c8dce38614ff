"""The web pages of a run: the dashboard at ``/`` and, for people who take part, ``/join``.

The dashboard is complete without JavaScript, and live with it. At ``/join`` a person's browser is a
device. All files are read once, and each has a route of its own: nothing else can be asked for.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final
from urllib.parse import parse_qs

from fedsel import __version__
from fedsel._internal.display import rendered, safe
from fedsel.service._charts import part
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
from fedsel.service._snapshot import CachedBytes
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


class Columns(NamedTuple):
    """What the table of rounds has beside counts and times, and what it says without a row."""

    staged: bool = True
    measured: bool = False
    empty: str = "No round is over yet."


class Past(Protocol):
    """What a dashboard knows of the rounds of a run: those that are over, by their numbers."""

    @property
    def past(self) -> Sequence[Any]: ...


class Board(Protocol):
    """What a dashboard shows of a run."""

    @property
    def kind(self) -> str: ...

    @property
    def columns(self) -> Columns: ...

    @property
    def snapshot(self) -> Past: ...

    def begin(self) -> None: ...

    def stop(self) -> None: ...

    def now(self) -> Mapping[str, Any]: ...

    def about(self) -> Mapping[str, Any]: ...

    def figures(self) -> str: ...

    def live(self) -> Mapping[str, str]: ...


@final
class Dashboard:
    """Handlers of a page and its events, for at most so many ``listeners``."""

    def __init__(self, board: Board, listeners: int) -> None:
        self._board, self._events = board, Events(self._news, listeners)
        self._of_round: tuple[Past, dict[str, str]] | None = None

    def stop(self) -> None:
        """Stop what is done for those who look."""
        self._board.stop()

    def routes(self) -> list[RouteEntry]:
        """The routes of the page and its events; `static_routes` has its files."""
        return [("GET", "/", self._get_page), ("GET", "/v1/events", self._get_events)]

    async def _get_page(self, scope: Scope, _: Receive) -> Answer:
        """Answer with the page: the latest rounds, or the rounds before a given one."""
        board = self._board
        board.begin()
        before = _before(scope)
        past, columns = board.snapshot.past, board.columns
        html = rendered(
            "service/dashboard/dashboard.html",
            kind=board.kind,
            **board.about(),
            columns=columns,
            fragments={name: safe(html) for name, html in self._fragments().items()},
            older=None if before is None else listed(past, before, columns),
            now=utc(time.time()),
            version=__version__,
        )
        return await cached_answer(CachedBytes(html.encode()), scope, _KINDS[".html"], POLICY)

    async def _get_events(self, _scope: Scope, _: Receive) -> Application:
        self._board.begin()
        return self._events.listener()

    def _news(self) -> News:
        return self._board.now(), self._fragments()

    def _fragments(self) -> dict[str, str]:
        """All live parts of the page; parts about past rounds are made once a round."""
        board, snapshot = self._board, self._board.snapshot
        if self._of_round is None or self._of_round[0] is not snapshot:
            past = {"figures": board.figures(), **listed(snapshot.past, None, board.columns)}
            self._of_round = snapshot, past
        return {**board.live(), **self._of_round[1]}


def utc(seconds: float) -> str:
    """Format a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _before(scope: Scope) -> int | None:
    """The round before which the rounds are asked for."""
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if "before" not in query:
        return None
    (number, *more) = query["before"]
    if more or not _NUMBER.fullmatch(number):
        raise Refusal("not_found")
    return int(number)


def listed(past: Sequence[Any], before: int | None, columns: Columns) -> dict[str, str]:
    """Rows of the latest rounds, or of those before one, and links to others."""
    begin, size = past[0].round if past else 0, ROUNDS_SHOWN
    over = begin + len(past)
    beyond = over if before is None else max(begin, min(before, over))
    first = max(begin, beyond - size)
    rows = past[first - begin : beyond - begin]
    pager = part("pager", begin=begin, first=first, beyond=beyond, over=over, size=size)
    return {"rounds": part("rounds", listed=rows, columns=columns), "pager": pager}


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
