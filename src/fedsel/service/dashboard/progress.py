"""How far a run is: its rounds as rows, how fast reports come, and how long it may still take."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import final

from fedsel.server._admission import Counts
from fedsel.service._store import RoundStatus
from fedsel.service.view import RunSnapshot
from fedsel.wire import CloseRule

_RECENT = 20
"""Past rounds that an estimate is made of."""


@final
@dataclass(frozen=True)
class RoundRow:
    """One round that is over."""

    number: int
    stage: str
    counts: Counts
    seconds: float
    accuracy: float | None
    loss: float | None

    @property
    def per_second(self) -> float | None:
        """Accepted reports a second; None where the clock did not move."""
        return self.counts.accepted / self.seconds if self.seconds > 0 else None


def rows(view: RunSnapshot, first: int, beyond: int) -> list[RoundRow]:
    """The rounds that are over, from one to before another."""
    state = view.state
    found = []
    for record in state.records[first:beyond]:
        n = record.round
        opened, closed = view.times[n]
        measured = (view.measures[n] if n < len(view.measures) else None) or {}
        found.append(
            RoundRow(
                n,
                "training" if state.plan is None else state.plan.stage(n),
                Counts(record.accepted, record.rejected, record.duplicate, record.late),
                max(0.0, (opened if closed is None else closed) - opened),
                measured.get("accuracy"),
                measured.get("loss"),
            )
        )
    return found


def totals(view: RunSnapshot, place: RoundStatus) -> Counts:
    """What became of all reports of the run so far."""
    ended = [(r.accepted, r.rejected, r.duplicate, r.late) for r in view.state.records]
    return Counts(*(sum(column) for column in zip(*ended, open_counts(view, place), strict=True)))


def open_counts(view: RunSnapshot, place: RoundStatus) -> Counts:
    """Of the open round; nothing yet where the view has not followed, or all is over."""
    return place.counts if place.round == view.round else Counts()


def run_left(view: RunSnapshot, now: float) -> float | None:
    """Seconds that the run may still take, if rounds take as long as the median of recent ones.

    None before the first round has ended, and after the last.
    """
    if view.state.finished or not view.round:
        return None
    past = [row.seconds for row in rows(view, max(0, view.round - _RECENT), view.round)]
    usual = statistics.median(past)
    elapsed = min(max(0.0, now - view.opened), usual)
    return usual * (view.rounds - view.round) - elapsed


def round_left(rule: CloseRule, counts: Counts, elapsed: float) -> tuple[int | None, float | None]:
    """What the rule still waits for: so many reports or seconds; None where it has no such part.

    >>> round_left(CloseRule(reports=100, seconds=60.0), Counts(30), 45.0)
    (70, 15.0)
    """
    reports = None if rule.reports is None else max(0, rule.reports - counts.accepted)
    seconds = None if rule.seconds is None else max(0.0, rule.seconds - elapsed)
    return reports, seconds
