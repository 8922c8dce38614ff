"""Views for whoever chooses a solution: one symbol against the paper's, PrivUnit, and "auto"."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.pages import Table
from fedsel.solutions import entry
from reproduction.paper import RECOMMENDED
from reproduction.results import Row, Rows, choose, gap, values_of
from reproduction.views.base import plain

_KEYS = ("dataset", "draw", "model", "solution", "epsilon")
_BELOW = 3.0
"""Points below the model without privacy at which a model is still usable."""


def two_stage(solution: str) -> bool:
    return entry(solution).family == "two-stage"


def flat(solution: str) -> bool:
    """Flat or compressed: the rest of the paper's private solutions."""
    return entry(solution).family == "flat"


def of_the_paper(solution: str) -> bool:
    return flat(solution) or two_stage(solution)


def one_symbol(solution: str) -> bool:
    return entry(solution).family == "one-symbol"


def tests(rows: Rows) -> NDArray[np.float64]:
    """Accuracy on the untouched test split, every run (%)."""
    return np.array([100 * accuracy for row in rows for accuracy in row["test"]])


def areas(rows: Rows) -> NDArray[np.float64]:
    """AUC on the untouched test split, every run."""
    return np.array([area for row in rows for area in row["auc"]])


def tuned(rows: Rows) -> list[Row]:
    """The rows of a grid of α: all but the automatic ones."""
    return [row for row in rows if row["learning_rate"] != "auto"]


def best_rates(rows: Rows, by: str = "validation") -> list[dict[str, Any]]:
    """For each solution, ε, model and data set (and draw): the row of the α that is best.

    By validation accuracy, or by another column.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in _KEYS), []).append(row)
    chosen = []
    for tried in groups.values():
        best = max(tried, key=lambda row: float(np.mean(row[by])))
        rates = sorted(row["learning_rate"] for row in tried)
        at_edge = len(rates) > 1 and best["learning_rate"] in (rates[0], rates[-1])
        chosen.append({**best, "at_edge": at_edge})
    return chosen


def best_of(part: Rows, family: object) -> list[Row]:
    """The rows (one a draw) of a family's solution with the best validation; none if it has none.

    ``family`` is a name, or a test of names.
    """
    wanted = family if callable(family) else family.__eq__
    by_solution = {s: choose(part, solution=s) for s in values_of(part, "solution") if wanted(s)}
    if not by_solution:
        return []
    name = max(
        by_solution,
        key=lambda s: float(np.mean([np.mean(r["validation"]) for r in by_solution[s]])),
    )
    return by_solution[name]


def settings(chosen: Rows) -> Iterable[tuple[str, str, float, list[Row]]]:
    """The rows of each data set, model and ε."""
    private = [row for row in chosen if row["epsilon"] is not None]
    for key in dict.fromkeys((r["dataset"], r["model"], r["epsilon"]) for r in private):
        dataset, model, epsilon = key
        part = choose(private, dataset=dataset, model=model, epsilon=epsilon)
        yield dataset, model, epsilon, part


def tables(chosen: Rows, automatic: Rows) -> tuple[Table, ...]:
    """All tables that have something to show."""
    comparisons = (_ahead(chosen), _against_privunit(chosen), _automatic(chosen, automatic))
    return tuple(table for table in (*comparisons, _needed(chosen)) if table.rows)


def _ahead(chosen: Rows) -> Table:
    """Compare the best one-symbol solution at ε/2 and ε/4 with the paper's best at ε."""
    body = []
    parts = {key[:3]: key[3] for key in settings(chosen)}
    for (dataset, model, epsilon), part in parts.items():
        paper, ours = best_of(part, of_the_paper), best_of(part, one_symbol)
        if not paper or not ours:
            continue
        row = [dataset, model, plain(epsilon), paper[0]["solution"], float(tests(paper).mean())]
        row += [ours[0]["solution"], float(tests(ours).mean())]
        for share in (2, 4):
            less = best_of(parts.get((dataset, model, epsilon / share), []), one_symbol)
            row += [float(tests(less).mean()) if less else None]
        body.append(tuple(row))
    headings = ("data set", "model", "ε", "the paper's best", "accuracy (%)")
    more = ("best one-symbol", "accuracy (%) ", "at ε/2", "at ε/4")
    return Table("One symbol against the paper's solutions", (*headings, *more), tuple(body))


def _against_privunit(chosen: Rows) -> Table:
    body = []
    for dataset, model, epsilon, part in settings(chosen):
        reference = best_of(part, "PrivUnit")
        candidates = [best_of(part, name) for name in (RECOMMENDED, "RC")]
        if not reference or not any(candidates):
            continue
        means = [float(tests(rows).mean()) if rows else None for rows in candidates]
        ours = max(
            (rows for rows in candidates if rows), key=lambda rows: float(tests(rows).mean())
        )
        g = gap(tests(ours), tests(reference))
        bits = max(row["bits"] for row in ours)
        row = (dataset, model, plain(epsilon), float(tests(reference).mean()), *means)
        body.append((*row, g.mean, g.error, bits))
    headings = ("data set", "model", "ε", "PrivUnit (%)", f"{RECOMMENDED} (%)", "RC (%)")
    more = ("better of both − PrivUnit", "standard error", "bits")
    return Table("One symbol against the best of all directions", (*headings, *more), tuple(body))


def _automatic(chosen: Rows, automatic: Rows) -> Table:
    body = []
    for dataset, model, epsilon, part in settings(automatic):
        for name in values_of(part, "solution"):
            where = {"dataset": dataset, "model": model, "epsilon": epsilon, "solution": name}
            best = choose(chosen, **where)
            if not best:
                continue
            auto, own = tests(choose(part, solution=name)), tests(best)
            g = gap(own, auto)
            at = ", ".join(f"{r['learning_rate']:g} / {r['rho']:g}" for r in best)
            means = (float(auto.mean()), float(own.mean()))
            body.append((dataset, model, plain(epsilon), name, *means, g.mean, g.error, at))
    headings = ("data set", "model", "ε", "solution", "automatic (%)", "best of the grid (%)")
    more = ("lost", "standard error", "best α / ρ")
    return Table("Automatic α and ρ against a grid", (*headings, *more), tuple(body))


def _needed(chosen: Rows) -> Table:
    """The ε at which an accuracy is reached, interpolated between those that were run."""
    families = {
        "best flat": flat,
        "best two-stage": two_stage,
        **{name: name for name in ("J", "UJ", RECOMMENDED, "RC", "PrivUnit")},
    }
    body = []
    for dataset, model in dict.fromkeys((r["dataset"], r["model"]) for r in chosen):
        mine = choose(chosen, dataset=dataset, model=model)
        without = choose(mine, solution="NP")
        if not without or not best_of(mine, one_symbol):
            continue
        target = float(tests(without).mean()) - _BELOW
        reached = [reaches(curve(mine, family), target) for family in families.values()]
        body.append((dataset, model, target, *reached))
    note = (
        f"Accuracy {_BELOW:g} points below the model without privacy, each solution at its own"
        " best α; between the ε that were run, by interpolation over log ε."
    )
    headings = ("data set", "model", "accuracy (%)", *families)
    return Table("ε that an accuracy takes", headings, tuple(body), note)


def reaches(points: Sequence[tuple[float, float]], target: float) -> str | None:
    """The ε at which a curve reaches a level, interpolated over log ε.

    >>> reaches([(1.0, 70.0), (4.0, 80.0)], 75.0), reaches([(1.0, 70.0)], 75.0)
    ('2', '> 1')
    """
    if not points:
        return None
    if points[0][1] >= target:
        return f"≤ {points[0][0]:g}"
    for (e0, a0), (e1, a1) in pairwise(points):
        if a1 >= target:
            share = (target - a0) / (a1 - a0)
            return f"{e0 * math.exp(share * math.log(e1 / e0)):.2g}"
    return f"> {points[-1][0]:g}"


def curve(
    rows: Rows, family: object, of: Callable[[Rows], NDArray[np.float64]] = tests
) -> list[tuple[float, float]]:
    """The mean of a measure of a family's best against ε."""
    epsilons = sorted(e for e in values_of(rows, "epsilon") if e is not None)
    best_rows = [(e, best_of(choose(rows, epsilon=e), family)) for e in epsilons]
    return [(e, float(of(best).mean())) for e, best in best_rows if best]
