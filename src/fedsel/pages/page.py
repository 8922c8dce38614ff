"""The page around the sections: head, overview of the verdicts, contents."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from fedsel.pages.markup import Markup, element, joined
from fedsel.pages.model import Kind, Overview, Section
from fedsel.pages.parts import badge, mark, pairs, section_element, sprite
from fedsel.pages.svg import Styles

# Anchors of sections have no "--" in them, so these never meet.
_OVERVIEW, _RESULTS = "page--overview", "page--results"


def render(
    sections: Sequence[Section],
    *,
    title: str,
    summary: Sequence[str],
    facts: Mapping[str, str],
    overview: Overview | None = None,
) -> str:
    """One HTML page with everything in it; all text is escaped, drawings are trusted.

    An ``overview`` lists the verdicts of all sections before them. A list of contents is there as
    soon as it has two entries.

    >>> page = render([], title="a < b", summary=[], facts={})
    >>> "<h1>a &lt; b</h1>" in page, "Nothing was run" in page, "<nav" in page
    (True, True, False)
    """
    named = list(zip(anchors([s.name for s in sections]), sections, strict=True))
    styles = Styles()
    results = [section_element(anchor, section, styles) for anchor, section in named]
    if not named:
        results = [element("p", "Nothing was run.", class_="empty")]
    contents = _contents(named, overview)
    body = joined(
        [
            sprite(),
            element("a", "Skip to the results", href=f"#{_RESULTS}", class_="skip"),
            _header(title, summary, facts),
            element(
                "div",
                contents,
                element(
                    "main",
                    joined(["", _overview(named, overview), *results, ""], "\n"),
                    id=_RESULTS,
                    tabindex="-1",
                ),
                class_="layout" if contents else "single",
            ),
            element("p", Markup(""), class_="said", role="status"),
        ],
        "\n",
    )
    style = _resource("page.css") + "\n" + styles.text() + "\n"
    script = _resource("page.js")
    head = joined(
        [
            element("meta", charset="utf-8"),
            Markup(
                '<meta http-equiv="Content-Security-Policy" content="'
                f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
                "img-src data:; base-uri 'none'; form-action 'none'\">"
            ),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="referrer", content="no-referrer"),
            element("link", rel="icon", href="data:,"),
            element("title", title),
            Markup(f"<style>{style}</style>"),
        ],
        "\n",
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{body}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def write_page(path: Path, page: str) -> None:
    """Write a page as a whole or not at all: who has the old one open keeps it until then."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(page, encoding="utf-8")
    fresh.replace(path)


def anchors(names: Sequence[str]) -> list[str]:
    """Names as anchors, each once, with single hyphens.

    >>> anchors(["table3", "fig 2(a)", "table3", "--"])
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
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _header(title: str, summary: Sequence[str], facts: Mapping[str, str]) -> Markup:
    return element(
        "header",
        element("h1", title),
        *(element("p", sentence, class_="lead") for sentence in summary),
        pairs(facts, class_="facts"),
    )


def _contents(named: Sequence[tuple[str, Section]], overview: Overview | None) -> Markup:
    entries: list[Markup] = []
    if overview is not None:
        entries.append(element("li", element("a", overview.title, href=f"#{_OVERVIEW}")))
    for anchor, section in named:
        kinds = sorted({v.kind for v in section.verdicts}, key=lambda k: k.rank)
        marks = joined(mark(kind.key) for kind in kinds)
        if section.missing:
            marks = joined([marks, mark("missing")])
        entries.append(
            element(
                "li",
                element(
                    "a",
                    element("span", section.where, " ", class_="where") if section.where else "",
                    element("span", section.title),
                    href=f"#{anchor}",
                ),
                element("span", marks, class_="marks") if marks else "",
            )
        )
    if len(entries) < 2:
        return Markup("")
    inside = element("ol", joined(entries, "\n"))
    return element(
        "nav",
        element("details", element("summary", "Contents"), inside, open=True),
        aria_label="Contents",
        class_="contents",
    )


def _overview(named: Sequence[tuple[str, Section]], overview: Overview | None) -> Markup:
    if overview is None:
        return Markup("")
    heading = element("h2", overview.title)
    rows: list[Markup] = []
    counts = dict.fromkeys(Kind, 0)
    for anchor, section in named:
        for verdict in section.verdicts:
            counts[verdict.kind] += 1
            rows.append(
                element(
                    "tr",
                    element("td", badge(verdict), role="cell", data_value=str(verdict.kind.rank)),
                    element(
                        "td",
                        element("p", verdict.claim, class_="claim"),
                        element("p", verdict.numbers, class_="numbers") if verdict.numbers else "",
                        role="cell",
                    ),
                    element("td", verdict.where, role="cell", class_="place"),
                    element(
                        "td",
                        element("a", section.where or section.title, href=f"#{anchor}"),
                        role="cell",
                    ),
                    role="row",
                    data_kind=verdict.kind.key,
                )
            )
    if not rows:
        nothing = element("p", overview.nothing, class_="empty")
        return element("section", heading, nothing, id=_OVERVIEW, class_="overview")
    tally = [
        element(
            "li",
            mark(kind.key),
            element("span", kind.label, class_="label"),
            " ",
            element("b", str(count)),
            data_kind=kind.key,
            class_=kind.key,
        )
        for kind, count in counts.items()
        if count
    ]
    headings = [
        element("th", "Verdict", scope="col", role="columnheader", data_type="number"),
        element("th", "Claim", scope="col", role="columnheader"),
        element("th", overview.where, scope="col", role="columnheader", class_="place"),
        element("th", "Section", scope="col", role="columnheader"),
    ]
    table = element(
        "table",
        element("thead", element("tr", *headings, role="row"), role="rowgroup"),
        element("tbody", joined(rows, "\n"), role="rowgroup"),
        role="table",  # said, for a style sheet that shows rows as blocks would unsay it
        aria_label="Every claim that was examined",
        class_="sortable claims",
    )
    return element(
        "section",
        heading,
        element("ul", *tally, class_="tally"),
        element("div", table, class_="scroll", data_label=overview.title),
        id=_OVERVIEW,
        class_="overview",
    )
