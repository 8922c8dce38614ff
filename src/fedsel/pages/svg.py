"""Drawings of matplotlib inside an HTML page: no ids in common, no style of their own.

A page with a strict security policy takes no ``style`` attribute, so each distinct one becomes a
class of the page's one style sheet.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fedsel.errors import InvalidArgument
from fedsel.pages.markup import Markup, escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_PREFIXED = {
    "{http://www.w3.org/1999/xlink}href": "href",
    "{http://www.w3.org/XML/1998/namespace}space": "xml:space",
}
_DROPPED = frozenset({"metadata", "script", "style"})
_LOCAL = re.compile(r"url\(\s*['\"]?#([^'\")]+?)['\"]?\s*\)")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_LENGTH = re.compile(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(pt|px|in|cm|mm|pc)?\s*", re.IGNORECASE)
_LEAST_SCALE = 0.5


def svg_of(figure: Figure) -> str:
    """A figure of matplotlib as SVG, without a date: the same figure gives the same text."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


class Styles:
    """Rules for the page's style sheet, each distinct one once.

    >>> styles = Styles()
    >>> styles.name("fill: none"), styles.name("stroke: red"), styles.name("fill: none")
    ('s1', 's2', 's1')
    >>> print(styles.text())
    .s1{fill: none}
    .s2{stroke: red}
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._rules: list[str] = []

    def name(self, declarations: str) -> str:
        """The class that stands for these declarations."""
        if declarations not in self._names:
            self._names[declarations] = f"s{len(self._names) + 1}"
            self.add(f".{self._names[declarations]}", declarations)
        return self._names[declarations]

    def add(self, selector: str, declarations: str) -> None:
        """One rule."""
        rule = f"{selector}{{{declarations}}}"
        if re.search(r"[<@\\]", rule) or rule.count("{") + rule.count("}") != 2:
            raise InvalidArgument("style", rule, "plain CSS declarations")
        self._rules.append(rule)

    def text(self) -> str:
        """All rules, in the order in which they came."""
        return "\n".join(self._rules)


def inline(svg: str, *, prefix: str, alt: str, styles: Styles) -> Markup:
    """The drawing as an element of an HTML page, named by ``alt``, as wide as there is room.

    Ids that something refers to are numbered under ``prefix``, all others are dropped, as are
    prolog, comments and metadata, so that the same drawing always gives the same text.

    >>> drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt">'
    >>> drawing += '<g id="a" clip-path="url(#b)"/><clipPath id="b"/></svg>'
    >>> inline(drawing, prefix="f-", alt="Nothing", styles=Styles())
    '<svg id="f-0" class="plot s1" viewBox="0 0 9 9" role="img" aria-label="Nothing"><g
    clip-path="url(#f-1)"></g><clipPath id="f-1"></clipPath></svg>'
    """
    try:
        root = ElementTree.fromstring(svg)  # noqa: S314 (our own drawing)
    except ElementTree.ParseError as error:
        raise InvalidArgument("svg", svg, f"well-formed: {error}") from None
    if root.tag != f"{_SVG}svg":
        raise InvalidArgument("svg", svg, "an SVG document")
    for style in root.iter(f"{_SVG}style"):
        for selectors, declarations in _RULE.findall(style.text or ""):
            for selector in selectors.split(","):  # no weightier than it was: below any class
                styles.add(f":where(#{prefix}0) {selector.strip()}", declarations.strip())
    writer = _Writer(prefix, _referred_to(root), styles)
    opening = _opening(root, f"{prefix}0", alt, styles)
    return Markup(f"{opening}{writer.content(root)}</svg>")


def _referred_to(root: ElementTree.Element) -> set[str]:
    identifiers: set[str] = set()
    for node in root.iter():
        for key, value in node.attrib.items():
            identifiers.update(_LOCAL.findall(value))
            if _PREFIXED.get(key, key) == "href" and value.startswith("#"):
                identifiers.add(value[1:])
    return identifiers


def _opening(root: ElementTree.Element, identifier: str, alt: str, styles: Styles) -> str:
    """The root: its size becomes a limit; small screens scroll before it gets illegible."""
    width, height = (_LENGTH.fullmatch(root.get(side, "")) for side in ("width", "height"))
    box = root.get("viewBox") or (width and height and f"0 0 {width[1]} {height[1]}")
    names = ["plot"]
    if width:
        unit = width[2] or "px"
        least = float(width[1]) * _LEAST_SCALE
        names.append(styles.name(f"max-width: {width[1]}{unit}; min-width: {least:g}{unit}"))
    viewed = f' viewBox="{escaped(box)}"' if box else ""
    return (
        f'<svg id="{identifier}" class="{" ".join(names)}"{viewed} role="img" '
        f'aria-label="{escaped(alt)}">'
    )


class _Writer:
    """Writes elements, with ids and styles as the page has them."""

    def __init__(self, prefix: str, wanted: set[str], styles: Styles) -> None:
        self._prefix, self._wanted, self._styles = prefix, wanted, styles
        self._numbers: dict[str, str] = {}

    def content(self, node: ElementTree.Element) -> str:
        """Text and elements within an element."""
        parts = [_text(node.text)]
        for child in node:
            parts += [self._element(child), _text(child.tail)]
        return "".join(parts)

    def _element(self, node: ElementTree.Element) -> str:
        name = node.tag.removeprefix(_SVG)
        if not node.tag.startswith(_SVG) or name in _DROPPED:
            return ""
        inside = self.content(node)
        if name == "defs" and not inside:
            return ""
        return f"<{name}{self._attributes(node)}>{inside}</{name}>"

    def _attributes(self, node: ElementTree.Element) -> str:
        kept: dict[str, str] = {}
        names = node.get("class", "").split()
        for qualified, raw in node.attrib.items():
            key = _PREFIXED.get(qualified, qualified)
            value = " ".join(_LOCAL.sub(lambda m: f"url(#{self._renamed(m[1])})", raw).split())
            if key == "style":
                names += [self._styles.name(declared)] if (declared := value.rstrip("; ")) else []
            elif key == "id":
                kept |= {key: self._renamed(raw)} if raw in self._wanted else {}
            elif key == "href":
                inner = raw.startswith("#")
                kept[key] = f"#{self._renamed(raw[1:])}" if inner else value.replace(" ", "")
            elif key != "class" and not key.startswith("{"):
                kept[key] = value
        if names:
            kept["class"] = " ".join(names)
        return "".join(f' {key}="{escaped(value)}"' for key, value in kept.items())

    def _renamed(self, identifier: str) -> str:
        return self._numbers.setdefault(identifier, f"{self._prefix}{len(self._numbers) + 1}")


def _text(text: str | None) -> str:
    return escaped(text) if text and text.strip() else ""
