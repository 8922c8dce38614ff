"""Write the table of docs/proofs/index.md anew from the pages beside it: python tools/proofs.py."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "proofs"
INDEX = FOLDER / "index.md"
STATEMENT = re.compile(r"^## ([A-Z]\d+ .+)$", re.MULTILINE)
CODE = re.compile(r"`((?:fedsel|reproduction)(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LISTED = re.compile(r"^- \[[^]]+\]\((\w+\.md)\)", re.MULTILINE)
HEAD = "| statement | code | checked by |\n|---|---|---|\n"


def statements(page: Path) -> dict[str, str]:
    """The text of each statement of a page by its heading."""
    parts = STATEMENT.split(page.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def slug(heading: str) -> str:
    """The anchor of a heading, the same on every site: of ASCII letters, digits and spaces."""
    if not re.fullmatch(r"[A-Za-z0-9 ]+", heading):
        raise SystemExit(f"{heading}: a heading of a proof has ASCII letters, digits and spaces")
    return heading.lower().replace(" ", "-")


def short(dotted: str) -> str:
    """A name without its modules: a class and its attribute, or a function."""
    parts = dotted.split(".")
    classes = [i for i, part in enumerate(parts) if part[0].isupper()]
    return ".".join(parts[classes[0] if classes else -1 :])


def row(name: str, heading: str, body: str) -> str:
    """The line of one statement."""
    cited, checked = body.split("\n- Checked by:")
    code = [short(dotted) for dotted in CODE.findall(cited)]
    tests = [function for _, function in TEST.findall(checked)]
    cells = ("<br>".join(f"`{text}`" for text in texts) for texts in (code, tests))
    return f"| [{heading}]({name}#{slug(heading)}) | {' | '.join(cells)} |\n"


def table() -> str:
    """The table of all statements, in the order in which the index lists the pages."""
    pages = LISTED.findall(INDEX.read_text(encoding="utf-8"))
    rows = [
        row(name, heading, body)
        for name in pages
        for heading, body in statements(FOLDER / name).items()
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    text = INDEX.read_text(encoding="utf-8")
    before, _, _ = text.partition("| statement |")
    INDEX.write_text(before + table(), encoding="utf-8")
