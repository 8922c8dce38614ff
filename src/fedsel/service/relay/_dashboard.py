"""What the page of a relay shows: counts alone, and where the reports of a round are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from fedsel._internal.display import DASH, about, counted, duration, macro, shown
from fedsel.service._charts import by_round, part
from fedsel.service._collector import Collector
from fedsel.service._dashboard import UNAVAILABLE, both, rule_sentence, run_left, waits_for
from fedsel.service._pages import Columns, utc
from fedsel.service.relay._config import RelayConfig
from fedsel.service.relay._run import RelayedRun
from fedsel.service.relay._state import RelaySnapshot

if TYPE_CHECKING:
    from markupsafe import Markup

NO_SERVICE = (
    "The service does not answer, or not as it should: the relay's log says more. Reports that were"
    " accepted are kept."
)


@final
class RelayBoard:
    """What the dashboard of a relay shows; ``now`` describes the open round.

    ``reachable``: whether the service has answered when it was last asked.
    """

    kind = "relay"
    columns = Columns(staged=False, empty="No round is released yet.")

    def __init__(
        self,
        config: RelayConfig,
        collector: Callable[[], Collector[RelayedRun]],
        reachable: Callable[[], bool],
        now: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._config, self._collector = config, collector
        self._reachable, self.now = reachable, now

    def begin(self) -> None:
        """Do nothing: what a page shows is there."""

    def stop(self) -> None:
        """Do nothing."""

    @property
    def snapshot(self) -> RelaySnapshot:
        """The run as it is."""
        return self._collector().run.snapshot

    def about(self) -> dict[str, Any]:
        """What the page says of the run."""
        terms = self.snapshot.state.terms
        return {
            "name": self._config.name,
            "purpose": "" if terms is None else terms.purpose,
            "recipient": "" if terms is None else terms.recipient,
            "joins": True,
            "asks": False,
            "facts": task_facts(self._config, self.snapshot),
        }

    def figures(self) -> Markup:
        """What is drawn of the released rounds."""
        past, terms = self.snapshot.past, self.snapshot.state.terms
        if not past or terms is None:
            return part("figures", drawn=[])
        accepted = [(one.round, one.counts.accepted) for one in past]
        n_min = terms.shuffle.rule.n_min
        return part("figures", drawn=[by_round(accepted, n_min, "n_min")])

    def live(self) -> dict[str, str]:
        """Parts that change while a round is open."""
        collector = self._collector()
        run, reachable = collector.run, self._reachable()
        return {
            "state": state(collector, reachable, time.time()),
            "counts": counts(run.snapshot, collector.counts),
            "said": said(run.snapshot, collector.available, reachable),
            "privacy": guarantees(run.snapshot),
        }


def _part(name: str, **values: Any) -> Markup:
    return macro("service/relay/parts.html", name, **values)


def where(snapshot: RelaySnapshot, reachable: bool) -> str:
    """Where the reports of the open round are."""
    if snapshot.finished:
        return "The run is over"
    if snapshot.collecting:
        return "Collecting"
    if snapshot.past and reachable:
        return "On its way to the service"
    return "Waiting for the service"


def state(collector: Collector[RelayedRun], reachable: bool, now: float) -> Markup:
    """The tiles at the top: the open round, what it waits for, how fast it goes."""
    run, found, finished = collector.run, collector.counts, None
    snapshot, elapsed = run.snapshot, max(0.0, now - run.snapshot.opened)
    past, terms, left = snapshot.past, snapshot.state.terms, None
    accepted = found.accepted
    if snapshot.finished:
        began = past[0].opened if past else snapshot.opened
        ended = (past[-1].closed if past else None) or began
        accepted, elapsed = snapshot.ended.accepted, max(0.0, ended - began)
        finished = {"ended": utc(ended), "accepted": accepted}
    elif snapshot.collecting:
        left = run_left(snapshot, now)
    slow_enough = elapsed > 0 if finished else elapsed >= 1
    rule = None if terms is None else terms.release
    waits = "different messages" if run.held_up else ""
    return _part(
        "state",
        snapshot=snapshot,
        where=where(snapshot, reachable),
        notices=[UNAVAILABLE] * (not collector.available) + [NO_SERVICE] * (not reachable),
        accepted=accepted,
        released=past[-1] if past else None,
        n_min=None if terms is None else terms.shuffle.rule.n_min,
        rule=rule and {"reports": rule.reports, "sentence": rule_sentence(rule)},
        rate=shown(accepted / elapsed, 1) if slow_enough else DASH,
        elapsed=duration(elapsed, whole=True),
        left=None if left is None else about(left),
        waits=waits or (rule and waits_for(rule, accepted, elapsed)),
        finished=finished,
    )


def counts(snapshot: RelaySnapshot, now: Any) -> Markup:
    """Messages by their outcome, in the open round and in all rounds."""
    everything = snapshot.ended.plus(now)
    lines = [("Open round", now)] if snapshot.collecting else []
    return part("counts", lines=[*lines, ("All rounds", everything)])


def said(snapshot: RelaySnapshot, available: bool, reachable: bool) -> str:
    """What a screen reader reads out: that a round was released, but not every count."""
    if not (available and reachable):
        return UNAVAILABLE if not available else NO_SERVICE
    if not snapshot.past:
        return ""
    last = snapshot.past[-1]
    ended = f"Round {last.round} is released with {counted(last.counts.accepted, 'report')}."
    if snapshot.collecting:
        return f"{ended} Round {snapshot.round} is open."
    return f"{ended} The run is over." if snapshot.finished else ended


def guarantees(snapshot: RelaySnapshot) -> Markup:
    """Render both numbers, and what each party sees."""
    terms = snapshot.state.terms
    shuffle = terms and both(terms.shuffle.rule, terms.shuffle.epsilon, terms.local)
    return _part("privacy", shuffle=shuffle)


def task_facts(config: RelayConfig, snapshot: RelaySnapshot) -> Markup:
    """Render the task as names and values."""
    terms = snapshot.state.terms
    ends = None if terms is None else rule_sentence(terms.release)
    return _part("task", config=config, terms=terms, run=snapshot.state.run, ends=ends)
