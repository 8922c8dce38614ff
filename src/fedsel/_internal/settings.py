"""Settings by name, and the TOML files that hold them: one reader, one way to name an error."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from fedsel.errors import InvalidArgument

_LONG = re.compile(r"[0-9_]{4300}")
"""Python refuses to parse an integer with this many digits."""


def read_toml(argument: str, path: str | Path, **options: Any) -> dict[str, Any]:
    """The values of a TOML file that ``argument`` names; ``options`` as of `tomllib.loads`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if found := _LONG.search(text):
            keys = re.findall(r"^\s*([\w-]+)\s*=", text[: found.start()], re.MULTILINE)
            with naming_file(path):
                name = [argument, *keys][-1]
                raise InvalidArgument(name, "thousands of digits", "a shorter number")
        return tomllib.loads(text, **options)
    except InvalidArgument:
        raise
    except OSError as error:
        allowed = f"a TOML file that can be read ({error.strerror})"
    except (ValueError, RecursionError) as error:  # not UTF-8, or not TOML
        allowed = f"valid TOML ({error})"
    raise InvalidArgument(argument, str(path), allowed)


def check_omitted(allowed: str, **given: object) -> None:
    """Refuse the first of some settings that is given (not None); ``allowed`` says why.

    >>> check_omitted("omitted without clients", dropout=None, skew=0.5)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: skew = 0.5: must be omitted without clients
    """
    for name, value in given.items():
        if value is not None:
            raise InvalidArgument(name, str(value) if isinstance(value, Path) else value, allowed)


def known_one(name: str, known: Collection[str], kind: str = "key") -> str:
    """Say which known names an unknown one may have meant: similar ones, or all of them.

    >>> known_one("close-after", ["close_after", "clients"])
    'a known key, such as close_after'
    """
    close = difflib.get_close_matches(str(name).replace("-", "_"), known)
    listed = f", such as {', '.join(close)}" if close else f": {', '.join(known)}"
    return f"a known {kind}{listed}"


@contextmanager
def naming(rule: Callable[[str], str] | Mapping[str, str]) -> Iterator[None]:
    """Have errors name the argument as their reader knows it: by a rule, or old name by old name.

    >>> with naming({"nodes": "clients"}):
    ...     raise InvalidArgument("nodes", 0, "an integer ≥ 1")
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: clients = 0: must be an integer ≥ 1
    """
    try:
        yield
    except InvalidArgument as error:
        own = error.name
        error.name = rule.get(own, own) if isinstance(rule, Mapping) else rule(own)
        raise


def naming_file(path: str | Path) -> AbstractContextManager[None]:
    """Have errors about the values of a file name the file.

    >>> with naming_file("folder/task.toml"):
    ...     raise InvalidArgument("epsilon", 0, "a number > 0")
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: epsilon in task.toml = 0: must be a number > 0
    """
    return naming(lambda name: f"{name} in {Path(path).name}")


def check_keys(
    values: Mapping[str, Any],
    known: Collection[str],
    *,
    required: Collection[str] = (),
    within: str = "",
    kind: str = "key",
) -> None:
    """Refuse a table with an unknown key, or without a required one; ``within`` names the table.

    >>> check_keys({"epsilom": 1}, ["epsilon", "dim"])
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: epsilom = 1: must be a known key, such as epsilon
    """
    for name, value in values.items():
        if name not in known:
            raise InvalidArgument(f"{within}{name}", value, known_one(name, known, kind))
    for name in required:
        if name not in values:
            raise InvalidArgument(f"{within}{name}", None, "set: it has no default")
