"""View of the fair comparison: each solution at the α that its validation split prefers."""

from __future__ import annotations

from collections.abc import Iterable

from fedsel.pages import Table, Verdict
from reproduction.results import Gap, Row, Rows, choose, gap
from reproduction.views import automatic, choosing, overview
from reproduction.views.base import View, judge, plain
from reproduction.views.choosing import best_of, best_rates, flat, settings, tests, tuned, two_stage


def fair(rows: Rows, name: str) -> View:
    """Accuracy at the chosen α, and whether two-stage then leads."""
    chosen = best_rates(automatic.as_in_the_paper(tuned(rows)))
    as_tuned = automatic.as_tuned(rows)
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
    headings = ("data set", "model", "solution", "ε", "test accuracy (%)", "deviation")
    return View(
        tables=(
            Table("At its own best α", (*headings, "chosen α", "bits"), tuple(body)),
            _leaders(chosen),
            *choosing.tables(chosen, as_tuned),
            *automatic.tables(rows),
        ),
        pictures=tuple(
            picture
            for picture in (
                automatic.picture(rows),
                overview.picture(chosen),
                automatic.areas_picture(rows),
            )
            if picture is not None
        ),
        verdicts=tuple(_verdicts(chosen, name)),
        numbers={
            "chosen": [dict(zip((*headings, "alpha", "bits"), row, strict=True)) for row in body]
        },
    )


def _beside(row: Row) -> Iterable[str]:
    """The parameters chosen in addition to α."""
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
