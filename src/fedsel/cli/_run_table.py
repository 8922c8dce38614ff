"""The results of ``fedsel run``: a table and the notes that belong to it, shown and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedsel._internal.display import printable
from fedsel._internal.extras import MissingExtra
from fedsel._internal.progress import patience
from fedsel.cli._terminal import output, say_error
from fedsel.experiments import write_figures, write_tables
from fedsel.experiments._results import accuracy_text
from fedsel.pages import Table
from fedsel.solutions import entry

Row = dict[str, Any]

SEEDED = (
    "seeded, so that runs can be repeated; anyone who has the seed can undo the noise. A "
    "simulation for research, not for release"
)
"""What the results say about their draws, in the table and in every row."""
STANDARDISED = (
    "scaled by the records' own mean and deviation, which the exact ε does not cover. To avoid "
    "that: --scale private, where the first reports of FJ or RC learn how wide features are; "
    "--public rows; or --scale unit where bounds are public"
)
DIVERGED = "the model diverged: its loss is infinite. Take a smaller --learning-rate or --reg"
UNLEARNT = (
    "too few clients to learn where columns of numbers lie and how wide they are, so the model "
    "hardly uses them. Declare bounds (--scale unit), or give --public rows"
)
LEARNT = (
    "the ranges of numbers are not public here, and the first rounds learn them. Compared with "
    "standardising, that costs up to 1 point of accuracy at ε = 4, 3 at ε = 2, 8 at ε = 1 and 17 "
    "at ε = 0.5, measured with FJ, 24,000 clients and up to 17 columns (60 columns: 3 at ε = 4, 6 "
    "at ε = 2, 8 at ε = 1); with fewer clients more. --public rows cost less: docs/preparation.md"
)


def annotated(rows: Sequence[Row]) -> list[Row]:
    """Rows with the notes that a reader must know about them."""
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
        if rounds := chosen[f"{name}_rounds"]:
            yield f"{name} of the records: learnt in {rounds} rounds before the training"
    if "public_rows" in chosen:
        count = chosen["public_rows"]
        yield f"{count:,} public rows, which cost no ε: bounds, centre, spread and geometry"
    if "public_means" in chosen:
        given = f"{chosen['public_means']:,} of the features"
        yield f"public means for {given}, which cost no ε: their centre"


def _choices(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What solutions were run with: a text for those that were run alike."""
    for row in rows:
        parts = ["α as given or fitted to the data set"]
        if row["learning_rate"] == "auto":
            parts = ["α automatic (*), from public quantities"]
        power = row["chosen"]["averaging"]
        parts.append(f"weights averaged (t^{power:g})" if power else "last weights")
        parts.append("records of norm 1" if row["unit_records"] else "records as they are")
        parts.append(f"scale {row['scale']}")
        yield row["solution"], ", ".join(parts)


def _shares(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """ρ and μ of the solutions that have them, over all ε."""
    for symbol, key in (("ρ", "rho"), ("μ", "mu")):
        mine = [row for row in rows if row["chosen"][key] is not None]
        values = sorted(row["chosen"][key] for row in mine)
        ends = dict.fromkeys(f"{v:.3g}" for v in (*values[:1], *values[-1:]))
        yield from ((row["solution"], f"{symbol} = {' … '.join(ends)}") for row in mine)


def _same_laws(rows: Sequence[Row]) -> Iterator[str]:
    """Solutions whose rows agree run for run: without a comment that looks like a mistake."""
    alike: dict[str, list[Row]] = {}
    for row in rows:
        if entry(row["used"]).selection:
            point = (row["model"], row["epsilon"], entry(row["solution"]).value, row["runs"])
            alike.setdefault(repr(point), []).append(row)
    found: dict[tuple[str, ...], list[str]] = {}
    for same in alike.values():
        names = tuple(dict.fromkeys(row["solution"] for row in same))
        if len(names) > 1:
            found.setdefault(names, []).append(f"{same[0]['epsilon']:g}")
    for names, epsilons in found.items():
        laws = " and ".join(dict.fromkeys(entry(name).selection or "" for name in names))
        at = ", ".join(dict.fromkeys(epsilons))
        yield (
            f"{' and '.join(names)} have the same rows at ε = {at}: there ⊥ (abstain) has "
            f"probability 0, and without ⊥ {laws} are the same law"
        )


def _grouped(pairs: Iterable[tuple[str, str]], everyone: Sequence[str]) -> Iterator[str]:
    """Each text once, behind the names that it is about, if it is not about all."""
    names: dict[str, dict[str, None]] = {}
    for name, text in pairs:
        names.setdefault(text, {})[name] = None
    for text, about in names.items():
        yield text if list(about) == list(everyone) else f"{', '.join(about)}: {text}"


def _exposure(row: Row) -> str:
    """Why a row does not keep its ε, in the composition's own words if it has any."""
    fact = "its exact ε is above what it was given" if row["private"] else "not private"
    return row["privacy"] or fact


def _caption(rows: Sequence[Row]) -> Iterator[str]:
    everyone = list(dict.fromkeys(row["solution"] for row in rows))
    exposed = [row for row in rows if not (row["private"] and row["within_budget"])]
    yield f"always the most frequent class: {100 * rows[0]['majority']:.2f} %"
    yield from _grouped(_choices(rows), everyone)
    yield from _grouped(_shares(rows), everyone)
    yield from _same_laws(rows)
    yield from _grouped(((row["solution"], _exposure(row)) for row in exposed), everyone)
    notes = ((row["solution"], note) for row in rows for note in row["notes"])
    for line in _grouped(notes, everyone):
        yield f"† {line}" if line.endswith(STANDARDISED) else line
    yield f"Draws: {SEEDED}."


def line_of(row: Row) -> str:
    """A result as it comes in."""
    at = "" if row["epsilon"] is None else f"ε = {row['epsilon']:g}"
    return f"{row['model']:<9} {row['solution']:<9} {at:<8} {accuracy_text(row)} %"


def _exact(row: Row) -> str:
    exact = row["epsilon_total"]
    if exact is None:
        return "∞"
    mark = "†" if STANDARDISED in row["notes"] else ""
    return (f"{exact:.4f}" if row["certified"] else "unproved") + mark


def _rate(row: Row) -> str:
    mark = "*" if row["learning_rate"] == "auto" else ""
    return f"{row['chosen']['learning_rate']:.3g}{mark}"


def table_of(rows: Sequence[Row]) -> Table:
    """The table for a person; what is not private, or loses more than its ε, is faint."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    named = ("model", "solution") if len(models) > 1 else ("solution",)
    return Table(
        f"{rows[0]['dataset']}, {' and '.join(models)}: test accuracy, {rows[0]['repeats']} × "
        f"{rows[0]['folds']} folds",
        (*named, "ε", "exact ε", "accuracy (%)", "bits", "α"),
        tuple(
            (
                *(row[name] for name in named),
                None if row["epsilon"] is None else f"{row['epsilon']:g}",
                _exact(row),
                accuracy_text(row),
                f"{row['bits']:,}",
                _rate(row),
            )
            for row in rows
        ),
        faint=frozenset(
            number
            for number, row in enumerate(rows)
            if not (row["certified"] and row["within_budget"])
        ),
        optional=("bits", "α"),
    )


def print_table(rows: Sequence[Row], written: Sequence[Path]) -> None:
    """Print the table with what belongs to it."""
    console = output()
    console.print(table_of(rows))
    for line in _caption(rows):
        console.print(printable(line), highlight=False)
    names = ", ".join(path.name for path in written)
    if written:
        console.print(printable(f"wrote {names} in {written[0].parent}"), soft_wrap=True)


def write_files(rows: Sequence[Row], out: Path) -> list[Path]:
    """Write the results for programs and for papers, and their figure."""
    written = write_tables(rows, out, list(_caption(rows)))
    try:
        with patience("drawing the figure"):
            written += write_figures(rows, out)
    except MissingExtra as error:  # the results are worth more than their figure
        say_error(f"no {error}")
    return written
