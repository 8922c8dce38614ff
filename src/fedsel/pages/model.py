"""What a page is made of: sections with text, figures, tables and verdicts, all plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from fedsel.errors import InvalidArgument

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """Rows under headings; None is shown as a dash, a float with ``digits`` decimals."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 2

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidArgument("row", row, f"{len(self.columns)} cells, one a column")


@dataclass(frozen=True)
class Verdict:
    """What became of one claim."""

    claim: str
    """The claim in our words."""
    where: str
    """Where it is made: "Section 5.3", "my_module.respond"."""
    verdict: str
    """ "holds", "holds for α in …", "holds in 14 of 16", "does not hold", "not measured"."""
    numbers: str
    """One sentence with the figures."""
    command: str
    """How to repeat it."""

    @property
    def kind(self) -> Kind:
        """The verdict in one of five words."""
        return kind_of(self.verdict)


@dataclass(frozen=True)
class Figure:
    """A drawing as matplotlib writes it, its caption, and what it shows for who cannot see it."""

    svg: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """One subject of a page: what was done, what came out, how to repeat it."""

    name: str
    """The anchor: "table3"."""
    title: str
    where: str = ""
    """A line above the title: "Table 3"."""
    text: tuple[str, ...] = ()
    """Paragraphs."""
    command: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[str, ...] = ()
    """What could not be run, and how to get it."""
    files: tuple[str, ...] = ()
    """Names of files beside the page."""
    seconds: float | None = None


@dataclass(frozen=True)
class Overview:
    """A table of every section's verdicts, before the sections."""

    title: str = "The claims at a glance"
    where: str = "Where"
    """The heading above the places of the claims."""
    nothing: str = "No claim was put to the test."
    """What is said where there is no verdict."""


class Kind(Enum):
    """Verdicts by kind, in the order in which they are listed."""

    HOLDS = ("holds", "Holds")
    PARTLY = ("partly", "Holds in part")
    FAILS = ("fails", "Does not hold")
    UNMEASURED = ("unmeasured", "Not measured")
    OTHER = ("other", "Other")

    def __init__(self, key: str, label: str) -> None:
        self.key, self.label = key, label

    @property
    def rank(self) -> int:
        """The place in the order."""
        return list(Kind).index(self)


def kind_of(verdict: str) -> Kind:
    """The kind of a verdict, from its words.

    >>> [kind_of(v).key for v in ("holds", "Does not hold", "not measured", "see below")]
    ['holds', 'fails', 'unmeasured', 'other']
    >>> [kind_of(f"holds {v}").key for v in ("for α in 0.1 … 2.15", "in 14 of 16", "in 16 of 16")]
    ['partly', 'partly', 'holds']
    >>> kind_of("holds in 0 of 16").key
    'fails'
    """
    text = " ".join(verdict.lower().split()).rstrip(".")
    if counted := re.fullmatch(r"holds in (\d+) of (\d+)\b.*", text):
        some, total = int(counted[1]), int(counted[2])
        return Kind.FAILS if some == 0 else Kind.HOLDS if some == total else Kind.PARTLY
    if text == "holds":
        return Kind.HOLDS
    for start, kind in (
        ("holds", Kind.PARTLY),
        ("does not hold", Kind.FAILS),
        ("not measured", Kind.UNMEASURED),
    ):
        if re.match(rf"{start}\b", text):
            return kind
    return Kind.OTHER
