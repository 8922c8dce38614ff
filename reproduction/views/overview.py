"""The picture of every tuned solution: those to know in colour, with their names beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedsel.pages import epsilon_axis, legend_below, palette
from reproduction import figures
from reproduction.paper import RECOMMENDED
from reproduction.results import Rows, choose, values_of
from reproduction.views.base import Picture
from reproduction.views.choosing import curve, tests

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("PM", "PM-RP", "PS-PM", "J", RECOMMENDED, "PrivUnit")
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
        figures.label_ends(axes, names)
    others = [s for s in values_of(chosen, "solution") if s not in (*SHOWN, "NP")]
    grey = f" In grey: {', '.join(others)}." if others else ""
    return Picture(
        figure,
        f"Mean test accuracy, each solution at the α chosen on validation data.{grey} Lines that "
        "fail altogether are cut off; deviations are in the table.",
        "Accuracy against ε at each solution's own best learning rate",
    )


def _panel(axes: Axes, rows: Rows) -> list[tuple[str, float, float]]:
    """Draw one panel, and return the ends of the curves to be named."""
    ends = []
    for name in values_of(rows, "solution"):
        if name not in (*SHOWN, "NP") and (points := curve(rows, name)):
            axes.plot(*zip(*points, strict=True), color=palette.PALE, linewidth=0.9, label="others")
    levels: list[float] = []
    for name in SHOWN:
        points = curve(rows, name)
        if not points:
            continue
        style: dict[str, Any] = palette.style(name, markersize=5, linewidth=1.4)
        axes.plot(*zip(*points, strict=True), **style)
        ends.append((name, *points[-1]))
        levels += [mean for _, mean in points]
    epsilon_axis(axes)
    if without := choose(rows, solution="NP"):
        level = float(tests(without).mean())
        axes.axhline(level, **palette.style("NP", linewidth=1))
        ends.append(("NP, not private", axes.get_xlim()[1], level))
        levels.append(level)
    majority = 100 * float(np.mean([row["majority"] for row in rows]))
    if majority > 55:
        axes.axhline(majority, **figures.MAJORITY)
    if levels:
        room = max(0.06 * (max(levels) - min(levels)), 0.1)
        axes.set_ylim(min(levels) - room, max(levels) + room)
    axes.set(xlabel="ε of a client", ylabel="test accuracy (%)")
    return ends
