"""The command line: ``fedsel --help``."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsel._version import __version__
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import Mechanism, Selection, TwoStage, Value, certify
from fedsel.mechanisms.names import SELECTIONS, VALUES, mechanism
from fedsel.mechanisms.selection import Top

if TYPE_CHECKING:
    from fedsel.auditing.grid import Row

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning under local differential privacy: every client randomises its own "
    "update before it leaves the device.",
)

NAMES = ", ".join((*SELECTIONS, *VALUES))
PICTURES = (".png", ".svg", ".pdf")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]


def parse_top(text: str) -> Top:
    """k from the command line: an integer counts, a number with a point is a fraction of d."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise InvalidArgument("k", text, "a count such as 5 or a fraction such as 0.1") from None


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fedsel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


@app.command(
    epilog="Example: fedsel audit --epsilon 1 --dim 10 --plot audit.png   ·   "
    "fedsel audit --json > audit.json",
)
def audit(
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", "-e", help="ε to audit at; repeat for several."),
    ] = None,
    dim: Annotated[
        list[int] | None, typer.Option("--dim", "-d", help="Dimensions; repeat for several.")
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option("--k", "-k", help="Top k: a count (5) or a fraction of d (0.1); repeat."),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1000, help="Trials on each side of an experiment.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the experiments.")] = 0,
    jobs: Annotated[
        int, typer.Option(min=0, help="Cases at a time; 0 takes every core. Changes no result.")
    ] = 0,
    plot: Annotated[Path | None, typer.Option(help="Save a picture (.png, .svg or .pdf).")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Save the table as CSV.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Certify, attack and measure every private mechanism over a grid of d, k and ε.

    [b]claimed[/b] is what the mechanism says, [b]exact[/b] the loss over all inputs and outputs in
    rational arithmetic, [b]lower bound[/b] what an attack by experiment proves (confidence
    1 − 1e-9). Ends with status 1 if an exact ε exceeds its claim or an experiment contradicts it.
    The paper's own PE is shown as "published": its true ε exceeds the claim, as the table says.
    The non-private mechanisms (TopK, Identity) claim nothing and are left out.
    """
    from fedsel.auditing import grid

    _check_suffix("--plot", plot)
    for name, path in (("--plot", plot), ("--csv", csv_file)):
        _check_folder(name, path)
    values = tuple(epsilon or grid.EPSILONS)
    cases = grid.default_cases(
        epsilons=values,
        dimensions=tuple(dim or grid.DIMENSIONS),
        tops=tuple(parse_top(x) for x in k or ()) or grid.TOPS,
        large=() if dim else grid.LARGE_DIMENSIONS,
        value_epsilons=values if epsilon else grid.VALUE_EPSILONS,
    )
    rows = _with_progress(cases, trials, seed, jobs or os.cpu_count() or 1)
    if plot is not None:
        from fedsel.auditing import plot as picture

        picture.save(rows, plot)
    if csv_file is not None:
        _write_csv(csv_file, [row.as_dict() for row in rows])
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows], indent=1, allow_nan=False))
    else:
        _print_audit(rows, [p for p in (plot, csv_file) if p is not None])
    if not grid.all_sound(rows):
        raise typer.Exit(1)


def _with_progress(cases: Sequence[Any], trials: int, seed: int, jobs: int) -> list[Row]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fedsel.auditing import grid

    columns = (
        TextColumn("auditing {task.fields[now]:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("audit", total=len(cases), now="…")
        return grid.run(
            cases,
            trials=trials,
            seed=seed,
            jobs=jobs,
            advance=lambda row: progress.update(task, advance=1, now=row.mechanism),
        )


def _print_audit(rows: Sequence[Row], written: Sequence[Path]) -> None:
    table = Table(title="Audit: claimed, exact and attacked privacy loss")
    for heading in ("mechanism", "d", "k", "claimed ε", "exact ε", "lower bound", "variance",
                    "measured", "verdict"):  # fmt: skip
        is_text = heading in ("mechanism", "verdict")
        table.add_column(heading, justify="left" if is_text else "right")
    for row in rows:
        numbers = (row.claimed, row.exact, row.lower_bound, row.variance, row.measured_variance)
        style = "" if row.holds else "yellow" if row.sound else "bold red"
        table.add_row(
            row.mechanism,
            "" if row.d is None else f"{row.d:,}",
            "" if row.k is None else f"{row.k:,}",
            *("" if x is None else f"{x:.4f}" for x in numbers),
            row.verdict,
            style=style,
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    sound = sum(row.sound for row in rows)
    console.print(f"{sound} of {len(rows)} cases are sound.")
    for path in written:
        console.print(f"wrote {path}")


@app.command(
    name="certify",
    epilog="Example: fedsel certify PS --epsilon 1 --dim 100   ·   "
    "fedsel certify PS-PM --epsilon 2 --mu 0.1 --dim 123 --json",
)
def certify_command(
    name: Annotated[str, typer.Argument(help=f"{NAMES}, or two of them as PS-PM.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The claimed ε.")] = None,
    dim: Annotated[int | None, typer.Option("--dim", "-d", help="Dimension d.")] = None,
    k: Annotated[str, typer.Option("--k", "-k", help="Top k: a count or a fraction of d.")] = "0.1",
    mu: Annotated[float, typer.Option(help="Share of ε for the selection of two stages.")] = 0.1,
    as_json: JsonOption = False,
) -> None:
    """Compute the exact privacy loss of one mechanism, in rational arithmetic.

    Ends with status 1 if it exceeds the claim.
    """
    made = mechanism(name, epsilon=epsilon, k=parse_top(k), mu=mu)
    if dim is None and not isinstance(made, Value):
        raise InvalidArgument("--dim", None, f"given for {name}")
    certificate = certify(made, None if isinstance(made, Value) else dim)
    if as_json:
        ratio = certificate.ratio
        typer.echo(
            json.dumps(
                {
                    "mechanism": repr(made),
                    "d": certificate.d,
                    "claimed": _finite(float(certificate.claimed)),
                    "exact": _finite(certificate.exact),
                    "ratio": None if ratio is None else str(ratio),
                    "holds": certificate.holds,
                    "published": made.published,
                },
                allow_nan=False,
            )
        )
    else:
        typer.echo(certificate)
        for line in _describe(made, dim):
            typer.echo(line)
    if not certificate.holds and not made.published:
        raise typer.Exit(1)


def _describe(made: Mechanism, d: int | None) -> list[str]:
    """What one would like to know of a mechanism beyond its ε."""
    lines = []
    selection = made.selection if isinstance(made, TwoStage) else made
    value = made.value if isinstance(made, TwoStage) else made
    if isinstance(selection, Selection) and d is not None:
        law, k = selection.law(d), selection.top(d)
        # The top k are one run of equal weights, or (EXP) k is 1.
        hit = float(k * law.probability(0))
        lines.append(
            f"selection: k = {k}, hits the top k with probability {hit:.6g} "
            f"(at random {k / d:.6g}), P[⊥] = {float(law.bottom_probability):.6g}"
        )
    if isinstance(value, Value):
        lines.append(
            f"value: {value.symbols} symbols, worst-case variance {value.worst_variance:.6g}, "
            f"output within ±{value.bound:.6g}"
        )
    return lines


@app.command(epilog="Example: fedsel mechanisms --json")
def mechanisms(as_json: JsonOption = False) -> None:
    """List the mechanisms by the paper's abbreviations."""
    rows = [
        {"name": name, "kind": kind, "class": cls.__name__, "about": _first_line(cls)}
        for kind, table in (("selection", SELECTIONS), ("value", VALUES))
        for name, cls in table.items()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _check_suffix(option: str, path: Path | None) -> None:
    if path is not None and path.suffix.lower() not in PICTURES:
        raise InvalidArgument(option, str(path), f"a file ending in {', '.join(PICTURES)}")


def _check_folder(option: str, path: Path | None) -> None:
    """Before the work, not after it: a result must have a place to go."""
    if path is not None and not path.resolve().parent.is_dir():
        raise InvalidArgument(option, str(path), "in a folder that exists")


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run the command line; wrong arguments end with one sentence and status 2."""
    try:
        app()
    except InvalidArgument as error:
        typer.echo(f"fedsel: {error}", err=True)
        sys.exit(2)
