"""The content of a page: sections with text, figures, tables and verdicts, all plain text."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING

from fedsel._internal.display import DASH, shown
from fedsel.errors import InvalidArgument
from fedsel.pages._formats import grid, latex

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as Grid

Cell = str | float | int | None
"""The value of a table cell."""
_LEADING = re.compile(
    r"\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?:(?:±|%|…|×|\().*|[a-zµ]{1,3}|[*†])?",
    re.IGNORECASE,
)


_WIDTH = re.compile(r'<svg\b[^>]*\bwidth="([0-9.]+)pt"')


@dataclass(frozen=True)
class Table:
    """A table. None is shown as a dash, a float with ``digits`` decimals.

    ``bold`` has the places (row, column) of cells that stand out, such as the best of each column,
    ``faint`` the rows that count less. On a terminal that is too narrow the ``optional`` columns
    are left out, in their order.

    >>> table = Table("Gains", ("data", "PS-PM"), (("BANK", 1.25), ("KDD", None)))
    >>> table.numeric, table.texts
    ((False, True), (('BANK', '1.25'), ('KDD', '–')))
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 2
    bold: frozenset[tuple[int, int]] = frozenset()
    faint: frozenset[int] = frozenset()
    optional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidArgument("row", row, f"{len(self.columns)} cells, one a column")

    def _column(self, place: int) -> list[Cell]:
        return [row[place] for row in self.rows]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each column, whether all its values are numbers or begin with one."""
        return tuple(_is_numeric(self._column(i)) for i in range(len(self.columns)))

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The displayed rows. A column of tiny or huge floats uses exponents."""
        exponents = [_is_extreme(self._column(i), self.digits) for i in range(len(self.columns))]
        return tuple(
            tuple(
                shown(cell, self.digits, scientific=scientific)
                for cell, scientific in zip(row, exponents, strict=True)
            )
            for row in self.rows
        )

    def to_latex(self, label: str = "") -> str:
        """The table for a paper, by the package booktabs. All text is escaped.

        Title, note and ``label`` come first, as comments.
        """
        return latex(self, label)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Grid]:
        """The table on a terminal, by rich."""
        yield grid(self, console, options)

    @property
    def sort_keys(self) -> tuple[tuple[str | None, ...], ...]:
        """The sort keys of the rows, as JavaScript reads them."""
        numeric = self.numeric
        return tuple(
            tuple(_sort_key(c) if n else None for c, n in zip(row, numeric, strict=True))
            for row in self.rows
        )


def _sort_key(cell: Cell) -> str | None:
    number = as_number(cell)
    return None if number is None else repr(number).replace("inf", "Infinity")


def as_number(cell: Cell) -> float | None:
    """The number that a cell is, or begins with.

    >>> [as_number(c) for c in (2, "−1.5 ± 0.2", "10,000", "3 ms", "81 %", "0.4*", "syn-L", None)]
    [2.0, -1.5, 10000.0, 3.0, 81.0, 0.4, None, None]
    """
    if isinstance(cell, str):
        match = _LEADING.fullmatch(cell.replace("\N{MINUS SIGN}", "-"))
        return float(match[1].replace(",", "")) if match else None
    return None if cell is None or math.isnan(cell) else float(cell)


def _is_numeric(column: Sequence[Cell]) -> bool:
    """Whether every value of a column is a number or begins with one.

    >>> _is_numeric([1, None, 2.5]), _is_numeric(["1 ± 2", "a"]), _is_numeric([None])
    (True, False, False)
    """
    filled = [c for c in column if c is not None and c != DASH]
    return bool(filled) and all(isinstance(c, Real) or as_number(c) is not None for c in filled)


def _is_extreme(column: Sequence[Cell], digits: int) -> bool:
    """Whether all floats of a column would be zeros with this many decimals, or one is huge.

    >>> _is_extreme([1e-6, 2e-5], 2), _is_extreme([1e-6, 1.0], 2), _is_extreme([1e12], 2)
    (True, False, True)
    """
    floats = [abs(c) for c in column if isinstance(c, float) and math.isfinite(c)]
    largest = max(floats, default=0.0)
    return largest >= 1e9 or 0 < largest < 0.5 * 10.0**-digits


class Kind(Enum):
    """The kinds of verdicts, in the order in which they are listed."""

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


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim.

    >>> [Verdict("", "", v, "", "").kind.key for v in ("holds", "Does not hold", "see below")]
    ['holds', 'fails', 'other']
    >>> [Verdict("", "", f"holds in {n} of 16", "", "").kind.key for n in (0, 14, 16)]
    ['fails', 'partly', 'holds']
    """

    claim: str
    """The claim in our words."""
    where: str
    """Where the claim is made: "Section 5.3", "my_module.respond"."""
    verdict: str
    """ "holds", "holds for α in …", "holds in 14 of 16", "does not hold", "not measured"."""
    numbers: str
    """One sentence with the figures."""
    command: str
    """The command that repeats the test."""

    @property
    def kind(self) -> Kind:
        """The kind of the verdict, read from its first words."""
        text = " ".join(self.verdict.lower().split()).rstrip(".")
        if counted := re.fullmatch(r"holds in (\d+) of (\d+)\b.*", text):
            some, total = int(counted[1]), int(counted[2])
            return Kind.FAILS if some == 0 else Kind.HOLDS if some == total else Kind.PARTLY
        if text == "holds":
            return Kind.HOLDS
        beginnings = {
            "holds": Kind.PARTLY,
            "does not hold": Kind.FAILS,
            "not measured": Kind.UNMEASURED,
        }
        found = (kind for start, kind in beginnings.items() if re.match(rf"{start}\b", text))
        return next(found, Kind.OTHER)


@dataclass(frozen=True)
class Figure:
    """A drawing by matplotlib (`svg_of`), its caption, and its alt text."""

    svg: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if _WIDTH.search(self.svg) is None:
            raise InvalidArgument("svg", self.svg, "an SVG document with its width in points")

    @property
    def source(self) -> str:
        """The drawing as the address of an image, which loads nothing."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"

    @property
    def least_width(self) -> int:
        """Half of its width, in pixels: where a page is narrower than that, the drawing scrolls."""
        found = _WIDTH.search(self.svg)
        return round(float(found[1]) * 96 / 72 / 2) if found else 0


@dataclass(frozen=True)
class Section:
    """One section of a page: what was done, the results, and how to repeat it."""

    name: str
    """The anchor: "table3"."""
    title: str
    where: str = ""
    """A line above the title: "Table 3"."""
    text: tuple[str, ...] = ()
    """Paragraphs."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Named values below the text."""
    points: tuple[str, ...] = ()
    """A bulleted list below the named values."""
    command: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[str, ...] = ()
    """What could not be run, and the remedy."""
    notice: str = "Not everything could be run"
    """The title above ``missing``."""
    files: tuple[str, ...] = ()
    """Names of files beside the page."""
    seconds: float | None = None

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of its verdicts, each once."""
        return sorted({v.kind for v in self.verdicts}, key=lambda kind: kind.rank)


@dataclass(frozen=True)
class Overview:
    """A table of every section's verdicts, before the sections."""

    title: str = "The claims at a glance"
    where: str = "Where"
    """The heading of the column with the claims' places."""
    nothing: str = "No claim was put to the test."
    """The sentence of a page without verdicts."""
