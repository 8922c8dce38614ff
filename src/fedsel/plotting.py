"""Figures that several parts share: axes are returned, nothing is shown or written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedsel.display import in_figure
from fedsel.extras import needed
from fedsel.history import Round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPX*<>"


def new_figure(width: float = 6.4, height: float = 4.2) -> Figure:
    """A figure that belongs to nobody: no window, no state."""
    with needed("plots", "figures"):
        from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(axes: Axes | None = None) -> Axes:
    """These axes, or those of a new figure."""
    if axes is not None:
        return axes
    subplot: Axes = new_figure().subplots()
    return subplot


def history(rounds: Sequence[Round], label: str, axes: Axes | None = None) -> Axes:
    """Accuracy against rounds; where nobody judged, the bits that were sent so far."""
    axes, label = new_axes(axes), in_figure(label)
    numbers = [r.round for r in rounds]
    if any(not math.isnan(r.accuracy) for r in rounds):
        axes.plot(numbers, [100 * r.accuracy for r in rounds], label=label)
        axes.set_ylabel("accuracy on eval_set (%)")
    else:
        axes.plot(numbers, np.cumsum([r.bits for r in rounds]) / 8000, label=label)
        axes.set_ylabel("sent by all clients so far (kB)")
    axes.set_xlabel("round")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return axes


@dataclass(frozen=True)
class Point:
    """Mean and standard deviation of the accuracy of a solution at an ε (None: not private)."""

    solution: str
    epsilon: float | None
    accuracy: float
    deviation: float


def accuracy_against_epsilon(points: Sequence[Point], axes: Axes | None = None) -> Axes:
    """Accuracy ± deviation against ε, a curve for each solution; a dashed line has no ε."""
    axes = new_axes(axes)
    names = list(dict.fromkeys(p.solution for p in points))
    for place, name in enumerate(names):
        mine = [p for p in points if p.solution == name]
        colour = f"C{place % 10}"
        if mine[0].epsilon is None:
            level = 100 * mine[0].accuracy
            axes.axhline(
                level, color=colour, linestyle="--", label=in_figure(f"{name} (not private)")
            )
            continue
        mine = sorted(mine, key=lambda p: p.epsilon or math.nan)
        # A little apart: curves that coincide (PE-PM and PS-PM do) must both be seen.
        apart = 1.02 ** (place - len(names) / 2)
        axes.errorbar(
            [(p.epsilon or math.nan) * apart for p in mine],
            [100 * p.accuracy for p in mine],
            yerr=[100 * p.deviation for p in mine],
            color=colour,
            marker=MARKERS[place % len(MARKERS)],
            markersize=5,
            capsize=3,
            label=in_figure(name),
        )
    if any(p.epsilon is not None for p in points):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("ε of a client")
    axes.set_ylabel("test accuracy (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return axes
