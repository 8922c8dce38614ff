"""A reproduction as one page of Markdown: verdicts, and the tables that one quotes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedsel.display import printable
from fedsel.pages import Table, Verdict
from fedsel.pages.cells import shown
from fedsel.pages.model import Cell

QUOTED = {
    "table1": ("Fitted exponents",),
    "table3": ("Gains and losses (points)",),
    "alpha": ("Where the claim of a row holds",),
    "ablation": ("Points of accuracy at ε = 2",),
    "fair": (
        "Best of each family",
        "At its own best α",
        "One symbol against the paper's solutions",
        "One symbol against the best of all directions",
        "Automatic α and ρ against a grid",
        "ε that an accuracy takes",
    ),
}
"""The tables, by experiment and title, that the summary repeats."""


def markdown(
    title: str,
    lines: Iterable[str],
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Table]],
) -> str:
    """The page; ``tables`` are those of each experiment by name."""
    preamble = [*lines, "; ".join(f"{k}: {v}" for k, v in facts.items())]
    # Paths are among them, and may be called anything.
    parts = [f"# {title}", *(printable(line).replace("<", "&lt;") for line in preamble)]
    rows = [(v.claim, v.where, v.verdict, v.numbers, f"`{v.command}`") for v in verdicts]
    parts += ["## Claims", _table(("claim", "where", "verdict", "numbers", "command"), rows, 2)]
    for name, titles in QUOTED.items():
        for table in tables.get(name, ()):
            if table.title in titles:
                body = [tuple(row) for row in table.rows]
                parts += [f"## {name}: {table.title}", _table(table.columns, body, table.digits)]
                parts += [table.note] if table.note else []
    return "\n\n".join(parts) + "\n"


def _table(headings: Sequence[str], rows: Sequence[tuple[Cell, ...]], digits: int) -> str:
    lines = [_line(h.strip() for h in headings), "|" + "---|" * len(headings)]
    lines += [_line(shown(value, digits) for value in row) for row in rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
