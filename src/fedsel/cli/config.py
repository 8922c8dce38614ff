"""``--config``: the options of a command from a TOML file, under the names that they have."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from fedsel.cli.commands import CONFIG, option_of
from fedsel.errors import InvalidArgument

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


def load_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """The callback of --config: what the file says takes the place of the options' defaults.

    A key is an option without its dashes, with - or _ between words; one that may be repeated
    takes a value or a list, under its own name or with an s.
    """
    if path is None or ctx.resilient_parsing:
        return path
    keys = {key: parameter for parameter in ctx.command.params for key in _keys(parameter)}
    values: dict[str, Any] = {}
    spellings: dict[str, str] = ctx.meta.setdefault(CONFIG, {})
    for key, value in _read(path).items():
        spelling = f"{key} in {path}"
        parameter = keys.get(key.replace("-", "_"))
        if parameter is None:
            raise InvalidArgument(spelling, value, _known(key, keys))
        if parameter.name in values:
            raise InvalidArgument(spelling, value, f"given once: {spellings[parameter.name]}")
        spellings[parameter.name] = spelling
        values[parameter.name] = _checked(spelling, parameter, value)
    ctx.default_map = values
    return path


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidArgument("--config", str(path), "a TOML file that exists")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument("--config", str(path), f"valid TOML ({error})") from None
    except OSError as error:
        raise InvalidArgument("--config", str(path), f"readable ({error.strerror})") from None


def _keys(parameter: Any) -> Iterator[str]:
    name = option_of(parameter).lstrip("-").replace("-", "_")
    if name not in _NEVER:
        yield name
        if parameter.multiple:
            yield f"{name}s"


def _known(key: str, keys: dict[str, Any]) -> str:
    close = difflib.get_close_matches(key.replace("-", "_"), keys, n=3)
    if close:
        return f"a known key; close to it: {', '.join(close)}"
    own = {option_of(parameter).lstrip("-").replace("-", "_") for parameter in keys.values()}
    return f"one of {', '.join(key for key in keys if key in own)}"


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
