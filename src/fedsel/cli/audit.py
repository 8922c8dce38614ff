"""``fedsel audit``"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table

from fedsel._internal.bar import Bar
from fedsel._internal.display import printable
from fedsel._internal.extras import check_installed
from fedsel.cli._terminal import JobsOption, JsonOption, check_file, check_suffix, output, parse_top
from fedsel.cli.audit_target import TargetOptions, audit_target
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.auditing.suite import Row

T = TypeVar("T")

EXAMPLE = (
    "Example: fedsel audit --epsilon 1 --dim 10 --plot audit.png   ·   "
    "fedsel audit my_module:respond --epsilon 1 --inputs '[True, False]' --html finding.html   ·   "
    "fedsel audit noise.py:laplace --epsilon 1 --range 0 1 --json"
)
_OF_A_TARGET = "With TARGET"


def audit(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A randomiser of your own: module:function or path/to/file.py:function. It takes "
            "(value) or (value, entropy), where entropy is a numpy Generator that also has "
            "below(n), and returns what would be sent. Without it the mechanisms of fedsel are "
            "audited.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon", "-e", help="ε to audit at; repeat for several. Of TARGET: its claim."
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Values that people may have, as a Python or JSON list: '[0, 1]'. A list in it is "
            "given to the function as a numpy array, a tuple as it is.",
            rich_help_panel=_OF_A_TARGET,
        ),
    ] = None,
    within: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--range",
            metavar="LOW HIGH",
            help="In place of --inputs: try extremes, zero, thirds and near neighbours of this "
            "range, with --dim vectors of such entries.",
            rich_help_panel=_OF_A_TARGET,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A further parameter of the function, name=value; repeat.",
            rich_help_panel=_OF_A_TARGET,
        ),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(help="δ of an (ε, δ) claim.", rich_help_panel=_OF_A_TARGET),
    ] = 0.0,
    values_only: Annotated[
        bool,
        typer.Option(
            "--values-only",
            help="Do not look at the last bits of outputs in floating point.",
            rich_help_panel=_OF_A_TARGET,
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the finding, or the table of the mechanisms, as one HTML page."),
    ] = None,
    dim: Annotated[
        list[int] | None, typer.Option("--dim", "-d", help="Dimensions; repeat for several.")
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option("--k", "-k", help="Top k: a count (5) or a fraction of d (0.1); repeat."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1000,
            help="Trials on each side of an experiment: a million, or 100,000 of TARGET.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Seed of the experiments: 0, or one of the operating system's for TARGET.",
            show_default=False,
        ),
    ] = None,
    jobs: JobsOption = 0,
    plot: Annotated[Path | None, typer.Option(help="Save a picture (.png, .svg or .pdf).")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Save the table as CSV.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Certify, attack and measure every private mechanism, or audit a randomiser of your own.

    With TARGET: is its privacy loss at most --epsilon, for any two of the inputs? Pilot runs choose
    the two inputs and the event that tell them apart best, fresh runs count it. Where the function
    draws by entropy.below(n) alone, its exact loss over these inputs is computed as well. Ends with
    status 1 if the claim is refuted.

    Without it: every private mechanism over a grid of d, k and ε.

    claimed is what the mechanism says, exact the loss over all inputs and outputs in
    rational arithmetic, lower bound what an attack by experiment proves (confidence
    1 − 1e-9). Ends with status 1 if an exact ε exceeds its claim or an experiment contradicts it.
    The paper's own PE is shown as "published": its true ε exceeds the claim, as the table says.
    The non-private mechanisms (TopK, Identity) claim nothing and are left out. Rows of shuffled
    reports compare central ε: proved for all inputs, exact for the worst that were tried, attacked.
    """
    if target is not None:
        _check_absent(
            {"--k": k, "--plot": plot, "--csv": csv_file, "--jobs": jobs},
            "left out where TARGET is given",
        )
        options = TargetOptions(
            target,
            _one_of("--epsilon", epsilon, "given once: what TARGET claims"),
            inputs,
            within,
            _one_of("--dim", dim, "given once") if dim else None,
            tuple(settings or ()),
            delta,
            trials,
            seed,
            html,
            values_only,
        )
        if audit_target(options, as_json=as_json):
            raise typer.Exit(1)
        return
    _check_absent(
        {
            "--inputs": inputs,
            "--range": within,
            "--set": settings,
            "--delta": delta,
            "--values-only": values_only,
        },
        "given with a TARGET, module:function",
    )
    _audit_mechanisms(
        epsilon, dim, k, trials or 1_000_000, seed or 0, jobs, plot, csv_file, html, as_json=as_json
    )


def _check_absent(options: Mapping[str, object], allowed: str) -> None:
    """An option that would be without effect is refused, not ignored."""
    for name, given in options.items():
        if given:
            raise InvalidArgument(name, _shown(given), allowed)


def _shown(given: object) -> str:
    return " ".join(map(str, given)) if isinstance(given, list | tuple) else str(given)


def _one_of(name: str, given: list[T] | None, allowed: str) -> T:
    if given is None or len(given) != 1:
        raise InvalidArgument(name, None if given is None else _shown(given), allowed)
    return given[0]


def _audit_mechanisms(
    epsilon: list[float] | None,
    dim: list[int] | None,
    k: list[str] | None,
    trials: int,
    seed: int,
    jobs: int,
    plot: Path | None,
    csv_file: Path | None,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    from fedsel.auditing import suite as grid

    check_suffix("--plot", plot)
    check_installed("simulation", "fedsel audit", "scipy")
    if plot is not None:
        check_installed("plots", "--plot", "matplotlib")
    for name, path in (("--plot", plot), ("--csv", csv_file), ("--html", html)):
        check_file(name, path)
    values = tuple(epsilon or grid.EPSILONS)
    cases = grid.default_cases(
        epsilons=values,
        dimensions=tuple(dim or grid.DIMENSIONS),
        tops=tuple(parse_top(x) for x in k or ()) or grid.TOPS,
        large=() if dim else grid.LARGE_DIMENSIONS,
        value_epsilons=values if epsilon else grid.VALUE_EPSILONS,
        two_stage_epsilons=values if epsilon else grid.TWO_STAGE_EPSILONS,
        shuffled_epsilons=values if epsilon else grid.SHUFFLED_EPSILONS,
    )
    rows = _with_progress(cases, trials, seed, jobs or os.cpu_count() or 1)
    if plot is not None:
        from fedsel.auditing import plot as picture

        picture.save(rows, plot)
    if csv_file is not None:
        from fedsel.experiments import write_csv

        write_csv(csv_file, [row.as_dict() for row in rows])
    if html is not None:
        from fedsel.auditing.suite_page import suite_page

        html.write_text(suite_page(rows, trials=trials, seed=seed), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows], indent=1, allow_nan=False))
    else:
        _print_audit(rows, [p for p in (plot, csv_file, html) if p is not None])
    if not grid.all_sound(rows):
        raise typer.Exit(1)


def _with_progress(cases: Sequence[Any], trials: int, seed: int, jobs: int) -> list[Row]:
    from fedsel.auditing import suite as grid

    with Bar(len(cases)) as bar:
        return grid.run(
            cases,
            trials=trials,
            seed=seed,
            jobs=jobs,
            advance=lambda row: bar.update(f"auditing {row.name}", advance=1),
        )


def _print_audit(rows: Sequence[Row], written: Sequence[Path]) -> None:
    console = output()
    headings = ["mechanism", "d", "k", "claimed ε", "exact ε", "verdict", "lower bound"]
    # A narrow terminal gets fewer columns, not cut numbers.
    if console.width >= _WIDE:
        headings += ["variance", "measured"]
    table = Table(title="Audit: claimed, exact and attacked privacy loss")
    for heading in headings:
        is_text = heading in ("mechanism", "verdict")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text)
    for row in rows:
        cells = {
            "mechanism": printable(row.name),
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
            " fedsel.amplify proves for all inputs, exact that of the worst inputs tried."
        )
    held = sum(row.holds for row in rows)
    published = sum(row.published and row.sound and not row.holds for row in rows)
    console.print(
        f"{held} claims hold, {published} published ones exceed their ε, "
        f"{len(rows) - held - published} fail."
    )
    for path in written:
        console.print(f"wrote {printable(path)}")


_WIDE = 118


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4f}"
