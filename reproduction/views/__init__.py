"""Views turn an experiment's rows into tables, pictures and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reproduction.results import Rows
from reproduction.views import fair, gains, selection, theory, training
from reproduction.views.base import Picture, View

VIEWS: Mapping[str, Callable[[Rows, str], View]] = {
    "table1": lambda rows, _: theory.bounds(rows),
    "theorem2": lambda rows, _: theory.variances(rows),
    "fig2e": lambda rows, _: theory.times(rows),
    "fig2a": selection.convergence,
    "fig2b": selection.convergence,
    "fig2c": selection.selection,
    "fig2d": selection.selection,
    **training.VIEWS,
    "table3": gains.table3,
    "alpha": gains.rates,
    "ablation": gains.ablation,
    "fair": fair.fair,
}

__all__ = ["VIEWS", "Picture", "View"]
