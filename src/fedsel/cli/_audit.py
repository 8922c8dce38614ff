"""``fedsel audit``: call a function of the user, or a solution, and judge its claim."""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fedsel._internal.extras import check_installed
from fedsel.cli._imports import ImportOption, import_solutions, module_of
from fedsel.cli._terminal import (
    JsonOption,
    check_file,
    finite,
    output,
    print_json,
    print_sections,
)
from fedsel.errors import InvalidArgument
from fedsel.recipe import solution
from fedsel.solutions import Solution, entry, names

if TYPE_CHECKING:
    from fedsel.auditing import ProgramAudit

_ENTROPY_NAMES = ("entropy", "rng", "generator", "random", "random_state")
_PILOT = 20_000
_EXPECTED = "module:function, path/to/file.py:function, or the name of a solution"


EXAMPLE = (
    "Example: fedsel audit my_module:respond --epsilon 1 --inputs '[True, False]' --html page.html"
    "   ·   fedsel audit noise.py:laplace --epsilon 1 --range 0 1 --json"
    "   ·   fedsel audit TT-Duchi --import my_solutions.py --epsilon 1 --dim 3"
)


def audit(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A randomiser of your own: module:function or path/to/file.py:function. It takes "
            "(value) or (value, entropy), where entropy is a numpy Generator that also has "
            "below(n), and returns what would be sent. Or the name of a solution.",
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
            help="Values that people may have, as a Python or JSON list: '[0, 1]'. The function "
            "gets a list in it as a numpy array, a tuple as it is."
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
    dim: Annotated[
        int | None,
        typer.Option("--dim", "-d", max=10**6, help="With --range: vectors of so many entries."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A further parameter of the function, name=value; repeat."),
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of an (ε, δ) claim.")] = 0.0,
    values_only: Annotated[
        bool,
        typer.Option(
            "--values-only", help="Do not look at the last bits of outputs in floating point."
        ),
    ] = False,
    trials: Annotated[
        int, typer.Option(min=1000, help="Trials on each side of the experiment.")
    ] = 100_000,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the experiment.", show_default="a random one"),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the finding as one HTML page.")] = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Audit a randomiser of your own: does it keep the privacy that it claims?

    Is its privacy loss at most --epsilon, for any two of the inputs? Pilot runs choose the two
    inputs and the event that tell them apart best, fresh runs count it. Where the function draws by
    entropy.below(n) alone, its exact loss over these inputs is computed as well. Ends with status 1
    if the claim is refuted.

    Of a solution the report of one client is audited, on extreme updates of --dim entries unless
    --inputs or --range names others; --set gives its parameters, such as k=2.
    """
    import_solutions(imports)
    if target is None:
        own = "a checkout audits the mechanisms of fedsel: python -m reproduction audit"
        raise InvalidArgument("TARGET", None, f"module:function ({own})")
    if epsilon is None:
        raise InvalidArgument("--epsilon", None, "the ε that TARGET claims")
    check_installed("simulation", "fedsel audit", "scipy")
    if html is not None:
        check_installed("plots", "--html", "matplotlib")
    check_file("--html", html)
    asked: dict[str, Any] = {"claimed": epsilon, "delta": delta, "trials": trials, "seed": seed}
    parameters, seeded = _settings(settings or ()), True
    if any(known.lower() == target.lower() for known in names()):
        subject: Any = _solution(target, epsilon, dim, inputs, parameters)
        if inputs is not None or within is not None:
            asked["inputs"] = _inputs(inputs, within, dim)
    else:
        asked["inputs"] = _inputs(inputs, within, dim)
        subject, seeded = as_program(find_function(target), target, parameters)
        asked["float_bits"] = not values_only
    found = _audited(subject, target, **asked)
    to_repeat = ["--seed", str(found.seed)] if seeded and seed is None else []
    command = shlex.join(["fedsel", *sys.argv[1:], *to_repeat])
    if html is not None:
        from fedsel.auditing.finding_page import finding_page
        from fedsel.pages import write_page

        write_page(html, finding_page(found, target=target, command=command))
    if as_json:
        print_json(as_record(found, target, command))
    else:
        _print(found, target, command, html)
    if found.refuted:
        raise typer.Exit(1)


def _solution(
    name: str, epsilon: float, dim: int | None, inputs: str | None, own: dict[str, Any]
) -> Solution:
    """The solution of a name, for updates of so many entries, or as long as the inputs."""
    if dim is None:
        if inputs is None:
            raise InvalidArgument(
                "--dim", None, f"an integer ≥ 1: {name} needs it, the entries of an update"
            )
        dim = len(np.atleast_1d(_given(inputs)[0]))
    plain = entry(name).plain
    return solution(name, epsilon=None if plain else epsilon, dim=dim, **own)


def _audited(subject: Any, target: str, **asked: Any) -> ProgramAudit:
    from fedsel.auditing import ProgramError, audit_program, audit_solution

    audit = audit_solution if isinstance(subject, Solution) else audit_program
    try:
        return audit(subject, pilot=min(_PILOT, asked["trials"]), **asked)
    except ProgramError as error:
        allowed = f"a randomiser that can be audited: {error}"
        raise InvalidArgument("TARGET", target, allowed) from None


def find_function(target: str) -> Callable[..., Any]:
    """Find the function that a name stands for; a wrong name is an error of one sentence."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InvalidArgument("TARGET", target, _EXPECTED)
    module = module_of("TARGET", target, place, within="in ")
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgument("TARGET", target, _others(module, place, name))
        found = getattr(found, part)
    if inspect.isclass(found) or not callable(found):
        kind = "class" if inspect.isclass(found) else type(found).__name__
        what = f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
        raise InvalidArgument("TARGET", target, f"a function; {name} is {what}")
    if inspect.iscoroutinefunction(found):
        raise InvalidArgument("TARGET", target, f"a plain function; {name} is an async one")
    function: Callable[..., Any] = found
    return function


def _others(module: ModuleType, place: str, name: str) -> str:
    """List the names that exist, the closest first, for the error about a missing one."""
    own = [
        n for n, value in vars(module).items() if inspect.isroutine(value) and not n.startswith("_")
    ]
    close = difflib.get_close_matches(name, own, n=len(own) or 1, cutoff=0.0)[:5]
    there = f"it has {', '.join(close)}" if close else "it has no function"
    return f"a function of {place}; there is no {name} in it, {there}"


def as_program(
    function: Callable[..., Any], target: str, settings: dict[str, Any]
) -> tuple[Callable[..., Any], bool]:
    """The function as (value, entropy) → output, and whether it draws from that entropy."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions say nothing of themselves
        return (lambda value, _: function(value, **settings)), False
    names = [p.name for p in parameters]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [name for name in settings if name not in names and not takes_any]
    if unknown:
        raise InvalidArgument("--set", unknown[0], f"a parameter of {target}: {', '.join(names)}")
    free = [p for p in parameters if p.name not in settings]
    needed = [
        p for p in free if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    by_name = [p.name for p in free[1:] if p.name in _ENTROPY_NAMES]
    if not free or len(needed) > 2 or any(p.kind is p.KEYWORD_ONLY for p in needed):
        raise InvalidArgument(
            "TARGET",
            target,
            f"a function (value) or (value, entropy); it takes ({', '.join(names)}). "
            "Set other parameters with --set name=value",
        )
    if by_name and len(needed) <= 2 and all(p.name in (free[0].name, *by_name) for p in needed):
        given = by_name[0]
        return (lambda value, entropy: function(value, **{given: entropy}, **settings)), True
    if len(needed) == 2:
        return (lambda value, entropy: function(value, entropy, **settings)), True
    return (lambda value, _: function(value, **settings)), False


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    made = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InvalidArgument("--set", pair, "name=value")
        try:
            made[name.strip()] = literal(value)
        except ValueError:  # a plain word need not be quoted
            made[name.strip()] = value.strip()
    return made


def literal(text: str) -> Any:
    """A value as Python or JSON writes it.

    >>> literal("[True, (1, 2)]"), literal("[true, null]")
    ([True, (1, 2)], [True, None])
    """
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return json.loads(text)


def _inputs(inputs: str | None, within: tuple[float, float] | None, dim: int | None) -> list[Any]:
    """The inputs to try: those given, or values of the range that a user states."""
    from fedsel.auditing import values_within

    if inputs is not None:
        if within is not None or dim is not None:
            raise InvalidArgument("--inputs", inputs, "omitted with --range or --dim")
        return _given(inputs)
    if within is None:
        raise InvalidArgument(
            "--inputs",
            None,
            "a list of values that people may have, such as '[0, 1]', unless you set --range LOW "
            "HIGH: the claim is about any two of them",
        )
    return values_within(*within, dim)


def _given(text: str) -> list[Any]:
    allowed = "a list of at least two different values, such as '[0, 1]' or '[[1, 0], [0, 1]]'"
    try:
        values = literal(text)
    except (ValueError, RecursionError):
        raise InvalidArgument("--inputs", text, allowed) from None
    if not isinstance(values, list | tuple) or len({repr(v) for v in values}) < 2:
        raise InvalidArgument("--inputs", text, allowed)
    try:
        return [np.array(v) if isinstance(v, list) else v for v in values]
    except ValueError:  # ragged
        raise InvalidArgument("--inputs", text, "lists of numbers of one length") from None


def as_record(found: ProgramAudit, target: str, command: str) -> dict[str, Any]:
    """The finding for machines."""
    from fedsel.auditing.finding_page import in_words

    finding, exact = found.finding, found.exact
    return {
        "target": target,
        "claimed": found.claimed,
        "delta": finding.delta,
        "verdict": found.verdict,
        "refuted": found.refuted,
        "lower_bound": finding.lower_bound,
        "alpha": finding.alpha,
        "inputs": [in_words(v) for v in finding.pair],
        "event": finding.words,
        "hits": list(finding.hits),
        "trials": finding.trials,
        "probability_bounds": list(finding.bounds),
        "exact": None
        if exact is None
        else {
            "epsilon": finite(exact.epsilon),
            "ratio": None if exact.ratio is None else str(exact.ratio),
            "inputs": [in_words(v) for v in exact.pair],
            "output": in_words(exact.output),
            "probabilities": [str(p) for p in exact.probabilities],
        },
        "why_not_exact": found.why_not_exact or None,
        "inputs_tried": [in_words(v) for v in found.inputs],
        "seed": found.seed,
        "command": command,
    }


def _print(found: ProgramAudit, target: str, command: str, html: Path | None) -> None:
    from fedsel.auditing.finding_page import headline, in_words, meaning, verdict_section

    tried = "; ".join(in_words(value) for value in found.inputs)
    facts = {"verdict": found.verdict, "inputs tried": tried, "to repeat it": command}
    print_sections(verdict_section(found, target), facts=facts)
    console = output()
    console.print(headline(found), style="bold red" if found.refuted else None)
    console.print(meaning(found))
    if html is not None:
        console.print(f"wrote {html}")
