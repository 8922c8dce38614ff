"""Figures that several parts share: functions return axes, and show nothing."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsel._internal import palette
from fedsel._internal.display import in_figure
from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.server._step import Round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedsel.measuring import Measurement


_PAPER: Any = {
    "font.size": 8,
    "lines.linewidth": 1,
    "lines.markersize": 4,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8,
}


def new_figure(width: float = 6.4, height: float = 4.2) -> Figure:
    """A figure without a window or global state."""
    with needed("plots", "figures"):
        from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def in_a_paper() -> Iterator[None]:
    """Draw and write figures within in the small type of a paper's column."""
    with needed("plots", "figures"):
        from matplotlib import rc_context

    with rc_context(_PAPER):
        yield


def svg_of(figure: Figure) -> str:
    """Convert a figure to SVG: always to the same text."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "fedsel"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def write_pdf(figure: Figure, path: Path) -> None:
    """Write a figure as PDF, its fonts embedded as TrueType, as publishers ask, and no date."""
    from matplotlib import rc_context

    with rc_context({"pdf.fonttype": 42}):
        figure.savefig(path, metadata={"CreationDate": None})


def new_axes(axes: Axes | None = None) -> Axes:
    """The given axes, or the axes of a new figure."""
    if axes is not None:
        return axes
    subplot: Axes = new_figure().subplots()
    return subplot


def history(
    rounds: Sequence[Round], label: str, axes: Axes | None = None, solution: str | None = None
) -> Axes:
    """Accuracy against rounds, or the bits sent so far where accuracy was not measured.

    The curve has the colour of ``solution``, or of the label; a second curve of the same solution
    has another line.
    """
    axes = new_axes(axes)
    style = palette.style(label if solution is None else solution, markersize=4)
    drawn = sum(line.get_color() == style["color"] for line in axes.get_lines())
    style["linestyle"] = palette.LINES[drawn % len(palette.LINES)]
    numbers = [r.round for r in rounds]
    if any(not math.isnan(r.accuracy) for r in rounds):
        levels = np.array([100 * r.accuracy for r in rounds])
        axes.set_ylabel("accuracy on eval_set (%)")
    else:
        levels = np.cumsum([r.bits for r in rounds]) / 8000
        axes.set_ylabel("sent by all clients so far (kB)")
    every = max(1, len(numbers) // 10)
    axes.plot(numbers, levels, **style, markevery=every, label=in_figure(label))
    axes.set_xlabel("round")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return axes


def measurement(found: Measurement, axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """The metrics of a measurement with their intervals, and beside them its curve, if any.

    Metrics that are parts of 1 share one axis; others are written beside it. The curve shows how
    many are right against what their scores say, or the mean error against the target.
    """
    curves = 1 if found.calibration else 0
    if axes is None:
        axes = np.atleast_1d(new_figure(4.4 + 3.6 * curves, 3.4).subplots(1, 1 + curves)).tolist()
    if len(axes) < 1 + curves:
        raise InvalidArgument("axes", f"{len(axes)} axes", f"{1 + curves}: metrics and their curve")
    _metrics(found, axes[0])
    if curves:
        numbers = any(question.kind == "residuals" for question in found.questions)
        (_errors if numbers else _calibration)(found, axes[1])
    return tuple(axes)


_SAYS_NOTHING = 0.9
"""The width of an interval of a rate from which on it is not drawn."""


def _metrics(found: Measurement, axes: Axes) -> None:
    names, metrics = list(found.metrics), list(found.metrics.values())
    places = np.arange(len(names))
    values = [m.value for m in metrics]
    reach = np.array([[m.value - m.low, m.high - m.value] for m in metrics]).T
    axes.errorbar(values, places, xerr=reach, fmt="o", color=palette.BLUE, capsize=4)
    for place, value in enumerate(values):
        axes.annotate(
            f"{value:.3f}", (value, place), (0, 7), textcoords="offset points", ha="center"
        )
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.5, -0.6)
    ends = [m.low for m in metrics] + [m.high for m in metrics]
    axes.set_xlim(min(0.0, *ends), max(1.0, *ends) + 0.02)
    axes.set_title(
        f"{found.clients:,} clients, {100 * found.level:g} % intervals", fontsize="medium"
    )
    axes.grid(alpha=0.3)


def _calibration(found: Measurement, axes: Axes) -> None:
    curve = [c for c in found.calibration if c.rate.high - c.rate.low < _SAYS_NOTHING]
    said, rates = [c.said for c in curve], [c.rate for c in curve]
    reach = np.array([[r.value - r.low, r.high - r.value] for r in rates]).reshape(-1, 2).T
    axes.plot([0, 1], [0, 1], color=palette.PALE, linestyle=palette.DASHED)
    style: Any = {"marker": "o", "color": palette.BLUE, "capsize": 3}
    axes.errorbar(said, [r.value for r in rates], yerr=reach, **style)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    two = any(question.kind == "scores" for question in found.questions)
    axes.set_xlabel("probability that the model says")
    axes.set_ylabel("share of the second class" if two else "share that is right")
    axes.set_title("calibration", fontsize="medium")
    axes.grid(alpha=0.3)


def _errors(found: Measurement, axes: Axes) -> None:
    curve = found.calibration
    rates = [c.rate for c in curve]
    reach = np.array([[r.value - r.low, r.high - r.value] for r in rates]).T
    style: Any = {"marker": "o", "color": palette.BLUE, "capsize": 3}
    axes.errorbar([c.score for c in curve], [r.value for r in rates], yerr=reach, **style)
    axes.set_xlim(-1, 1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("target, its range as [−1, 1]")
    axes.set_ylabel("mean error")
    axes.set_title("error by target", fontsize="medium")
    axes.grid(alpha=0.3)


@dataclass(frozen=True)
class Point:
    """Mean and standard deviation of the accuracy of a solution at an ε (None: not private)."""

    solution: str
    epsilon: float | None
    accuracy: float
    deviation: float


def accuracy_against_epsilon(points: Sequence[Point], axes: Axes | None = None) -> Axes:
    """Accuracy ± deviation against ε: a curve for each solution, a level line without ε.

    The legend is beside the axes of a new figure, and inside given axes.
    """
    own = axes is None
    axes = new_axes(axes)
    names = list(dict.fromkeys(p.solution for p in points))
    for place, name in enumerate(names):
        mine = [p for p in points if p.solution == name]
        style = palette.style(name)
        if mine[0].epsilon is None:
            level = 100 * mine[0].accuracy
            axes.axhline(level, **style | {"marker": ""}, label=in_figure(f"{name} (not private)"))
            continue
        mine = sorted(mine, key=lambda p: p.epsilon or math.nan)
        # A little apart: curves that coincide (PE-PM and PS-PM do) must both be seen.
        apart = 1.02 ** (place - len(names) / 2)
        axes.errorbar(
            [(p.epsilon or math.nan) * apart for p in mine],
            [100 * p.accuracy for p in mine],
            yerr=[100 * p.deviation for p in mine],
            **style,
            capsize=3,
            label=in_figure(name),
        )
    if any(p.epsilon is not None for p in points):
        epsilon_axis(axes)
    axes.set_xlabel("ε of a client")
    axes.set_ylabel("test accuracy (%)")
    axes.grid(alpha=0.3)
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    axes.legend(fontsize="small", **(beside if own else {}))
    return axes


def epsilon_axis(axes: Axes) -> None:
    """Make the ε axis logarithmic, with numbers at powers of two only."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())


def legend_below(figure: Any, size: float | str = "small") -> None:
    """Put one legend of all panels below them; each label appears once."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        if (own := axes.get_legend()) is not None:
            own.remove()
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if not handles:
        return
    for rows in range(-(-len(handles) // 7), len(handles) + 1):
        columns = -(-len(handles) // rows)
        placed = {"loc": "outside lower center", "ncols": columns, "fontsize": size}
        legend = figure.legend(handles.values(), handles, **placed)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
