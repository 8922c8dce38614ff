"""Modules of the user: solutions of one's own by ``--import``, and functions to audit."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from fedsel.errors import InvalidArgument
from fedsel.solutions import names

ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        help="A Python file or module that registers solutions of your own, by "
        "fedsel.solutions.register; repeat for several.",
        show_default=False,
    ),
]
_IMPORTED: dict[str, list[str]] = {}
"""The names that each file or module has registered in this process."""


def import_solutions(places: Sequence[str] | None) -> None:
    """Import the files and modules that ``--import`` names; each must register a solution."""
    for place in places or ():
        key = str(Path(place).resolve()) if place.endswith(".py") else place
        if key in _IMPORTED and set(_IMPORTED[key]) <= set(names()):
            continue
        before = set(names())
        module_of("--import", place, place)
        _IMPORTED[key] = [name for name in names() if name not in before]
        if not _IMPORTED[key]:
            allowed = "a module that calls fedsel.solutions.register(name, compose); it did not"
            raise InvalidArgument("--import", place, allowed)


def module_of(argument: str, given: str, place: str, *, within: str = "") -> ModuleType:
    """Import a file or a module; the folder that the user is in is where modules are looked for.

    What is wrong with it is said of the ``argument``, as ``given``.
    """
    is_file = place.endswith(".py")
    path = Path(place)
    if is_file and not path.is_file():
        raise InvalidArgument(argument, given, f"{within}a file that exists; there is no {place}")
    folder = str(path.resolve().parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    usable = f"{within}a module that can be imported"
    try:
        return _module_of_file(path) if is_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not is_file and (place == missing or place.startswith(f"{missing}.")):
            allowed = f"{usable} from here; there is no module {missing}"
        else:
            allowed = f"{usable}; it needs {missing}, which is missing"
        raise InvalidArgument(argument, given, allowed) from None
    except Exception as error:  # whatever a user's module does while it is imported
        raised = f"{type(error).__name__}: {error}"
        allowed = f"{usable}; importing it raised {raised}"
        raise InvalidArgument(argument, given, allowed) from error


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:  # a name that ends in .py has a loader
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickle look there
    spec.loader.exec_module(module)
    return module
