"""List the statements of all proofs in docs/proofs/index.md: python tools/proofs.py."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "proofs"
INDEX = FOLDER / "index.md"
STATEMENT = re.compile(r"^## ([A-Z]\d+ .+)$", re.MULTILINE)
CODE = re.compile(r"`((?:fedsel|reproduction)(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ORDER = (
    *("exact", "sampling", "selection", "values", "reports", "transforms", "composition"),
    *("preparation", "shuffling", "shuffler"),
)


def statements(page: Path) -> dict[str, str]:
    """The text of each statement of a page by its heading."""
    parts = STATEMENT.split(page.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def slug(heading: str) -> str:
    """The anchor of a heading, the same on every site: of ASCII letters, digits and spaces."""
    if not re.fullmatch(r"[A-Za-z0-9 ]+", heading):
        raise SystemExit(f"{heading}: a heading of a proof has ASCII letters, digits and spaces")
    return heading.lower().replace(" ", "-")


def listing() -> str:
    """The statements of all pages, a line for each page."""
    lines = []
    for name in ORDER:
        page = FOLDER / f"{name}.md"
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        links = (f"[{heading}]({name}.md#{slug(heading)})" for heading in statements(page))
        lines.append(f"- **[{title}]({name}.md)**: {'; '.join(links)}\n")
    return "".join(lines)


if __name__ == "__main__":
    before, heading, _ = INDEX.read_text(encoding="utf-8").partition("## Statements\n\n")
    INDEX.write_text(before + heading + listing(), encoding="utf-8")
