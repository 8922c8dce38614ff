"""The relay: what it answers at the routes of a run that it collects for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast, final

from fedsel.errors import InvalidArgument
from fedsel.server import ServerKey
from fedsel.service._front import MOST_REPORT_BYTES, VERDICTS, Front
from fedsel.service._http import (
    JSON_TYPE,
    PROBLEM,
    Answer,
    Receive,
    Refusal,
    RouteEntry,
    Scope,
    cached_answer,
    json_answer,
    made,
    read_body,
)
from fedsel.service._judging import IncomingReport
from fedsel.service._monitoring import Figure, Metrics
from fedsel.service._openapi import relay_document
from fedsel.service._pages import Dashboard
from fedsel.service._runs import watching
from fedsel.service._snapshot import CachedBytes
from fedsel.service._store import KEY_VARIABLE, Store, key_of_environment
from fedsel.service.inviting import Kind
from fedsel.service.relay._config import RelayConfig
from fedsel.service.relay._courier import Courier
from fedsel.service.relay._dashboard import RelayBoard
from fedsel.service.relay._run import NO_TURN, RelayedRun
from fedsel.service.relay._state import Passed, RelaySnapshot, begun
from fedsel.service.relay._upstream import Upstream
from fedsel.wire import Sealing, Verdict


@final
class Relay(Front[RelayConfig, RelayedRun]):
    """A run that a relay collects for: devices talk to it alone, and it alone to the service."""

    def __init__(self, served: RelayConfig, slug: str, metrics: Metrics, *, alone: bool = True):
        super().__init__(served, slug, metrics, alone=alone)
        self._courier = cast(Courier, None)
        board = RelayBoard(
            served, lambda: self.collector, lambda: self._courier.reachable, self._now
        )
        self.dashboard = Dashboard(board, served.limits.listeners)

    @classmethod
    def check(cls, served: RelayConfig, store: Store) -> None:
        Upstream(served).close()  # reads the certificates
        _check_apart(served)
        begun(served, store)

    def _run(self, store: Store) -> RelayedRun:
        return RelayedRun(self.served, store, time.time)

    def start(self, store: Store) -> None:
        """Begin or resume: collect, and look for the service."""
        super().start(store)
        own = store.another()
        own.choose(self.served.name)
        self._courier = Courier(self.collector, own)
        self._courier.start()
        self._metrics.more[self._slug] = self._figures

    async def stop(self) -> None:
        """End the exchange with the service, commit the waiting reports and close the stores."""
        await self._courier.stop()
        await super().stop()

    @property
    def snapshot(self) -> RelaySnapshot:
        return self.collector.run.snapshot

    @property
    def purpose(self) -> str:
        terms = self.snapshot.state.terms
        return "" if terms is None else terms.purpose

    @property
    def takes(self) -> tuple[Kind, ...]:
        return ("device",)

    @property
    def _passed(self) -> Passed:
        """What the service gave; refused while it has not answered yet."""
        passed = self.snapshot.passed
        if passed is None:
            raise Refusal("no_service")
        return passed

    def _figures(self) -> Iterator[Figure]:
        terms, available = self.snapshot.state.terms, int(self._courier.reachable)
        yield "service_available", "Whether the service has answered when last asked", available
        if terms is not None:
            about = "Reports without which no round is released"
            yield "n_min", about, terms.shuffle.rule.n_min

    # --- what comes in --------------------------------------------------------------------------

    async def post_report(self, scope: Scope, receive: Receive) -> Answer:
        """One sealed report of one device: answered when it is durable."""
        participant = self._participant(scope, "device")
        body = await read_body(scope, receive, MOST_REPORT_BYTES)
        snapshot, sealed = self.snapshot, Sealing.split(body)
        terms = snapshot.state.terms
        if sealed is None or (terms is not None and len(sealed.content) != terms.sealed_bytes):
            raise Refusal("malformed")
        turn = snapshot.turns.get(sealed.tag, NO_TURN)
        name = self.invitations.name(participant, max(0, turn))
        report = IncomingReport(turn, name, sealed.content)
        verdict = cast(Verdict, await self.collector.put(report))
        if turn == NO_TURN and sealed.tag in self.snapshot.turns:
            verdict = Verdict.EARLY  # another process has opened its round in the meantime
        return VERDICTS[verdict]

    # --- what goes out --------------------------------------------------------------------------

    async def get_part(self, scope: Scope, receive: Receive) -> Answer:
        """What a device needs of the open round, and the service's signature of it.

        A round that is released has its request alone, until the service opens the next one.
        """
        snapshot = self.snapshot
        if not snapshot.finished:
            _ = self._passed
            if not snapshot.collecting and scope["path_params"]["part"] != "request":
                raise Refusal("late")
        return await super().get_part(scope, receive)

    async def get_task(self, scope: Scope, _: Receive) -> Answer:
        """What the run is about, as the service says it."""
        return await cached_answer(self._passed.task, scope, JSON_TYPE)

    async def get_model_json(self, scope: Scope, _: Receive) -> Answer:
        """The model so far, as the service gave it when the round began."""
        model: CachedBytes | None = self._passed.model
        if model is None:
            raise Refusal("not_found")
        return await cached_answer(model, scope, JSON_TYPE)

    def _now(self) -> dict[str, Any]:
        snapshot = self.snapshot
        terms = snapshot.state.terms
        return {
            "finished": snapshot.finished,
            "round": snapshot.round,
            "of": snapshot.rounds,
            "opened": None if snapshot.finished else snapshot.opened,
            "counts": self.collector.counts._asdict(),
            "n_min": None if terms is None else terms.shuffle.rule.n_min,
            "released": not snapshot.collecting,
        }

    def _rounds(self) -> Answer:
        past = [
            {"round": one.round, **one.counts._asdict(), "opened": one.opened, "closed": one.closed}
            for one in self.snapshot.past
        ]
        return json_answer({**self._now(), "rounds": past})

    def routes(self) -> list[RouteEntry]:
        """All routes; the one that decides the rate comes first."""
        return [
            ("POST", "/v1/reports", self.post_report),
            ("GET", "/v1/invitation", self.get_invitation),
            ("GET", "/v1/task", self.get_task),
            ("GET", "/v1/rounds", made(self._rounds)),
            ("GET", "/v1/rounds/open", made(lambda: json_answer(self._now()))),
            ("GET", "/v1/rounds/{round}/{part}", self.get_part),
            ("GET", "/v1/model.json", self.get_model_json),
            ("GET", "/v1/openapi.json", made(self._document)),
            *watching(self._metrics, self.ready),
            *self.dashboard.routes(),
        ]

    def ready(self) -> Answer:
        """Whether reports are taken, and what devices need for them is here."""
        return PROBLEM["no_service"] if self.snapshot.passed is None else super().ready()

    def _document(self) -> Answer:
        terms = self.snapshot.state.terms
        size = 0 if terms is None else terms.sealed_bytes
        return json_answer(relay_document(self.served.name, size, alone=self._alone))


def _check_apart(config: RelayConfig) -> None:
    """Refuse the service's own secret: a relay that has it can open every report."""
    secret = key_of_environment()
    if secret is None:
        return
    if ServerKey.of_secret(secret, bytes.fromhex(config.run)).public == config.server_key:
        allowed = "another secret than the service's, with which a relay could open every report"
        raise InvalidArgument(KEY_VARIABLE, "not shown", allowed)
