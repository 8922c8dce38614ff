"""Commands with plain help at any width, errors in the user's words, and options from a file."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from fedsel._internal.display import printable
from fedsel._internal.settings import known_one, naming, read_toml
from fedsel.errors import InvalidArgument

_CONFIG = "fedsel.config"
"""The place in a command's context for the spelling of the keys in its configuration file."""
_EXAMPLE = "Example: "
_BETWEEN = "   ·   "
"""Between two examples of an epilog."""
_WIDEST = 110
_UNBROKEN = "\N{NO-BREAK SPACE}"
_LEFT = 28
"""The longest name, in letters, that has its text on the same line."""
_ALIASES = {
    "d": "dim",
    "how": "scale",
    "loss": "model",
    "path": "data",
    "reports": "shuffled",
}
"""Names in messages of lower layers, and the options that stand for them."""


class _PlainHelp:
    """Help with options in sections and one example a line."""

    epilog: str | None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Each section of options with its title, then the commands of a group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            left, right = record
            if usual == "Arguments" and not parameter.help:
                right = f"{_help_of(self, parameter.name)} {right}"
            title = getattr(parameter, "rich_help_panel", None) or usual
            sections.setdefault(title, []).append((left, _plain(right)))
        # The options that every command has come last.
        for title in sorted(sections, key=lambda title: title == "Options"):
            with formatter.section(title):
                _write_rows(sections[title], formatter)
        if isinstance(self, PlainGroup):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The examples."""
        del ctx
        if not self.epilog:
            return
        examples = self.epilog.removeprefix(_EXAMPLE).split(_BETWEEN)
        with formatter.section("Example" if len(examples) == 1 else "Examples"):
            indent = formatter.current_indent
            for example in examples:
                for line in continued(example, formatter.width - indent):
                    formatter.write(f"{'':>{indent}}{line}\n")


class PlainCommand(_PlainHelp, TyperCommand):
    """A command whose errors name options as they are typed."""

    def invoke(self, ctx: Any) -> Any:
        """Run it; an error names an option, or a key of the configuration file."""
        try:
            return super().invoke(ctx)
        except InvalidArgument as error:
            error.name = _spelled(error.name, ctx)
            raise


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands whose errors show no control characters of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Without anything the help is shown, as it is asked for by --help."""
        return super().parse_args(ctx, args or ["--help"])

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options before the name of a command."""
        with _plain_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Find the command, read its options and run it."""
        with _plain_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each command with the whole first sentence of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, (command.help or "").strip().partition("\n\n")[0])
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            _write_rows(rows, formatter)


class App(typer.Typer):
    """A group of commands of these kinds."""

    def __init__(self, **options: Any) -> None:
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST}
        super().__init__(
            cls=PlainGroup,
            # Markup would take "[default: 5]" in a help text for a tag, and drop it.
            rich_markup_mode=None,
            pretty_exceptions_show_locals=False,
            context_settings=settings,
            **options,
        )

    def command(
        self, name: str | None = None, **options: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command."""
        return super().command(name, **{"cls": PlainCommand, **options})


def _spelled(name: str, ctx: Any) -> str:
    """A parameter as the user has written it: an option, an argument or a key of a file.

    What is no parameter of the command stays as it is, and so does what stands in brackets.
    """
    if "[" in name:
        whole, bracket, part = name.partition("[")
        return _spelled(whole, ctx) + bracket + part
    if " + " in name:
        return " + ".join(_spelled(part, ctx) for part in name.split(" + "))
    known = {}
    for parameter in ctx.command.params:
        for spelling in (*parameter.opts, parameter.name or ""):
            known[spelling.lstrip("-").replace("-", "_")] = parameter
    wanted = name.lstrip("-").replace("-", "_")
    candidates = (wanted, wanted.removesuffix("s"), f"{wanted}s", _ALIASES.get(wanted, wanted))
    parameter = next((known[c] for c in candidates if c in known), None)
    if parameter is None:
        return name
    in_a_file: dict[str, str] = ctx.meta.get(_CONFIG, {})
    source = ctx.get_parameter_source(parameter.name)
    if parameter.name in in_a_file and source is not None and source.name == "DEFAULT_MAP":
        return in_a_file[parameter.name]
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or (parameter.name or "").upper())
    return _option_of(parameter)


def _option_of(parameter: Any) -> str:
    """The long spelling of an option."""
    longest: str = max(parameter.opts, key=len)
    return longest


def _help_of(command: Any, name: str) -> str:
    """The help of an argument from the signature: click 8.5 forgets what typer tells it."""
    hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    infos = getattr(hints.get(name), "__metadata__", ())
    return next((info.help for info in infos if getattr(info, "help", None)), "")


def _plain(text: str) -> str:
    """A help text without typer's escapes, and with its default in one piece."""
    text = re.sub(r"\[default: \((.*?)\)(?=[\];])", r"[default: \1", text.replace("\\[", "["))
    return re.sub(r"\[[^]]{,24}\]$", lambda found: found[0].replace(" ", _UNBROKEN), text)


def _write_rows(rows: Sequence[tuple[str, str]], formatter: Any) -> None:
    """Names on the left, sentences on the right; PS-PM is not broken at its hyphen."""
    indent, gap = formatter.current_indent, 2
    left = indent + gap + min(_LEFT, max(len(name) for name, _ in rows))
    for name, text in rows:
        words = re.sub(r"[ \n]+", " ", text.strip())
        lines = textwrap.wrap(words, max(20, formatter.width - left), break_on_hyphens=False)
        begin = f"{'':>{indent}}{name}"
        if len(begin) + gap > left:  # a long name has a line of its own
            formatter.write(f"{begin}\n")
            begin = ""
        for number, line in enumerate(lines or [""]):
            row = f"{begin if not number else '':<{left}}{line}".rstrip()
            formatter.write(row.replace(_UNBROKEN, " ") + "\n")


def continued(line: str, width: int) -> Sequence[str]:
    r"""A command line on lines of at most so many letters, to be copied as they are.

    >>> continued("fedsel certify PS --epsilon 1", 20)
    ['fedsel certify PS \\', '    --epsilon 1']
    """
    parts = textwrap.wrap(
        line, width - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return [part + " \\" for part in parts[:-1]] + parts[-1:]


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of click, wherever typer has it from
            vars(error)["message"] = printable(vars(error)["message"])
        raise


_NEVER = ("config", "json", "help")
"""Options of one call, not of an experiment."""
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "integer": ("an integer", (int,)),
    "integer range": ("an integer", (int,)),
    "float": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "text": ("a text or a number", (str, int, float, bool)),
    "path": ("a path, as a text", (str,)),
}


def naming_option(option: str) -> AbstractContextManager[None]:
    """Have an error in a file name the option that gave the file."""
    names = {"column": f"column of {option}", "y": f"the labels of {option}"}
    names |= {"path": option, "name": option}
    return naming(lambda own: names.get(own, f"{own} ({option})" if " in " in own else own))


def load_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """The callback of --config: the file's values replace the defaults of the options.

    A key is an option without its dashes, with - or _ between words; one that may be repeated
    takes a value or a list, under its own name or with an s.
    """
    if path is None or ctx.resilient_parsing:
        return path
    own = {_option_of(p).lstrip("-").replace("-", "_"): p for p in ctx.command.params}
    own = {key: parameter for key, parameter in own.items() if key not in _NEVER}
    keys = own | {f"{key}s": parameter for key, parameter in own.items() if parameter.multiple}
    values: dict[str, Any] = {}
    spellings: dict[str, str] = ctx.meta.setdefault(_CONFIG, {})
    for key, value in read_toml("--config", path).items():
        spelling = f"{key} in {path}"
        parameter = keys.get(key.replace("-", "_"))
        if parameter is None:
            raise InvalidArgument(spelling, value, known_one(key, keys))
        if parameter.name in values:
            raise InvalidArgument(
                spelling, value, f"set once, not beside {spellings[parameter.name]}"
            )
        spellings[parameter.name] = spelling
        values[parameter.name] = _checked(spelling, parameter, value)
    ctx.default_map = values
    return path


def _checked(spelling: str, parameter: Any, value: Any) -> Any:
    """A value of the kind that the option has, as it would be given on the command line."""
    allowed, kinds = _KINDS[parameter.type.name]
    values = value if parameter.multiple and isinstance(value, list) else [value]
    if not values:
        raise InvalidArgument(spelling, value, f"{allowed}, or a list of them")
    for one in values:
        wrong = isinstance(one, bool) and bool not in kinds
        if wrong or not isinstance(one, kinds):
            raise InvalidArgument(spelling, one, allowed)
    if parameter.type.name == "text":
        values = [("no", "yes")[one] if isinstance(one, bool) else str(one) for one in values]
    return values if parameter.multiple else values[0]
