"""The numbers of the page: rounds as rows, rates, estimates, charts, and what the proofs say."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fedsel._internal.display import DASH, about, counted, duration, macro, shown, upper_bound
from fedsel.server._checkpoint import Counts
from fedsel.service._proofs import Proofs, promised
from fedsel.service._snapshot import RunSnapshot
from fedsel.wire import CloseRule

if TYPE_CHECKING:
    from markupsafe import Markup

UNAVAILABLE = "The store does not answer. Devices are asked to send their reports again later."
MOST_BARS, MOST_POINTS = 60, 120
_RECENT = 20
"""How many past rounds an estimate is made of."""


def part(name: str, **values: Any) -> Markup:
    """Render one part of the page."""
    return macro("service/dashboard/parts.html", name, **values)


def run_left(snapshot: RunSnapshot, now: float) -> float | None:
    """Seconds that the run may still take, if rounds take as long as the median of recent ones.

    None before the first round has ended, and after the last.
    """
    if snapshot.state.finished or not snapshot.round:
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
    rule = snapshot.task.close_after
    return part(
        "state",
        snapshot=snapshot,
        rule={"reports": rule.reports, "sentence": rule_sentence(rule)},
        available=available,
        unavailable=UNAVAILABLE,
        counts=counts,
        rate=shown(accepted / elapsed, 1) if slow_enough else DASH,
        elapsed=duration(elapsed, whole=True),
        left=None if left is None else about(left),
        waits=_waits_for(rule, counts.accepted, elapsed),
        finished=finished,
        last=snapshot.past[-1] if snapshot.past else None,
    )


def _waits_for(rule: CloseRule, accepted: int, elapsed: float) -> str:
    """What the open round still waits for.

    >>> _waits_for(CloseRule(reports=100, seconds=60.0), 30, 45.0)
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
    lines = [] if snapshot.state.finished else [("Open round", now)]
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
    recipe, rule, found = snapshot.state.recipe, snapshot.task.close_after, proofs.found
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
        influence=influence,
    )


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
        ends=rule_sentence(snapshot.task.close_after),
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


def utc(seconds: float) -> str:
    """Format a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def figures(snapshot: RunSnapshot) -> Markup:
    """Reports by round, and accuracy and loss where there is a test set."""
    past, drawn = snapshot.past, []
    if past:
        accepted = [(n, float(one.record.accepted)) for n, one in enumerate(past)]
        bars = grouped(accepted, MOST_BARS)
        several, goal = bars[0].last - bars[0].first + 1, snapshot.task.close_after.reports
        text = "Accepted reports of each round"
        if several > 1:
            text = f"Accepted reports, the mean of each {several} rounds"
        if goal is not None:
            text += f"; the line is where a round ends, {counted(goal, 'report')}"
        alt = f"Bars: {text}. The last one has {counted(past[-1].record.accepted, 'report')}."
        drawn.append(("Reports by round", bar_chart(bars, alt=alt, level=goal), f"{text}."))
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


class Group(NamedTuple):
    """Values of consecutive rounds as one: their mean and the last of them."""

    first: int
    last: int
    mean: float
    latest: float


def grouped(values: Sequence[tuple[int, float]], most: int) -> list[Group]:
    """Values by round in at most ``most`` groups of equal size; the last may be smaller.

    >>> grouped([(0, 1.0), (1, 3.0), (2, 7.0)], most=2)
    [Group(first=0, last=1, mean=2.0, latest=3.0), Group(first=2, last=2, mean=7.0, latest=7.0)]
    """
    size = max(1, math.ceil(len(values) / most))
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    return [
        Group(part[0][0], part[-1][0], math.fsum(v for _, v in part) / len(part), part[-1][1])
        for part in parts
    ]


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from one that is not above low to one that is not below high.

    >>> ticks(0, 97), ticks(0.62, 0.71)
    ([0.0, 25.0, 50.0, 75.0, 100.0], [0.6, 0.625, 0.65, 0.675, 0.7, 0.725])
    >>> ticks(0.5, 0.5)
    [0.5, 0.75, 1.0, 1.25, 1.5]
    """
    size = max(abs(low), abs(high), 1e-6)
    if high - low <= 1e-6 * size:  # a level line needs some room all the same
        high = low + max(1.0, 1e-3 * size)
    rough = (high - low) / about
    magnitude = math.floor(math.log10(rough))
    power = 10.0**magnitude
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 2 - magnitude) for i in range(first, last + 1)]


def bar_chart(groups: Sequence[Group], *, alt: str, level: float | None = None) -> Markup:
    """The mean of each group as a bar from zero; ``level`` is a line to compare them with."""
    levels = ticks(0.0, max([level or 0.0, *(g.mean for g in groups)]), about=5)
    return part("bars", groups=groups, alt=alt, levels=levels, places=_places(groups), goal=level)


def line_chart(groups: Sequence[Group], *, alt: str, digits: int = 3) -> Markup:
    """Draw a line through the latest value of each group."""
    levels = ticks(min(g.latest for g in groups), max(g.latest for g in groups))
    return part(
        "curve", groups=groups, alt=alt, levels=levels, places=_places(groups), digits=digits
    )


def _places(groups: Sequence[Group]) -> list[int]:
    """Choose the round numbers to mark on the axis."""
    first, last = groups[0].first, groups[-1].last
    if last - first < 6:
        return list(range(first, last + 1))
    return [int(t) for t in ticks(first, last) if first <= t <= last and t == int(t)]
