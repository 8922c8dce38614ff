"""Small charts as SVG: bars and lines whose looks are those of the page, without matplotlib.

They are for pages that are drawn anew all the time. Colours are classes of the style sheet, so that
they follow light and dark, and no element has a style of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedsel._internal.display import shown
from fedsel.pages.markup import Markup, element

WIDTH, HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 12, 26


class Group(NamedTuple):
    """Values of consecutive places, as one: their mean and the last of them."""

    first: int
    last: int
    mean: float
    latest: float

    @property
    def places(self) -> str:
        """The places in words.

        >>> Group(3, 3, 1.0, 1.0).places, Group(3, 5, 1.0, 1.0).places
        ('3', '3–5')
        """
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def grouped(values: Sequence[tuple[int, float]], most: int) -> list[Group]:
    """Values by place as at most so many groups of equally many, the last one perhaps of fewer.

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
    if high - low <= 1e-6 * size:  # a level line, which needs some room all the same
        high = low + max(1.0, 1e-3 * size)
    rough = (high - low) / about
    magnitude = math.floor(math.log10(rough))
    power = 10.0**magnitude
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 2 - magnitude) for i in range(first, last + 1)]


@dataclass(frozen=True)
class _Frame:
    """Where places and values are drawn: from the first to the last place, within the ticks."""

    first: float
    last: float
    levels: Sequence[float]

    def x(self, place: float) -> float:
        share = (place - self.first) / max(self.last - self.first, 1e-9)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.levels[0]) / (self.levels[-1] - self.levels[0])
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    def axes(self, places: Sequence[float], name: str) -> list[Markup]:
        """Lines of the levels with their numbers, and the numbers of the places."""
        parts: list[Markup] = []
        for level in self.levels:
            y = _number(self.y(level))
            edges = {"x1": str(_LEFT), "x2": str(WIDTH - _RIGHT), "y1": y, "y2": y}
            parts.append(element("line", class_="level", **edges))
            text = f"{level:,.4g}" if abs(level) < 1e4 else f"{level / 1000:,.4g}k"
            at = {"x": str(_LEFT - 6), "y": y}
            shifted = text.replace("-", "\N{MINUS SIGN}")
            parts.append(element("text", shifted, class_="value", dy="0.32em", **at))
        for place in places:
            at = {"x": _number(self.x(place)), "y": str(HEIGHT - 8)}
            parts.append(element("text", f"{place:,.0f}", class_="place-number", **at))
        parts.append(element("text", name, x="0", y=str(HEIGHT - 8)))
        return parts


def bar_chart(
    groups: Sequence[Group], *, alt: str, axis: str, level: float | None = None
) -> Markup:
    """The mean of each group as a bar from zero; ``level`` is a line to compare them with.

    >>> bar_chart(grouped([(0, 5.0)], 60), alt="One", axis="round").startswith('<svg class="chart"')
    True
    """
    highest = max([level or 0.0, *(g.mean for g in groups)])
    frame = _Frame(groups[0].first - 0.5, groups[-1].last + 0.5, ticks(0.0, highest, about=5))
    parts = frame.axes(_places(groups), axis)
    for group in groups:
        left, right = frame.x(group.first - 0.5), frame.x(group.last + 0.5)
        gap = min(2.0, 0.2 * (right - left))
        width = min(right - left - gap, 40.0)
        top = frame.y(group.mean)
        parts.append(
            element(
                "rect",
                element("title", f"{axis} {group.places}: {shown(round(group.mean, 2), 0)}"),
                class_="bar",
                x=_number((left + right - width) / 2),
                y=_number(top),
                width=_number(width),
                height=_number(frame.y(0.0) - top),
            )
        )
    if level is not None:
        y = _number(frame.y(level))
        edges = {"x1": str(_LEFT), "x2": str(WIDTH - _RIGHT), "y1": y, "y2": y}
        parts += [element("line", class_=name, **edges) for name in ("goal-ground", "goal")]
    return _drawing(parts, alt)


def line_chart(groups: Sequence[Group], *, alt: str, axis: str, digits: int = 3) -> Markup:
    """The latest value of each group, joined; the last one is written beside its dot."""
    values = [g.latest for g in groups]
    frame = _Frame(groups[0].first, groups[-1].last, ticks(min(values), max(values)))
    parts = frame.axes(_places(groups), axis)
    points = [(frame.x(g.last), frame.y(g.latest)) for g in groups]
    path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
    parts.append(element("polyline", class_="curve", points=path))
    for group, (x, y) in zip(groups, points, strict=True):
        told = element("title", f"{axis} {group.last}: {shown(group.latest, digits)}")
        last = group is groups[-1]
        radius = "3.5" if last else "5"
        at = {"cx": _number(x), "cy": _number(y), "r": radius}
        parts.append(element("circle", told, class_="dot" if last else "touch", **at))
    return _drawing(parts, alt)


def _places(groups: Sequence[Group]) -> list[float]:
    """Some round numbers among the places."""
    first, last = groups[0].first, groups[-1].last
    if last - first < 6:
        return [float(n) for n in range(first, last + 1)]
    return [t for t in ticks(first, last) if first <= t <= last and t == int(t)]


def _drawing(parts: Sequence[Markup], alt: str) -> Markup:
    box = f"0 0 {WIDTH} {HEIGHT}"
    return element("svg", *parts, class_="chart", viewBox=box, role="img", aria_label=alt)


def _number(x: float) -> str:
    return f"{x:.1f}".rstrip("0").rstrip(".")
