"""The files of the test vectors: how they are written, and whether they are still right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.vectors import (
    draws,
    laws,
    ledgers,
    messages,
    policies,
    public,
    questions,
    reports,
    requests,
    server,
    updates,
    windows,
)
from tools.vectors.comparing import differences_of
from tools.vectors.encoding import Case

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
    windows,
    questions,
)
KINDS: dict[str, tuple[str, Callable[[], Iterator[Case]]]] = {
    module.__name__.rpartition(".")[2]: (module.ABOUT, module.cases) for module in _MODULES
}
"""What each file is about, and where its cases come from."""


def text_of(kind: str) -> str:
    """A file of vectors: JSON, one case a line."""
    about, cases = KINDS[kind]
    head = f'{{"kind":{_json(kind)},"version":{VERSION},"about":{_json(about)},"cases":[\n'
    return head + ",\n".join(_json(case) for case in cases()) + "\n]}\n"


def file_of(folder: Path, kind: str) -> Path:
    """Where the vectors of a kind are."""
    return folder / f"{kind}.json"


def write(folder: Path, kind: str) -> int:
    """Write the file of a kind; how many cases it has."""
    text = text_of(kind)
    file_of(folder, kind).write_text(text, encoding="utf-8", newline="\n")
    return _count(text)


def differences(folder: Path, kind: str) -> list[str]:
    """Where a file differs from what fedsel makes of the same cases today; none where it does not.

    Numbers within the tolerance that their case states do not differ.
    """
    try:
        text = file_of(folder, kind).read_text(encoding="utf-8")
        found = json.loads(text)
    except FileNotFoundError:
        return [f"{kind}: there is no such file"]
    except ValueError:
        return [f"{kind}: no JSON"]
    today = text_of(kind)
    if text == today:
        return []
    return list(differences_of(found, json.loads(today), kind))


def _count(text: str) -> int:
    return text.count("\n") - 2


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
