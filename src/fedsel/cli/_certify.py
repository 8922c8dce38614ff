"""``fedsel certify`` and ``fedsel mechanisms``"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import typer
from rich.table import Table

from fedsel._internal.bar import patience
from fedsel.cli._terminal import JsonOption, finite, output, parse_top, print_json
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import Mechanism, SignedSampling, Value, certify, mechanism
from fedsel.mechanisms._registry import ONE_SYMBOL, SELECTIONS, VALUES
from fedsel.recipe import Recipe
from fedsel.solutions import Solution, entries

EXAMPLE = (
    "Example: fedsel certify PS --epsilon 1 --dim 100   ·   "
    "fedsel certify PS-PM --epsilon 2 --mu 0.1 --dim 123 --json"
)
MECHANISMS_EXAMPLE = "Example: fedsel mechanisms --json"
_KINDS: dict[str, Any] = {"selection": SELECTIONS, "value": VALUES, "joint": ONE_SYMBOL}
_CODED = [e.name for e in entries() if e.family == "one-symbol" and e.public_matrix]
"""Solutions that apply J to the scores of a public codebook."""
_NAMES = ", ".join([name for table in _KINDS.values() for name in table] + _CODED)


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
        raise InvalidArgument("--dim", None, f"given for {name}")
    options: dict[str, object] = {"--epsilon": epsilon, "--k": k, "--mu": mu}
    _refuse_unused(target, {**options, "--dim": dim} if scalar else options)
    if delta is not None and shuffled is None:
        raise InvalidArgument("--delta", delta, "left out, or given with --shuffled")
    size = None if scalar else dim
    if coded:
        built = _built(Recipe(coded, epsilon, dim, rho=None, bases=None), codewords)
        size, own = built.transform.size, getattr(built.mechanism, "k", None)
        if own is not None and k is not None:
            raise InvalidArgument("--k", k, f"left out: {coded} derives it from ε and d")
        target = target if own is None else mechanism(law, epsilon=epsilon, k=own)
    elif codewords is not None:
        raise InvalidArgument("--words", codewords, f"left out: {name} has no such parameter")
    certificate = certify(target, size)
    central = None
    if shuffled is not None:
        from fedsel.mechanisms.central import DELTA, amplify

        if not target.private:
            raise InvalidArgument("--shuffled", shuffled, f"left out: {target.name} is not private")
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


def _built(recipe: Recipe, codewords: int | None) -> Solution:
    """A solution with so many codewords, which is refused where their number is not free."""
    if codewords is None:
        return recipe.build()
    built = replace(recipe, words=codewords).build()
    if built == replace(recipe, words=codewords + 1).build():
        allowed = f"left out: {recipe.solution} has no such parameter"
        raise InvalidArgument("--words", codewords, allowed)
    return built


def _refuse_unused(target: Mechanism, options: dict[str, object]) -> None:
    """An option that would change nothing is a misunderstanding."""
    used = {f"--{f.name}" for part in target.parts for f in fields(part)}  # type: ignore[arg-type]
    used |= {"--mu"} if len(target.parts) > 1 else set()
    for option, value in options.items():
        if value is not None and option not in used:
            raise InvalidArgument(option, value, f"left out: {target.name} has no such parameter")


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
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    output().print(table)
