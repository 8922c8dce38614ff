"""``fedsel certify``: the exact ε of a mechanism or of a solution."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import typer

from fedsel._internal.progress import patience
from fedsel.cli._imports import ImportOption, import_solutions
from fedsel.cli._terminal import JsonOption, finite, parse_top, print_json
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import (
    ONE_SYMBOL,
    SELECTIONS,
    VALUES,
    Certificate,
    Mechanism,
    SignedSampling,
    Value,
    certify,
    mechanism,
)
from fedsel.recipe import Recipe
from fedsel.solutions import Entry, Solution, entries, names

EXAMPLE = (
    "Example: fedsel certify PS --epsilon 1 --dim 100   ·   "
    "fedsel certify PS-PM --epsilon 2 --mu 0.1 --dim 123 --json   ·   "
    "fedsel certify TT-Duchi --import my_solutions.py --epsilon 1 --dim 100"
)
_NAMES = ", ".join(name for table in (SELECTIONS, VALUES, ONE_SYMBOL) for name in table)
_SHARE = 0.1


def certify_command(
    name: Annotated[
        str,
        typer.Argument(
            help=f"A mechanism ({_NAMES}, or two of them as PS-PM), or else a name that "
            "fedsel solutions --all lists; with --dim, PM is the flat solution."
        ),
    ],
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The claimed ε.")] = None,
    dim: Annotated[int | None, typer.Option("--dim", "-d", help="Dimension d.")] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "--k", "-k", help="Top k: a count or a fraction of d.", show_default="0.1; J: the best"
        ),
    ] = None,
    mu: Annotated[
        float | None, typer.Option(help="Share of ε for the selection.", show_default=str(_SHARE))
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
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the exact privacy loss of a mechanism or of a solution's report.

    It is computed over all inputs and outputs, in rational arithmetic. Ends with status 1 unless
    the report is private and its claim is proved.
    """
    import_solutions(imports)
    if delta is not None and shuffled is None:
        raise InvalidArgument("--delta", delta, "omitted without --shuffled")
    given: dict[str, Any] = {"--epsilon": epsilon, "--k": k, "--mu": mu, "--words": codewords}
    top, known = None if k is None else parse_top(k), _entry_of(name, dim)
    built = None
    if known is None:
        target = mechanism(name, epsilon=epsilon, k=top, mu=_SHARE if mu is None else mu)
        scalar = isinstance(target, Value)
        _refuse_unused(target, {**given, "--dim": dim} if scalar else given)
        if dim is None and not scalar:
            raise InvalidArgument("--dim", None, f"an integer ≥ 1: {name} needs it")
        size, certificate = (None if scalar else dim), certify(target, None if scalar else dim)
    else:
        _refuse_options(known, given)
        built = _built(known, epsilon, dim, k=top, mu=mu, words=codewords)
        target, size = built.mechanism, built.transform.size
        certificate = replace(certify(built), mechanism=target, d=size)
    central = None
    if shuffled is not None:
        from fedsel.mechanisms.central import DELTA, amplify

        if not target.private:
            raise InvalidArgument("--shuffled", shuffled, f"omitted: {target.name} is not private")
        with patience("proving the central guarantee"):
            central = amplify(
                target, size, reports=shuffled, delta=DELTA if delta is None else delta
            )
    proved = certificate.holds and (built is None or built.privacy.certified)
    note = _note(name, epsilon, built)
    if as_json:
        ratio = certificate.ratio
        content = {
            "solution": None if built is None else built.name,
            "mechanism": repr(target),
            "d": size if built is None else dim,
            "codewords": size if built is not None and _coded(built) else None,
            "claimed": finite(float(certificate.claimed)),
            "exact": finite(certificate.exact),
            "ratio": None if ratio is None else str(ratio),
            "private": target.private,
            "holds": proved,
            "published": target.published,
            "central": None if central is None else asdict(central),
            "note": note,
        }
        print_json(content, indent=None)
    else:
        for line in (note, _verdict(certificate, proved), *target.describe(size), central):
            if line:
                typer.echo(line)
    if not proved:
        raise typer.Exit(1)


def _entry_of(name: str, dim: int | None) -> Entry | None:
    """The solution of a name; None where it is a mechanism's, or where nobody knows it.

    The mechanisms of one number have no d: with one, PM is the flat solution.
    """
    known = next((known for known in entries() if known.name.lower() == name.lower()), None)
    try:
        scalar = isinstance(mechanism(name, epsilon=1.0), Value)
    except InvalidArgument:
        return known
    return known if scalar and dim is not None else None


def _built(known: Entry, epsilon: float | None, dim: int | None, **given: Any) -> Solution:
    if dim is None:
        raise InvalidArgument("--dim", None, f"an integer ≥ 1: {known.name} needs it")
    own: dict[str, Any] = {"mu": _SHARE, "rho": None, "bases": None}
    own |= {name: value for name, value in given.items() if value is not None}
    return Recipe(known.name, epsilon, dim, **own).build()


def _coded(built: Solution) -> bool:
    """Whether J is applied to the scores of a public codebook."""
    return not built.transform.identity and built.mechanism.name == SignedSampling.name


def _note(name: str, epsilon: float | None, built: Solution | None) -> str:
    """What the name stands for, where the mechanism does not say it."""
    if built is not None:
        if _coded(built):
            size = built.transform.size
            return (
                f"{built.name} at d = {built.dim} is J on {size} codewords, whatever their scores"
                " are"
            )
        return f"{built.name} at d = {built.dim}: {built.privacy.note or 'its own composition'}"
    known = next((known for known in names() if known.lower() == name.lower()), None)
    if known is None or Recipe(known, epsilon, 2, mu=_SHARE, rho=None).build().private:
        return ""
    return f"{known} here is the selection alone; the solution {known} is not private"


def _verdict(certificate: Certificate, proved: bool) -> str:
    if certificate.holds and not proved:
        claimed = float(certificate.claimed)
        return f"{certificate.mechanism!r}: claimed ε = {claimed:.12g}: UNPROVED for floats"
    return str(certificate)


def _refuse_unused(target: Mechanism, options: dict[str, Any]) -> None:
    """An option that would change nothing is a misunderstanding."""
    used = {f"--{f.name}" for part in target.parts for f in fields(part)}  # type: ignore[arg-type]
    used |= {"--mu"} if len(target.parts) > 1 else set()
    for option, value in options.items():
        if value is not None and option not in used:
            raise InvalidArgument(option, value, f"omitted: {target.name} has no such parameter")


def _refuse_options(known: Entry, options: dict[str, Any]) -> None:
    """Refuse options that a solution does not use; a user's own composition may use any."""
    for option, value in options.items():
        parameter = option.lstrip("-")
        unused = known.plain if parameter == "epsilon" else parameter not in known.uses
        if value is not None and unused and known.family != "own":
            derived = parameter == "k" and known.directions
            why = "derives it from ε and d" if derived else "has no such parameter"
            raise InvalidArgument(option, value, f"omitted: {known.name} {why}")
