"""``fedsel solutions``, ``mechanisms`` and ``certify``: what there is, and its exact ε."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsel import pages as page
from fedsel._internal.display import printable
from fedsel._internal.progress import patience
from fedsel.auto._numbers import bases_for
from fedsel.cli._terminal import (
    JsonOption,
    finite,
    output,
    parse_top,
    print_json,
    print_sections,
)
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import (
    ONE_SYMBOL,
    SELECTIONS,
    VALUES,
    Mechanism,
    SignedSampling,
    Value,
    certify,
    mechanism,
)
from fedsel.recipe import RECOMMENDED, Recipe
from fedsel.solutions import Entry, entries, entry
from fedsel.solutions._solution import what_leaves

EXAMPLE = (
    "Example: fedsel solutions   ·   fedsel solutions FJ PS-PM --epsilon 4 --dim 1000   ·   "
    "fedsel solutions --all --json"
)
CERTIFY_EXAMPLE = (
    "Example: fedsel certify PS --epsilon 1 --dim 100   ·   "
    "fedsel certify PS-PM --epsilon 2 --mu 0.1 --dim 123 --json"
)
MECHANISMS_EXAMPLE = "Example: fedsel mechanisms --json"
_KINDS: dict[str, Any] = {"selection": SELECTIONS, "value": VALUES, "joint": ONE_SYMBOL}
_CODED = [e.name for e in entries() if e.family == "one-symbol" and e.public_matrix]
"""Solutions that apply J to the scores of a public codebook."""
_NAMES = ", ".join([name for table in _KINDS.values() for name in table] + _CODED)
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
    as_json: JsonOption = False,
) -> None:
    """List the solutions: what leaves the device, exact ε, bits of a report, when to take it.

    ε is computed from the law of a report, in rational arithmetic: ∞ is not private, and
    "unproved" holds for real numbers only, so that no device sends it.
    """
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
    table = Table(title=title, title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("what leaves the device")
    table.add_column("exact ε", justify="right", no_wrap=True)
    table.add_column("bits", justify="right", no_wrap=True)
    table.add_column("when to take it")
    for row in rows:
        cells = (row["name"], row["leaves"], _exact(row), f"{row['bits']:,}", row["when"])
        table.add_row(*map(printable, cells), style="" if row["within_budget"] else "dim")
    return table


def _print_paragraphs(console: Console, title: str, rows: Sequence[Row]) -> None:
    console.print(title, highlight=False)
    for row in rows:
        lines = [f"{row['name']}  exact ε {_exact(row)}, {row['bits']:,} bits"]
        for text in (row["leaves"], row["when"]):
            wrapped = textwrap.wrap(text, console.width - 4, break_on_hyphens=False)
            lines += [f"    {line}" for line in wrapped]
        console.print(printable("\n".join(lines), lines=True), highlight=False)


def certify_command(
    name: Annotated[str, typer.Argument(help=f"{_NAMES}, or two of them as PS-PM.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The claimed ε.")] = None,
    dim: Annotated[int | None, typer.Option("--dim", "-d", help="Dimension d.")] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "--k", "-k", help="Top k: a count or a fraction of d.", show_default="0.1; J: the best"
        ),
    ] = None,
    mu: Annotated[
        float | None, typer.Option(help="Share of ε for the selection.", show_default="0.1")
    ] = None,
    codewords: Annotated[
        int | None, typer.Option("--words", help="Codewords of RC.", show_default="about 8·d")
    ] = None,
    shuffled: Annotated[
        int | None,
        typer.Option(help="Also the central ε of so many shuffled reports of honest clients."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ of the central guarantee.", show_default="1e-6")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the exact privacy loss of one mechanism, in rational arithmetic.

    Ends with status 1 unless the mechanism is private and its claim holds.
    """
    top = None if k is None else parse_top(k)
    coded = next((known for known in _CODED if known.lower() == name.lower()), None)
    law = SignedSampling.name if coded else name
    target = mechanism(law, epsilon=epsilon, k=top, mu=0.1 if mu is None else mu)
    scalar = isinstance(target, Value)
    if dim is None and not scalar:
        raise InvalidArgument("--dim", None, f"an integer ≥ 1: {name} needs it")
    options: dict[str, object] = {"--epsilon": epsilon, "--k": k, "--mu": mu}
    _refuse_unused(target, {**options, "--dim": dim} if scalar else options)
    if delta is not None and shuffled is None:
        raise InvalidArgument("--delta", delta, "omitted without --shuffled")
    size = None if scalar else dim
    if codewords is not None and (coded is None or "words" not in entry(coded).uses):
        raise InvalidArgument("--words", codewords, f"omitted: {name} has no such parameter")
    if coded:
        recipe = Recipe(coded, epsilon, dim, rho=None, bases=None)
        built = (recipe if codewords is None else replace(recipe, words=codewords)).build()
        size, own = built.transform.size, getattr(built.mechanism, "k", None)
        if own is not None and k is not None:
            raise InvalidArgument("--k", k, f"omitted: {coded} derives it from ε and d")
        target = target if own is None else mechanism(law, epsilon=epsilon, k=own)
    certificate = certify(target, size)
    central = None
    if shuffled is not None:
        from fedsel.mechanisms.central import DELTA, amplify

        if not target.private:
            raise InvalidArgument("--shuffled", shuffled, f"omitted: {target.name} is not private")
        with patience("proving the central guarantee"):
            central = amplify(
                target, size, reports=shuffled, delta=DELTA if delta is None else delta
            )
    if as_json:
        ratio = certificate.ratio
        content = {
            "mechanism": repr(target),
            "d": dim if coded else certificate.d,
            "codewords": size if coded else None,
            "claimed": finite(float(certificate.claimed)),
            "exact": finite(certificate.exact),
            "ratio": None if ratio is None else str(ratio),
            "private": target.private,
            "holds": certificate.holds,
            "published": target.published,
            "central": None if central is None else asdict(central),
        }
        print_json(content, indent=None)
    else:
        if coded:
            typer.echo(f"{coded} at d = {dim} is J on {size} codewords, whatever their scores are")
        for line in (certificate, *target.describe(size), *([central] if central else [])):
            typer.echo(line)
    if not certificate.holds:
        raise typer.Exit(1)


def _refuse_unused(target: Mechanism, options: dict[str, object]) -> None:
    """An option that would change nothing is a misunderstanding."""
    used = {f"--{f.name}" for part in target.parts for f in fields(part)}  # type: ignore[arg-type]
    used |= {"--mu"} if len(target.parts) > 1 else set()
    for option, value in options.items():
        if value is not None and option not in used:
            raise InvalidArgument(option, value, f"omitted: {target.name} has no such parameter")


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
    table = page.Table("Mechanisms", tuple(rows[0]), tuple(tuple(row.values()) for row in rows))
    print_sections(page.Section("mechanisms", "Mechanisms", tables=(table,)))
