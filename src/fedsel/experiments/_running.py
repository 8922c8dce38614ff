"""Run tasks in parallel, and keep each finished result on disk.

A task is parameters and nothing else; it is cut into parts (training runs), which go through
`fedsel._internal.progress` as one stream. Results do not depend on how the parts are spread.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from fedsel._internal.paths import PACKAGE
from fedsel._internal.progress import in_parallel
from fedsel.errors import InvalidArgument
from fedsel.experiments._sources import Source
from fedsel.solutions import Entry
from fedsel.solutions._registry import adopt, own_entries

Row = dict[str, Any]
_APPLICATION = 0x66656453  # "fedS", in the header of the file


class Task(Protocol):
    """Work in ``parts`` independent parts of some ``cost`` each, and what its result depends on."""

    @property
    def kind(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def parts(self) -> int: ...
    @property
    def cost(self) -> float: ...
    def part(self, number: int, source: Source) -> Any:
        """Compute one part: something that JSON can hold."""

    def combine(self, parts: Sequence[Any]) -> Row:
        """The result from all parts in order; cheap."""


@dataclass(frozen=True)
class Finished:
    """A task with its result, and how long it took when it was computed."""

    task: Task
    row: Row
    seconds: float


def sweep(
    tasks: Iterable[Task],
    source: Source,
    store: Store,
    *,
    jobs: int = 1,
    advance: Callable[[float], object] = abs,
    finished: Callable[[Finished], object] = id,
) -> list[Row]:
    """The results of the tasks in order; only what the store does not hold is computed.

    ``advance`` is called with the cost of what was just done, ``finished`` with each whole result.
    """
    tasks = list(tasks)
    keys = [cache_key(task, source.identity) for task in tasks]
    rows: dict[str, Row] = {}
    todo: dict[str, Task] = {}
    for key, task in dict(zip(keys, tasks, strict=True)).items():
        row = store.get(key)
        if row is None:
            todo[key] = task
            continue
        rows[key] = row
        advance(task.cost * task.parts)
        finished(Finished(task, row, store.seconds(key)))
    units = [(key, task, number) for key, task in todo.items() for number in range(task.parts)]
    own = own_entries()
    work = in_parallel(_timed, ((task, number, source, own) for _, task, number in units), jobs)
    parts: list[Any] = []
    seconds = 0.0
    for (key, task, number), (part, taken) in zip(units, work, strict=True):
        parts.append(part)
        seconds += taken
        advance(task.cost)
        if number == task.parts - 1:
            rows[key] = store.add(key, task, task.combine(parts), seconds)
            finished(Finished(task, rows[key], seconds))
            parts, seconds = [], 0.0
    return [rows[key] for key in keys]


def _timed(task: Task, number: int, source: Source, own: list[Entry]) -> tuple[Any, float]:
    adopt(own)  # this may be another process
    start = time.perf_counter()
    return task.part(number, source), time.perf_counter() - start


@cache
def code_version(module: str) -> str:
    """A name for the code that decides the results of the tasks that a module defines."""
    digest = hashlib.sha256()
    for name, source in sorted(sources_of(module).items()):
        digest.update(name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def sources_of(module: str) -> dict[str, Path]:
    """The files that decide what a module computes, by name.

    These are its own, those of the modules of fedsel, of its own package and of its folder that it
    imports, directly or not, at the top or within a function, and the C sources of the kernels. Of
    a package that merely lies on the way to one of them, ``__init__.py`` counts, but not what that
    imports.
    """
    found: dict[str, Path] = {}
    todo, packages = [module], {PACKAGE.name, module.partition(".")[0], *_neighbours(module)}
    while todo:
        name = todo.pop()
        file = None if name in found else _file_of(name)
        if file is not None:
            found[name] = file
            todo += _imported(ast.parse(file.read_bytes()), packages)
    parts = [name.split(".") for name in found]
    above = {".".join(some[:end]) for some in parts for end in range(1, len(some))}
    found |= {name: file for name in above if (file := _file_of(name))}
    native = (part for kind in ("*.[ch]", "*.inc") for part in PACKAGE.rglob(kind))
    kernels = {part.relative_to(PACKAGE).as_posix(): part for part in native}
    return found | kernels


def _neighbours(module: str) -> set[str]:
    """The modules that are loaded from the folder of a user's module."""
    file = None if module.startswith(f"{PACKAGE.name}.") else _file_of(module)
    loaded = {name: _file_of(name) for name in list(sys.modules) if file and "." not in name}
    return {name for name, one in loaded.items() if one and file and one.parent == file.parent}


def code_of(compose: Callable[..., object]) -> str:
    """A name for the code behind a function of the user."""
    try:
        text = inspect.getsource(compose)
    except (OSError, TypeError):  # no file holds it
        text = repr(getattr(compose, "__code__", compose))
    own = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{own}-{code_version(compose.__module__)}"


def _file_of(module: str) -> Path | None:
    """The source of a module of fedsel, or of one that is loaded; None for any other name."""
    package, *rest = module.split(".")
    if package != PACKAGE.name:
        loaded = getattr(sys.modules.get(module), "__file__", None)
        return None if loaded is None else Path(loaded)
    place = PACKAGE.joinpath(*rest)
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


def _imported(tree: ast.Module, packages: Container[str]) -> Iterator[str]:
    """What of these packages a source may import; a name may be a module or within one."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] in packages)


def cache_key(task: Task, data: str = "") -> str:
    """The key of a task: its exact parameters, a digest of data of one's own, and the code."""
    parts = [task.kind, task.parameters, data, code_version(type(task).__module__)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


class Store:
    """An SQLite file of results, each on the disk when `add` returns.

    Several processes may share one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise InvalidArgument("store", str(path), "a file, not a folder")
        with self._open() as file:
            (application,) = file.execute("PRAGMA application_id").fetchone()
            (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application != _APPLICATION and tables:
                raise InvalidArgument("store", str(path), "a results file of fedsel, or a new file")
            if tables:
                return
            file.execute(f"PRAGMA application_id = {_APPLICATION}")
            file.execute(
                "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, kind TEXT NOT NULL, "
                "parameters TEXT NOT NULL, code TEXT NOT NULL, result TEXT NOT NULL, "
                "seconds REAL NOT NULL, finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)"
            )

    def get(self, key: str) -> Row | None:
        """The result of this key, if there is one."""
        found = self._find("result", key)
        return None if found is None else json.loads(found)

    def seconds(self, key: str) -> float:
        """How long a task took; 0 if it is not here."""
        return float(self._find("seconds", key) or 0.0)

    def _find(self, column: str, key: str) -> Any:
        with self._open() as file:
            query = f"SELECT {column} FROM results WHERE key = ?"  # noqa: S608
            row = file.execute(query, (key,)).fetchone()
        return None if row is None else row[0]

    def add(self, key: str, task: Task, result: Row, seconds: float = 0.0) -> Row:
        """Keep a result on the disk, and return it as it will be read."""
        text, code = json.dumps(result), code_version(type(task).__module__)
        with self._open() as file:
            file.execute(
                "INSERT OR REPLACE INTO results (key, kind, parameters, code, result, seconds) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (key, task.kind, json.dumps(task.parameters), code, text, seconds),
            )
        kept: Row = json.loads(text)
        return kept

    def __len__(self) -> int:
        with self._open() as file:
            return int(file.execute("SELECT count(*) FROM results").fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction: threads and processes need not share any."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as file, file:
                file.execute("PRAGMA synchronous = FULL")
                yield file
        except sqlite3.Error as error:
            wanted = f"a results file of fedsel that can be read and written ({error})"
            raise InvalidArgument("store", str(self.path), wanted) from None
