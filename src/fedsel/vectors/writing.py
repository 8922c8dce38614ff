"""The files of the test vectors: how they are written, and whether they are still right."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedsel.vectors import draws, laws, reports, requests
from fedsel.vectors.encoding import Case

VERSION = 1
"""Of the format. Kinds, cases and fields may be added; nothing is renamed or taken away."""

KINDS: dict[str, tuple[str, Callable[[], Iterator[Case]]]] = {
    module.__name__.rpartition(".")[2]: (module.ABOUT, module.cases)
    for module in (laws, draws, reports, requests)
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
