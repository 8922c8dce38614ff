"""``fedsel solutions``: what leaves a device with each, what it costs, and when to take it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import typer
from rich.console import Console
from rich.table import Table

from fedsel._internal.display import printable
from fedsel.cli._terminal import JsonOption, finite, output
from fedsel.errors import InvalidArgument
from fedsel.solutions._registry import canonical, entry, names

EXAMPLE = (
    "Example: fedsel solutions   ·   fedsel solutions FJ PS-PM --epsilon 4 --dim 1000   ·   "
    "fedsel solutions --all --json"
)
ROUNDS = 100
"""Over which RJ spreads its bases: those of a run whose rounds have a hundredth of the clients."""
_TABLE = 110
"""Columns below which each solution has a paragraph, not a row."""


@final
@dataclass(frozen=True)
class About:
    """A solution at an ε and a dimension; an infinite ε is None."""

    name: str
    leaves: str
    epsilon: float | None
    epsilon_per_report: float | None
    bits: int
    private: bool
    certified: bool
    within_budget: bool
    privacy: str
    when: str

    @property
    def shown(self) -> str:
        """The exact ε of all reports, or why there is none."""
        if self.epsilon is None:
            return "∞"
        return f"{self.epsilon:.4g}" if self.certified else "unproved"


def solutions_command(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Some of them alone.", show_default=False),
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="ε of a client over all its reports.")
    ] = 1.0,
    dim: Annotated[int, typer.Option("--dim", "-d", help="d: entries of an update.")] = 100,
    epochs: Annotated[int, typer.Option(help="E: reports of a client.")] = 1,
    everything: Annotated[
        bool, typer.Option("--all", help="All names, with every mechanism for values.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the solutions: what leaves the device, exact ε, bits of a report, when to take it.

    ε is computed from the law of a report, in rational arithmetic: ∞ is not private, and
    "unproved" holds for real numbers only, so that no device sends it. Bits are those of one
    report.
    """
    if chosen:
        wanted = [canonical(name, "NAME") for name in chosen]
        rows, missing = [about(name, epsilon, dim, epochs) for name in wanted], ""
    else:
        rows, missing = _all(everything, epsilon, dim, epochs)
    if as_json:
        content: list[dict[str, Any]] = [vars(row) for row in rows]
        typer.echo(json.dumps(content, indent=1, allow_nan=False))
        return
    console = output()
    over = "" if epochs == 1 else f" over {epochs} reports"
    title = f"Solutions at ε = {epsilon:g}{over}, d = {dim:,}"
    if console.width < _TABLE:
        _print_paragraphs(console, title, rows)
    else:
        console.print(_table(title, rows))
    if not (chosen or everything):
        console.print("PM can be HM, Duchi or OW, and two stages can end in -O: --all lists them.")
    if missing:
        console.print(printable(f"Not to be had here: {missing}"), highlight=False)


def _all(everything: bool, epsilon: float, dim: int, epochs: int) -> tuple[list[About], str]:
    """The recommended one, others of one symbol, others that keep their ε, the rest.

    Those that this ε or dimension rules out are named with the reason.
    """
    from fedsel.recipe import RECOMMENDED

    about(RECOMMENDED, epsilon, dim, epochs)  # what is wrong for it is wrong for all
    rows, missing = [], []
    for name in names():
        if everything or not entry(name).variant:
            try:
                rows.append(about(name, epsilon, dim, epochs))
            except InvalidArgument as error:
                missing.append(f"{name} ({error})")
    rows.sort(
        key=lambda r: (
            r.name != RECOMMENDED,
            entry(r.name).family != "one-symbol",
            not r.within_budget,
        )
    )
    return rows, ", ".join(missing)


def about(name: str, epsilon: float, dim: int, epochs: int) -> About:
    """What there is to know of a solution, from its law and its place in the registry."""
    from fedsel.auto import bases_for
    from fedsel.recipe import Recipe
    from fedsel.solutions._solution import what_leaves

    given = None if entry(name).plain else epsilon
    recipe = Recipe(name, given, dim, epochs, mu=0.1, rho=None, bases=None)
    bases = bases_for(recipe, dim, ROUNDS * epochs)
    solution = Recipe(name, given, dim, epochs, mu=0.1, rho=None, bases=bases).build()
    privacy = solution.privacy
    return About(
        name=name,
        leaves=what_leaves(solution),
        epsilon=finite(privacy.total),
        epsilon_per_report=finite(privacy.per_report),
        bits=solution.bits,
        private=solution.private,
        certified=privacy.certified and privacy.ratio is not None,
        within_budget=privacy.within_budget,
        privacy=privacy.note,
        when=entry(name).when,
    )


def _table(title: str, rows: Sequence[About]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in ("name", "what leaves the device", "exact ε", "bits", "when to take it"):
        is_text = heading not in ("exact ε", "bits")
        table.add_column(
            heading,
            justify="left" if is_text else "right",
            no_wrap=heading in ("name", "exact ε", "bits"),
        )
    for row in rows:
        style = "" if row.within_budget else "dim"
        cells = (row.name, row.leaves, row.shown, f"{row.bits:,}", row.when)
        table.add_row(*map(printable, cells), style=style)
    return table


def _print_paragraphs(console: Console, title: str, rows: Sequence[About]) -> None:
    console.print(title, highlight=False)
    for row in rows:
        first = f"{row.name}  exact ε {row.shown}, {row.bits:,} bits"
        console.print(printable(first), highlight=False)
        for text in (row.leaves, row.when):
            for line in textwrap.wrap(text, console.width - 4, break_on_hyphens=False):
                console.print(f"    {line}", highlight=False)
