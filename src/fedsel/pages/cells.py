"""Cells of a table: how a value is shown, and by which number it is sorted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from numbers import Integral, Real

from fedsel.pages.model import Cell

DASH = "–"
_LEADING = re.compile(
    r"\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?:(?:±|%|…|×|\().*|[a-zµ]{1,3})?",
    re.IGNORECASE,
)


def as_number(cell: Cell) -> float | None:
    """The number that a cell is or begins with.

    >>> [as_number(c) for c in (2, "−1.5 ± 0.2", "10,000", "3 ms", "81 %", "syn-L", None)]
    [2.0, -1.5, 10000.0, 3.0, 81.0, None, None]
    """
    if isinstance(cell, str):
        match = _LEADING.fullmatch(cell.replace("\N{MINUS SIGN}", "-"))
        return float(match[1].replace(",", "")) if match else None
    return None if cell is None or math.isnan(cell) else float(cell)


def is_numeric(column: Sequence[Cell]) -> bool:
    """Whether every value of a column is a number or begins with one.

    >>> is_numeric([1, None, 2.5]), is_numeric(["1 ± 2", "a"]), is_numeric([None])
    (True, False, False)
    """
    filled = [c for c in column if c is not None and c != DASH]
    numbers = [c for c in filled if isinstance(c, Real) or as_number(c) is not None]
    return bool(filled) and len(filled) == len(numbers)


def is_scientific(column: Sequence[Cell], digits: int) -> bool:
    """Whether floats of a column would all be zeros with so many decimals, or are huge.

    >>> is_scientific([1e-6, 2e-5], 2), is_scientific([1e-6, 1.0], 2), is_scientific([1e12], 2)
    (True, False, True)
    """
    floats = [abs(c) for c in column if isinstance(c, float) and math.isfinite(c)]
    largest = max(floats, default=0.0)
    return largest >= 1e9 or 0 < largest < 0.5 * 10.0**-digits


def shown(cell: Cell, digits: int, *, scientific: bool = False) -> str:
    """A cell in words.

    >>> [shown(c, 2) for c in (None, 0.125, -1.5, -0.001, 12345, float("inf"), "x", True)]
    ['–', '0.12', '−1.50', '0.00', '12,345', '∞', 'x', 'yes']
    >>> shown(1.234e-6, 2, scientific=True)
    '1.23e−6'
    """
    if cell is None or isinstance(cell, str):
        return DASH if cell is None else cell
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Integral):
        text = f"{int(cell):,}" if abs(int(cell)) >= 10_000 else str(int(cell))
    elif math.isnan(cell):
        return "not a number"
    elif math.isinf(cell):
        text = "∞" if cell > 0 else "-∞"
    elif scientific:
        text = re.sub(r"e([+-])0*(\d)", lambda e: f"e{e[1].strip('+')}{e[2]}", f"{cell:.{digits}e}")
    else:
        text = f"{cell:,.{digits}f}" if abs(cell) >= 10_000 else f"{cell:.{digits}f}"
        if not text.strip("-0."):
            text = text.lstrip("-")
    return text.replace("-", "\N{MINUS SIGN}")


def duration(seconds: float) -> str:
    """A time in words.

    >>> [duration(s) for s in (0.04, 12.34, 192, 3725)]
    ['0.04 s', '12.3 s', '3 min 12 s', '1 h 2 min']
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
