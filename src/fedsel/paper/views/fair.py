"""View of the fair comparison: each solution at the α that its validation split prefers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedsel.experiments.spec import setting_of
from fedsel.pages import Table, Verdict
from fedsel.paper import figures
from fedsel.paper.results import Gap, Row, Rows, choose, gap
from fedsel.paper.views import choosing
from fedsel.paper.views.base import Picture, View, judge, plain
from fedsel.paper.views.choosing import best_of, flat, settings, tests, two_stage

_KEYS = ("dataset", "draw", "model", "solution", "epsilon")


def best_rates(rows: Rows) -> list[dict[str, Any]]:
    """For each solution, ε, model and data set: the row of the α with the best validation."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in _KEYS), []).append(row)
    chosen = []
    for tried in groups.values():
        best = max(tried, key=lambda row: float(np.mean(row["validation"])))
        rates = sorted(row["learning_rate"] for row in tried)
        at_edge = len(rates) > 1 and best["learning_rate"] in (rates[0], rates[-1])
        chosen.append({**best, "at_edge": at_edge})
    return chosen


def fair(rows: Rows, name: str) -> View:
    """Accuracy at the chosen α, and whether two-stage then leads."""
    automatic = [row for row in rows if row["learning_rate"] == "auto"]
    as_tuned = [r for r in automatic if not r.get("centre")]
    as_tuned = [r for r in as_tuned if r.get("scale") == setting_of(r["dataset"]).scale]
    chosen = best_rates([row for row in rows if row["learning_rate"] != "auto"])
    body = []
    for key in dict.fromkeys(
        (r["dataset"], r["model"], r["solution"], r["epsilon"]) for r in chosen
    ):
        dataset, model, solution, epsilon = key
        mine = choose(chosen, dataset=dataset, model=model, solution=solution, epsilon=epsilon)
        runs = tests(mine)
        rates = ", ".join(f"{row['learning_rate']:g}" for row in mine)
        edge = " (edge of the grid)" if any(row["at_edge"] for row in mine) else ""
        spread = float(runs.std(ddof=1)) if len(runs) > 1 else 0.0
        at = None if epsilon is None else plain(epsilon)
        more = sorted({text for row in mine for text in _beside(row)})
        cells = (float(runs.mean()), spread, ", ".join([rates + edge, *more]), mine[0]["bits"])
        body.append((dataset, model, solution, at, *cells))
    figure = figures.by_model(chosen, of=tests, label="ε of a client")
    headings = ("data set", "model", "solution", "ε", "test accuracy (%)", "deviation")
    to_choose = choosing.picture(chosen)
    return View(
        tables=(
            Table("At its own best α", (*headings, "chosen α", "bits"), tuple(body)),
            _leaders(chosen),
            *choosing.tables(chosen, as_tuned),
            *prepared(automatic),
        ),
        pictures=(
            *([] if to_choose is None else [to_choose]),
            Picture(
                figure,
                "Test accuracy, each solution at the α chosen on validation data; mean and a band "
                "of one standard deviation.",
                "Accuracy against ε at each solution's own best learning rate",
            ),
        ),
        verdicts=tuple(_verdicts(chosen, name)),
        numbers={
            "chosen": [dict(zip((*headings, "alpha", "bits"), row, strict=True)) for row in body]
        },
    )


def prepared(automatic: Rows) -> tuple[Table, ...]:
    """The automatic recipe with records as they are and prepared, on public bounds alone."""
    on_bounds = [row for row in automatic if row.get("scale") == "unit"]
    body: list[tuple[str | float | int | None, ...]] = []
    for dataset, model, epsilon, part in settings(on_bounds):
        plain_rows, ready = ([r for r in part if bool(r["centre"]) == c] for c in (False, True))
        if not plain_rows or not ready:
            continue
        g = gap(tests(ready), tests(plain_rows))
        means = (float(tests(plain_rows).mean()), float(tests(ready).mean()))
        areas = [
            float(np.mean([a for r in rows for a in r["auc"]])) for rows in (plain_rows, ready)
        ]
        body.append((dataset, model, plain(epsilon), *means, g.mean, g.error, *areas))
    headings = ("data set", "model", "ε", "as they are (%)", "prepared (%)", "gain")
    table = Table(
        "Automatic recipe: records as they are and prepared",
        (*headings, "standard error", "AUC", "AUC, prepared"),
        tuple(body),
        "RJ, nothing tuned, features scaled by their public bounds.",
    )
    return (table,) if body else ()


def _mean_of(name: str, rows: Rows) -> float:
    return float(np.mean([value for row in rows for value in row[name]]))


def _beside(row: Row) -> Iterable[str]:
    """What was chosen beside α."""
    if row["rho"] is not None:
        yield f"ρ = {row['rho']:g}"
    if row["averaging"]:
        yield "averaged"
    if row["solution"] == "UJ":
        yield f"clip = {row['clip']:g}"
    if row["words"] is not None:
        yield f"{row['words']} words"


def _verdicts(chosen: Rows, name: str) -> Iterable[Verdict]:
    best: dict[str, Gap] = {}
    same: dict[str, Gap] = {}
    for dataset, model, epsilon, part in settings(chosen):
        label = f"{dataset}, {model}, ε = {epsilon:g}"
        plain_best, two = best_of(part, flat), best_of(part, two_stage)
        if plain_best and two:
            best[label] = gap(tests(two), tests(plain_best))
        plain, selected = choose(part, solution="PM"), choose(part, solution="PS-PM")
        if plain and selected:
            same[label] = gap(tests(selected), tests(plain))
    where = "Contributions, section 5.3"
    claim = (
        "The best two-stage solution is more accurate than the best flat one, each at its best α"
    )
    yield judge(name, claim, where, best)
    yield judge(name, "PS-PM is more accurate than PM, each at its own best α", where, same)


def _leaders(chosen: Rows) -> Table:
    body = []
    for dataset, model, epsilon, part in settings(chosen):
        plain_best, two = best_of(part, flat), best_of(part, two_stage)
        if not plain_best or not two:
            continue
        g = gap(tests(two), tests(plain_best))
        body.append(
            (
                dataset,
                model,
                plain(epsilon),
                plain_best[0]["solution"],
                float(tests(plain_best).mean()),
                two[0]["solution"],
                float(tests(two).mean()),
                g.mean,
                g.error,
            )
        )
    headings = ("data set", "model", "ε", "best flat or compressed", "accuracy (%)")
    more = ("best two-stage", "accuracy (%) ", "lead", "standard error")
    note = "The best of each family is the one with the best validation accuracy."
    return Table("Best of each family", (*headings, *more), tuple(body), note)
