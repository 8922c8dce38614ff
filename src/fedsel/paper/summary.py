"""A reproduction as one page of Markdown: verdicts, and the tables that one quotes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedsel.display import printable
from fedsel.paper.report import Table, Verdict
from fedsel.paper.report.cells import shown
from fedsel.paper.report.model import Cell

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
    told = [*lines, "; ".join(f"{k}: {v}" for k, v in facts.items())]
    # Paths are among them, and may be called anything.
    parts = [f"# {title}", *(printable(line).replace("<", "&lt;") for line in told)]
    rows = [(v.claim, v.where, v.verdict, v.numbers, f"`{v.command}`") for v in verdicts]
    parts += ["## Claims", _table(("claim", "where", "verdict", "numbers", "command"), rows, 2)]
    for name, titles in QUOTED.items():
        for made in tables.get(name, ()):
            if made.title in titles:
                body = [tuple(row) for row in made.rows]
                parts += [f"## {name}: {made.title}", _table(made.columns, body, made.digits)]
                parts += [made.note] if made.note else []
    return "\n\n".join(parts) + "\n"


def _table(headings: Sequence[str], rows: Sequence[tuple[Cell, ...]], digits: int) -> str:
    lines = [_line(h.strip() for h in headings), "|" + "---|" * len(headings)]
    lines += [_line(shown(value, digits) for value in row) for row in rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
