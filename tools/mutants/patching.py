"""Replace the code of live functions by that of a mutant, where that is all that a mutant is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

Key = tuple[str, str, int]
"""What a code object is known by: its file, its name and its first line."""


def key_of(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


class Replacements(NamedTuple):
    """Functions and their new code; ``stale`` if the process holds what the old code computed."""

    functions: list[tuple[FunctionType, CodeType]]
    stale: bool

    def make(self) -> None:
        for function, code in self.functions:
            function.__code__ = code


class RanAtImport:
    """Notes the code of some files that is executed while the tests are collected.

    What it has computed is part of the process (a constant, a cached law, a parameter of a test),
    so a mutant of it must be imported afresh.
    """

    def __init__(self, prefix: str) -> None:
        self.keys: set[Key] = set()
        self._prefix = prefix

    def __enter__(self) -> RanAtImport:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._prefix):
            self.keys.add(key_of(frame.f_code))


class LiveFunctions:
    """The functions of this process, by their code, and what of it has been executed."""

    def __init__(self, ran: set[Key]) -> None:
        self._ran = ran
        self._functions: dict[Key, list[FunctionType]] = {}
        gc.unfreeze()  # what was frozen after it was collected is not among the objects
        for found in gc.get_objects():
            if type(found) is FunctionType:  # isinstance would ask lazy objects of others
                self._functions.setdefault(key_of(found.__code__), []).append(found)

    def replacements(self, file: str, before: str, after: str) -> Replacements | None:
        """The functions that have other code in a mutant of a file; None if more than that differs.

        ``stale`` says whether one of them has been executed before.

        A function within a function is part of the code of both; if there are live ones already,
        they get the new code, too.
        """
        old, new = (compile(code, file, "exec", dont_inherit=True) for code in (before, after))
        replaced: dict[Key, CodeType] = {}
        stale = False
        known = [key_of(code) for code in _all(old)]
        for path in _changes(((old, new),)):
            stale = stale or key_of(path[-1][0]) in self._ran
            live = {key_of(was): now for was, now in path if key_of(was) in self._functions}
            if not live or any(known.count(key) > 1 for key in live):  # two lambdas in a line
                return None
            replaced.update(live)
        functions = [(f, code) for key, code in replaced.items() for f in self._functions[key]]
        if any(f.__code__.co_freevars != code.co_freevars for f, code in functions):
            return None
        return Replacements(functions, stale)


Path = tuple[tuple[CodeType, CodeType], ...]
"""From the module down to a function within it: the code before and after."""


def _changes(path: Path) -> Iterator[Path]:
    """The paths to all code that differs by itself, not by the functions within it alone."""
    before, after = path[-1]
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (before, after)]
    if _by_itself(before) != _by_itself(after):
        yield path
        return
    for pair in zip(*inner, strict=True):
        yield from _changes((*path, pair))


def _by_itself(code: CodeType) -> tuple[Any, ...]:
    # Constants as they are written: 1, 1.0 and True are equal, and so are 0.0 and −0.0.
    constants = [
        code_or.co_name if isinstance(code_or, CodeType) else repr(code_or)
        for code_or in code.co_consts
    ]
    return (
        *(code.co_code, code.co_exceptiontable, code.co_names, constants, code.co_flags),
        *(code.co_varnames, code.co_cellvars, code.co_freevars, code.co_argcount),
        *(code.co_posonlyargcount, code.co_kwonlyargcount),
    )


def _all(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all(constant)
