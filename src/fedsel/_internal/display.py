"""Names and numbers as people read them, and HTML from the package's Jinja2 templates.

Somebody else chose the names of data sets, files, columns and solutions: a terminal could take one
for a command, matplotlib for a formula, a spreadsheet for a program, a browser for an element. What
a template prints is escaped. Jinja2 is imported when the first page is made: a device makes none.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache
from numbers import Integral
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

DASH = "–"
_LONGEST_IN_A_FIGURE = 60
_FORMULA = "=+-@"
"""What a spreadsheet takes for the beginning of a formula, in any width of letters."""
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"  # HTML has no place for these,
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # and these make text look like other text
)
_LONGEST_WORD, _BREAK_AFTER = 24, 12
_UPWARD = Context(prec=4, rounding=ROUND_CEILING)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST_DECIMAL = Decimal("0.001")


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


def shown(cell: str | float | None, digits: int, *, scientific: bool = False) -> str:
    """A value as a table shows it, a float with ``digits`` decimals.

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


def duration(seconds: float, *, whole: bool = False) -> str:
    """A measured time in at most two units; ``whole`` seconds where it is shown again and again.

    >>> [duration(s) for s in (0.04, 12.34, 192, 3600, 3725, 200_000)]
    ['0.04 s', '12.3 s', '3 min 12 s', '1 h', '1 h 2 min', '2 d 7 h']
    >>> duration(12.99, whole=True)
    '12 s'
    """
    if seconds < 60 and not whole:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    left, parts = int(seconds) if whole else round(seconds), list[str]()
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        parts += [f"{left // size} {name}"] if parts or left >= size else []
        left %= size
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "report"), counted(12345, "report")
    ('1 report', '12,345 reports')
    """
    return f"{shown(number, 0)} {thing}{'' if number == 1 else 's'}"


def upper_bound(value: float | Fraction) -> str:
    """A number ≥ 0 with four digits: as it is where it is short, else rounded up.

    >>> [upper_bound(x) for x in (2.0, 0.19992341, Fraction(1, 3), 123_456, 1e-6, 2.50001e-7)]
    ['2', '0.2', '0.3334', '123500', '10⁻⁶', '2.501·10⁻⁷']
    """
    exact = Fraction(value) if isinstance(value, Integral | Fraction) else Fraction(str(value))
    number = _UPWARD.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize()
    if not number or number >= _LEAST_DECIMAL:
        return f"{number:f}"
    power = number.adjusted()
    mantissa, ten = number.scaleb(-power), f"10{str(power).translate(_RAISED)}"
    return ten if mantissa == 1 else f"{mantissa:f}·{ten}"


def about(seconds: float) -> str:
    """A time that is only an estimate: two units would say more than is known.

    >>> [about(s) for s in (3, 44, 192, 3725, 9000, 200_000)]
    ['under 10 s', 'about 40 s', 'about 3 min', 'about 1.0 h', 'about 2.5 h', 'about 2.3 d']
    """
    if seconds < 10:
        return "under 10 s"
    if seconds < 60:
        return f"about {10 * round(seconds / 10)} s"
    if seconds < 3570:
        return f"about {round(seconds / 60)} min"
    if seconds < 86400:
        return f"about {seconds / 3600:.1f} h"
    return f"about {seconds / 86400:.1f} d"


def rendered(template: str, **values: Any) -> str:
    """The text of a template, named by its path in the package."""
    text = _environment().get_template(template).render(values)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def macro(template: str, name: str, **values: Any) -> Markup:
    """What a macro of a template makes of these values."""
    made = getattr(_environment().get_template(template).module, name)(**values)
    return safe(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", made).strip())


def safe(html: str) -> Markup:
    """Text that is HTML already, to be printed as it is."""
    from markupsafe import Markup

    return Markup(html)  # noqa: S704 (of the package's own files and templates)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("fedsel", ""),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "counted": counted,
        "duration": duration,
        "shown": shown,
        "url_path": lambda name: quote(name, safe="/", errors="replace"),
        "words": _words,
    }
    return made


def _words(text: str) -> Markup:
    """Text whose lines break between words alone: EXP-PM and --jobs stay whole.

    A word of hundreds of letters does break: it would push a table off the paper.

    >>> print(_words("EXP-PM < " + "x" * 25))
    <span class="word">EXP-PM</span> &lt; xxxxxxxxxxxx<wbr>xxxxxxxxxxxx<wbr>x
    """
    return safe("").join(_word(piece) for piece in re.split(r"(\s+)", text))


def _word(word: str) -> str:
    if len(word) > _LONGEST_WORD:
        parts = [word[at : at + _BREAK_AFTER] for at in range(0, len(word), _BREAK_AFTER)]
        return safe("<wbr>").join(parts)
    return safe('<span class="word">{}</span>').format(word) if "-" in word else word
