"""The files of the test vectors: how they are written, and whether they are still right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from fedsel.vectors import (
    draws,
    laws,
    ledgers,
    messages,
    policies,
    public,
    reports,
    requests,
    server,
    updates,
)
from fedsel.vectors.encoding import Case

VERSION = 1
"""Of the format. Kinds, cases and fields may be added; nothing is renamed or taken away."""

_MODULES = (
    laws,
    public,
    draws,
    reports,
    requests,
    messages,
    policies,
    ledgers,
    updates,
    server,
)
KINDS: dict[str, tuple[str, Callable[[], Iterator[Case]]]] = {
    module.__name__.rpartition(".")[2]: (module.ABOUT, module.cases) for module in _MODULES
}
"""What each file is about, and where its cases come from."""


def text_of(kind: str) -> str:
    """A file of vectors: JSON, one case a line."""
    about, cases = KINDS[kind]
    head = f'{{"kind": {_json(kind)}, "version": {VERSION}, "about": {_json(about)}, "cases": [\n'
    return head + ",\n".join(_json(case) for case in cases()) + "\n]}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write(folder: Path, kind: str) -> Path:
    """Write the file of a kind."""
    file = folder / f"{kind}.json"
    file.write_text(text_of(kind), encoding="utf-8", newline="\n")
    return file
