"""A relay at its service: it fetches what is signed, and delivers what was released."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from http import HTTPStatus
from typing import Any, NamedTuple, final

from fedsel.device._connection import SHORT, Connection, Ended, Pause
from fedsel.device._sealed import FRESH_SECONDS
from fedsel.preparation._given import most_bytes
from fedsel.service._snapshot import CachedBytes
from fedsel.service.relay._config import RelayConfig
from fedsel.service.relay._state import Passed, Terms
from fedsel.wire import (
    Announcement,
    InvalidMessage,
    Request,
    Sealing,
    SignedRound,
    Verdict,
    measured_question,
)
from fedsel.wire._contract import MOST_ANNOUNCEMENT_BYTES
from fedsel.wire._model_question import MOST_QUESTION_BYTES
from fedsel.wire._report import ADDED_BYTES
from fedsel.wire._request import MOST_REQUEST_BYTES
from fedsel.wire._signed import SIGNED_BYTES

_PATIENCE = 10.0
_UNINVITED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_NOT_INVITED = (
    "it does not know the token of this relay: ask for new settings (fedsel invite --relay)"
)
_SLOWEST = 1e6
"""Bytes a second at which a large model must come at least."""
_MODEL_BYTES_PER_WEIGHT, _MODEL_BYTES = 64, 16 << 20


class ServiceRound(NamedTuple):
    """The open round of the service."""

    number: int
    finished: bool


class NotTheRun(Exception):
    """What the service gives is not of the run, or is not signed as it must be."""


class Elsewhere(Exception):
    """The service is at another round by now: what was asked is to be asked again."""


@final
class Upstream:
    """A connection to the service of a relay. Every method may raise `Ended`: it did not answer."""

    def __init__(self, config: RelayConfig, pause: Pause | None = None) -> None:
        self._config = config
        about: dict[str, Any] = {"ca": config.ca, "patience": _PATIENCE, "pause": pause}
        self._connection = Connection(config.service, **about)

    def cut(self) -> None:
        """Let an exchange that goes on in another thread fail at once."""
        self._connection.cut()

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connection.close()

    def _get(self, path: str, most: int) -> bytes:
        """What is at a path; of a round that is not open there is nothing."""
        more = most / _SLOWEST
        reply = self._connection.ask(path, most, keep=path.rpartition("/")[2], more=more)
        if reply.status == HTTPStatus.GONE:
            raise Elsewhere
        if reply.status != HTTPStatus.OK:
            raise self._connection.not_understood(reply)
        return reply.body

    def open_round(self) -> ServiceRound:
        """Which round the service has open."""
        found = json.loads(self._get("/v1/rounds/open", SHORT))
        return ServiceRound(int(found["round"]), bool(found["finished"]))

    def fetch(self, now: ServiceRound, terms: Terms | None) -> Passed:
        """All that devices of this round need, checked; ``terms`` must not have changed."""
        text = self._get("/v1/task", MOST_ANNOUNCEMENT_BYTES)
        try:
            self._check_token()
            if now.finished:
                found = self._terms(text, 0 if terms is None else terms.sealed_bytes)
                _check_same(found, terms)
                return Passed(now.number, found, b"", CachedBytes(text), self._model(text))
            return self._open(now.number, text, terms)
        except InvalidMessage as error:
            raise NotTheRun(str(error)) from None

    def _check_token(self) -> None:
        """Take no report that the service would not take from this relay."""
        reply = self._connection.ask("/v1/invitation", SHORT, token=self._config.token)
        if reply.status in _UNINVITED:
            raise NotTheRun(_NOT_INVITED)

    def _open(self, number: int, task: bytes, terms: Terms | None) -> Passed:
        place = f"/v1/rounds/{number}"
        message = self._get(f"{place}/request", MOST_REQUEST_BYTES)
        request = Request.decode(message)
        run, dim = bytes.fromhex(self._config.run), int(request.recipe.dim or 0)
        if measured_question(run, request.run) is not None:  # with the model that it measures
            run, schema = request.run, Announcement.decode(task).schema
            dim = dim if schema is None else schema.dim
        parts = {
            "request": message,
            "weights": self._get(f"{place}/weights", 8 * dim),
            "preparing": self._get(f"{place}/preparing", most_bytes(dim) + MOST_QUESTION_BYTES),
        }
        signature = self._signature(number)
        signed = SignedRound.verify(signature, self._config.signing_key)
        for name, part in {"task": task, **parts}.items():
            if not signed.covers(**{name: part}):
                raise NotTheRun(f"the service has not signed the {name} that it gives")
        if abs(time.time() - signed.time) > FRESH_SECONDS:
            raise NotTheRun("its signature is too old, or ahead: do both clocks go right?")
        if (request.run, request.round) != (run, number):
            raise NotTheRun("its request is of another run or round")
        found = self._terms(task, request.format.size + ADDED_BYTES)
        _check_same(found, terms)
        tag = Sealing(message, self._config.server_key).tag
        cached = {name: CachedBytes(part) for name, part in parts.items()}
        model = self._model(task)
        signs = CachedBytes(signature)
        return Passed(number, found, tag, CachedBytes(task), model, **cached, signature=signs)

    def _signature(self, number: int) -> bytes:
        return self._get(f"/v1/rounds/{number}/signature", SIGNED_BYTES)

    def refreshed(self, passed: Passed) -> Passed:
        """The same with a younger signature: devices refuse one that is old."""
        signature = self._signature(passed.number)
        try:
            signed = SignedRound.verify(signature, self._config.signing_key)
        except InvalidMessage as error:
            raise NotTheRun(str(error)) from None
        request = passed.request
        if request is None or not signed.covers(request=request.plain):
            raise NotTheRun("the service signs another request in the same round")
        return passed._replace(signature=CachedBytes(signature))

    def _terms(self, text: bytes, sealed_bytes: int) -> Terms:
        announced, values = Announcement.decode(text), json.loads(text)
        shuffle = announced.shuffle
        if announced.run.hex() != self._config.run:
            raise NotTheRun("it leads another run")
        if shuffle is None:
            raise NotTheRun("its task has no [shuffle]: devices send it their reports themselves")
        for name in ("server_key", "signing_key"):
            if getattr(shuffle, name) != getattr(self._config, name):
                raise NotTheRun(f"its {name} is another one")
        return Terms(
            str(values.get("purpose") or ""),
            str(values.get("recipient") or ""),
            int(values["rounds"]),
            announced.close_after,
            shuffle,
            sealed_bytes,
            float(Fraction(values["charge"]) * int(values["epochs"])),
        )

    def _model(self, task: bytes) -> CachedBytes | None:
        """The linear model so far, for whoever looks at it; no round waits for it."""
        schema = Announcement.decode(task).schema
        if schema is None:
            return None
        most = _MODEL_BYTES + _MODEL_BYTES_PER_WEIGHT * schema.dim
        with suppress(Ended, Elsewhere):
            return CachedBytes(self._get("/v1/model.json", most))
        return None

    # --- what goes in ---------------------------------------------------------------------------

    def deliver(self, number: int, parts: Iterable[bytes], size: int) -> int:
        """Give the service a released round, part by part; how many reports it had.

        Every part counts once, and so does their end: all of it may be said again.
        """
        count, place = 0, f"/v1/rounds/{number}"
        for i, part in enumerate(parts):
            self._post(f"{place}/shuffled/{i}", part)
            count += len(part) // size
        self._post(f"{place}/released/{count}", b"")
        return count

    def _post(self, path: str, body: bytes) -> None:
        reply = self._connection.ask(path, SHORT, body=body, token=self._config.token)
        verdict = Verdict.read(reply.status, reply.body)
        if verdict is Verdict.EARLY:
            raise Elsewhere
        if reply.status in _UNINVITED:
            raise NotTheRun(_NOT_INVITED)
        if verdict in (Verdict.LATE, Verdict.CONFLICT):
            raise NotTheRun(
                "it has something else in the place of the round that this relay has released:"
                " is another relay at work, or was a store restored from a copy?"
            )
        if verdict is None or not verdict.taken:
            raise self._connection.not_understood(reply)


def _check_same(found: Terms, terms: Terms | None) -> None:
    """Refuse what devices have not agreed to."""
    names: Any = ("rounds", "shuffle", "sealed_bytes")
    for name in names:
        if terms is not None and getattr(found, name) != getattr(terms, name):
            raise NotTheRun(f"its task has another {name} than the one that its devices joined")
