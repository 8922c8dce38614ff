"""Parts of the page as HTML, each by itself: what is live is sent anew when it changes."""

from __future__ import annotations

from collections.abc import Sequence

from fedsel._internal.display import DASH, shown
from fedsel.pages.charts import bar_chart, grouped, line_chart
from fedsel.pages.markup import Markup, element, joined
from fedsel.server._admission import Counts
from fedsel.service._store import RoundStatus
from fedsel.service.dashboard.progress import (
    RoundRow,
    open_counts,
    round_left,
    rows,
    run_left,
    totals,
)
from fedsel.service.dashboard.words import about, counted, moment, rule_sentence, span
from fedsel.service.view import RunSnapshot

MOST_BARS, MOST_POINTS = 60, 120
NUMBERED = "number"
_UNAVAILABLE = "The store does not answer. Devices are asked to send their reports again later."


def state(view: RunSnapshot, place: RoundStatus, now: float, available: bool) -> Markup:
    """The run as it is: the open round, how fast it goes, how long it may take."""
    tiles = _finished(view) if view.state.finished else _open(view, place, now)
    last = rows(view, view.round - 1, view.round) if view.round else []
    if last and last[0].accuracy is not None:
        tiles.append(
            tile(
                "Accuracy",
                shown(100 * last[0].accuracy, 1) + " %",
                f"on the test set after round {last[0].number}; loss {shown(last[0].loss, 3)}",
            )
        )
    shown_tiles = element("dl", *tiles, class_="tiles")
    if available:
        return shown_tiles
    notice = element("p", _UNAVAILABLE, class_="notice")
    return joined([element("div", notice, class_="absent"), shown_tiles])


def _open(view: RunSnapshot, place: RoundStatus, now: float) -> list[Markup]:
    counts, rule = open_counts(view, place), view.task.close_after
    elapsed = max(0.0, now - view.opened)
    reports, seconds = round_left(rule, counts, elapsed)
    goal = "" if rule.reports is None else f" of {shown(rule.reports, 0)}"
    rate = shown(counts.accepted / elapsed, 1) if elapsed >= 1 else DASH
    return [
        tile(
            "Open round",
            str(view.round),
            f"{view.state.stage}, epoch {view.state.epoch}; "
            f"{view.round} of {counted(view.rounds, 'round')} over",
            _bar(view.round, view.rounds, "Rounds that are over"),
        ),
        tile(
            "In this round",
            f"{shown(counts.accepted, 0)}{goal}",
            f"reports; it ends {rule_sentence(rule)}",
            Markup("")
            if rule.reports is None
            else _bar(counts.accepted, rule.reports, "Reports in this round"),
        ),
        tile("Reports per second", rate, f"in this round, open for {span(elapsed)}"),
        _left(reports, seconds, rule.least - counts.accepted, run_left(view, now)),
    ]


def _left(reports: int | None, seconds: float | None, least: int, run: float | None) -> Markup:
    waits = [] if reports is None else [counted(reports, "report")]
    if seconds:
        waits.append(f"at most {span(seconds)}" if least <= 0 else span(seconds))
    elif seconds is not None and least > 0:
        waits.append(f"waits for {counted(least, 'report')}")
    round_words = "This round: " + (" or ".join(waits) or "ends now")
    estimate = "Estimate for the run, from the median of recent rounds. "
    if run is None:
        return tile("Time left", DASH, f"No estimate before a round is over. {round_words}.")
    return tile("Time left", about(run), f"{estimate}{round_words}.")


def _finished(view: RunSnapshot) -> list[Markup]:
    began, ended = view.times[0][0], view.times[view.round - 1][1]
    accepted = sum(r.accepted for r in view.state.records)
    took = max(0.0, (began if ended is None else ended) - began)
    rate = shown(accepted / took, 1) if took else DASH
    return [
        tile(
            "The run is over",
            f"{view.rounds} of {view.rounds}",
            joined(["rounds; the last one ended ", moment(ended or began)]),
            _bar(1, 1, "Rounds that are over"),
        ),
        tile("Reports", shown(accepted, 0), "accepted in all rounds"),
        tile("Reports per second", rate, f"over {span(took)}"),
    ]


def tile(name: str, value: str, more: str, bar: str = "") -> Markup:
    """A figure with its name above and what it means below."""
    return element(
        "div",
        element("dt", name),
        element("dd", value, class_="figure-value"),
        element("dd", bar) if bar else "",
        element("dd", more, class_="more"),
        class_="tile",
    )


def _bar(value: int, most: int, label: str) -> Markup:
    return element("progress", value=str(min(value, most)), max=str(most), aria_label=label)


def counts_rows(view: RunSnapshot, place: RoundStatus) -> Markup:
    """Reports by what became of them: of the open round, and of all."""
    lines = [] if view.state.finished else [("Open round", open_counts(view, place))]
    lines.append(("All rounds", totals(view, place)))
    return joined(
        (
            element("tr", element("th", name, scope="row"), *_counts(counts))
            for name, counts in lines
        ),
        "\n",
    )


def _counts(counts: Counts) -> list[Markup]:
    return [_number(count, 0, "" if count else " zero") for count in counts]


def _number(value: float | None, digits: int, more: str = "") -> Markup:
    return element("td", shown(value, digits), class_=NUMBERED + more)


def round_rows(listed: Sequence[RoundRow], measured: bool) -> Markup:
    """Rounds, the latest first."""
    if not listed:
        columns = 10 if measured else 8
        return element("tr", element("td", "No round is over yet.", colspan=str(columns)))
    return joined((_round_row(row, measured) for row in reversed(listed)), "\n")


def _round_row(row: RoundRow, measured: bool) -> Markup:
    cells = [
        element("th", str(row.number), scope="row", class_=NUMBERED),
        element("td", row.stage),
        *_counts(row.counts),
        _number(row.seconds, 1),
        _number(row.per_second, 1),
    ]
    if measured:
        share = None if row.accuracy is None else 100 * row.accuracy
        cells += [_number(share, 1), _number(row.loss, 3)]
    return element("tr", *cells)


def pager(first: int, beyond: int, over: int, size: int) -> Markup:
    """Ways to older and newer rounds, and which these are."""
    if over <= size and beyond == over:
        return Markup("")
    places = [element("span", f"Rounds {first} to {beyond - 1} of {shown(over, 0)}")]
    if first > 0:
        older = element("a", "Older", href=f"./?before={first}#rounds", id="older", rel="prev")
        places.append(older)
    if beyond < over:
        newer = "./#rounds" if beyond + size >= over else f"./?before={beyond + size}#rounds"
        places.append(element("a", "Newer", href=newer, id="newer", rel="next"))
    return joined(places, " ")


def figures(view: RunSnapshot) -> Markup:
    """Reports by round, and accuracy and loss where there is a test set."""
    listed = rows(view, 0, view.round)
    if not listed:
        return element("p", "There are figures once a round is over.", class_="empty")
    bars = grouped([(row.number, float(row.counts.accepted)) for row in listed], MOST_BARS)
    several = bars[0].last - bars[0].first + 1
    goal = view.task.close_after.reports
    said = (
        f"Accepted reports, the mean of each {several} rounds"
        if several > 1
        else ("Accepted reports of each round")
    )
    if goal is not None:
        said += f"; the line is where a round ends, {counted(goal, 'report')}"
    last = listed[-1]
    drawn = [
        _figure(
            "Reports by round",
            bar_chart(
                bars,
                alt=f"Bars: {said}. The last one has {counted(last.counts.accepted, 'report')}.",
                axis="round",
                level=goal,
            ),
            f"{said}.",
        )
    ]
    for name, factor, unit, digits in (("accuracy", 100.0, " in percent", 1), ("loss", 1.0, "", 3)):
        known = [(row.number, getattr(row, name)) for row in listed]
        points = [(n, factor * value) for n, value in known if value is not None]
        if not points:
            continue
        values = [value for _, value in points]
        told = f"{name.capitalize()}{unit} on the test set after each round"
        alt = (
            f"Line: {told}. First {shown(values[0], digits)}, last {shown(values[-1], digits)}, "
            f"lowest {shown(min(values), digits)}, highest {shown(max(values), digits)}."
        )
        line = line_chart(grouped(points, MOST_POINTS), alt=alt, axis="round", digits=digits)
        drawn.append(_figure(name.capitalize(), line, f"{told}: now {shown(values[-1], digits)}."))
    return joined(drawn)


def _figure(title: str, drawing: Markup, caption: str) -> Markup:
    return element(
        "figure", element("h3", title), drawing, element("figcaption", caption), class_="panel"
    )


def said(view: RunSnapshot, available: bool) -> str:
    """What is worth to be read out: that a round, or the run, is over; not every count."""
    if not available:
        return _UNAVAILABLE
    if not view.round:
        return ""
    record = view.state.records[-1]
    ended = f"Round {record.round} has ended with {counted(record.accepted, 'report')}. "
    return ended + ("The run is over." if view.state.finished else f"Round {view.round} is open.")
