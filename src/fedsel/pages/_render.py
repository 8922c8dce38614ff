"""Render sections as one HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from fedsel._internal.display import rendered, safe
from fedsel.pages._model import Kind, Overview, Section


def render(
    sections: Sequence[Section],
    *,
    title: str,
    summary: Sequence[str],
    facts: Mapping[str, str],
    overview: Overview | None = None,
) -> str:
    """Render a self-contained HTML page. Text is escaped; drawings are images, which run nothing.

    An ``overview`` lists the verdicts of all sections at the top. A table of contents appears if it
    has at least two entries.

    >>> page = render([], title="a < b", summary=[], facts={})
    >>> "<h1>a &lt; b</h1>" in page, "Nothing was run" in page, "<nav" in page
    (True, True, False)
    """
    named = list(zip(_anchors([s.name for s in sections]), sections, strict=True))
    verdicts = [(anchor, section, v) for anchor, section in named for v in section.verdicts]
    kinds = [verdict.kind for *_, verdict in verdicts]
    widths = sorted({f.least_width for section in sections for f in section.figures})
    rules = (f".least{width} {{ min-width: {width}px; }}\n" for width in widths)
    style = _resource("page.css") + "".join(rules)
    script = _resource("page.js")
    return rendered(
        "pages/page.html",
        title=title,
        summary=summary,
        facts=facts,
        overview=overview,
        sections=named,
        verdicts=verdicts,
        tally=[(kind, kinds.count(kind)) for kind in Kind if kind in kinds],
        style=safe(style),
        script=safe(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def write_page(path: Path, page: str) -> None:
    """Write a page atomically."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(page, encoding="utf-8")
    fresh.replace(path)


def _anchors(names: Sequence[str]) -> list[str]:
    """Turn names into unique anchors with single hyphens, which no other id of the page has.

    >>> _anchors(["table3", "fig 2(a)", "table3", "--"])
    ['table3', 'fig-2-a', 'table3-2', 'section']
    """
    unique: list[str] = []
    for name in names:
        plain = re.sub(r"[\W_]+", "-", name, flags=re.ASCII).strip("-") or "section"
        anchor, count = plain, 1
        while anchor in unique:
            count += 1
            anchor = f"{plain}-{count}"
        unique.append(anchor)
    return unique


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
