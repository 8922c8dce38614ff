"""Figures as pure functions of a table: one colour, marker and line for each solution everywhere.

The colours are those of Okabe and Ito, told apart by colour-blind readers and in grey print
together with the markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedsel.paper.results import Row, Rows, accuracies, choose, values_of
from fedsel.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLACK, _ORANGE, _SKY, _GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
_BLUE, _RED, _PURPLE, _GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"

_LOOKS: Mapping[str, tuple[str, str]] = {
    "NP": (_BLACK, ""),
    "NP-RS": (_GREY, "x"),
    "NP-K": (_PURPLE, "P"),
    "PM": (_ORANGE, "o"),
    "HM": (_SKY, "v"),
    "Duchi": (_GREY, "s"),
    "OW": (_PURPLE, "*"),
    "PM-RP": (_GREY, "X"),
    "RS": (_SKY, "h"),
    "RS-PM": (_SKY, "h"),
    "EXP": (_BLUE, "D"),
    "PE": (_GREEN, "^"),
    "PS": (_RED, "s"),
    "J": (_PURPLE, "<"),
    "UJ": (_PURPLE, ">"),
    "RJ": (_RED, "p"),
    "RC": (_SKY, "p"),
    "PrivUnit": (_BLACK, "x"),
    "Duchi-L2": (_BLACK, "+"),
    "SignDS": (_GREY, "1"),
}
_MARKERS = {"HM": "v", "Duchi": "d", "OW": "*"}


def look(name: str) -> dict[str, Any]:
    """Colour, marker and line of a solution; -C is dashed, -O dotted."""
    plain = name.removesuffix("-C").removesuffix("-O")
    parts = plain.split("-")
    colour, marker = _LOOKS.get(plain) or _LOOKS[parts[0]]
    if parts[0] in ("EXP", "PE", "PS") and len(parts) > 1:
        marker = _MARKERS.get(parts[1], marker)
    line = "--" if name.endswith("-C") else ":" if name.endswith("-O") else "-"
    return {"color": colour, "marker": marker, "linestyle": line}


def panels(titles: Sequence[str], *, width: float = 4.6) -> tuple[Figure, list[Axes]]:
    """A figure with one panel a title, at most three in a row."""
    across = min(len(titles), 3) if len(titles) != 4 else 2
    down = -(-len(titles) // across)
    figure = new_figure(0.6 + width * across, 0.4 + 3.6 * down)
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
        style = look(str(name))
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
        axes.axhline(
            where, color=_GREY, linewidth=0.8, linestyle=(0, (1, 3)), label="majority class"
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(label)
    axes.set_ylabel("misclassification (%)" if error else "test accuracy (%)")
    legend(axes)


def legend(axes: Axes) -> None:
    """A small legend where it hides least."""
    count = len(axes.get_legend_handles_labels()[1])
    axes.legend(fontsize=7.5, ncols=2 if count > 5 else 1, framealpha=0.85)


def curves(rows: Rows) -> Figure:
    """Misclassification after each round, mean with a band of one standard deviation."""
    figure, (axes,) = panels([_title(rows[0])], width=6.5)
    for row in rows:
        rounds = range(1, len(row["mean"]) + 1)
        style = look(row["solution"])
        mean = [100 * v for v in row["mean"]]
        axes.plot(rounds, mean, **style, markersize=4, markevery=10, label=row["solution"])
        low = [100 * (m - s) for m, s in zip(row["mean"], row["spread"], strict=True)]
        high = [100 * (m + s) for m, s in zip(row["mean"], row["spread"], strict=True)]
        axes.fill_between(rounds, low, high, color=style["color"], alpha=0.12, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("misclassification (%)")
    legend(axes)
    return figure


def by_model(rows: Rows, *, split: Sequence[str] = ("dataset", "model"), **options: Any) -> Figure:
    """One panel for each combination of the columns of ``split``."""
    keys = list(dict.fromkeys(tuple(row[name] for name in split) for row in rows))
    titles = [", ".join(_say(n, v) for n, v in zip(split, key, strict=True)) for key in keys]
    figure, all_axes = panels(titles)
    for axes, key in zip(all_axes, keys, strict=True):
        lines(axes, choose(rows, **dict(zip(split, key, strict=True))), **options)
    if len(keys) > 4:  # one legend for all
        handles = dict(p for axes in all_axes for p in labelled(axes))
        for axes in all_axes:
            if (own := axes.get_legend()) is not None:
                own.remove()
        columns = min(7, len(handles))
        figure.legend(
            handles.values(), handles, loc="outside lower center", ncols=columns, fontsize=9
        )
    return figure


def labelled(axes: Axes) -> list[tuple[str, Any]]:
    """The labels of a panel with what they stand for."""
    handles, labels = axes.get_legend_handles_labels()
    return list(zip(labels, handles, strict=True))


def scaling(
    axes: Axes, series: Mapping[str, tuple[Iterable[float], Iterable[float]]], x: str, y: str
) -> None:
    """Lines on two logarithmic axes, by label; a label may start with a solution's name."""
    for label, (at, values) in series.items():
        first = label.split(",")[0].split(" ")[0]
        style = look(first) if first in _LOOKS or first.split("-")[0] in _LOOKS else {"marker": "o"}
        if "paper" in label or "mean" in label:
            style["linestyle"] = ":"
        elif "device" in label or "best" in label:
            style["linestyle"] = "--"
        axes.plot(list(at), list(values), **style, markersize=4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend(axes)


def _title(row: Row) -> str:
    return f"{row['dataset']}, {row['model']}"


def _say(name: str, value: Any) -> str:
    if name == "epochs":
        return f"{value} epoch{'s' if value > 1 else ''}"
    return f"ε = {value:g}" if name == "epsilon" else str(value)
