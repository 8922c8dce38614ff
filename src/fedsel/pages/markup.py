"""HTML elements from Python calls: whatever is not markup already is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_VOID = frozenset({"br", "link", "meta"})
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"  # what HTML has no place for
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # what makes text look like other text
)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Plain text as HTML, fit for an element and for a quoted attribute.

    >>> escaped('<a href="x">')
    '&lt;a href=&quot;x&quot;&gt;'
    """
    return text if isinstance(text, Markup) else Markup(escape(_UNPRINTABLE.sub(_UNKNOWN, text)))


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """Parts one after the other, plain text escaped."""
    return Markup(between.join(escaped(part) for part in parts))


def element(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """An element. ``class_`` is class, ``data_kind`` is data-kind; None and False leave one out.

    >>> element("a", "1 < 2", href="#x", class_="quiet", hidden=True, title=None)
    '<a href="#x" class="quiet" hidden>1 &lt; 2</a>'
    """
    written = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(attribute)
        elif value is not None and value is not False:
            written.append(f'{attribute}="{escape(_UNPRINTABLE.sub(_UNKNOWN, value))}"')
    opened = f"<{' '.join(written)}>"
    return Markup(opened if name in _VOID else f"{opened}{joined(children)}</{name}>")
