"""``fedsel audit module:function``: a randomiser of the user's own, found, called and judged."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from fedsel._internal.bar import Bar
from fedsel._internal.display import printable
from fedsel._internal.extras import check_installed
from fedsel.cli._terminal import check_file, finite, output
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.auditing.program import Program, ProgramAudit

_ENTROPY_NAMES = ("entropy", "rng", "generator", "random", "random_state")
_EXPECTED = "module:function, or path/to/file.py:function"


@dataclass(frozen=True)
class TargetOptions:
    """What a user asked of the audit of a function."""

    target: str
    epsilon: float
    inputs: str | None
    within: tuple[float, float] | None
    dim: int | None
    settings: Sequence[str]
    delta: float
    trials: int | None
    seed: int | None
    html: Path | None
    values_only: bool

    def command(self, seed: int, *, seeded: bool) -> str:
        """The command line that repeats it; a function with draws of its own has no seed."""
        words = ["fedsel", "audit", self.target, "--epsilon", f"{self.epsilon:g}"]
        words += [] if self.inputs is None else ["--inputs", self.inputs]
        words += [] if self.within is None else ["--range", *(f"{x:g}" for x in self.within)]
        words += [] if self.dim is None else ["--dim", str(self.dim)]
        for setting in self.settings:
            words += ["--set", setting]
        words += ["--delta", f"{self.delta:g}"] if self.delta else []
        words += [] if self.trials is None else ["--trials", str(self.trials)]
        words += ["--values-only"] if self.values_only else []
        words += ["--seed", str(seed)] if seeded else []
        return shlex.join(words)


def audit_target(options: TargetOptions, *, as_json: bool) -> bool:
    """Audit a function and show what was found; returns whether its claim was refuted."""
    check_installed("simulation", "fedsel audit", "scipy")
    if options.html is not None:
        check_installed("plots", "--html", "matplotlib")
    check_file("--html", options.html)
    inputs = _inputs(options)
    function = find_function(options.target)
    program, seeded = as_program(function, options.target, _settings(options.settings))
    found = _audited(program, inputs, options)
    command = options.command(found.seed, seeded=seeded)
    if options.html is not None:
        from fedsel.auditing.finding_page import finding_page
        from fedsel.pages import write_page

        write_page(options.html, finding_page(found, target=options.target, command=command))
    if as_json:
        typer.echo(json.dumps(as_record(found, options.target, command), indent=1, allow_nan=False))
    else:
        _print(found, options, command)
    return found.refuted


def _audited(program: Program, inputs: Sequence[Any], options: TargetOptions) -> ProgramAudit:
    from fedsel.auditing.program import PILOT, TRIALS, ProgramError, audit_program

    trials = TRIALS if options.trials is None else options.trials
    pilot = min(PILOT, trials)
    with Bar(pilot * len(inputs) + 2 * trials, f"auditing {options.target}") as bar:
        waiting = _Batched(lambda done: bar.update(advance=done))
        try:
            return audit_program(
                program,
                inputs=inputs,
                claimed=options.epsilon,
                delta=options.delta,
                trials=trials,
                pilot=pilot,
                seed=options.seed,
                float_bits=not options.values_only,
                advance=waiting,
            )
        except ProgramError as error:
            raise InvalidArgument(
                "TARGET", options.target, f"a randomiser that can be audited: {error}"
            ) from None


class _Batched:
    """Tells a bar of every thousandth call: a call may take less than telling of it."""

    def __init__(self, tell: Callable[[float], object]) -> None:
        self._tell, self._done = tell, 0.0

    def __call__(self, done: float) -> None:
        self._done += done
        if self._done >= 1000:
            self._tell(self._done)
            self._done = 0.0


def find_function(target: str) -> Callable[..., Any]:
    """The function that a user means; whatever is wrong with the name is said in a sentence."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InvalidArgument("TARGET", target, _EXPECTED)
    module = _module(target, place)
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


def _module(target: str, place: str) -> ModuleType:
    """Import a file or a module; the folder that the user is in is where modules are looked for."""
    is_file = place.endswith(".py")
    path = Path(place)
    if is_file and not path.is_file():
        raise InvalidArgument("TARGET", target, f"in a file that exists; there is no {place}")
    folder = str(path.resolve().parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _module_of_file(path) if is_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not is_file and (place == missing or place.startswith(f"{missing}.")):
            allowed = f"in a module that can be imported from here; there is no module {missing}"
        else:
            allowed = f"in a module that can be imported; it needs {missing}, which is missing"
        raise InvalidArgument("TARGET", target, allowed) from None
    except Exception as error:  # whatever a user's module does while it is imported
        raised = f"{type(error).__name__}: {error}"
        raise InvalidArgument(
            "TARGET", target, f"in a module that can be imported; importing it raised {raised}"
        ) from error


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:  # a name that ends in .py has a loader
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickle look there
    spec.loader.exec_module(module)
    return module


def _others(module: ModuleType, place: str, name: str) -> str:
    """What is said where a name is missing: those that are there, the closest first."""
    own = [
        n for n, value in vars(module).items() if inspect.isroutine(value) and not n.startswith("_")
    ]
    close = difflib.get_close_matches(name, own, n=len(own) or 1, cutoff=0.0)[:5]
    there = f"it has {', '.join(close)}" if close else "it has no function"
    return f"a function of {place}; there is no {name} in it, {there}"


def as_program(
    function: Callable[..., Any], target: str, settings: dict[str, Any]
) -> tuple[Program, bool]:
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
            "Give other parameters by --set name=value",
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


def _inputs(options: TargetOptions) -> list[Any]:
    """The inputs to try: those given, or values of the range that a user states."""
    from fedsel.auditing.program import values_within

    if options.inputs is not None:
        if options.within is not None or options.dim is not None:
            raise InvalidArgument("--inputs", options.inputs, "given without --range and --dim")
        return _given(options.inputs)
    if options.within is None:
        raise InvalidArgument(
            "--inputs",
            None,
            "given, such as --inputs '[0, 1]', or else --range LOW HIGH: the values that a person "
            "may have, any two of which the claim is about",
        )
    low, high = options.within
    if not low < high:
        raise InvalidArgument("--range", f"{low:g} {high:g}", "two numbers, the smaller one first")
    return values_within(low, high, options.dim)


def _given(text: str) -> list[Any]:
    import numpy as np

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
        "probability_bounds": list(found.bounds),
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


def _print(found: ProgramAudit, options: TargetOptions, command: str) -> None:
    from fedsel.auditing.finding_page import (
        confidence,
        headline,
        in_words,
        meaning,
        spoken_epsilon,
    )

    finding, console = found.finding, output()
    first, second = (in_words(value) for value in finding.pair)
    table = Table(title=f"Audit of {printable(options.target)}", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    exact = found.exact
    rows = {
        "claimed ε": f"{found.claimed:g}" + (f", δ = {finding.delta:g}" if finding.delta else ""),
        "verdict": found.verdict,
        "proved by experiment": f"ε ≥ {finding.lower_bound:.4f}, confidence {confidence(found)}",
        "exact": f"none: {found.why_not_exact}"
        if exact is None
        else f"ε = {spoken_epsilon(exact)} over the inputs tried",
        "two inputs": f"{first} and {second}",
        "told apart by": finding.words,
        "came": f"{finding.hits[0]:,} and {finding.hits[1]:,} times of {finding.trials:,}",
        "inputs tried": "; ".join(in_words(v) for v in found.inputs),
        "to repeat it": command,
    }
    for name, text in rows.items():
        red = name == "verdict" and found.refuted
        table.add_row(name, printable(text), style="bold red" if red else "")
    console.print(table)
    console.print(headline(found))
    console.print(meaning(found))
    if options.html is not None:
        console.print(f"wrote {printable(options.html)}")
