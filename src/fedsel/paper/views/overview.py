"""The picture of every tuned solution: those to know in colour, with their names beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedsel import palette
from fedsel.paper import figures
from fedsel.paper.results import Rows, choose, values_of
from fedsel.paper.views.base import Picture
from fedsel.paper.views.choosing import curve, tests
from fedsel.plotting import epsilon_axis, label_ends, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("PM", "PM-RP", "PS-PM", "J", "RJ", "PrivUnit")
"""One of each kind: flat, compressed, two-stage, one symbol (plain, rotated), and the optimum."""


def picture(chosen: Rows) -> Picture | None:
    """Accuracy against ε, a row of panels a data set and a column a model."""
    keys = list(dict.fromkeys((r["dataset"], r["model"]) for r in chosen))
    if not any(row["epsilon"] is not None for row in chosen):
        return None
    across = len(values_of(chosen, "model"))
    titles = [", ".join(key) for key in keys]
    figure, panels = figures.panels(titles, width=4.6, height=2.7, across=across)
    ends = []
    for axes, (dataset, model) in zip(panels, keys, strict=True):
        ends.append(_panel(axes, choose(chosen, dataset=dataset, model=model)))
    legend_below(figure)
    for axes, names in zip(panels, ends, strict=True):
        label_ends(axes, names)
    others = [s for s in values_of(chosen, "solution") if s not in (*SHOWN, "NP")]
    grey = f" In grey: {', '.join(others)}." if others else ""
    return Picture(
        figure,
        "Test accuracy, each solution at the α chosen on validation data: mean, and for those in "
        f"colour a band of one standard deviation.{grey} Lines that fail altogether are cut off.",
        "Accuracy against ε at each solution's own best learning rate",
    )


def _panel(axes: Axes, rows: Rows) -> list[tuple[str, float, float]]:
    """Draw one panel; the ends of what is to be named are returned."""
    ends = []
    for name in values_of(rows, "solution"):
        if name not in (*SHOWN, "NP") and (points := curve(rows, name)):
            axes.plot(*zip(*points, strict=True), color=palette.PALE, linewidth=0.9, label="others")
    lowest: list[float] = []
    for name in SHOWN:
        points = curve(rows, name)
        if not points:
            continue
        style: dict[str, Any] = palette.style(name, markersize=5, linewidth=1.4)
        axes.plot(*zip(*points, strict=True), **style)
        runs = [tests(choose(rows, solution=name, epsilon=e)) for e, _ in points]
        spread = np.array([r.std(ddof=1) if len(r) > 1 else 0.0 for r in runs])
        means = np.array([mean for _, mean in points])
        band = {"color": style["color"], "alpha": 0.08, "linewidth": 0}
        axes.fill_between([e for e, _ in points], means - spread, means + spread, **band)
        ends.append((name, *points[-1]))
        lowest.append(means.min())
    top = axes.dataLim.x1
    if without := choose(rows, solution="NP"):
        level = float(tests(without).mean())
        axes.axhline(level, **palette.style("NP", linewidth=1))
        ends.append(("NP, not private", top, level))
        lowest.append(level)
    majority = 100 * float(np.mean([row["majority"] for row in rows]))
    if majority > 55:
        axes.axhline(majority, **figures.MAJORITY)
    epsilon_axis(axes)
    if lowest:
        axes.set_ylim(*_limits(lowest, [level for _, _, level in ends]))
    axes.set(xlabel="ε of a client", ylabel="test accuracy (%)")
    return ends


def _limits(lowest: list[float], highest: list[float]) -> tuple[float, float]:
    """From a little below the lowest curve in colour to a little above the highest."""
    low, high = min(lowest), max(highest)
    room = max(0.06 * (high - low), 0.1)
    return low - room, high + room
