"""A run that a relay collects for: which sealed reports count, and when a round is released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from fedsel.service._judging import IncomingReport, Item, Receipt, judge_reports
from fedsel.service._monitoring import log_event
from fedsel.service._store import RoundStatus, Store, Transaction
from fedsel.service._task import Limits
from fedsel.service.relay._config import RelayConfig
from fedsel.service.relay._state import Passed, RelaySnapshot, RelayState, ReleasedRound, begun
from fedsel.wire import Verdict

NO_TURN = -1
"""The turn of a message whose tag is unknown."""
_WITHOUT_END = 1 << 62


@final
class RelayedRun:
    """The run of a relay, for a `Collector`; all methods are called in the store's thread."""

    def __init__(self, config: RelayConfig, store: Store, now: Callable[[], float]) -> None:
        self.config, self.store, self._now = config, store, now
        begun(config, store, now())
        store.scrub()  # of a relay that was killed after it had erased
        self._passed: Passed | None = None
        self._copies = (-1, 0)  # a turn, and how many of its messages are known to be copies
        self.read()

    @property
    def name(self) -> str:
        """The relay's name for the run."""
        return self.config.name

    @property
    def limits(self) -> Limits:
        """What clients may do."""
        return self.config.limits

    @property
    def held_up(self) -> bool:
        """Whether the open round has enough messages, but too few different ones."""
        return self._copies[0] == self.snapshot.turn

    def judged(self, transaction: Transaction, items: Sequence[Item]) -> list[Verdict | Receipt]:
        """Keep sealed reports of the open round; return what became of each.

        A participant counts once in a round, whatever it sends: once a round is released nobody
        can tell what it has sent before.
        """
        reports = [item for item in items if isinstance(item, IncomingReport)]
        # A tag may be unknown because another process has opened a round.
        behind = transaction.round != self.snapshot.turn
        unknown = Verdict.EARLY if behind else Verdict.REJECTED
        known = [report for report in reports if report.round != NO_TURN]
        verdicts = iter(judge_reports(transaction, known, _WITHOUT_END, _sent_something))
        return [next(verdicts) if report.round != NO_TURN else unknown for report in reports]

    def read(self) -> None:
        """Follow what has changed in the store."""
        turn, state = self.store.status().round, RelayState.decode(self.store.checkpoint())
        rows = self.store.rounds()
        ended = self.store.ended(turn)
        self.snapshot = RelaySnapshot(self.config, state, turn, rows, self._passed, ended)

    def keep(self, passed: Passed) -> None:
        """Pass this on from now on."""
        self._passed = passed
        self.read()

    def due(self, status: RoundStatus) -> bool:
        """Whether the open round may be over.

        Different messages are counted, which takes a while, only when there may be enough of them.
        """
        turn, copies = self._copies
        known = copies if turn == status.round else 0
        return self._over(status.counts.accepted - known, status)

    def _over(self, reports: int, status: RoundStatus) -> bool:
        terms, snapshot = self.snapshot.state.terms, self.snapshot
        if terms is None or not snapshot.collecting or status.round != snapshot.turn:
            return False
        return terms.release.due(reports, self._now() - status.opened)

    def close(self) -> None:
        """Release the open round, if enough different messages are there: it takes no more.

        Whoever sends what somebody else has sealed adds nothing, and hides nobody.
        """
        with self.store.closing() as transaction:
            status = transaction.status()
            if not self._over(status.counts.accepted, status):
                return
            different = transaction.distinct()
            if not self._over(different, status):
                self._copies = status.round, status.counts.accepted - different
                return
            state, turn = self.snapshot.state, self.snapshot.turn
            number, counts = self.snapshot.round, status.counts
            past = ReleasedRound(number, turn, bytes.fromhex(state.tag), counts, 0.0, None)
            transaction.advance(state.waiting.encode(), self._now(), False, past.encode())
        log_event("round released", relay=self.name, round=number, **counts._asdict())

    def open(self, passed: Passed) -> bool:
        """Collect for the next round of the service, and forget the round before it.

        Whether it is this process that does; the service has that round in its own store by now.
        """
        turn, over = 2 * passed.number + 1, passed.request is None
        with self.store.closing() as transaction:
            if transaction.round != self.snapshot.turn or transaction.round >= turn:
                return False
            state = self.snapshot.state.opened(passed.terms, passed.tag)
            state = state.over if over else state
            transaction.erase()
            transaction.advance(state.encode(), self._now(), False, None, to=turn)
        self._passed = passed
        self.store.scrub()
        log_event("run over" if over else "round opened", relay=self.name, round=passed.number)
        return True


def _sent_something(before: bytes | None, _: bytes) -> bool:
    return before is not None
