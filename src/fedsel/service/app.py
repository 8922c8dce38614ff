"""The application: routes of the service, and what each of them answers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast, final

from fedsel import __version__
from fedsel._internal.extras import needed
from fedsel.service._collector import (
    Collector,
    IncomingReport,
    Receipt,
)
from fedsel.service._http import (
    JSON_TYPE,
    PROBLEM,
    ROUTE,
    Answer,
    Application,
    Buckets,
    Handler,
    Receive,
    Refusal,
    RouteEntry,
    Scope,
    SecurityMiddleware,
    Send,
    cached,
    cached_answer,
    declared_length,
    json_answer,
    made,
    read_body,
    text_answer,
)
from fedsel.service._monitoring import Metrics, log_event
from fedsel.service._openapi import document
from fedsel.service._pages import Dashboard, static_routes
from fedsel.service._runs import Dispatcher, Lobby, Runs, slug_of, watching
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._store import GatewayBatch, Store, StoreUnavailable, open_store
from fedsel.service._task import Task
from fedsel.service.inviting import Invitations, Kind, Participant
from fedsel.wire import Verdict

with needed("service", "fedsel.service"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware
    from starlette.responses import Response
    from starlette.routing import Route

MOST_REPORT_BYTES = 1 << 16
_BATCHES_AT_ONCE = 8
_BATCH = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,10}")
_NO_REPORTS = frozenset({"malformed", "not_invited", "wrong_kind", "wrong_type", "too_large"})
_VERDICTS = {
    Verdict.ACCEPTED: json_answer({"outcome": "accepted"}),
    Verdict.DUPLICATE: json_answer({"outcome": "duplicate"}),
    Verdict.CONFLICT: PROBLEM["conflict"],
    Verdict.LATE: PROBLEM["late"],
    Verdict.EARLY: PROBLEM["early"],
}


@final
class Service:
    """One run in one process: the handlers of all routes.

    ``collector`` is there once the application has started. ``alone``: no other run is served.
    """

    def __init__(self, task: Task, slug: str, metrics: Metrics, *, alone: bool = True) -> None:
        self.task, self._slug, self._metrics, self._alone = task, slug, metrics, alone
        self._clients = Buckets(task.limits.per_client)
        self._batch_bytes = 0
        self.collector = cast(Collector, None)
        self.invitations = cast(Invitations, None)
        self.dashboard = Dashboard(task, lambda: self.collector, self._now)

    def start(self, store: Store) -> None:
        """Begin or resume the run; the store belongs to it from now on."""
        try:
            self.collector = Collector(self.task, store)
            key = store.key()
        except BaseException:
            store.close()
            raise
        self.invitations = Invitations(
            key, self.snapshot.state.run, open_to_all=self.task.invitations == "open"
        )
        self._metrics.runs[self._slug] = self.collector
        self.collector.start()
        log_event("started", task=self.task.name, round=self.snapshot.round, version=__version__)

    async def stop(self) -> None:
        """Commit the waiting reports and close the store."""
        self.dashboard.stop()
        await self.collector.stop()
        log_event("stopped", task=self.task.name)

    @property
    def snapshot(self) -> RunSnapshot:
        """The run as this process knows it."""
        return self.collector.snapshot

    # --- what comes in --------------------------------------------------------------------------

    async def post_report(self, scope: Scope, receive: Receive) -> Answer:
        """One report of one device: answered when it is durable."""
        participant = self._participant(scope, "device")
        body = await read_body(scope, receive, MOST_REPORT_BYTES)
        number = self.snapshot.form.round_of(body)
        if number is None:
            raise Refusal("malformed")
        report = IncomingReport(number, self.invitations.name(participant, number), body)
        return _VERDICTS[cast(Verdict, await self.collector.put(report))]

    async def put_batch(self, scope: Scope, receive: Receive) -> Answer:
        """Many reports of a gateway: once, however often it is sent."""
        participant = self._participant(scope, "gateway")
        name = scope["path_params"]["batch"]
        if not _BATCH.fullmatch(name):
            raise Refusal("not_found")
        most = self.task.limits.batch_bytes
        length = declared_length(scope)
        if length is None:
            raise Refusal("length")
        if length > most:
            raise Refusal("too_large")
        if self._batch_bytes + length > _BATCHES_AT_ONCE * most:
            raise Refusal("busy")
        self._batch_bytes += length  # bounds the memory of batches, read or waiting
        try:
            body = await read_body(scope, receive, most)
            if not body or len(body) % self.snapshot.form.size:
                raise Refusal("malformed")
            batch = GatewayBatch(self.invitations.name(participant, 0), name.encode(), body)
            verdict, counts = cast(Receipt, await self.collector.put(batch))
        finally:
            self._batch_bytes -= length
        if verdict is Verdict.CONFLICT:
            raise Refusal("conflict")
        return json_answer({"outcome": verdict.value, **counts._asdict()})

    def _known(self, scope: Scope) -> Participant | None:
        """The participant that the token of a request names."""
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, rest = value.partition(b" ")
                if scheme.lower() == b"bearer":
                    return self.invitations.participant(rest.strip().decode("latin-1"))
        return None

    def _participant(self, scope: Scope, kind: Kind) -> Participant:
        """The sender of a request, if it may send such a thing now."""
        participant = self._known(scope)
        content = dict(scope["headers"]).get(b"content-type", b"")
        if participant is None:
            raise Refusal("not_invited")
        if participant.kind != kind:
            raise Refusal("wrong_kind")
        if content.partition(b";")[0].strip().lower() != b"application/octet-stream":
            raise Refusal("wrong_type")
        if not self._clients.take(participant):
            raise Refusal("too_often")
        return participant

    def refused(self, code: str) -> Answer:
        """The answer to a refused request; count it if it should have been a report."""
        if code in _NO_REPORTS:
            self.collector.reject()
        return PROBLEM[code]

    # --- what goes out --------------------------------------------------------------------------

    async def get_invitation(self, scope: Scope, _: Receive) -> Answer:
        """Whether a token is valid, and for what: a device asks before it pays for a report."""
        known = self._known(scope)
        return PROBLEM["not_invited"] if known is None else json_answer({"kind": known.kind})

    async def get_rounds(self, _scope: Scope, _: Receive) -> Answer:
        """All rounds: the counts of their reports, and when they began and ended."""
        now, over = json_answer(self._now()), self.snapshot.rounds_text  # of the same snapshot
        return text_answer(now.body[:-1] + b',"rounds":' + await over.get() + b"}", JSON_TYPE)

    def _now(self) -> dict[str, Any]:
        snapshot = self.snapshot
        state = snapshot.state
        return {
            "finished": state.finished,
            "round": snapshot.round,
            "of": snapshot.rounds,
            "epoch": state.epoch,
            "stage": None if state.finished else state.stage,
            "opened": None if state.finished else snapshot.opened,
            "counts": self.collector.counts._asdict(),
            "weights": snapshot.weights.etag,
            "model": snapshot.model.etag,
        }

    async def get_part(self, scope: Scope, _: Receive) -> Answer:
        """What a device needs of the open round: request, weights or preparing.

        A round that is over has none: a device must not pay for a report that nobody takes.
        """
        snapshot, number = self.snapshot, scope["path_params"]["round"]
        if snapshot.request is None:
            raise Refusal("finished")
        if number != "open":
            if not _NUMBER.fullmatch(number) or int(number) > snapshot.round:
                raise Refusal("not_found")
            if int(number) < snapshot.round:
                raise Refusal("late")
        match scope["path_params"]["part"]:
            case "request":
                return await cached_answer(snapshot.request, scope)
            case "weights":
                return await cached_answer(snapshot.weights, scope)
            case "preparing":
                return await cached_answer(snapshot.preparing_text, scope, JSON_TYPE)
        raise Refusal("not_found")

    async def get_model_json(self, scope: Scope, _: Receive) -> Answer:
        """The model so far as JSON; a linear model also has coefficients for raw records."""
        return await cached_answer(await self.snapshot.model_text.get(), scope, JSON_TYPE)

    def routes(self) -> list[Route]:
        """All routes; the one that decides the rate comes first."""

        table: list[RouteEntry] = [
            ("POST", "/v1/reports", self.post_report),
            ("PUT", "/v1/batches/{batch}", self.put_batch),
            ("GET", "/v1/invitation", self.get_invitation),
            ("GET", "/v1/task", cached(lambda: self.snapshot.task_text, JSON_TYPE)),
            ("GET", "/v1/rounds", self.get_rounds),
            ("GET", "/v1/rounds/open", made(lambda: json_answer(self._now()))),
            ("GET", "/v1/rounds/{round}/{part}", self.get_part),
            ("GET", "/v1/model", cached(lambda: self.snapshot.model)),
            ("GET", "/v1/model.json", self.get_model_json),
            ("GET", "/v1/openapi.json", made(self._document)),
            *watching(self._metrics, self._ready),
            *self.dashboard.routes(),
        ]
        return [*_routes(table, self.refused), *_static()]

    def _document(self) -> Answer:
        size, limits = self.snapshot.form.size, self.task.limits
        return json_answer(document(self.task.name, size, limits, alone=self._alone))

    def _ready(self) -> Answer:
        ready = self.collector.available
        return json_answer({"status": "ready"}) if ready else PROBLEM["unavailable"]


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
def _static() -> list[Route]:
    """The files of all pages, once for all runs."""
    return _routes(static_routes(), PROBLEM.__getitem__)


def create_app(
    task: Task | Sequence[Task], store: str | Path | Sequence[str]
) -> SecurityMiddleware:
    """The whole application, for any ASGI server: one worker of one run or of several.

    Stores are opened when the server starts the application, and closed when it ends.
    """
    runs, metrics = Runs.of(task, store), Metrics()
    alone = len(runs.tasks) == 1
    services = {
        slug_of(one.name): Service(one, slug_of(one.name), metrics, alone=alone)
        for one in runs.tasks
    }
    lobby = Lobby(services, metrics)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.services = services
        first: dict[str, Store] = {}
        async with AsyncExitStack() as stack:
            for service, place in zip(services.values(), runs.stores, strict=True):
                opened = first[place].another() if place in first else open_store(place)
                first.setdefault(place, opened)
                service.start(opened)
                stack.push_async_callback(service.stop)
            yield

    if alone:
        (service,) = services.values()
        listing: RouteEntry = ("GET", "/v1/runs", made(lobby.get_runs))
        routes = [*service.routes(), *_routes([listing], service.refused)]
        root = _application(routes, service.task.origins, lifespan)
        apps = dict.fromkeys(services, root)
    else:
        root = _application(_routes(lobby.routes(), PROBLEM.__getitem__), (), lifespan)
        apps = {
            slug: _application(service.routes(), service.task.origins)
            for slug, service in services.items()
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
