"""List the pages of proofs in docs/proofs/index.md: python tools/proofs.py."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "proofs"
INDEX = FOLDER / "index.md"
STATEMENT = re.compile(r"^## ([A-Z]\d+ .+)$", re.MULTILINE)
CODE = re.compile(r"`((?:fedsel|reproduction)(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ABOUT = {
    "exact": "comparing rationals with e^ε",
    "sampling": "every random decision of a device has its exact law",
    "selection": "EXP, PS and PE, and why the paper's Lemma 2 is false",
    "values": "Duchi, PM, HM and OW: loss, mean and variance",
    "reports": "two stages, flat picks, J and UJ",
    "transforms": "rotated bases, RJ and FJ, and how far one report moves the mean",
    "composition": "several reports, charges, the ledger, and all that a device ever sends",
    "preparation": "preparing rounds and public rows",
    "shuffling": "the central guarantee of shuffled reports",
    "shuffler": "what the shuffler and the server learn",
}
"""The pages in their order, and what their statements are about."""


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
    """A line for each page: its title, the numbers of its statements, and what they are about."""
    lines = []
    for name, about in ABOUT.items():
        page = FOLDER / f"{name}.md"
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        numbers = [heading.split()[0] for heading in statements(page)]
        lines.append(f"- [{title}]({name}.md): {numbers[0]}–{numbers[-1]}, {about}\n")
    return "".join(lines)


if __name__ == "__main__":
    before, heading, _ = INDEX.read_text(encoding="utf-8").partition("## Statements\n\n")
    INDEX.write_text(before + heading + listing(), encoding="utf-8")
