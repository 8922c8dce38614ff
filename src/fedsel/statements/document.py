"""One statement as a page of its own, or as a piece of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from fedsel._version import __version__
from fedsel.pages import Section, Table, render
from fedsel.pages.cells import shown
from fedsel.pages.markup import Markup, element, joined


@final
@dataclass(frozen=True)
class Document:
    """A title, sentences that say the most important, facts, and sections.

    >>> document = Document("A fit", ("ε = 2 in total.",), {"clients": "10"})
    >>> document.to_html().startswith("<!doctype html>"), "<html" in document.fragment()
    (True, False)
    """

    title: str
    summary: tuple[str, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()

    def to_html(self) -> str:
        """One self-contained page: it loads nothing, and can be printed."""
        facts = {**self.facts, "made by": f"fedsel {__version__}"}
        return render(self.sections, title=self.title, summary=self.summary, facts=facts)

    def fragment(self) -> str:
        """Plain HTML without style or script, as notebooks show it."""
        parts = [
            element("h3", self.title),
            *(element("p", sentence) for sentence in self.summary),
            _facts(self.facts),
            *(_section(section) for section in self.sections),
        ]
        return str(element("div", joined(parts, "\n")))


def _section(section: Section) -> Markup:
    points = [element("li", point) for point in section.points]
    return joined(
        [
            element("h4", section.title),
            *(element("p", paragraph) for paragraph in section.text),
            _facts(section.facts),
            element("ul", *points) if points else Markup(""),
            *(_table(table) for table in section.tables),
        ],
        "\n",
    )


def _facts(facts: Mapping[str, str]) -> Markup:
    if not facts:
        return Markup("")
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in facts.items()
    ]
    return element("table", element("tbody", *rows))


def _table(table: Table) -> Markup:
    headings = element("tr", *(element("th", title, scope="col") for title in table.columns))
    rows = [
        element("tr", *(element("td", shown(cell, table.digits)) for cell in row))
        for row in table.rows
    ]
    content = element("table", element("thead", headings), element("tbody", *rows))
    return joined([element("p", table.title), content], "\n")
