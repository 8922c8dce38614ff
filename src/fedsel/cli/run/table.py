"""The results of ``fedsel run``: a table with what a reader must know of it, files and a figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedsel._internal.display import printable
from fedsel._internal.extras import MissingExtra
from fedsel.cli.common import Column, fitted, output, say_error
from fedsel.cli.waiting import patience

Row = dict[str, Any]

SEEDED = (
    "seeded, to be repeated: who knows the seed can undo the noise. A simulation for research, "
    "not for release"
)
"""What the results say of their draws, in the table and in every row."""
STANDARDISED = (
    "scaled by the records' own mean and deviation, which the exact ε does not cover. Without: "
    "--scale private, where the first reports of FJ or RC learn how wide features are; --public "
    "rows; or --scale unit where bounds are public"
)
DIVERGED = (
    "the model diverged: its loss is beyond all numbers. Take a smaller --learning-rate or --reg"
)
UNLEARNT = (
    "too few clients to learn where columns of numbers lie and how wide they are, so the model "
    "hardly uses them. Declare bounds (--scale unit), or give --public rows"
)
LEARNT = (
    "nobody knows the range of a number here, and the first rounds learn it. Against standardising "
    "that costs up to 1 point of accuracy at ε = 4, 3 at ε = 2, 8 at ε = 1 and 17 at ε = 0.5, "
    "measured with FJ, 24,000 clients and up to 17 columns (60 columns: 3 at ε = 4, 6 at ε = 2, 8 "
    "at ε = 1); with fewer clients more. --public rows cost less: docs/preparation.md"
)


def annotated(rows: Sequence[Row]) -> list[Row]:
    """Rows that say themselves what a reader must know of them."""
    return [{**row, "draws": SEEDED, "notes": list(_notes(row))} for row in rows]


def _notes(row: Row) -> Iterator[str]:
    chosen = row["chosen"]
    if row["used"] != row["solution"]:
        yield f"{row['used']} takes its place: {row['privacy']}"
    if any(loss is None for *_, loss in row["runs"]):
        yield DIVERGED
    if row["scale"] == "standard":
        yield STANDARDISED
    if row["scale"] == "private" and "public_rows" not in chosen:
        yield LEARNT if chosen["spread_rounds"] else UNLEARNT
    for name in ("spread", "centre"):
        if chosen[f"{name}_rounds"]:
            rounds = chosen[f"{name}_rounds"]
            yield f"{name} of the records: learnt in {rounds} rounds before the training"
    if "public_rows" in chosen:
        count = chosen["public_rows"]
        yield f"{count:,} public rows, which cost no ε: bounds, centre, spread and geometry"
    if "public_means" in chosen:
        given = f"{chosen['public_means']:,} of the features"
        yield f"public means for {given}, which cost no ε: their centre"


def _choices(rows: Sequence[Row]) -> Iterator[str]:
    """What each solution was run with, a line for each."""
    for name in dict.fromkeys(row["solution"] for row in rows):
        mine = [row for row in rows if row["solution"] == name]
        first = mine[0]["chosen"]
        automatic = mine[0]["learning_rate"] == "auto"
        parts = ["α automatic (*)" if automatic else "α as given or fitted to the data set"]
        for symbol, key in (("ρ", "rho"), ("μ", "mu")):
            values = sorted({row["chosen"][key] for row in mine} - {None})
            if values:
                ends = dict.fromkeys(f"{v:.3g}" for v in (values[0], values[-1]))
                parts.append(f"{symbol} = {' … '.join(ends)}")
        power = first["averaging"]
        parts.append(f"weights averaged (t^{power:g})" if power else "last weights")
        parts.append("records of norm 1" if mine[0]["unit_records"] else "records as they are")
        parts.append(f"scale {mine[0]['scale']}")
        yield f"{name}: {', '.join(parts)}"


def _caption(rows: Sequence[Row]) -> Iterator[str]:
    yield f"draws: {SEEDED}"
    if any(row["learning_rate"] == "auto" for row in rows):
        yield "* automatic, from public quantities"
    yield from _choices(rows)
    everyone = list(dict.fromkeys(row["solution"] for row in rows))
    for note in dict.fromkeys(note for row in rows for note in row["notes"]):
        names = list(dict.fromkeys(row["solution"] for row in rows if note in row["notes"]))
        mark = "† " if note == STANDARDISED else ""
        whose = "" if names == everyone else f"{', '.join(names)}: "
        yield mark + whose + note


def line_of(row: Row) -> str:
    """A result as it comes in."""
    at = "" if row["epsilon"] is None else f"ε = {row['epsilon']:g}"
    return f"{row['model']:<9} {row['solution']:<9} {at:<8} {_accuracy(row)} %"


def _accuracy(row: Row) -> str:
    return f"{100 * row['accuracy']:.2f} ± {100 * row['deviation']:.2f}"


def _exact(row: Row) -> str:
    exact = row["epsilon_total"]
    if exact is None:
        return "∞"
    mark = "†" if STANDARDISED in row["notes"] else ""
    return (f"{exact:.4f}" if row["certified"] else "unproved") + mark


COLUMNS = (
    Column("model", lambda row: row["model"], text=True, weight=3),
    Column("solution", lambda row: row["solution"], text=True),
    Column("ε", lambda row: "" if row["epsilon"] is None else f"{row['epsilon']:g}"),
    Column("exact ε", _exact),
    Column("accuracy (%)", _accuracy),
    Column("bits", lambda row: f"{row['bits']:,}", weight=1),
    Column(
        "α",
        lambda row: (
            f"{row['chosen']['learning_rate']:.3g}"
            + ("*" if row["learning_rate"] == "auto" else "")
        ),
        weight=2,
    ),
    Column("privacy", lambda row: row["privacy"], text=True, weight=0),
)


def print_table(rows: Sequence[Row], written: Sequence[Path]) -> None:
    """The table for a person."""
    first, console = rows[0], output()
    title = f"{first['dataset']}: test accuracy, {first['repeats']} × {first['folds']} folds"
    table = fitted(
        console,
        COLUMNS,
        rows,
        title=title,
        style=lambda row: "" if row["certified"] and row["within_budget"] else "dim",
    )
    console.print(table)
    for line in _caption(rows):
        console.print(printable(line), highlight=False)
    for path in written:
        console.print(f"wrote {printable(path)}", soft_wrap=True)


def write_files(rows: Sequence[Row], out: Path) -> list[Path]:
    """The table as CSV and JSON, and its figure."""
    from fedsel.experiments import plot
    from fedsel.experiments.sweep import tidy, write_csv

    flat = [{**row, "notes": "; ".join(row["notes"])} for row in rows]
    write_csv(out / "run.csv", tidy(flat))
    content = json.dumps(rows, indent=1, allow_nan=False)
    (out / "run.json").write_text(content, encoding="utf-8")
    written = [out / "run.csv", out / "run.json"]
    try:
        with patience("drawing the figure"):
            return written + plot.save(plot.accuracy_against_epsilon(rows), out / "accuracy")
    except MissingExtra as error:  # the results are worth more than their figure
        say_error(f"no {error}")
        return written
