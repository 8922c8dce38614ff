"""The application: the routes of all runs, for any ASGI server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, final

from fedsel._internal.extras import needed
from fedsel.service._front import Front, Served
from fedsel.service._http import (
    PROBLEM,
    ROUTE,
    Answer,
    Application,
    Handler,
    Receive,
    Refusal,
    RouteEntry,
    Scope,
    SecurityMiddleware,
    Send,
    made,
)
from fedsel.service._monitoring import Metrics
from fedsel.service._pages import static_routes
from fedsel.service._runs import Dispatcher, Lobby, Runs, slug_of
from fedsel.service._service import Service
from fedsel.service._store import Store, StoreUnavailable, open_store
from fedsel.service._task import Task
from fedsel.service.relay._front import Relay

with needed("service", "fedsel.service"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware
    from starlette.responses import Response
    from starlette.routing import Route


def front_of(served: Served) -> type[Front[Any, Any]]:
    """What answers for a task, or for what a relay stands in front of."""
    return Service if isinstance(served, Task) else Relay


@final
class _Endpoint:
    """Turns a handler into an ASGI application."""

    def __init__(self, template: str, handler: Handler, refused: Callable[[str], Answer]) -> None:
        self._template, self._handler, self._refused = template, handler, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = self._template
        answer: Application
        try:
            answer = await self._handler(scope, receive)
        except Refusal as refusal:
            answer = self._refused(refusal.code)
        except StoreUnavailable:
            answer = PROBLEM["unavailable"]
        await answer(scope, receive, send)


async def _refused(request: Any, error: Exception) -> Response:
    """Answer errors outside of our handlers in the same form."""
    del request
    codes = {404: "not_found", 405: "not_allowed"}
    answer = PROBLEM[codes.get(getattr(error, "status_code", 500), "internal")]
    headers = {**(getattr(error, "headers", None) or {}), "cache-control": "no-store"}
    return Response(answer.body, answer.status, headers, "application/json")


def _routes(table: Sequence[RouteEntry], refused: Callable[[str], Answer]) -> list[Route]:
    return [
        Route(template, _Endpoint(template, handler, refused), methods=[method])
        for method, template, handler in table
    ]


@cache
def _static(with_page: bool) -> list[Route]:
    """The files of all pages, once for all runs."""
    return _routes(static_routes(with_page=with_page), PROBLEM.__getitem__)


def _all_routes(front: Front[Any, Any], *more: RouteEntry) -> list[Route]:
    return [*_routes([*front.routes(), *more], front.refused), *_static(front.with_page)]


def create_app(
    served: Served | Sequence[Served], store: str | Path | Sequence[str]
) -> SecurityMiddleware:
    """The whole application, for any ASGI server: one worker of one run or of several.

    Stores are opened when the server starts the application, and closed when it ends.
    """
    runs, metrics = Runs.of(served, store), Metrics()
    alone = len(runs.served) == 1
    fronts: dict[str, Front[Any, Any]] = {
        slug_of(one.name): front_of(one)(one, slug_of(one.name), metrics, alone=alone)
        for one in runs.served
    }
    lobby = Lobby(fronts, metrics)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.services = fronts
        first: dict[str, Store] = {}
        async with AsyncExitStack() as stack:
            for front, place in zip(fronts.values(), runs.stores, strict=True):
                opened = first[place].another() if place in first else open_store(place)
                first.setdefault(place, opened)
                front.start(opened)
                stack.push_async_callback(front.stop)
            yield

    if alone:
        (front,) = fronts.values()
        routes = _all_routes(front, ("GET", "/v1/runs", made(lobby.get_runs)))
        root = _application(routes, front.served.origins, lifespan)
        apps = dict.fromkeys(fronts, root)
    else:
        root = _application(_routes(lobby.routes(), PROBLEM.__getitem__), (), lifespan)
        apps = {
            slug: _application(_all_routes(front), front.served.origins)
            for slug, front in fronts.items()
        }
    return SecurityMiddleware(Dispatcher(root, apps), runs.limits.per_address, metrics)


def _application(
    routes: Sequence[Route], origins: Sequence[str], lifespan: Any = None
) -> Starlette:
    made = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, Exception: _refused},
    )
    made.router.redirect_slashes = False
    if origins:
        made.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "if-none-match"],
            expose_headers=["etag", "retry-after"],
        )
    return made
