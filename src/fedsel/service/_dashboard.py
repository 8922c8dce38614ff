"""What the page of a run shows: rounds as rows, rates, estimates, and what the proofs say."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from fedsel._internal.display import DASH, about, counted, duration, shown, upper_bound
from fedsel.server._checkpoint import Counts
from fedsel.service._charts import by_round, grouped, line_chart, part
from fedsel.service._collector import Collector
from fedsel.service._pages import Columns, utc
from fedsel.service._proofs import Proofs, promised
from fedsel.service._said import figures_of_answers
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._task import Task
from fedsel.service._training import TrainingRun
from fedsel.wire import CloseRule
from fedsel.wire._contract import ShuffleRule

if TYPE_CHECKING:
    from markupsafe import Markup

    from fedsel.service.relay._state import RelaySnapshot

UNAVAILABLE = "The store does not answer. Devices are asked to send their reports again later."
MOST_POINTS = 120
_RECENT = 20
"""How many past rounds an estimate is made of."""


@final
class RunBoard:
    """What the dashboard of a service shows of a run; ``now`` describes the open round."""

    kind = "service"

    def __init__(
        self,
        task: Task,
        collector: Callable[[], Collector[TrainingRun]],
        now: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._task, self._collector, self.now = task, collector, now
        self._proofs = Proofs(task.begin.recipe, None if task.shuffle else task.close_after)
        self.columns = Columns(measured=task.evaluation is not None)

    def begin(self) -> None:
        """Compute proofs, now that somebody looks."""
        self._proofs.begin()

    def stop(self) -> None:
        """Stop computing proofs."""
        self._proofs.stop()

    @property
    def snapshot(self) -> RunSnapshot:
        """The run as it is."""
        return self._collector().run.snapshot

    def about(self) -> dict[str, Any]:
        """What the page says of the run."""
        task = self._task
        return {
            "name": task.name,
            "purpose": task.purpose,
            "recipient": task.recipient,
            "joins": task.shuffle is None,
            "asks": task.question is not None,
            "facts": task_facts(self.snapshot),
        }

    def figures(self) -> Markup:
        """What is drawn of the rounds that are over."""
        return figures(self.snapshot)

    def live(self) -> dict[str, str]:
        """Parts that change while a round is open."""
        snapshot, collector = self.snapshot, self._collector()
        return {
            "state": state(snapshot, collector.counts, time.time(), collector.available),
            "counts": counts(snapshot, collector.counts),
            "said": said(snapshot, collector.available),
            "privacy": guarantees(snapshot, self._proofs),
        }


def run_left(snapshot: RunSnapshot | RelaySnapshot, now: float) -> float | None:
    """Seconds that the run may still take, if rounds take as long as the median of recent ones.

    None before the first round has ended, and after the last.
    """
    if snapshot.finished or not snapshot.past:
        return None
    usual = statistics.median(past.seconds for past in snapshot.past[-_RECENT:])
    elapsed = min(max(0.0, now - snapshot.opened), usual)
    return usual * (snapshot.rounds - snapshot.round) - elapsed


def state(snapshot: RunSnapshot, counts: Counts, now: float, available: bool) -> Markup:
    """The tiles at the top: the open round, how fast it goes, how long it may take."""
    finished, left = None, run_left(snapshot, now)
    accepted, elapsed = counts.accepted, max(0.0, now - snapshot.opened)
    if snapshot.state.finished:
        began, ended = snapshot.past[0].opened, snapshot.past[-1].closed
        accepted, elapsed = snapshot.ended.accepted, max(0.0, (ended or began) - began)
        finished = {"ended": utc(ended or began), "accepted": accepted}
    slow_enough = elapsed > 0 if finished else elapsed >= 1
    rule = snapshot.task.release
    return part(
        "state",
        snapshot=snapshot,
        rule={"reports": rule.reports, "sentence": rule_sentence(rule)},
        shuffled=snapshot.task.shuffle is not None,
        available=available,
        unavailable=UNAVAILABLE,
        counts=counts,
        rate=shown(accepted / elapsed, 1) if slow_enough else DASH,
        elapsed=duration(elapsed, whole=True),
        left=None if left is None else about(left),
        waits=waits_for(rule, counts.accepted, elapsed),
        finished=finished,
        last=snapshot.past[-1] if snapshot.past else None,
    )


def waits_for(rule: CloseRule, accepted: int, elapsed: float) -> str:
    """What the open round still waits for.

    >>> waits_for(CloseRule(reports=100, seconds=60.0), 30, 45.0)
    '70 reports or at most 15 s'
    """
    waits, missing = [], rule.least - accepted
    if rule.reports is not None:
        waits.append(counted(max(0, rule.reports - accepted), "report"))
    if rule.seconds is not None and elapsed < rule.seconds:
        waits.append("at most " * (missing <= 0) + duration(rule.seconds - elapsed, whole=True))
    elif rule.seconds is not None and missing > 0:
        waits.append(f"waits for {counted(missing, 'report')}")
    return " or ".join(waits) or "ends now"


def counts(snapshot: RunSnapshot, now: Counts) -> Markup:
    """Reports by their outcome, in the open round and in all rounds."""
    lines = [] if snapshot.finished else [("Open round", now)]
    return part("counts", lines=[*lines, ("All rounds", snapshot.ended.plus(now))])


def said(snapshot: RunSnapshot, available: bool) -> str:
    """What a screen reader reads out: that a round or the run is over, but not every count."""
    if not available:
        return UNAVAILABLE
    if not snapshot.round:
        return ""
    record = snapshot.state.records[-1]
    ended = f"Round {record.round} has ended with {counted(record.accepted, 'report')}. "
    return ended + (
        "The run is over." if snapshot.state.finished else f"Round {snapshot.round} is open."
    )


def guarantees(snapshot: RunSnapshot, proofs: Proofs) -> Markup:
    """Render the privacy guarantees that are proved so far."""
    task, recipe, found = snapshot.task, snapshot.state.recipe, proofs.found
    measuring = snapshot.state.measuring
    rule = task.release
    privacy = recipe.build().privacy
    total = privacy.total if privacy.charge is None else float(privacy.charge * recipe.epochs)
    influence = None
    if "influence" in found:
        past = snapshot.state.records[-1].accepted if snapshot.round else 0
        reports = rule.reports or past or max(1, rule.least)
        length, entry = (found["influence"][name] / reports for name in ("norm", "largest"))
        influence = {"reports": reports, "length": upper_bound(length), "entry": upper_bound(entry)}
    return part(
        "privacy",
        per_report=upper_bound(privacy.per_report),
        charge=privacy.charge,
        total=upper_bound(total),
        epochs=recipe.epochs,
        reports=promised(rule),
        over=proofs.over,
        central=_central(found.get("central")),
        composed=_central(found.get("composed")),
        by_time=rule.seconds is not None and rule.reports is not None,
        shuffle=None if task.shuffle is None else both(task.shuffle, task.shuffled_epsilon, total),
        influence=influence,
        measures=None if measuring is None else upper_bound(measuring.recipes[0].charge),
    )


def both(rule: ShuffleRule, central: float, local: float) -> dict[str, str]:
    """Both numbers of a run that is shuffled, and what the central one counts on."""
    said = rule.said(central, local).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    return {"said": said, "condition": rule.condition}


def _central(found: dict[str, Any] | None) -> str | None:
    if found is None:
        return None
    return f"ε = {upper_bound(found['epsilon'])}, δ = {upper_bound(found['delta'])}"


def task_facts(snapshot: RunSnapshot) -> Markup:
    """Render the task as names and values."""
    known = None if snapshot.state.plan is None else snapshot.state.plan.known
    return part(
        "task",
        task=snapshot.task,
        snapshot=snapshot,
        recipe=snapshot.state.recipe,
        solution=snapshot.state.recipe.build(),
        given=None if known is None else int(known.given.sum()),
        ends=rule_sentence(snapshot.task.release),
        shuffled=snapshot.shuffled,
    )


def rule_sentence(rule: CloseRule) -> str:
    """When a round ends.

    >>> rule_sentence(CloseRule(reports=100, seconds=3600.0))
    'with 100 reports, or after 1 h with at least 1 report'
    >>> rule_sentence(CloseRule(seconds=30.0, least=0))
    'after 30 s'
    """
    parts = [] if rule.reports is None else [f"with {counted(rule.reports, 'report')}"]
    if rule.seconds is not None:
        needed = f" with at least {counted(rule.least, 'report')}" if rule.least else ""
        parts.append(f"after {duration(rule.seconds, whole=True)}{needed}")
    return ", or ".join(parts)


def figures(snapshot: RunSnapshot) -> Markup:
    """Reports by round, and accuracy and loss where there is a test set."""
    past, drawn = snapshot.past, figures_of_answers(snapshot)
    if past:
        accepted = [(one.round, one.counts.accepted) for one in past]
        goal = snapshot.task.release.reports
        drawn.append(by_round(accepted, goal, "where a round ends"))
    for name, factor, unit, digits in (("accuracy", 100.0, " in percent", 1), ("loss", 1.0, "", 3)):
        known = [(n, one.of_model(name)) for n, one in enumerate(past)]
        points = [(n, factor * value) for n, value in known if value is not None]
        if not points:
            continue
        values = [value for _, value in points]
        text = f"{name.capitalize()}{unit} on the test set after each round"
        alt = (
            f"Line: {text}. First {shown(values[0], digits)}, last {shown(values[-1], digits)}, "
            f"lowest {shown(min(values), digits)}, highest {shown(max(values), digits)}."
        )
        line = line_chart(grouped(points, MOST_POINTS), alt=alt, digits=digits)
        drawn.append((name.capitalize(), line, f"{text}: now {shown(values[-1], digits)}."))
    return part("figures", drawn=drawn)
