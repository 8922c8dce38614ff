"""The automatic recipe, without tuning, compared with the paper's solutions, each tuned.

The automatic rows belong to the recommended solution: "as they are" where no report goes into
preparation, "prepared" where the first rounds learn spread and centre. Prepared records are scaled
by public bounds alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsel.pages import Cell, Table, epsilon_axis, legend_below, palette
from fedsel.solutions import names
from reproduction import figures
from reproduction.paper import RECOMMENDED, paper_spec
from reproduction.results import Row, Rows, choose, gap, values_of
from reproduction.views.base import Picture, plain
from reproduction.views.choosing import (
    areas,
    best_of,
    best_rates,
    curve,
    of_the_paper,
    reaches,
    settings,
    tests,
    tuned,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REFERENCE = 2.0
"""The ε of the paper's best solution, with which the automatic recipe is compared."""
LESS = (0.5, 1.0)
"""The ε of the automatic recipe in that comparison."""
_NARROW = 3.0
"""Points over the majority class below which accuracy says nothing about a model."""
_UNPREPARED = {"linestyle": palette.DASHED, "markerfacecolor": "white"}
"""What tells the automatic recipe without preparation from the one with it."""
_AUTOMATIC, _UNTUNED = f"{RECOMMENDED}, automatic", f"{RECOMMENDED}, nothing tuned"
"""The names of its curves, among all solutions and among the paper's."""
Measure = Callable[[Rows], NDArray[np.float64]]


def automatic_rows(rows: Rows) -> list[Row]:
    """The rows with automatic choices."""
    return [row for row in rows if row["learning_rate"] == "auto"]


def as_tuned(rows: Rows) -> list[Row]:
    """Automatic rows on the same records as the tuned solutions, prepared if those may be."""
    mine = as_in_the_paper(automatic_rows(rows))
    may = {(row["dataset"], row["model"]) for row in mine if row["centre"]}
    return [row for row in mine if row["centre"] or (row["dataset"], row["model"]) not in may]


def as_in_the_paper(rows: Rows) -> list[Row]:
    """Rows on records with the scale and intercept of table 3."""
    return [row for row in rows if (row["scale"], row["intercept"]) == _records_of(row["dataset"])]


@cache
def _records_of(dataset: str) -> tuple[str, bool]:
    cell = next(paper_spec({"dataset": dataset}).cells())
    return cell.scale, cell.intercept


def on_bounds(rows: Rows, *, prepared: bool) -> list[Row]:
    """Automatic rows on records scaled by public bounds, with an intercept."""
    mine = choose(automatic_rows(rows), scale="unit", intercept=True)
    return [row for row in mine if bool(row["centre"]) == prepared]


def recommended(rows: Rows) -> list[Row]:
    """The rows as a user gets them: prepared on public bounds, or unchanged without bounds."""
    ready = on_bounds(rows, prepared=True)
    done = {(row["dataset"], row["model"]) for row in ready}
    rest = [row for row in as_tuned(rows) if (row["dataset"], row["model"]) not in done]
    return [*rest, *ready]


def tables(rows: Rows) -> tuple[Table, ...]:
    """All tables that have something to show."""
    found = (
        _against_the_papers(rows, best_rates(tuned(rows))),
        *_prepared(rows),
        _every_area(rows),
    )
    return tuple(table for table in found if table.rows)


def _against_the_papers(rows: Rows, chosen: Rows) -> Table:
    """Compare the paper's best at ε = 2, tuned, with the automatic recipe at a smaller ε."""
    ours = recommended(rows)
    epsilons = sorted(values_of(ours, "epsilon"))
    body = []
    for dataset, model in _pairs(ours):
        where = {"dataset": dataset, "model": model}
        paper = best_of(choose(chosen, **where, epsilon=REFERENCE), of_the_paper)
        mine = choose(ours, **where)
        if not paper:
            continue
        level = float(tests(paper).mean())
        by_epsilon = {e: choose(mine, epsilon=e) for e in epsilons}
        row: list[Any] = [dataset, model, paper[0]["solution"], level]
        row.append("prepared" if mine[0]["centre"] else "as they are")
        row += [float(tests(part).mean()) if part else None for part in by_epsilon.values()]
        for epsilon in LESS:
            part = by_epsilon.get(epsilon)
            lead = gap(tests(part), tests(paper)) if part else None
            row.append(None if lead is None else str(lead))
        body.append((*row, reaches(curve(mine, RECOMMENDED), level)))
    leads = [f"lead at ε = {e:g}" for e in LESS]
    headings = ("data set", "model", f"the paper's best at ε = {REFERENCE:g}", "accuracy (%)")
    own = ("records", *(f"automatic, ε = {e:g} (%)" for e in epsilons))
    return Table(
        "The automatic recipe against the paper's best, tuned",
        (*headings, *own, *leads, "level at ε"),
        tuple(body),
        f"{RECOMMENDED} with nothing tuned, on public bounds where bounds are declared; the "
        f"paper's best is tuned on a validation fifth, at ε = {REFERENCE:g}. On kdd the tuned "
        "solutions have records that were standardised by their own mean and deviation, for which "
        "nobody paid; on bank each has the better of an intercept and none.",
    )


def _prepared(rows: Rows) -> Iterable[Table]:
    """The automatic recipe with unprepared and prepared records: accuracy, then other measures."""
    both = [*on_bounds(rows, prepared=False), *on_bounds(rows, prepared=True)]
    body: list[tuple[Cell, ...]] = []
    more: list[tuple[Cell, ...]] = []
    for dataset, model, epsilon, part in settings(both):
        pair = [[r for r in part if bool(r["centre"]) == c] for c in (False, True)]
        if not all(pair):
            continue
        key = (dataset, model, plain(epsilon))
        lead = gap(tests(pair[1]), tests(pair[0]))
        means = [float(tests(p).mean()) for p in pair]
        body.append((*key, *means, lead.mean, lead.error))
        names = ("auc", "balanced", "log_loss")
        more.append((*key, *(_mean_of(name, p) for name in names for p in pair)))
    first = ("data set", "model", "ε")
    note = f"{RECOMMENDED}, nothing tuned, features scaled by their public bounds."
    yield Table(
        "Automatic recipe: records as they are and prepared",
        (*first, "as they are (%)", "prepared (%)", "gain", "standard error"),
        tuple(body),
        note,
    )
    measures = ("AUC", "balanced accuracy", "log loss")
    yield Table(
        "Automatic recipe: measures beside accuracy",
        (*first, *(f"{m}{end}" for m in measures for end in (", as they are", ", prepared"))),
        tuple(more),
        note + " The log loss takes margins for log odds, which an SVM's are not; ln 2 = 0.693 is"
        " that of saying nothing.",
        digits=3,
    )


def uninformative(rows: Rows) -> list[str]:
    """Data sets on which the model without privacy hardly beats the majority class."""
    return [
        dataset
        for dataset in values_of(rows, "dataset")
        if (mine := choose(rows, dataset=dataset, solution="NP"))
        and tests(best_rates(mine)).mean() < 100 * mine[0]["majority"] + _NARROW
    ]


def _every_area(rows: Rows) -> Table:
    """AUC of every solution on those data sets."""
    mine = choose(tuned(rows), dataset=uninformative(rows))
    by_validation, by_area = best_rates(mine), best_rates(mine, "auc")
    epsilons = sorted(e for e in values_of(mine, "epsilon") if e is not None)
    body = []
    for dataset, model in _pairs(mine):
        where = {"dataset": dataset, "model": model}
        for name in values_of(choose(mine, **where), "solution"):
            both = (choose(part, **where, solution=name) for part in (by_validation, by_area))
            cells = [area for part in both for area in _areas_by_epsilon(part, epsilons)]
            body.append((dataset, model, name, *cells))
        for label, part in _automatic_curves(choose(rows, **where)):
            cells = [*_areas_by_epsilon(part, epsilons), *(None for _ in epsilons)]
            body.append((dataset, model, label, *cells))
    named = [f"ε = {e:g}" for e in epsilons]
    return Table(
        "AUC where accuracy says nothing",
        ("data set", "model", "solution", *named, *(f"{e}, best α" for e in named)),
        tuple(body),
        "First at the α (and ρ) that validation accuracy prefers, then at the one with the best AUC"
        " on the test fifth itself: what tuning could give at most. The automatic recipe chooses"
        " nothing.",
        digits=3,
    )


def _areas_by_epsilon(rows: Rows, epsilons: Sequence[float]) -> list[float | None]:
    """The mean AUC at each ε; a solution without ε has one for all."""
    parts = [[row for row in rows if row["epsilon"] in (e, None)] for e in epsilons]
    return [_mean_of("auc", part) if part else None for part in parts]


def _automatic_curves(rows: Rows) -> list[tuple[str, list[Row]]]:
    """Labels and rows of the automatic recipe on public bounds, as they are and prepared."""
    kinds = ((_AUTOMATIC, False), (f"{_AUTOMATIC}, prepared", True))
    curves = [(label, on_bounds(rows, prepared=prepared)) for label, prepared in kinds]
    return [(label, part) for label, part in curves if part]


def _pairs(rows: Rows) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["dataset"], row["model"]) for row in rows))


def _mean_of(name: str, rows: Rows) -> float:
    return float(np.mean([value for row in rows for value in row[name]]))


# ---------------------------------------------------------------- pictures


def picture(rows: Rows, model: str = "logistic") -> Picture | None:
    """The automatic recipe against the paper's tuned solutions, a panel a data set."""
    mine = choose(rows, model=model)
    chosen = best_rates(tuned(mine))
    paper = [row for row in chosen if of_the_paper(row["solution"])]
    if not recommended(mine) or not paper:
        return None
    datasets, unclear = values_of(paper, "dataset"), uninformative(mine)
    titles = [*datasets, *(f"{name}, AUC" for name in unclear)]
    figure, panels = figures.panels(titles, width=3.7, height=3.1)
    for axes, dataset in zip(panels, datasets, strict=False):
        _against(axes, choose(mine, dataset=dataset), choose(chosen, dataset=dataset))
        axes.set_ylabel("test accuracy (%)")
    for axes, dataset in zip(panels[len(datasets) :], unclear, strict=True):
        part = choose(mine, dataset=dataset)
        _against(axes, part, best_rates(tuned(part), "auc"), areas, "auc")
        axes.set_ylabel("AUC on the test split")
    _legend_in_the_spare_panel(figure, len(titles))
    at_best = f"; for the AUC on {', '.join(unclear)}, even on the test split" if unclear else ""
    return Picture(
        figure,
        f"{RECOMMENDED} with nothing tuned (red) against the paper's solutions ({model}), each at "
        f"the α that is best for it on validation data{at_best}. Dotted: the paper's best at "
        f"ε = {REFERENCE:g}.",
        "Accuracy against ε of the automatic recipe and of the paper's tuned solutions",
    )


def _against(
    axes: Axes, rows: Rows, chosen: Rows, of: Measure = tests, by: str = "validation"
) -> None:
    """One panel: the paper's solutions, their best, and the automatic recipe."""
    paper = [row for row in chosen if of_the_paper(row["solution"])]
    for name in values_of(paper, "solution"):
        points = curve(paper, name, of)
        style: dict[str, Any] = {"color": palette.PALE, "linewidth": 0.9}
        axes.plot(*zip(*points, strict=True), **style, label="the paper's solutions, tuned")
    best = [
        (e, _best_by(choose(paper, epsilon=e), by)) for e in sorted(values_of(paper, "epsilon"))
    ]
    envelope = [(e, float(of(part).mean())) for e, part in best]
    dark: dict[str, Any] = {"color": "#444444", "linewidth": 1.5}
    axes.plot(*zip(*envelope, strict=True), **dark, label="the best of them, tuned")
    for (e, level), (_, part) in zip(envelope, best, strict=True):
        name = part[0]["solution"]
        at = palette.style(name, linestyle="none", markersize=6, zorder=3)
        axes.plot([e], [level], **at, label=name)
    reference = dict(envelope).get(REFERENCE)
    if reference is not None:
        axes.axhline(reference, color="#444444", linewidth=0.8, linestyle=":")
    levels = [level for _, level in envelope]
    for label, part, changes in _own_curves(rows):
        points = curve(part, RECOMMENDED, of)
        levels += [level for _, level in points]
        axes.plot(*zip(*points, strict=True), **palette.style(RECOMMENDED, **changes), label=label)
    without = choose(chosen, solution="NP")
    if without:
        level = float(of(without).mean())
        axes.axhline(level, **palette.style("NP", linewidth=1), label="NP (not private)")
    majority = 100 * float(np.mean([row["majority"] for row in rows]))
    if of is tests and majority > 55:
        axes.axhline(majority, **figures.MAJORITY)
    epsilon_axis(axes)
    low, high = (
        min(levels),
        axes.get_ylim()[1],
    )  # failed curves would squeeze the rest
    axes.set_ylim(low - 0.06 * (high - low), high)
    axes.set_xlabel("ε of a client")


def _own_curves(rows: Rows) -> list[tuple[str, list[Row], dict[str, Any]]]:
    """Draw the automatic recipe with and without preparation."""
    bold: dict[str, Any] = {"linewidth": 2.4, "markersize": 7, "zorder": 4}
    plain_rows = on_bounds(rows, prepared=False)
    ready = recommended(rows)
    curves = [(_UNTUNED, ready, bold)] if ready else []
    if plain_rows and ready and ready[0]["centre"]:
        faint: dict[str, Any] = {"linewidth": 1.2, "markersize": 6, **_UNPREPARED}
        curves.append((f"{_UNTUNED}, not prepared", plain_rows, faint))
    return curves


def _best_by(part: Rows, by: str) -> list[Row]:
    """The rows of the solution with the best mean of a column."""
    by_solution = {s: choose(part, solution=s) for s in values_of(part, "solution")}
    return max(by_solution.values(), key=lambda rows: _mean_of(by, rows))


def _legend_in_the_spare_panel(figure: Figure, used: int) -> None:
    """Put the legend into an unused panel, or else below all."""
    spare = figure.axes[used:]
    if not spare:
        legend_below(figure)
        return
    handles: dict[str, Any] = {}
    for axes in figure.axes[:used]:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    spare[0].set_visible(True)
    spare[0].axis("off")
    labels = sorted(handles, key=_rank)
    shown = [handles[label] for label in labels]
    spare[0].legend(shown, labels, loc="center", fontsize=10, frameon=False)


def _rank(label: str) -> int:
    """The rank of a label: ours, the paper's, the markers of its solutions, levels."""
    if label.startswith(_UNTUNED):
        return 0
    return 1 if label.startswith("the ") else 2 if label in names() else 3


def areas_picture(rows: Rows) -> Picture | None:
    """AUC against ε of every solution, each at its best α, where accuracy says nothing."""
    mine = choose(rows, dataset=uninformative(rows))
    keys = _pairs(mine)
    if not keys:
        return None
    titles = [", ".join(key) for key in keys]
    figure, panels = figures.panels(titles, width=5.0, height=5.2, across=2)
    ends = []
    for axes, (dataset, model) in zip(panels, keys, strict=True):
        ends.append(_areas_panel(axes, choose(mine, dataset=dataset, model=model)))
    for axes, named in zip(panels, ends, strict=True):
        figures.label_ends(axes, named, size=7.5)
    return Picture(
        figure,
        "AUC on the test split, every solution at the α with the best AUC there; the automatic "
        "recipe (bold) chooses nothing. NP is the paper's: one epoch on records as they are, which "
        "prepared records may surpass.",
        "AUC against ε of every solution where accuracy says nothing",
    )


def _areas_panel(axes: Axes, rows: Rows) -> list[tuple[str, float, float]]:
    best = best_rates(tuned(rows), "auc")
    ends = []
    for name in values_of(best, "solution"):
        if points := curve(best, name, areas):
            axes.plot(*zip(*points, strict=True), **palette.style(name, markersize=5, linewidth=1))
            ends.append((name, *points[-1]))
    for label, part in _automatic_curves(rows):
        points = curve(part, RECOMMENDED, areas)
        changes = {} if label.endswith("prepared") else _UNPREPARED
        bold = palette.style(RECOMMENDED, linewidth=2.2, markersize=7, zorder=4, **changes)
        axes.plot(*zip(*points, strict=True), **bold)
        ends.append((label, *points[-1]))
    epsilon_axis(axes)
    if without := choose(best, solution="NP"):
        level = float(areas(without).mean())
        axes.axhline(level, **palette.style("NP", linewidth=1))
        ends.append(("NP, not private", axes.get_xlim()[1], level))
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.3), high)
    axes.set(xlabel="ε of a client", ylabel="AUC")
    return ends
