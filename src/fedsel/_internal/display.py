"""Names that somebody else chose, shown so that they are read and do nothing.

A data set, a file, a column or a solution may be called anything: what a terminal takes for a
command, matplotlib for a formula, or a spreadsheet for a program.
"""

from __future__ import annotations

import unicodedata

_LONGEST_IN_A_FIGURE = 60
_FORMULA = "=+-@"
"""What a spreadsheet takes for the beginning of a formula, in any width of letters."""


def printable(text: object, *, lines: bool = False) -> str:
    """Text on one line (or on its own ``lines``), with escapes for what cannot be seen.

    Those are control characters, line breaks, marks that change the direction of writing, and
    bytes that are no text.

    >>> print(printable("a\\x1b[31m\\n\\u202eb"))
    a\\x1b[31m\\n\\u202eb
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    kept = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode("ascii")
        for c in plain
    )


def in_figure(text: object) -> str:
    """Text for matplotlib: no formula, not too long for a title, and not left out of a legend.

    >>> print(in_figure("$x$.csv"))
    \\$x\\$.csv
    """
    plain = printable(text)
    if len(plain) > _LONGEST_IN_A_FIGURE:
        plain = plain[: _LONGEST_IN_A_FIGURE - 1] + "…"
    hidden = plain.startswith("_")  # matplotlib's sign for "not in the legend"
    return (" " if hidden else "") + plain.replace("$", r"\$")


def in_cell(value: object) -> object:
    """A value for a cell of a CSV file: a text that would be a formula gets an apostrophe.

    >>> [in_cell(value) for value in ("=1+1", "a=1", -1.5, None)]
    ["'=1+1", 'a=1', -1.5, None]
    """
    if not isinstance(value, str):
        return value
    plain = printable(value)
    first = unicodedata.normalize("NFKC", plain.lstrip()[:1])
    return f"'{plain}" if first and first in _FORMULA else plain
