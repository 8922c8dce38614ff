"""The page around the sections: head, overview of the verdicts, contents."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from fedsel.paper.report.markup import Markup, element, joined
from fedsel.paper.report.model import Kind, Section
from fedsel.paper.report.parts import badge, mark, pairs, section_element, sprite
from fedsel.paper.report.svg import Styles

# Anchors of sections have no "--" in them, so these never meet.
_OVERVIEW, _RESULTS = "page--overview", "page--results"


def render(
    sections: Sequence[Section], *, title: str, summary: Sequence[str], facts: Mapping[str, str]
) -> str:
    """One HTML page with everything in it; all text is escaped, drawings are trusted.

    >>> page = render([], title="a < b", summary=[], facts={})
    >>> "<h1>a &lt; b</h1>" in page, "Nothing was run" in page
    (True, True)
    """
    named = list(zip(anchors([s.name for s in sections]), sections, strict=True))
    styles = Styles()
    results = [section_element(anchor, section, styles) for anchor, section in named]
    if not named:
        results = [element("p", "Nothing was run.", class_="empty")]
    body = joined(
        [
            sprite(),
            element("a", "Skip to the results", href=f"#{_RESULTS}", class_="skip"),
            _header(title, summary, facts),
            element(
                "div",
                _contents(named),
                element(
                    "main",
                    joined(["", _overview(named), *results, ""], "\n"),
                    id=_RESULTS,
                    tabindex="-1",
                ),
                class_="layout",
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


def _contents(named: Sequence[tuple[str, Section]]) -> Markup:
    entries = [element("li", element("a", "The claims at a glance", href=f"#{_OVERVIEW}"))]
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
    inside = element("ol", joined(entries, "\n"))
    return element(
        "nav",
        element("details", element("summary", "Contents"), inside, open=True),
        aria_label="Contents",
        class_="contents",
    )


def _overview(named: Sequence[tuple[str, Section]]) -> Markup:
    heading = element("h2", "The claims at a glance")
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
        nothing = element("p", "No claim of the paper was put to the test.", class_="empty")
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
        element("th", "In the paper", scope="col", role="columnheader", class_="place"),
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
        element("div", table, class_="scroll", data_label="The claims at a glance"),
        id=_OVERVIEW,
        class_="overview",
    )
