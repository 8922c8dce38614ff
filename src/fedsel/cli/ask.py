"""``fedsel ask``: a statistic of a table, as its people would tell it privately."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fedsel._internal.display import printable
from fedsel._internal.extras import check_installed
from fedsel._internal.plotting import svg_of, write_pdf
from fedsel._internal.progress import patience
from fedsel._internal.settings import check_omitted, naming
from fedsel.cli._commands import naming_option
from fedsel.cli._terminal import JsonOption, check_file, output, print_json
from fedsel.data._cells import TABLES, cells
from fedsel.errors import InvalidArgument, SeededNoiseWarning
from fedsel.pages import Table
from fedsel.wire import Category, Number, Question, Schema
from fedsel.wire._columns import Cells, listed

if TYPE_CHECKING:
    from fedsel.asking import Answer

EXAMPLE = (
    "Example: fedsel ask my.csv --question histogram --column age --bounds 0 100 --bins 10 "
    "--epsilon 1   ·   "
    "fedsel ask my.csv --question count --column job --levels cook,smith,other --where job=cook "
    "--epsilon 1 --json   ·   "
    "fedsel ask my.csv --question 'cross table' --schema schema.toml --column job --column age "
    "--epsilon 4 --out figure.svg"
)
FIGURES = (".png", ".svg", ".pdf")
MOST_ROWS = 60
"""The most rows of a table that are printed."""
SEEDED = "Drawn from a seed: whoever knows it can undo the noise. A simulation, not for release."
_BETWEEN = ".."


def ask_command(
    data: Annotated[Path, typer.Argument(help="Your table: .csv or .parquet.", metavar="DATA")],
    question: Annotated[
        str, typer.Option(help="count, histogram, mean, quantiles or cross table.")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε that each client spends.")],
    column: Annotated[
        list[str] | None,
        typer.Option(help="A column that it is about; repeat for several.", show_default=False),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="The public levels of --column, as cook,smith,other."),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The public bounds of --column, if it is a number: LOW HIGH."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Instead: a file with the levels and bounds of columns (fedsel schema drafts one)."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="What is counted: job=cook, job=cook,smith or age=20..30; repeat for several "
            "columns, all of which must fit.",
            show_default=False,
        ),
    ] = None,
    bins: Annotated[
        int | None,
        typer.Option(
            help="Parts of a number's range.", show_default="10; quantiles: 16, cross table: 4"
        ),
    ] = None,
    quantiles: Annotated[
        str | None, typer.Option(help="Which quantiles.", show_default="0.25,0.5,0.75")
    ] = None,
    level: Annotated[float, typer.Option(help="How sure an interval is.")] = 0.95,
    population: Annotated[
        bool,
        typer.Option(
            "--population",
            help="Intervals about all people of whom those in DATA are a random sample.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A figure to write: .png, .svg or .pdf.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeats the draws; for simulations alone.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether a .csv file begins with its columns' names."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a statistic of a table, each record being a client who answers privately.

    Prints what the private reports say, with intervals: how exact an answer will be is what many
    clients, a larger ε and fewer bins decide (fedsel advise --question).
    """
    from fedsel.asking import ask

    _check_figure(out)
    asked = _question(question, column, levels, bounds, schema, where, bins, quantiles)
    with patience(f"reading {data}"), naming_option("DATA"):
        table = _read(data, asked.names, header)
    with warnings.catch_warnings(), naming({"values": "data"}):
        warnings.simplefilter("ignore", SeededNoiseWarning)  # it is said below
        answer = ask(table, asked, epsilon, level=level, population=population, seed=seed)
    if out is not None:
        with patience("drawing the figure"):
            _write(answer, out)
    if as_json:
        print_json({**answer.as_dict(), "seeded": seed is not None})
    else:
        _show(answer, out, seeded=seed is not None)


def _check_figure(out: Path | None) -> None:
    check_file("--out", out)
    if out is not None:
        if out.suffix.lower() not in FIGURES:
            raise InvalidArgument("--out", str(out), f"a file ending in {', '.join(FIGURES)}")
        check_installed("plots", "--out", "matplotlib")


def _question(
    kind: str,
    column: Sequence[str] | None,
    levels: str | None,
    bounds: tuple[float, float] | None,
    schema: Path | None,
    where: Sequence[str] | None,
    bins: int | None,
    quantiles: str | None,
) -> Question:
    wished = _wished(where)
    if schema is not None:
        check_omitted("omitted beside --schema, which has them", levels=levels, bounds=bounds)
        with naming_option("--schema"):
            columns = _columns_of(Schema.load(schema), column or [*wished])
    else:
        columns = _column(column, levels, bounds, wished)
    chosen = {name: _chosen(columns.get(name), text) for name, text in wished.items()}
    which = None
    if quantiles is not None:
        which = tuple(_number("quantiles", q) for q in _split(quantiles))
    return Question(kind, Schema(columns), chosen or None, bins, which)  # type: ignore[arg-type]


def _wished(where: Sequence[str] | None) -> dict[str, str]:
    """What each column must be, as it was typed."""
    wished: dict[str, str] = {}
    for text in where or ():
        name, equals, given = text.partition("=")
        if not equals or not name or name in wished:
            allowed = "a column and what it is, once: job=cook, or age=20..30"
            raise InvalidArgument("where", text, allowed)
        wished[name] = given
    return wished


def _columns_of(schema: Schema, names: Sequence[str]) -> dict[str, Any]:
    """The columns of a schema that are asked for; all where none are named."""
    if isinstance(schema.columns, int):
        raise InvalidArgument("columns", schema.columns, "columns by name")
    for name in names:
        if name not in schema.columns:
            allowed = f"a column of the schema, which has {listed(schema.columns)}"
            raise InvalidArgument("--column", name, allowed)
    return {name: schema.columns[name] for name in names or schema.columns}


def _column(
    names: Sequence[str] | None,
    levels: str | None,
    bounds: tuple[float, float] | None,
    wished: dict[str, str],
) -> dict[str, Any]:
    """The only column, by its levels or its bounds."""
    name, *others = names or wished or (None,)
    if name is None:
        raise InvalidArgument("column", None, "a column of DATA")
    if others:
        allowed = "given with --schema where there are several, which has levels and bounds of each"
        raise InvalidArgument("column", ", ".join([name, *others]), allowed)
    if (levels is None) == (bounds is None):
        allowed = "the public levels of --column, unless --bounds or --schema is given"
        if levels is not None:
            allowed = "omitted beside --bounds"
        raise InvalidArgument("levels", levels, allowed)
    if bounds is None:
        return {name: Category(tuple(_split(levels or "")))}
    if not bounds[0] < bounds[1]:
        raise InvalidArgument("bounds", bounds, "LOW HIGH with LOW < HIGH")
    with naming({"range": "bounds"}):
        return {name: Number(*bounds)}


def _chosen(column: Any, text: str) -> Any:
    """The levels, or the range, that --where names; it is checked by the question."""
    if not isinstance(column, Number):
        return _split(text)
    low, between, high = text.partition(_BETWEEN)
    if not between:
        raise InvalidArgument("where", text, f"a range such as 20{_BETWEEN}30")
    return _number("where", low), _number("where", high)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(name, text, "a number") from None


def _read(path: Path, names: Sequence[str], header: bool | None) -> dict[str, Cells]:
    """The columns that are asked for."""
    if path.suffix.lower() not in TABLES or not path.is_file():
        raise InvalidArgument("path", str(path), "a file that exists, .csv or .parquet")

    def check(present: list[str]) -> None:
        for name in names:
            if name not in present:
                allowed = f"a column of DATA, which has {listed(present)}"
                raise InvalidArgument("--column", name, allowed)

    blocks = [[block[name] for name in names] for block in cells(path, check, header=header)]
    return dict(zip(names, map(np.concatenate, zip(*blocks, strict=True)), strict=True))


def _write(answer: Answer, out: Path) -> None:
    figure: Any = answer.plot().figure
    kind = out.suffix.lower()
    if kind == ".svg":
        out.write_text(svg_of(figure), encoding="utf-8")
    elif kind == ".pdf":
        write_pdf(figure, out)
    else:
        figure.savefig(out, dpi=150)


def _show(answer: Answer, out: Path | None, *, seeded: bool) -> None:
    console = output()
    console.print(_shortened(answer.table))
    lines = [str(answer), *([SEEDED] if seeded else [])]
    if len(answer.shares) > 2:
        lines.append("Each interval is about one share alone. The shares sum to 100 %.")
    if out is not None:
        lines.append(f"wrote {out}")
    for line in lines:
        console.print(printable(line), highlight=False)


def _shortened(table: Table) -> Table:
    """The largest rows of a long table."""
    if len(table.rows) <= MOST_ROWS:
        return table
    place = len(table.columns) - 3
    largest = sorted(table.rows, key=lambda row: -float(row[place] or 0))[:MOST_ROWS]
    note = f"{table.note}; the {MOST_ROWS} largest of {len(table.rows):,} rows, --json has all"
    return replace(table, rows=tuple(largest), note=note)
