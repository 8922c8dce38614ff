"""Figures as pure functions of a table, in the looks of `fedsel.pages.palette`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedsel.pages import epsilon_axis, legend_below, new_figure, palette
from reproduction.results import Row, Rows, accuracies, choose, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(
    titles: Sequence[str], *, width: float = 4.6, height: float = 3.6, across: int = 3
) -> tuple[Figure, list[Axes]]:
    """A figure with one panel a title, at most ``across`` in a row."""
    across = min(len(titles), 2 if len(titles) == 4 else across)
    down = -(-len(titles) // across)
    figure = new_figure(0.6 + width * across, 0.4 + height * down)
    if (engine := figure.get_layout_engine()) is not None:
        engine.set(w_pad=0.08, h_pad=0.06)  # type: ignore[call-arg]
    grid = figure.subplots(down, across, squeeze=False)
    axes = list(grid.flat)
    for one, title in zip(axes, titles, strict=False):
        one.set_title(title, fontsize=10)
        one.grid(alpha=0.3)
    for spare in axes[len(titles) :]:
        spare.set_visible(False)
    return figure, axes[: len(titles)]


def lines(
    axes: Axes,
    rows: Rows,
    *,
    x: str = "epsilon",
    label: str,
    error: bool = False,
    of: Callable[[list[Row]], Any] = accuracies,
    group: str = "solution",
) -> None:
    """Mean ± deviation of accuracy (or misclassification) against ``x``, a line a solution.

    A solution without ε is a level line. Lines are set a little apart: some coincide (PE-PM and
    PS-PM often do), and both must be seen.
    """
    names = values_of(rows, group)
    for place, name in enumerate(names):
        mine = choose(rows, **{group: name})
        style = palette.style(str(name))
        at = [v for v in values_of(mine, x) if v is not None]
        if not at:
            level = float(of(mine).mean())
            style["marker"] = ""
            axes.axhline(100 - level if error else level, **style, label=f"{name} (not private)")
            continue
        at.sort()
        runs = [of(choose(mine, **{x: v})) for v in at]
        means = [100 - r.mean() if error else r.mean() for r in runs]
        spread = [r.std(ddof=1) if len(r) > 1 else 0.0 for r in runs]
        apart = 1.012 ** (place - len(names) / 2)
        shifted = [v * apart for v in at]
        axes.plot(shifted, means, **style, markersize=5, label=str(name))
        low = [m - s for m, s in zip(means, spread, strict=True)]
        high = [m + s for m, s in zip(means, spread, strict=True)]
        faint = 0.12 if len(names) < 9 else 0.05
        axes.fill_between(shifted, low, high, color=style["color"], alpha=faint, linewidth=0)
    level = 100 * sum(row["majority"] for row in rows) / len(rows)
    if level > 55:
        where = 100 - level if error else level
        axes.axhline(where, **MAJORITY)
    epsilon_axis(axes)
    axes.set_xlabel(label)
    axes.set_ylabel("misclassification (%)" if error else "test accuracy (%)")


MAJORITY: Mapping[str, Any] = {
    "color": palette.GREY,
    "linewidth": 0.8,
    "linestyle": (0, (1, 3)),
    "label": "majority class",
}
"""The level of always saying the more frequent label."""


def curves(rows: Rows) -> Figure:
    """Misclassification after each round, mean with a band of one standard deviation."""
    figure, (axes,) = panels([_title(rows[0])], width=6.5)
    for row in rows:
        rounds = range(1, len(row["mean"]) + 1)
        style = palette.style(row["solution"])
        mean = [100 * v for v in row["mean"]]
        axes.plot(rounds, mean, **style, markersize=4, markevery=10, label=row["solution"])
        low = [100 * (m - s) for m, s in zip(row["mean"], row["spread"], strict=True)]
        high = [100 * (m + s) for m, s in zip(row["mean"], row["spread"], strict=True)]
        axes.fill_between(rounds, low, high, color=style["color"], alpha=0.12, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("misclassification (%)")
    legend_below(figure)
    return figure


def by_model(rows: Rows, *, split: Sequence[str] = ("dataset", "model"), **options: Any) -> Figure:
    """One panel for each combination of the columns of ``split``."""
    keys = list(dict.fromkeys(tuple(row[name] for name in split) for row in rows))
    titles = [", ".join(_say(n, v) for n, v in zip(split, key, strict=True)) for key in keys]
    figure, all_axes = panels(titles)
    for axes, key in zip(all_axes, keys, strict=True):
        lines(axes, choose(rows, **dict(zip(split, key, strict=True))), **options)
    legend_below(figure)
    return figure


def scaling(
    axes: Axes, series: Mapping[str, tuple[Iterable[float], Iterable[float]]], x: str, y: str
) -> None:
    """Lines on two logarithmic axes, by label, which starts with a solution's name.

    What is not the solution's noise but its error against the mean is dotted.
    """
    for label, (at, values) in series.items():
        style = palette.style(label.split(",")[0].split(" ")[0])
        if "mean" in label:
            style["linestyle"] = palette.DOTTED
        axes.plot(list(at), list(values), **style, markersize=4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _few_numbers(axes)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _few_numbers(axes: Axes) -> None:
    """1, 2 and 5 of each decade on a short logarithmic axis, 1 on a long one: none collide."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 200 * low else (1,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _title(row: Row) -> str:
    return f"{row['dataset']}, {row['model']}"


def _say(name: str, value: Any) -> str:
    if name == "epochs":
        return f"{value} epoch{'s' if value > 1 else ''}"
    return f"ε = {value:g}" if name == "epsilon" else str(value)


def label_ends(axes: Axes, ends: Sequence[tuple[str, float, float]], size: float = 8) -> None:
    """Write the names of curves to the right of the axes, each tied to its end (solution, x, y).

    Names move up and down so that none covers another. Set the limits of the axes before.
    """
    figure: Any = axes.get_figure(root=True)
    figure.draw_without_rendering()  # the heights of axes are known then
    height = axes.bbox.height * 72 / figure.dpi
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: end[2])
    shown = [min(max(y, low), high) for *_, y in ends]
    shares = [(y - low) / (high - low) for y in shown]
    for (name, x, _), y, share in zip(
        ends, shown, space_out(shares, 1.25 * size / height), strict=True
    ):
        axes.annotate(
            name,
            (x, y),
            (1.05, share),
            textcoords="axes fraction",
            va="center",
            fontsize=size,
            color="#222222",
            arrowprops={
                "arrowstyle": "-",
                "color": palette.look(name.split(",")[0]).colour,
                "linewidth": 0.8,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 3,
            },
        )


def space_out(places: Sequence[float], apart: float) -> list[float]:
    """Ascending places in [0, 1], moved by least squares until neighbours are ``apart``.

    >>> [round(x, 2) for x in space_out([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    >>> space_out([0.0, 0.0], 0.25)
    [0.0, 0.25]
    """
    blocks: list[list[float]] = []  # the mean of yᵢ − i·apart, and how many: neighbours pooled
    for place, y in enumerate(places):
        blocks.append([y - place * apart, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, count = blocks.pop()
            before = blocks[-1]
            before[0] = (before[0] * before[1] + mean * count) / (before[1] + count)
            before[1] += count
    free = max(0.0, 1 - (len(places) - 1) * apart)
    starts = [min(max(mean, 0.0), free) for mean, count in blocks for _ in range(int(count))]
    return [start + place * apart for place, start in enumerate(starts)]
