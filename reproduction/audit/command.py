"""``python -m reproduction audit``: certify, attack and measure every private mechanism."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedsel import InvalidArgument
from fedsel.experiments import write_csv
from fedsel.pages import write_page
from reproduction.audit import suite
from reproduction.audit.page import suite_page
from reproduction.audit.plot import draw
from reproduction.audit.suite import Row
from reproduction.console import App, JobsOption, JsonOption, bar, check_file, output, printable

app = App()
_WIDE = 118
_PICTURES = (".png", ".svg", ".pdf")


@app.command(
    epilog="Example: python -m reproduction audit --epsilon 1 --dim 10 --plot audit.png. "
    "fedsel audit module:function audits a function of your own."
)
def audit(
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", "-e", help="ε; repeat for several.")
    ] = None,
    dim: Annotated[
        list[int] | None,
        typer.Option("--dim", "-d", min=1, max=10**7, help="Dimensions; repeat for several."),
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option("--k", "-k", help="Top k: a count (5) or a fraction of d (0.1); repeat."),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1000, max=10**9, help="Trials on each side of an experiment.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the experiments.")] = 0,
    jobs: JobsOption = 0,
    plot: Annotated[Path | None, typer.Option(help="Save a picture (.png, .svg or .pdf).")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Save the table as CSV.")] = None,
    html: Annotated[Path | None, typer.Option(help="Save the table as one HTML page.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Certify, attack and measure every private mechanism over a grid of d, k and ε.

    Claimed is the mechanism's own ε, exact the loss over all inputs and outputs in rational
    arithmetic, lower bound what an attack by experiment proves (confidence 1 − 1e-9). Ends with
    status 1 if an exact ε exceeds its claim or an experiment contradicts it. The paper's own PE is
    shown as "published", because its true ε exceeds the claim. The non-private mechanisms (TopK,
    Identity) claim nothing and are left out. Rows of shuffled reports show central ε: proved for
    all inputs, exact for the worst inputs tried, and attacked.
    """
    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise InvalidArgument("--plot", str(plot), f"a file ending in {', '.join(_PICTURES)}")
    for name, path in (("--plot", plot), ("--csv", csv_file), ("--html", html)):
        check_file(name, path)
    values = tuple(epsilon or suite.EPSILONS)
    cases = suite.default_cases(
        epsilons=values,
        dimensions=tuple(dim or suite.DIMENSIONS),
        tops=tuple(map(_top, k or ())) or suite.TOPS,
        large=() if dim else suite.LARGE_DIMENSIONS,
        value_epsilons=values if epsilon else suite.VALUE_EPSILONS,
        two_stage_epsilons=values if epsilon else suite.TWO_STAGE_EPSILONS,
        shuffled_epsilons=values if epsilon else suite.SHUFFLED_EPSILONS,
    )
    with bar(len(cases)) as progress:

        def advance(row: Row) -> None:
            progress.now(f"auditing {row.name}")
            progress.advance(1)

        at_a_time = jobs or os.cpu_count() or 1
        rows = suite.run(cases, trials=trials, seed=seed, jobs=at_a_time, advance=advance)
    if plot is not None:
        draw(rows).savefig(plot, dpi=150)
    if csv_file is not None:
        write_csv(csv_file, [row.as_dict() for row in rows])
    if html is not None:
        write_page(html, suite_page(rows, trials=trials, seed=seed))
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows], indent=1, allow_nan=False))
    else:
        _print(rows, [p for p in (plot, csv_file, html) if p is not None])
    if not suite.all_sound(rows):
        raise typer.Exit(1)


def _top(text: str) -> float:
    """Parse a count, or with a decimal point a fraction of d."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise InvalidArgument("k", text, "a count such as 5 or a fraction such as 0.1") from None


def _print(rows: Sequence[Row], written: Sequence[Path]) -> None:
    console = output()
    headings = ["mechanism", "d", "k", "claimed ε", "exact ε", "verdict", "lower bound"]
    # A narrow terminal gets fewer columns instead of truncated numbers.
    if console.width >= _WIDE:
        headings += ["variance", "measured"]
    table = Table(title="Audit: claimed, exact and attacked privacy loss")
    for heading in headings:
        is_text = heading in ("mechanism", "verdict")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text)
    for row in rows:
        cells = {
            "mechanism": row.name,
            "d": "" if row.d is None else f"{row.d:,}",
            "k": "" if row.k is None else f"{row.k:,}",
            "claimed ε": f"{row.claimed:.4f}",
            "exact ε": f"{row.exact:.4f}",
            "verdict": row.verdict,
            "lower bound": _number(row.lower_bound),
            "variance": _number(row.variance),
            "measured": _number(row.measured_variance),
        }
        style = "" if row.holds else "yellow" if row.sound else "bold red"
        table.add_row(*(cells[h] for h in headings), style=style)
    console.print(table)
    shuffled = [row for row in rows if row.reports is not None]
    if shuffled:
        console.print(
            f"Shuffled: all ε are central ones at δ = {shuffled[0].delta:g}; claimed is what"
            " fedsel.amplify proves for all inputs, exact the loss for the worst inputs tried."
        )
    held = sum(row.holds for row in rows)
    published = sum(row.published and row.sound and not row.holds for row in rows)
    console.print(
        f"{held} claims hold, {published} published ones exceed their ε, "
        f"{len(rows) - held - published} fail."
    )
    for path in written:
        console.print(f"wrote {printable(path)}")


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4f}"
