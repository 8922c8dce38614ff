"""Figures of an experiment: pure functions of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsel._internal import plotting
from fedsel._internal.display import in_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def accuracy_against_epsilon(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy ± deviation against ε, one panel a model; a level line has no ε."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    figure = plotting.new_figure(1.5 + 5 * len(models))
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, model in zip(panels, models, strict=True):
        mine = [r for r in rows if r["model"] == model]
        fields = ("solution", "epsilon", "accuracy", "deviation")
        points = [plotting.Point(*(r[name] for name in fields)) for r in mine]
        plotting.accuracy_against_epsilon(points, axes)
        axes.set_title(f"{in_figure(mine[0]['dataset'])}, {model}", fontsize=10)
    plotting.legend_below(figure)
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG beside each other."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
