"""Figures of an experiment: pure functions of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "osD^vPX*<>"


def accuracy_against_epsilon(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy ± deviation against ε, one panel a model; a dashed line has no ε."""
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(r["model"] for r in rows))
    figure = Figure(figsize=(1.5 + 5 * len(models), 4.2), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, model in zip(panels, models, strict=True):
        mine = [r for r in rows if r["model"] == model]
        names = list(dict.fromkeys(r["solution"] for r in mine))
        for place, name in enumerate(names):
            points = [r for r in mine if r["solution"] == name]
            colour = f"C{place % 10}"
            if points[0]["epsilon"] is None:
                level = 100 * points[0]["accuracy"]
                axes.axhline(level, color=colour, linestyle="--", label=f"{name} (not private)")
                continue
            points = sorted(points, key=lambda r: r["epsilon"])
            # A little apart: curves that coincide (PE-PM and PS-PM do) must both be seen.
            apart = 1.02 ** (place - len(names) / 2)
            axes.errorbar(
                [r["epsilon"] * apart for r in points],
                [100 * r["accuracy"] for r in points],
                yerr=[100 * r["deviation"] for r in points],
                color=colour,
                marker=_MARKERS[place % len(_MARKERS)],
                markersize=5,
                capsize=3,
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("ε of a client")
        axes.set_ylabel("test accuracy (%)")
        axes.set_title(f"{mine[0]['dataset']}, {model}", fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG beside each other."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
