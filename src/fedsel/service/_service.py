"""The service: what it answers at the routes of a run that it trains."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from typing import Any, cast, final

from fedsel.service._dashboard import RunBoard
from fedsel.service._front import MOST_REPORT_BYTES, VERDICTS, Front, numbered
from fedsel.service._http import (
    JSON_TYPE,
    OCTETS_TYPE,
    Answer,
    Receive,
    Refusal,
    RouteEntry,
    Scope,
    cached,
    cached_answer,
    declared_length,
    json_answer,
    made,
    read_body,
    text_answer,
)
from fedsel.service._judging import IncomingReport, Receipt
from fedsel.service._monitoring import Evaluation, Metrics
from fedsel.service._openapi import document
from fedsel.service._pages import Dashboard
from fedsel.service._runs import watching
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._store import GatewayBatch, Store
from fedsel.service._task import Task
from fedsel.service._training import TrainingRun, opened
from fedsel.service.inviting import Kind, Participant
from fedsel.wire import Verdict
from fedsel.wire._model import compact_json
from fedsel.wire._report import ADDED_BYTES

_BATCHES_AT_ONCE = 8
_BATCH = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SIGNED_SECONDS = 60.0
"""How long the same signature of a round is given out: its time is a little old, then."""
_ANY_RELAY = Participant("relay", b"")
"""Whom a relay's parts are kept under, whatever its token: a part counts once."""


@final
class Service(Front[Task, TrainingRun]):
    """A run that is trained here.

    Devices send their reports, or, where the task has a `ShuffleRule`, a relay does so for them.
    """

    def __init__(self, task: Task, slug: str, metrics: Metrics, *, alone: bool = True) -> None:
        super().__init__(task, slug, metrics, alone=alone)
        self.task, self._batch_bytes = task, 0
        self._signed: tuple[RunSnapshot, float, bytes] | None = None
        board = RunBoard(task, lambda: self.collector, self._now)
        self.dashboard = Dashboard(board, task.limits.listeners)

    @classmethod
    def check(cls, served: Task, store: Store) -> None:
        Evaluation.of(served)
        opened(served, store)
        if served.shuffle is not None:
            _ = served.shuffled_epsilon

    def _run(self, store: Store) -> TrainingRun:
        return TrainingRun(self.task, store, time.time)

    @property
    def with_page(self) -> bool:  # type: ignore[override]
        return self.task.shuffle is None

    @property
    def purpose(self) -> str:
        return self.task.purpose

    @property
    def takes(self) -> tuple[Kind, ...]:
        return ("device", "gateway") if self.task.shuffle is None else ("relay",)

    @property
    def open_to_all(self) -> bool:
        return self.task.invitations == "open"

    @property
    def snapshot(self) -> RunSnapshot:
        return self.collector.run.snapshot

    async def stop(self) -> None:
        """Stop computing proofs, commit the waiting reports and close the store."""
        self.dashboard.stop()
        await super().stop()

    # --- what comes in --------------------------------------------------------------------------

    async def post_report(self, scope: Scope, receive: Receive) -> Answer:
        """One report of one device: answered when it is durable."""
        participant = self._participant(scope, "device")
        body = await read_body(scope, receive, MOST_REPORT_BYTES)
        number = self.snapshot.state.round_of(body)
        if number is None:
            raise Refusal("malformed")
        report = IncomingReport(number, self.invitations.name(participant, number), body)
        return VERDICTS[cast(Verdict, await self.collector.put(report))]

    async def put_batch(self, scope: Scope, receive: Receive) -> Answer:
        """Many reports of a gateway: once, however often it is sent."""
        participant = self._participant(scope, "gateway")
        name = scope["path_params"]["batch"]
        if not _BATCH.fullmatch(name):
            raise Refusal("not_found")
        with self._room(scope):
            body = await self._many(scope, receive, self.snapshot.form.size)
            batch = GatewayBatch(self.invitations.name(participant, 0), name.encode(), body)
            return await self._taken(batch)

    async def post_part(self, scope: Scope, receive: Receive) -> Answer:
        """A part of a round that a relay has released: opened, and counted once."""
        self._participant(scope, "relay")
        snapshot, number = self.snapshot, numbered(scope["path_params"]["round"])
        part, keys = numbered(scope["path_params"]["part"]), snapshot.keys
        if number > snapshot.round or keys is None:
            raise Refusal("early")
        with self._room(scope):
            body = await self._many(scope, receive, snapshot.form.size + ADDED_BYTES)
            reports = b""  # of a round that is over: it is only asked whether they are here
            if number == snapshot.round and snapshot.request is not None:
                request = snapshot.request.plain
                reports, _ = await asyncio.to_thread(keys.sealing.opened, request, body)
            relay, name = self.invitations.name(_ANY_RELAY, 0), f"{number}-{part}".encode()
            digest = hashlib.sha256(body).digest()
            return await self._taken(GatewayBatch(relay, name, reports, number, digest))

    async def post_released(self, scope: Scope, receive: Receive) -> Answer:
        """All parts of a round are here, so many reports in all: the round is over."""
        self._participant(scope, "relay")
        number = numbered(scope["path_params"]["round"])
        count = numbered(scope["path_params"]["count"])
        await read_body(scope, receive, 0)
        run = self.collector.run
        return VERDICTS[await self.collector.do(run.release, number, count)]

    def _room(self, scope: Scope) -> _Room:
        """Bound the memory of batches, read or waiting."""
        most = self.task.limits.batch_bytes
        length = declared_length(scope)
        if length is None:
            raise Refusal("length")
        if length > most:
            raise Refusal("too_large")
        if self._batch_bytes + length > _BATCHES_AT_ONCE * most:
            raise Refusal("busy")
        return _Room(self, length)

    async def _many(self, scope: Scope, receive: Receive, size: int) -> bytes:
        """The body of a request: pieces of this size, one after another."""
        body = await read_body(scope, receive, self.task.limits.batch_bytes)
        if not body or len(body) % size:
            raise Refusal("malformed")
        return body

    async def _taken(self, batch: GatewayBatch) -> Answer:
        verdict, counts = cast(Receipt, await self.collector.put(batch))
        if not verdict.taken:
            return VERDICTS[verdict]
        return json_answer({"outcome": verdict.value, **counts._asdict()})

    # --- what goes out --------------------------------------------------------------------------

    async def get_rounds(self, _scope: Scope, _: Receive) -> Answer:
        """All rounds: the counts of their reports, and when they began and ended."""
        now, over = json_answer(self._now()), self.snapshot.rounds_text  # of the same snapshot
        said = f',"{self._kind_of_answers}":'.encode() + compact_json(self.snapshot.said)
        return text_answer(
            now.body[:-1] + said + b',"rounds":' + await over.get() + b"}", JSON_TYPE
        )

    @property
    def _kind_of_answers(self) -> str:
        return "measurements" if self.task.question is None else "answers"

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

    async def get_signature(self, scope: Scope, _: Receive) -> Answer:
        """What the service signs of the open round, for devices behind a relay."""
        self._check_open(scope)
        snapshot, now = self.snapshot, time.time()
        known = self._signed
        if known is None or known[0] is not snapshot or abs(now - known[1]) > _SIGNED_SECONDS:
            known = snapshot, now, await asyncio.to_thread(snapshot.signature, int(now))
            self._signed = known
        return text_answer(known[2], OCTETS_TYPE)

    async def get_model_json(self, scope: Scope, _: Receive) -> Answer:
        """The model so far as JSON; a linear model also has coefficients for raw records."""
        self._check_trains()
        return await cached_answer(await self.snapshot.model_text.get(), scope, JSON_TYPE)

    async def get_model(self, scope: Scope, _: Receive) -> Answer:
        """The model so far as bytes."""
        self._check_trains()
        return await cached_answer(self.snapshot.model, scope, OCTETS_TYPE)

    def _check_trains(self) -> None:
        if self.task.question is not None:
            raise Refusal("not_found")

    async def get_answers(self, _scope: Scope, _: Receive) -> Answer:
        """What devices have answered, or said about the model, in each epoch."""
        return json_answer({self._kind_of_answers: self.snapshot.said})

    def routes(self) -> list[RouteEntry]:
        """All routes; the one that decides the rate comes first."""
        sent: list[RouteEntry] = [
            ("POST", "/v1/reports", self.post_report),
            ("PUT", "/v1/batches/{batch}", self.put_batch),
        ]
        if self.task.shuffle is not None:
            sent = [
                ("POST", "/v1/rounds/{round}/shuffled/{part}", self.post_part),
                ("POST", "/v1/rounds/{round}/released/{count}", self.post_released),
                ("GET", "/v1/rounds/{round}/signature", self.get_signature),
            ]
        return [
            *sent,
            ("GET", "/v1/invitation", self.get_invitation),
            ("GET", "/v1/task", cached(lambda: self.snapshot.task_text, JSON_TYPE)),
            ("GET", "/v1/rounds", self.get_rounds),
            ("GET", "/v1/rounds/open", made(lambda: json_answer(self._now()))),
            ("GET", "/v1/rounds/{round}/{part}", self.get_part),
            ("GET", "/v1/answers", self.get_answers),
            ("GET", "/v1/model", self.get_model),
            ("GET", "/v1/model.json", self.get_model_json),
            ("GET", "/v1/openapi.json", made(self._document)),
            *watching(self._metrics, self.ready),
            *self.dashboard.routes(),
        ]

    def _document(self) -> Answer:
        size, limits = self.snapshot.form.size, self.task.limits
        shuffled = self.task.shuffle is not None
        described = document(self.task.name, size, limits, alone=self._alone, shuffled=shuffled)
        return json_answer(described)


@final
class _Room:
    """Memory that a batch takes while it is read or waits."""

    def __init__(self, service: Service, length: int) -> None:
        self._service, self._length = service, length

    def __enter__(self) -> None:
        self._service._batch_bytes += self._length

    def __exit__(self, *_: object) -> None:
        self._service._batch_bytes -= self._length
