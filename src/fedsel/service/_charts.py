"""Small charts of a dashboard, drawn by its templates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fedsel._internal.display import counted, macro

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_BARS = 60


def part(name: str, **values: Any) -> Markup:
    """Render one part of a page."""
    return macro("service/dashboard/parts.html", name, **values)


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


class Row(NamedTuple):
    """A value with its interval: the name, how it is written, and the numbers."""

    name: str
    value: float
    low: float
    high: float
    shown: str
    said: str


def interval_chart(rows: Sequence[Row], *, alt: str, most: float | None = None) -> Markup:
    """A line for each value, from the least to the largest that it may be, with a dot on it.

    The scale begins at 0, or below it where a value does, and ends at ``most``.
    """
    low = min(0.0, *(row.value for row in rows))
    high = max(row.high for row in rows) if most is None else most
    return part("intervals", rows=rows, low=low, high=high, alt=alt)


def _places(groups: Sequence[Group]) -> list[int]:
    """Choose the round numbers to mark on the axis."""
    first, last = groups[0].first, groups[-1].last
    if last - first < 6:
        return list(range(first, last + 1))
    return [int(t) for t in ticks(first, last) if first <= t <= last and t == int(t)]


Drawn = tuple[str, "Markup", str]
"""A figure: its title, the drawing, and what is below it."""


def by_round(accepted: Sequence[tuple[int, int]], level: int | None, meaning: str) -> Drawn:
    """Draw the accepted reports of each round; ``level`` is a line, and ``meaning`` what it is."""
    bars = grouped([(n, float(count)) for n, count in accepted], MOST_BARS)
    several, text = bars[0].last - bars[0].first + 1, "Accepted reports of each round"
    if several > 1:
        text = f"Accepted reports, the mean of each {several} rounds"
    if level is not None:
        text += f"; the line is {meaning}, {counted(level, 'report')}"
    alt = f"Bars: {text}. The last one has {counted(accepted[-1][1], 'report')}."
    return "Reports by round", bar_chart(bars, alt=alt, level=level), f"{text}."
