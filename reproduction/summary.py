"""A reproduction as one page of Markdown: verdicts and the most important tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedsel.pages import Cell, Table, Verdict, shown
from reproduction.console import printable

QUOTED = {
    "table1": ("Fitted exponents",),
    "table3": ("Gains and losses (points)",),
    "alpha": ("Where the claim of a row holds",),
    "ablation": ("Points of accuracy at ε = 2",),
    "fair": (
        "The automatic recipe against the paper's best, tuned",
        "Automatic recipe: records as they are and prepared",
        "Automatic recipe: measures beside accuracy",
        "AUC where accuracy says nothing",
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
    """Render the page; ``tables`` maps each experiment to its tables."""
    # Facts include paths, which may contain any character.
    said = [printable(line).replace("<", "&lt;") for line in lines]
    known = [printable(f"- {k}: {v}").replace("<", "&lt;") for k, v in facts.items()]
    parts = [f"# {title}", *said, "\n".join(known)]
    rows = [claim_cells(verdict) for verdict in verdicts]
    headings = ("claim", "where", "verdict", "numbers", "command")
    parts += ["## Claims", pipe_table(headings, rows, 2)]
    for name, titles in QUOTED.items():
        for table in tables.get(name, ()):
            if table.title in titles:
                parts += section(name, table)
    return "\n\n".join(parts) + "\n"


def claim_cells(verdict: Verdict) -> tuple[str, ...]:
    """The cells of a row in the table of claims."""
    v = verdict
    return (v.claim, v.where, v.verdict, v.numbers, f"`{v.command}`")


def section(name: str, table: Table) -> list[str]:
    """Format a table under its heading, with its note if it has one."""
    body = [tuple(row) for row in table.rows]
    parts = [f"## {name}: {table.title}", _folded(table.columns, body, table.digits)]
    return [*parts, table.note] if table.note else parts


def _folded(headings: Sequence[str], rows: Sequence[tuple[Cell, ...]], digits: int) -> str:
    """Format the table; a long one in parts that are opened one by one."""
    if len(rows) <= FOLDED:
        return pipe_table(headings, rows, digits)
    by = sum(heading in ("data set", "model") for heading in headings[:2])
    parts: dict[tuple[Cell, ...], list[tuple[Cell, ...]]] = {}
    for row in rows:
        parts.setdefault(row[:by], []).append(row[by:])
    return "\n\n".join(
        f'<details markdown="1">\n<summary>{_summary(key, len(part))}</summary>\n\n'
        f"{pipe_table(headings[by:], part, digits)}\n\n</details>"
        for key, part in parts.items()
    )


def _summary(key: Sequence[Cell], rows: int) -> str:
    return ", ".join([*(shown(value, 0) for value in key), f"{rows} rows"])


def pipe_table(headings: Sequence[str], rows: Sequence[tuple[Cell, ...]], digits: int) -> str:
    """Format a table in Markdown."""
    lines = [pipe_row(h.strip() for h in headings), "|" + "---|" * len(headings)]
    lines += [pipe_row(shown(value, digits) for value in row) for row in rows]
    return "\n".join(lines)


def pipe_row(cells: Iterable[str]) -> str:
    """Format cells as a line of Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
