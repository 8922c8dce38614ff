"""The audit as a picture, a pure function of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsel.pages import new_figure, palette
from reproduction.audit.suite import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(rows: Sequence[Row]) -> Figure:
    """Left: exact and attacked ε over the claimed one. Right: worst-case variance of the values.

    For shuffled reports the claimed ε is the proved central one.
    """
    figure = new_figure(11, 4.2)
    left, right = figure.subplots(1, 2)
    _draw_privacy(left, [r for r in rows if r.claimed > 0])
    _draw_variance(right, [r for r in rows if r.d is None and r.variance is not None])
    return figure


def _family(row: Row) -> str:
    return row.mechanism if row.reports is None else f"{row.mechanism}, shuffled"


def _draw_privacy(axes: Any, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(map(_family, rows)))
    for place, name in enumerate(names):
        mine = [r for r in rows if _family(r) == name]
        published = mine[0].published
        colour = palette.RED if published else palette.BLUE
        spread = [place + 0.5 * (i / max(1, len(mine) - 1) - 0.5) for i in range(len(mine))]
        axes.plot(
            spread,
            [r.exact / r.claimed for r in mine],
            "o",
            color=colour,
            markersize=3.5,
            label="exact, as published" if published else "exact" if place == 0 else None,
        )
        tried = [(x, r) for x, r in zip(spread, mine, strict=True) if r.lower_bound is not None]
        axes.plot(
            [x for x, _ in tried],
            [r.lower_bound / r.claimed for _, r in tried if r.lower_bound is not None],
            "^",
            color=palette.GREY,
            markersize=3.5,
            label="lower bound by experiment" if place == 0 else None,
        )
    axes.axhline(1, color="black", linewidth=0.8)
    axes.text(len(names) - 0.5, 1.005, "claimed", ha="right", va="bottom", fontsize=8)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    seen = [x / r.claimed for r in rows for x in (r.exact, r.lower_bound) if x is not None]
    axes.set_ylim(min([*seen, 0.9]) - 0.05, max([*seen, 1.0]) + 0.05)
    axes.set_ylabel("ε over claimed ε")
    axes.set_title("Privacy loss: no blue dot may lie above the line", fontsize=10)
    if names:
        axes.legend(fontsize=8, loc="upper right")


def _draw_variance(axes: Any, rows: Sequence[Row]) -> None:
    entries: dict[str, tuple[Any, ...]] = {}
    for name in dict.fromkeys(r.mechanism for r in rows):
        mine = sorted((r for r in rows if r.mechanism == name), key=lambda r: r.epsilon)
        look, epsilons = palette.look(name), [r.epsilon for r in mine]
        drawn = axes.plot(epsilons, [r.variance for r in mine], color=look.colour)
        dots = {"color": look.colour, "marker": look.marker, "linestyle": "none", "markersize": 5}
        drawn += axes.plot(epsilons, [r.measured_variance for r in mine], **dots)
        entries[name] = tuple(drawn)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yscale("log")
    axes.set_xlabel("ε of the value")
    axes.set_ylabel("worst-case variance")
    axes.set_title("Variance: lines in theory, markers measured", fontsize=10)
    if rows:
        axes.legend(entries.values(), entries, fontsize=8)


def save(rows: Sequence[Row], path: Path) -> None:
    """Write the picture in the format of the file's suffix."""
    draw(rows).savefig(path, dpi=150)
