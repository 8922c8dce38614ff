"""The results of an experiment as files: CSV and JSON, and a table and figures for a paper."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsel._internal import plotting
from fedsel._internal.display import in_cell, in_figure, printable
from fedsel.pages import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


def tidy(rows: Sequence[Row]) -> list[Row]:
    """Rows for a CSV file: without single runs, with a column for each choice, texts joined."""
    flat = [
        {**row, **{f"chosen_{name}": value for name, value in row.get("chosen", {}).items()}}
        for row in rows
    ]
    texts = [{k: "; ".join(v) if _is_texts(v) else v for k, v in row.items()} for row in flat]
    return [{k: v for k, v in row.items() if not isinstance(v, list | dict)} for row in texts]


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """A table with one header; rows may lack columns. No cell is a formula (`in_cell`)."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(in_cell(name) for name in columns)
        writer.writerows([in_cell(row.get(name, "")) for name in columns] for row in rows)


def accuracy_text(row: Row) -> str:
    """Accuracy and its deviation in percent."""
    return f"{100 * row['accuracy']:.2f} ± {100 * row['deviation']:.2f}"


def accuracy_table(rows: Sequence[Row]) -> Table:
    """Accuracy by solution and ε; in bold what is best at an ε among those that keep it.

    A solution without ε has the same accuracy in every column.
    """
    first, models = rows[0], list(dict.fromkeys(row["model"] for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows} - {None}) or [None]
    found = {(row["model"], row["solution"], row["epsilon"]): row for row in rows}
    best: dict[tuple[str, float], float] = {}
    for row in rows:
        if row["private"] and row["within_budget"]:
            where = row["model"], row["epsilon"]
            best[where] = max(row["accuracy"], best.get(where, 0.0))
    named = 1 + (len(models) > 1)
    body: list[tuple[str | None, ...]] = []
    bold: set[tuple[int, int]] = set()
    for name in dict.fromkeys((row["model"], row["solution"]) for row in rows):
        cells = [found.get((*name, e), found.get((*name, None))) for e in epsilons]
        for column, cell in enumerate(cells, named):
            if cell and cell["accuracy"] == best.get((cell["model"], cell["epsilon"])):
                bold.add((len(body), column))
        body.append(
            (*name[-named:], *(None if row is None else accuracy_text(row) for row in cells))
        )
    return Table(
        f"{first['dataset']}, {' and '.join(models)}: test accuracy (%), mean ± standard deviation "
        f"over {first['repeats']} × {first['folds']} folds",
        (
            *("model", "solution")[-named:],
            *("accuracy" if e is None else f"ε = {e:g}" for e in epsilons),
        ),
        tuple(body),
        bold=frozenset(bold),
    )


def accuracy_figure(rows: Sequence[Row], width: float = 5.0, height: float = 4.2) -> Figure:
    """Accuracy ± deviation against ε, one panel a model; a level line has no ε."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure = plotting.new_figure(0.3 * width + width * len(models), height)
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, model in zip(panels, models, strict=True):
        mine = [row for row in rows if row["model"] == model]
        fields = ("solution", "epsilon", "accuracy", "deviation")
        points = [plotting.Point(*(row[name] for name in fields)) for row in mine]
        plotting.accuracy_against_epsilon(points, axes)
        axes.set_title(f"{in_figure(mine[0]['dataset'])}, {model}", fontsize="medium")
    plotting.legend_below(figure)
    return figure


def write_tables(rows: Sequence[Row], out: Path, notes: Sequence[str] = ()) -> list[Path]:
    """Write results as run.csv, run.json and run.tex; ``notes`` are comments in the last."""
    write_csv(out / "run.csv", tidy(rows))
    content = json.dumps(rows, indent=1, allow_nan=False)
    (out / "run.json").write_text(content, encoding="utf-8")
    comments = "".join(f"% {printable(line)}\n" for line in notes)
    table = accuracy_table(rows).to_latex("tab:run")
    (out / "run.tex").write_text(comments + table, encoding="utf-8")
    return [out / f"run.{kind}" for kind in ("csv", "json", "tex")]


def write_figures(rows: Sequence[Row], out: Path) -> list[Path]:
    """Draw `accuracy_figure` as PNG and SVG, and as a PDF as wide as a column of a paper."""
    figure = accuracy_figure(rows)
    for kind in ("png", "svg"):
        figure.savefig(out / f"accuracy.{kind}", dpi=150)
    with plotting.in_a_paper():
        plotting.write_pdf(accuracy_figure(rows, 2.6, 2.8), out / "accuracy.pdf")
    return [out / f"accuracy.{kind}" for kind in ("png", "svg", "pdf")]
