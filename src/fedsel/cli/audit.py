"""``fedsel audit``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsel.cli._terminal import JsonOption
from fedsel.cli.audit_target import TargetOptions, audit_target
from fedsel.errors import InvalidArgument

EXAMPLE = (
    "Example: fedsel audit my_module:respond --epsilon 1 --inputs '[True, False]' --html page.html"
    "   ·   "
    "fedsel audit noise.py:laplace --epsilon 1 --range 0 1 --json"
)


def audit(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A randomiser of your own: module:function or path/to/file.py:function. It takes "
            "(value) or (value, entropy), where entropy is a numpy Generator that also has "
            "below(n), and returns what would be sent.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="ε that TARGET claims.", show_default=False),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Values that people may have, as a Python or JSON list: '[0, 1]'. A list in it is "
            "given to the function as a numpy array, a tuple as it is."
        ),
    ] = None,
    within: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--range",
            metavar="LOW HIGH",
            help="In place of --inputs: try extremes, zero, thirds and near neighbours of this "
            "range, with --dim vectors of such entries.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A further parameter of the function, name=value; repeat."),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(help="δ of an (ε, δ) claim."),
    ] = 0.0,
    values_only: Annotated[
        bool,
        typer.Option(
            "--values-only", help="Do not look at the last bits of outputs in floating point."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the finding as one HTML page."),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option("--dim", "-d", help="With --range: vectors of so many entries."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1000,
            help="Trials on each side of the experiment: 100,000.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Seed of the experiment: one of the operating system's.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Audit a randomiser of your own: does it keep the privacy that it claims?

    Is its privacy loss at most --epsilon, for any two of the inputs? Pilot runs choose the two
    inputs and the event that tell them apart best, fresh runs count it. Where the function draws by
    entropy.below(n) alone, its exact loss over these inputs is computed as well. Ends with status 1
    if the claim is refuted.
    """
    if target is None:
        own = "a checkout audits the mechanisms of fedsel: python -m reproduction audit"
        raise InvalidArgument("TARGET", None, f"given, module:function ({own})")
    if epsilon is None:
        raise InvalidArgument("--epsilon", None, "given: what TARGET claims")
    options = TargetOptions(
        target,
        epsilon,
        inputs,
        within,
        dim,
        tuple(settings or ()),
        delta,
        trials,
        seed,
        html,
        values_only,
    )
    if audit_target(options, as_json=as_json):
        raise typer.Exit(1)
