"""``fedsel certify`` and ``fedsel mechanisms``"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedsel.cli._terminal import JsonOption, finite, output, parse_top, patience
from fedsel.errors import InvalidArgument, check_count
from fedsel.mechanisms import (
    Mechanism,
    Value,
    certify,
)
from fedsel.mechanisms._registry import ONE_SYMBOL, SELECTIONS, VALUES, mechanism
from fedsel.recipe import decimal
from fedsel.solutions._fresh import codewords_for, raised_for
from fedsel.solutions._registry import default_codewords
from fedsel.solutions._rotated import width_for

if TYPE_CHECKING:
    from fedsel.mechanisms.central import CentralGuarantee

CODED = ("FJ", "RJ", "RC")
"""J on the scores of a public codebook."""
NAMES = ", ".join((*SELECTIONS, *VALUES, *ONE_SYMBOL, *CODED))


def certify_command(
    name: Annotated[str, typer.Argument(help=f"{NAMES}, or two of them as PS-PM.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The claimed ε.")] = None,
    dim: Annotated[int | None, typer.Option("--dim", "-d", help="Dimension d.")] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "--k",
            "-k",
            help="Top k: a count or a fraction of d.",
            show_default="0.1; J: the best",
        ),
    ] = None,
    mu: Annotated[
        float | None, typer.Option(help="Share of ε for the selection.", show_default="0.1")
    ] = None,
    codewords: Annotated[
        int | None,
        typer.Option("--words", help="Codewords of RC.", show_default="about 8·d"),
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
    coded = name.upper() if name.upper() in CODED else None
    if coded == "FJ" and k is not None:
        raise InvalidArgument("--k", k, "left out: that of FJ follows from ε and d")
    if coded == "FJ" and epsilon is not None and dim is not None:
        top = raised_for(decimal("epsilon", epsilon), check_count("dim", dim))
    target = mechanism("J" if coded else name, epsilon=epsilon, k=top, mu=0.1 if mu is None else mu)
    if dim is None and not isinstance(target, Value):
        raise InvalidArgument("--dim", None, f"given for {name}")
    _refuse_unused(target, {"--epsilon": epsilon, "--k": k, "--mu": mu, "--dim": dim})
    if codewords is not None and coded != "RC":
        raise InvalidArgument("--words", codewords, f"left out: {name} has no such parameter")
    size = dim if coded is None or dim is None else _codewords(coded, epsilon, dim, codewords)
    if delta is not None and shuffled is None:
        raise InvalidArgument("--delta", delta, "left out, or given with --shuffled")
    own_size = None if isinstance(target, Value) else size
    certificate = certify(target, own_size)
    central = None if shuffled is None else _central(target, own_size, shuffled, delta)
    if as_json:
        ratio = certificate.ratio
        typer.echo(
            json.dumps(
                {
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
                },
                allow_nan=False,
            )
        )
    else:
        if coded:
            typer.echo(f"{coded} at d = {dim} is J on {size} codewords, whatever their scores are")
        typer.echo(certificate)
        for line in target.describe(size):
            typer.echo(line)
        if central is not None:
            typer.echo(central)
    if not certificate.holds:
        raise typer.Exit(1)


def _central(
    target: Mechanism, size: int | None, reports: int, delta: float | None
) -> CentralGuarantee:
    """What shuffled reports guarantee."""
    from fedsel.mechanisms.central import DELTA, amplify

    if not target.private:
        raise InvalidArgument("--shuffled", reports, f"left out: {target.name} is not private")
    with patience("proving the central guarantee"):
        return amplify(target, size, reports=reports, delta=DELTA if delta is None else delta)


def _codewords(name: str, epsilon: float | None, dim: int, codewords: int | None) -> int:
    """M of the public codebook of FJ, RJ or RC."""
    check_count("dim", dim)
    if name == "FJ":
        return codewords_for(decimal("epsilon", epsilon), dim)
    if name == "RJ":
        return width_for(dim)
    return default_codewords(dim) if codewords is None else check_count("words", codewords)


def _refuse_unused(target: Mechanism, options: dict[str, object]) -> None:
    """An option that would change nothing is a misunderstanding."""
    used = {f"--{f.name}" for part in target.parts for f in fields(part)}  # type: ignore[arg-type]
    used |= {"--mu"} if len(target.parts) > 1 else set()
    used |= set() if isinstance(target, Value) else {"--dim"}
    for option, value in options.items():
        if value is not None and option not in used:
            raise InvalidArgument(option, value, f"left out: {target.name} has no such parameter")


def mechanisms(as_json: JsonOption = False) -> None:
    """List the mechanisms by the paper's abbreviations."""
    rows = [
        {"name": name, "kind": kind, "class": cls.__name__, "about": _first_line(cls)}
        for kind, table in (("selection", SELECTIONS), ("value", VALUES), ("joint", ONE_SYMBOL))
        for name, cls in table.items()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    output().print(table)


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]
