"""What the page at ``/join`` consists of: its own files and the client in JavaScript.

All of them are read once. Nothing else can be asked for: a path is a key of a table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fedsel._internal.display import rendered
from fedsel.service._http import Answer, Receive, Refusal, Scope, cached_answer
from fedsel.service._snapshot import CachedBytes
from fedsel.statements._meaning import SENTENCE, meaning_section

Handler = Callable[[Scope, Receive], Awaitable[Answer]]
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_KINDS = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_PAGE = "join.html"
_OF_NODE = ("node.js", "stores/file.js")
"""Modules of the client that no browser can load."""


def client_folder() -> Path:
    """The client's modules: within the installed package, or in the checkout it was built from."""
    installed = Path(__file__).with_name("client")
    checkout = Path(__file__).parents[4] / "clients" / "js" / "src"
    return installed if (installed / "index.js").is_file() else checkout


def join_files() -> dict[str, CachedBytes]:
    """Every file of the page by its path below ``/join/``."""
    own, client = Path(__file__).with_name("page"), client_folder()
    texts = {file.name: file.read_text("utf-8") for file in own.iterdir() if file.suffix in _KINDS}
    texts["base.css"] = (Path(__file__).parents[2] / "pages" / "page.css").read_text("utf-8")
    for file in sorted(client.rglob("*.js")):
        name = file.relative_to(client).as_posix()
        if name not in _OF_NODE:
            texts[f"client/{name}"] = file.read_text("utf-8")
    meaning = meaning_section()
    texts[_PAGE] = rendered(
        "service/joining/page/join.html",
        modules=[name for name in texts if name.endswith(".js")],
        sentence=SENTENCE.format(whose="your device", certainty="{certainty}"),
        meaning=meaning,
        table=meaning.tables[0],
    )
    return {name: CachedBytes(text.encode()) for name, text in texts.items()}


def join_routes() -> list[tuple[str, str, Handler]]:
    """The routes of the page: for the table of the application."""
    files = join_files()

    async def answer(name: str, scope: Scope) -> Answer:
        if name not in files:
            raise Refusal("not_found")
        made = await cached_answer(files[name], scope, _KINDS[Path(name).suffix])
        return made._replace(headers=(*made.headers, (b"content-security-policy", POLICY)))

    async def get_page(scope: Scope, receive: Receive) -> Answer:
        """The page itself."""
        del receive
        return await answer(_PAGE, scope)

    async def get_file(scope: Scope, receive: Receive) -> Answer:
        """One of its files."""
        del receive
        return await answer(scope["path_params"]["file"], scope)

    return [("GET", "/join", get_page), ("GET", "/join/{file:path}", get_file)]
