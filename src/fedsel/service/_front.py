"""What every run has at its address: who may send, the parts of the open round, and its state."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from fedsel import __version__
from fedsel.service._collector import Collector, Run
from fedsel.service._http import (
    JSON_TYPE,
    OCTETS_TYPE,
    PROBLEM,
    Answer,
    Buckets,
    Receive,
    Refusal,
    RouteEntry,
    Scope,
    cached_answer,
    json_answer,
)
from fedsel.service._monitoring import Metrics, log_event
from fedsel.service._snapshot import CachedBytes
from fedsel.service._store import Store
from fedsel.service._task import Limits
from fedsel.service.inviting import Invitations, Kind, Participant
from fedsel.wire import Verdict

MOST_REPORT_BYTES = 1 << 16
_NUMBER = re.compile(r"[0-9]{1,10}")
_NO_REPORTS = frozenset({"malformed", "not_invited", "wrong_kind", "wrong_type", "too_large"})
VERDICTS = {
    Verdict.ACCEPTED: json_answer({"outcome": "accepted"}),
    Verdict.DUPLICATE: json_answer({"outcome": "duplicate"}),
    Verdict.CONFLICT: PROBLEM["conflict"],
    Verdict.LATE: PROBLEM["late"],
    Verdict.EARLY: PROBLEM["early"],
    Verdict.REJECTED: PROBLEM["malformed"],
}
_JSON_PARTS = ("preparing",)


class Served(Protocol):
    """What is served: a `Task`, or what a relay stands in front of."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def origins(self) -> tuple[str, ...]: ...

    @property
    def file(self) -> Any: ...


C = TypeVar("C", bound=Served)
R = TypeVar("R", bound=Run)


class Front(ABC, Generic[C, R]):
    """One run in one process: the handlers of its routes.

    ``collector`` is there once the application has started. ``alone``: no other run is served.
    """

    with_page: ClassVar[bool] = True
    """Whether people take part here, at ``/join``."""

    def __init__(self, served: C, slug: str, metrics: Metrics, *, alone: bool = True) -> None:
        self.served, self._slug, self._metrics, self._alone = served, slug, metrics, alone
        self._clients = Buckets(served.limits.per_client)
        self.collector = cast(Collector[R], None)
        self.invitations = cast(Invitations, None)

    @classmethod
    @abstractmethod
    def check(cls, served: C, store: Store) -> None:
        """Refuse now what would fail later; the run begins in the store if it is new."""

    @abstractmethod
    def _run(self, store: Store) -> R:
        """The run in its store, which begins if it is new."""

    @abstractmethod
    def routes(self) -> list[RouteEntry]:
        """All routes, but those of files."""

    @property
    @abstractmethod
    def snapshot(self) -> Any:
        """The run as this process knows it."""

    @property
    @abstractmethod
    def purpose(self) -> str:
        """What the run is for."""

    @property
    @abstractmethod
    def takes(self) -> tuple[Kind, ...]:
        """Whose reports are taken here."""

    @property
    def open_to_all(self) -> bool:
        """Whether devices may name themselves."""
        return False

    def start(self, store: Store) -> None:
        """Begin or resume the run; the store belongs to it from now on."""
        try:
            self.collector = Collector(self._run(store))
            key = store.key()
        except BaseException:
            store.close()
            raise
        self.invitations = Invitations(key, self.snapshot.run, open_to_all=self.open_to_all)
        self._metrics.runs[self._slug] = self.collector
        self.collector.start()
        log_event("started", task=self.served.name, round=self.snapshot.round, version=__version__)

    async def stop(self) -> None:
        """Commit the waiting reports and close the store."""
        await self.collector.stop()
        log_event("stopped", task=self.served.name)

    # --- who may send ---------------------------------------------------------------------------

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

    async def get_invitation(self, scope: Scope, _: Receive) -> Answer:
        """Whether a token is valid, and for what: a device asks before it pays for a report."""
        known = self._known(scope)
        if known is None or known.kind not in self.takes:
            return PROBLEM["not_invited"]
        return json_answer({"kind": known.kind})

    # --- what goes out --------------------------------------------------------------------------

    def _check_open(self, scope: Scope) -> None:
        """Refuse a round that is not open.

        One that is over has no parts: a device must not pay for a report that nobody takes.
        """
        snapshot, number = self.snapshot, scope["path_params"]["round"]
        if snapshot.finished:
            raise Refusal("finished")
        if number != "open":
            asked = numbered(number)
            if asked > snapshot.round:
                raise Refusal("not_found")
            if asked < snapshot.round:
                raise Refusal("late")

    async def get_part(self, scope: Scope, _: Receive) -> Answer:
        """What a device needs of the open round: request, weights or preparing."""
        self._check_open(scope)
        name = scope["path_params"]["part"]
        part: CachedBytes | None = self.snapshot.part(name)
        if part is None:
            raise Refusal("not_found")
        return await cached_answer(part, scope, JSON_TYPE if name in _JSON_PARTS else OCTETS_TYPE)

    def listed(self) -> dict[str, Any]:
        """The run as `Lobby` lists it."""
        snapshot = self.snapshot
        return {
            "name": self.served.name,
            "purpose": self.purpose,
            "run": snapshot.run.hex(),
            "round": snapshot.round,
            "of": snapshot.rounds,
            "finished": snapshot.finished,
            "available": self.collector.available,
        }

    def ready(self) -> Answer:
        """Whether reports are taken."""
        ready = self.collector.available
        return json_answer({"status": "ready"}) if ready else PROBLEM["unavailable"]


def numbered(text: str) -> int:
    """The number in a path."""
    if not _NUMBER.fullmatch(text):
        raise Refusal("not_found")
    return int(text)
