"""``fedsel solutions`` and ``mechanisms``: what there is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsel._internal.display import printable
from fedsel.auto._numbers import bases_for
from fedsel.cli._imports import ImportOption, import_solutions
from fedsel.cli._terminal import JsonOption, finite, output, print_json
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import ONE_SYMBOL, SELECTIONS, VALUES
from fedsel.pages import Table
from fedsel.recipe import RECOMMENDED, Recipe
from fedsel.solutions import Entry, entries, entry
from fedsel.solutions._solution import what_leaves

EXAMPLE = (
    "Example: fedsel solutions   ·   fedsel solutions FJ PS-PM --epsilon 4 --dim 1000   ·   "
    "fedsel solutions --all --json"
)
MECHANISMS_EXAMPLE = "Example: fedsel mechanisms --json"
_KINDS: dict[str, Any] = {"selection": SELECTIONS, "value": VALUES, "joint": ONE_SYMBOL}
_ROUNDS = 100
"""RJ spreads its bases over the rounds of an epoch: here of a hundredth of the clients each."""
_TABLE = 110
"""Columns below which each solution has a paragraph, not a row."""
Row = dict[str, Any]


def solutions_command(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these.", show_default=False),
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="ε of a client over all its reports.")
    ] = 1.0,
    dim: Annotated[int, typer.Option("--dim", "-d", help="d: entries of an update.")] = 100,
    epochs: Annotated[int, typer.Option(help="E: reports of a client.")] = 1,
    everything: Annotated[
        bool, typer.Option("--all", help="All names, with every mechanism for values.")
    ] = False,
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the solutions: what leaves the device, exact ε, bits of a report, when to take it.

    ε is computed from the law of a report, in rational arithmetic: ∞ is not private, and
    "unproved" holds for real numbers only, so that no device sends it.
    """
    import_solutions(imports)
    listed = [entry(name, "NAME") for name in chosen or ()]
    rows, missing = [about(known, epsilon, dim, epochs) for known in listed], []
    if not listed:
        about(entry(RECOMMENDED), epsilon, dim, epochs)  # what is wrong for it is wrong for all
        for known in entries():
            try:
                if everything or not known.variant:
                    rows.append(about(known, epsilon, dim, epochs))
            except InvalidArgument as error:  # this ε or dimension rules it out
                missing.append(f"{known.name} ({error})")
        rows.sort(key=_rank)
    if as_json:
        print_json(rows)
        return
    console = output()
    over = "" if epochs == 1 else f" over {epochs} reports"
    title = f"Solutions at ε = {epsilon:g}{over}, d = {dim:,}"
    if console.width < _TABLE:
        _print_paragraphs(console, title, rows)
    else:
        console.print(_table(title, rows))
    if not (listed or everything):
        console.print("PM can be HM, Duchi or OW, and two stages can end in -O: --all lists them.")
    if missing:
        console.print(printable(f"Not possible here: {', '.join(missing)}"), highlight=False)


def _rank(row: Row) -> tuple[bool, bool, bool]:
    """The recommended one, others of one symbol, others that keep their ε, the rest."""
    one_symbol = entry(row["name"]).family == "one-symbol"
    return row["name"] != RECOMMENDED, not one_symbol, not row["within_budget"]


def about(known: Entry, epsilon: float, dim: int, epochs: int) -> Row:
    """A solution at an ε and a dimension, from its law and its entry; an infinite ε is None."""
    recipe = Recipe(known.name, None if known.plain else epsilon, dim, epochs, mu=0.1, rho=None)
    bases = bases_for(recipe, dim, _ROUNDS * epochs)
    solution = replace(recipe, bases=bases).build()
    privacy = solution.privacy
    return {
        "name": known.name,
        "leaves": what_leaves(solution),
        "epsilon": finite(privacy.total),
        "epsilon_per_report": finite(privacy.per_report),
        "bits": solution.bits,
        "private": solution.private,
        "certified": privacy.certified and privacy.ratio is not None,
        "within_budget": privacy.within_budget,
        "privacy": privacy.note,
        "when": known.when,
    }


def _exact(row: Row) -> str:
    """The exact ε of all reports, or why there is none."""
    if row["epsilon"] is None:
        return "∞"
    return f"{row['epsilon']:.4g}" if row["certified"] else "unproved"


def _table(title: str, rows: Sequence[Row]) -> Table:
    cells = ((r["name"], r["leaves"], _exact(r), r["bits"], r["when"]) for r in rows)
    faint = (number for number, row in enumerate(rows) if not row["within_budget"])
    columns = ("name", "what leaves the device", "exact ε", "bits", "when to take it")
    return Table(title, columns, tuple(cells), faint=frozenset(faint))


def _print_paragraphs(console: Console, title: str, rows: Sequence[Row]) -> None:
    console.print(title, highlight=False)
    for row in rows:
        lines = [f"{row['name']}  exact ε {_exact(row)}, {row['bits']:,} bits"]
        for text in (row["leaves"], row["when"]):
            wrapped = textwrap.wrap(text, console.width - 4, break_on_hyphens=False)
            lines += [f"    {line}" for line in wrapped]
        console.print(printable("\n".join(lines), lines=True), highlight=False)


def mechanisms(as_json: JsonOption = False) -> None:
    """List the mechanisms by the paper's abbreviations."""
    rows = [
        {
            "name": name,
            "kind": kind,
            "class": cls.__name__,
            "about": (cls.__doc__ or "").strip().splitlines()[0],
        }
        for kind, table in _KINDS.items()
        for name, cls in table.items()
    ]
    if as_json:
        print_json(rows)
        return
    cells = tuple(tuple(row.values()) for row in rows)
    output().print(Table("Mechanisms", tuple(rows[0]), cells))
