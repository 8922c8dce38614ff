"""Embed drawings of matplotlib in an HTML page, with unique ids and without style attributes.

A strict security policy forbids ``style`` attributes, so each distinct one becomes a class of the
page's style sheet.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fedsel._internal.display import safe
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_DROPPED = frozenset({"metadata", "script", "style"})
_LOCAL = re.compile(r"url\(\s*['\"]?#([^'\")]+?)['\"]?\s*\)")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_LENGTH = re.compile(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(pt|px|in|cm|mm|pc)?\s*", re.IGNORECASE)
_LEAST_SCALE = 0.5


def svg_of(figure: Figure) -> str:
    """Convert a figure of matplotlib to SVG, without a date."""
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
        """The class for these declarations."""
        if declarations not in self._names:
            self._names[declarations] = f"s{len(self._names) + 1}"
            self.add(f".{self._names[declarations]}", declarations)
        return self._names[declarations]

    def add(self, selector: str, declarations: str) -> None:
        """Add one rule."""
        rule = f"{selector}{{{declarations}}}"
        if re.search(r"[<@\\]", rule) or rule.count("{") + rule.count("}") != 2:
            raise InvalidArgument("style", rule, "plain CSS declarations")
        self._rules.append(rule)

    def text(self) -> str:
        """All rules, in the order of their first use."""
        return "\n".join(self._rules)


def inline(svg: str, *, prefix: str, alt: str, styles: Styles) -> Markup:
    """Convert a drawing to an HTML element with alt text that adapts to the available width.

    Referenced ids are numbered under ``prefix``. Other ids, prolog, comments and metadata are
    dropped, so that the same drawing always gives the same text.

    >>> drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt">'
    >>> drawing += '<g id="a" clip-path="url(#b)"/><clipPath id="b"/></svg>'
    >>> print(inline(drawing, prefix="f-", alt="Nothing", styles=Styles()))
    <svg id="f-0" class="plot s1" viewBox="0 0 9 9" role="img" aria-label="Nothing"><g
    clip-path="url(#f-1)"></g><clipPath id="f-1"></clipPath></svg>
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
    _Rewriter(prefix, root, styles).rewrite(root)
    attributes = _frame(root, styles)
    root.attrib.clear()
    root.attrib.update({"id": f"{prefix}0", **attributes, "role": "img", "aria-label": alt})
    # HTML has no empty-element tags.
    return safe(ElementTree.tostring(root, encoding="unicode", short_empty_elements=False))


def _frame(root: ElementTree.Element, styles: Styles) -> dict[str, str]:
    """Class and view box: the size becomes the maximum; below half of it the drawing scrolls."""
    width, height = (_LENGTH.fullmatch(root.get(side, "")) for side in ("width", "height"))
    box = root.get("viewBox") or (width and height and f"0 0 {width[1]} {height[1]}")
    names = "plot"
    if width:
        unit = width[2] or "px"
        least = float(width[1]) * _LEAST_SCALE
        names += " " + styles.name(f"max-width: {width[1]}{unit}; min-width: {least:g}{unit}")
    return {"class": names} | ({"viewBox": box} if box else {})


class _Rewriter:
    """Replaces ids and styles of one drawing by ids and classes of the page."""

    def __init__(self, prefix: str, root: ElementTree.Element, styles: Styles) -> None:
        self._prefix, self._styles = prefix, styles
        self._numbers: dict[str, str] = {}
        values = [value for node in root.iter() for value in node.attrib.values()]
        self._used = {name for value in values for name in _LOCAL.findall(value)}
        self._used |= {value[1:] for value in values if value.startswith("#")}

    def rewrite(self, node: ElementTree.Element) -> None:
        """Rewrite an element and its descendants."""
        node.tag = node.tag.removeprefix(_SVG)
        node.text = node.text if (node.text or "").strip() else None
        for child in list(node):
            name = child.tag.removeprefix(_SVG)
            if not child.tag.startswith(_SVG) or name in _DROPPED:
                node.remove(child)
                continue
            self.rewrite(child)
            child.tail = child.tail if (child.tail or "").strip() else None
            if name == "defs" and not len(child):
                node.remove(child)
        kept = self._attributes(node)
        node.attrib.clear()
        node.attrib.update(kept)

    def _attributes(self, node: ElementTree.Element) -> dict[str, str]:
        kept: dict[str, str] = {}
        names = node.get("class", "").split()
        for key, raw in node.attrib.items():
            value = " ".join(_LOCAL.sub(lambda m: f"url(#{self._renamed(m[1])})", raw).split())
            if key == "style":
                names += [self._styles.name(declared)] if (declared := value.rstrip("; ")) else []
            elif key == "id":
                kept |= {key: self._renamed(raw)} if raw in self._used else {}
            elif key in ("href", _HREF):
                inner = raw.startswith("#")
                kept["href"] = f"#{self._renamed(raw[1:])}" if inner else value.replace(" ", "")
            elif key == _SPACE:
                kept["xml:space"] = value
            elif key != "class" and not key.startswith("{"):
                kept[key] = value
        return kept | ({"class": " ".join(names)} if names else {})

    def _renamed(self, identifier: str) -> str:
        return self._numbers.setdefault(identifier, f"{self._prefix}{len(self._numbers) + 1}")
