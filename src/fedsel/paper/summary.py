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

FOLDED = 60
"""A table with more rows is folded, by data set and model where it has them."""


def markdown(
    title: str,
    lines: Iterable[str],
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Table]],
) -> str:
    """The page; ``tables`` are those of each experiment by name."""
    # Paths are among the facts, and may be called anything.
    said = [printable(line).replace("<", "&lt;") for line in lines]
    known = [printable(f"- {k}: {v}").replace("<", "&lt;") for k, v in facts.items()]
    parts = [f"# {title}", *said, "\n".join(known)]
    rows = [(v.claim, v.where, v.verdict, v.numbers, f"`{v.command}`") for v in verdicts]
    parts += ["## Claims", _table(("claim", "where", "verdict", "numbers", "command"), rows, 2)]
    for name, titles in QUOTED.items():
        for table in tables.get(name, ()):
            if table.title in titles:
                body = [tuple(row) for row in table.rows]
                parts += [f"## {name}: {table.title}", _folded(table.columns, body, table.digits)]
                parts += [table.note] if table.note else []
    return "\n\n".join(parts) + "\n"


def _folded(headings: Sequence[str], rows: Sequence[tuple[Cell, ...]], digits: int) -> str:
    """The table as it is, or where it is long in parts that are opened one by one."""
    if len(rows) <= FOLDED:
        return _table(headings, rows, digits)
    by = sum(heading in ("data set", "model") for heading in headings[:2])
    parts: dict[tuple[Cell, ...], list[tuple[Cell, ...]]] = {}
    for row in rows:
        parts.setdefault(row[:by], []).append(row[by:])
    return "\n\n".join(
        f'<details markdown="1">\n<summary>{_summary(key, len(part))}</summary>\n\n'
        f"{_table(headings[by:], part, digits)}\n\n</details>"
        for key, part in parts.items()
    )


def _summary(key: Sequence[Cell], rows: int) -> str:
    return ", ".join([*(shown(value, 0) for value in key), f"{rows} rows"])


def _table(headings: Sequence[str], rows: Sequence[tuple[Cell, ...]], digits: int) -> str:
    lines = [_line(h.strip() for h in headings), "|" + "---|" * len(headings)]
    lines += [_line(shown(value, digits) for value in row) for row in rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
