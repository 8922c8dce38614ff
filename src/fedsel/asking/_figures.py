"""Answers as pictures: bars with intervals, a cumulated curve, and a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedsel._internal.display import in_figure, shown
from fedsel._internal.palette import BLUE, GREY, ORANGE
from fedsel._internal.plotting import new_axes, new_figure
from fedsel.wire import Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedsel.asking._answer import Answer
    from fedsel.measuring import Estimate

MOST_BARS = 40
"""The most bars with a name each; of more answers the largest are drawn."""
_MOST_NUMBERS = 144
"""The most cells of a heat map that show their number."""
_LETTERS = 28
_BARS: dict[str, Any] = {"color": BLUE, "alpha": 0.85}
_ENDS: dict[str, Any] = {"ecolor": "black", "capsize": 3, "linewidth": 0, "elinewidth": 1}


def draw(answer: Answer, axes: Axes | None = None) -> Axes:
    """Draw an answer on the given axes, or on those of a new figure."""
    kind = answer.question.kind
    if kind == "mean":
        axes = _point(answer, axes)
    elif kind == "quantiles":
        axes = _curve(answer, axes)
    elif kind == "cross table" and len(answer.question.names) == 2:
        axes = _heat_map(answer, axes)
    elif kind == "histogram" and _only_numbers(answer):
        axes = _columns(answer, axes)
    else:
        axes = _bars(answer, axes)
    title = f"{answer.everyone:,} clients, ε = {float(answer.epsilon):g}"
    if kind != "quantiles" and not axes.images:  # a legend says it, or no interval is drawn
        title += f", {100 * answer.level:g} % intervals"
    axes.set_title(in_figure(title), fontsize="medium")
    return axes


def _only_numbers(answer: Answer) -> bool:
    """Whether every answer is a part of a number's range."""
    (column,) = answer.question.columns.columns.values()  # type: ignore[union-attr]
    return isinstance(column, Number) and not column.indicator


def _reach(estimates: Sequence[Estimate], factor: float = 1.0) -> Any:
    """How far each interval reaches below and above its estimate: (2, n)."""
    return factor * np.array([[e.value - e.low, e.high - e.value] for e in estimates]).T


def _bars(answer: Answer, axes: Axes | None) -> Axes:
    """A bar for each answer, from the top; of very many the largest."""
    shares: Mapping[Any, Estimate] = answer.shares
    ordered = sorted(shares, key=lambda label: -shares[label].value)[:MOST_BARS]
    labels = ordered if len(shares) > MOST_BARS else list(shares)
    if answer.question.kind == "count":
        labels.reverse()  # what was asked for comes first
    if axes is None:
        axes = new_figure(height=max(2.4, 1.2 + 0.28 * len(labels))).subplots()
    estimates, places = [shares[label] for label in labels], np.arange(len(labels))
    axes.barh(places, [100 * e.value for e in estimates], **_BARS)
    values = [100 * e.value for e in estimates]
    axes.errorbar(values, places, xerr=_reach(estimates, 100), **_ENDS)
    axes.set_yticks(places, [_label(answer, label) for label in labels])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    left_out = len(shares) - len(labels)
    most = f", the {len(labels)} largest of {len(shares):,}" if left_out else ""
    axes.set_xlabel(f"share of the clients (%){most}")
    if answer.question.kind != "count":
        axes.set_ylabel(in_figure(" × ".join(answer.question.names)))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return axes


def _label(answer: Answer, label: Any) -> str:
    """An answer at the axis: what a count is about, else the label alone."""
    text = answer.named(label) if answer.question.kind == "count" else label
    text = text if isinstance(text, str) else " × ".join(text)
    return in_figure(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")


def _columns(answer: Answer, axes: Axes | None) -> Axes:
    """The histogram of a number: columns as wide as its bins."""
    axes = new_axes(axes)
    (name,) = answer.question.names
    edges, estimates = answer.question.edges(name), list(answer.shares.values())
    values, middles = [100 * e.value for e in estimates], (edges[:-1] + edges[1:]) / 2
    axes.bar(edges[:-1], values, np.diff(edges), align="edge", edgecolor="white", **_BARS)
    axes.errorbar(middles, values, yerr=_reach(estimates, 100), **_ENDS)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(in_figure(name))
    axes.set_ylabel("share of the clients (%)")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return axes


def _point(answer: Answer, axes: Axes | None) -> Axes:
    """A mean within the public range of its column."""
    if axes is None:
        axes = new_figure(height=1.8).subplots()
    mean = cast("Estimate", answer.mean)
    look: dict[str, Any] = {
        "color": BLUE,
        "marker": "o",
        "ecolor": "black",
        "capsize": 4,
        "elinewidth": 1,
    }
    axes.errorbar([mean.value], [0], xerr=_reach([mean]), **look)
    axes.set_xlim(answer.question.number(-1), answer.question.number(1))
    axes.set_yticks([])
    axes.set_xlabel(in_figure(f"mean of {answer.question.names[0]}"))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return axes


def _curve(answer: Answer, axes: Axes | None) -> Axes:
    """The cumulated shares of the bins, and the quantiles on it with their intervals."""
    axes = new_axes(axes)
    (name,) = answer.question.names
    edges = answer.question.edges(name)
    bins = [e.value for e in islice(answer.shares.values(), len(edges) - 1)]
    below = np.concatenate([[0.0], np.cumsum(bins)]) / (sum(bins) or 1.0)
    axes.plot(edges, 100 * below, color=BLUE, label="cumulated share")
    found, levels = list(answer.quantiles.values()), [100 * q for q in answer.quantiles]
    look: dict[str, Any] = {
        "color": ORANGE,
        "marker": "o",
        "linestyle": "",
        "capsize": 4,
        "elinewidth": 1.5,
    }
    values, label = [e.value for e in found], f"quantiles, {100 * answer.level:g} % intervals"
    axes.errorbar(values, levels, xerr=_reach(found), label=label, **look)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 100)
    axes.set_xlabel(in_figure(name))
    axes.set_ylabel("share of the clients below (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return axes


def _heat_map(answer: Answer, axes: Axes | None) -> Axes:
    """A cell for each combination of two columns, with its share."""
    parts = answer.question.parts
    (across, down), sizes = reversed(parts), tuple(map(len, parts.values()))
    if axes is None:
        height = min(12.0, max(2.6, 1.6 + 0.32 * sizes[0]))
        axes = new_figure(height=height).subplots()
    shares = 100 * np.array([e.value for e in answer.shares.values()]).reshape(sizes)
    image = axes.imshow(shares, cmap="Blues", vmin=0, aspect="auto")
    if shares.size <= _MOST_NUMBERS:
        dark = 0.6 * shares.max()
        for (row, column), share in np.ndenumerate(shares):
            colour = "white" if share > dark else GREY if not share else "black"
            text = shown(float(share), 1)
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
    for name, set_ticks in ((across, axes.set_xticks), (down, axes.set_yticks)):
        every = max(1, len(parts[name]) // MOST_BARS)
        texts = [_label(answer, label) for label in parts[name][::every]]
        set_ticks(np.arange(0, len(parts[name]), every), texts)
    axes.tick_params(axis="x", rotation=_rotation(parts[across]))
    axes.set_xlabel(in_figure(across))
    axes.set_ylabel(in_figure(down))
    axes.figure.colorbar(image, ax=axes, label="share of the clients (%)")
    return axes


def _rotation(labels: Sequence[str]) -> float:
    """Labels stand upright where they would run into each other."""
    return 0 if sum(map(len, labels)) <= 60 else 90
