"""HTML from the package's Jinja2 templates: what a template prints is escaped.

Jinja2 is imported when the first page is made, for a device makes none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fedsel._internal.display import counted, duration, shown

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"  # HTML has no place for these,
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # and these make text look like other text
)
_LONGEST_WORD, _BREAK_AFTER = 24, 12


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
