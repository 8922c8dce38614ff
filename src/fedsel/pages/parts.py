"""The parts of a section as HTML: figures, tables, verdicts, commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from fedsel.pages.cells import (
    DASH,
    as_number,
    duration,
    is_numeric,
    is_scientific,
    shown,
)
from fedsel.pages.markup import Markup, element, joined
from fedsel.pages.model import Cell, Figure, Section, Table, Verdict
from fedsel.pages.svg import Styles, inline

# Shapes that differ without colour, on a grid of 16 by 16.
_MARKS = {
    "holds": '<path d="M2.5 8.5l3.5 4 7.5-9" class="stroke"></path>',
    "partly": '<circle cx="8" cy="8" r="5.5" class="stroke"></circle>'
    '<path d="M8 2.5a5.5 5.5 0 0 0 0 11z"></path>',
    "fails": '<path d="M3.5 3.5l9 9m0-9l-9 9" class="stroke"></path>',
    "unmeasured": '<circle cx="8" cy="8" r="5.5" class="stroke dashed"></circle>',
    "other": '<path d="M3 8h10" class="stroke"></path>',
    "missing": '<path d="M8 2l6.5 12h-13z" class="stroke"></path><path d="M7.2 6h1.6v4H7.2zm0 '
    '5h1.6v1.6H7.2z"></path>',
}


def sprite() -> Markup:
    """The marks, drawn once, out of sight."""
    symbols = [
        f'<symbol id="page--{name}" viewBox="0 0 16 16">{shape}</symbol>'
        for name, shape in _MARKS.items()
    ]
    return Markup(f'<svg class="sprite" aria-hidden="true">{"".join(symbols)}</svg>')


def mark(name: str) -> Markup:
    """A mark before a word that says the same."""
    return Markup(
        f'<svg class="mark {name}" aria-hidden="true"><use href="#page--{name}"></use></svg>'
    )


def badge(verdict: Verdict) -> Markup:
    """A verdict as mark and words."""
    label = element("span", verdict.verdict, class_="words")
    return element("span", mark(verdict.kind.key), label, class_=f"badge {verdict.kind.key}")


def pairs(values: Mapping[str, str], **attributes: str) -> Markup:
    """Names and values."""
    if not values:
        return Markup("")
    entries = [
        element("div", element("dt", name), element("dd", value)) for name, value in values.items()
    ]
    return element("dl", *entries, **attributes)


def section_element(anchor: str, section: Section, styles: Styles) -> Markup:
    """A section with all that it has."""
    prefix = f"{anchor}--figure"
    parts = [
        _heading(anchor, section),
        *(element("p", paragraph) for paragraph in section.text),
        _missing(section.missing),
        *(
            _figure(figure, f"{prefix}{place}--", styles)
            for place, figure in enumerate(section.figures, 1)
        ),
        *(_table(table, f"{anchor}--table{i}") for i, table in enumerate(section.tables, 1)),
        _verdicts(section.verdicts),
        _settings(section.settings),
        _repeat(section),
    ]
    return element(
        "section",
        joined(["", *(part for part in parts if part), ""], "\n"),
        id=anchor,
        class_="result",
        aria_labelledby=f"{anchor}--title",
    )


def _heading(anchor: str, section: Section) -> Markup:
    eyebrow = element("p", section.where, class_="eyebrow") if section.where else ""
    link = element("a", "#", href=f"#{anchor}", class_="anchor", aria_label="Link to this section")
    return joined(
        [eyebrow, element("h2", element("span", section.title, id=f"{anchor}--title"), " ", link)]
    )


def _missing(missing: Sequence[str]) -> Markup:
    if not missing:
        return Markup("")
    return element(
        "div",
        element("p", mark("missing"), "Not everything could be run", class_="notice"),
        element("ul", *(element("li", line) for line in missing)),
        class_="absent",
        role="note",
    )


def _figure(figure: Figure, prefix: str, styles: Styles) -> Markup:
    drawing = inline(figure.svg, prefix=prefix, alt=figure.alt, styles=styles)
    plate = element("div", drawing, class_="plate scroll", data_label=figure.alt)
    return element("figure", plate, element("figcaption", figure.caption))


def _table(table: Table, identifier: str) -> Markup:
    columns: list[list[Cell]] = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    numeric = [is_numeric(column) for column in columns]
    scientific = [is_scientific(column, table.digits) for column in columns]
    headings = [
        element(
            "th",
            _words(title),
            scope="col",
            data_type="number" if number else None,
            class_="number" if number else None,
        )
        for title, number in zip(table.columns, numeric, strict=True)
    ]
    rows = [
        element(
            "tr",
            *(
                _cell(
                    cell,
                    shown(cell, table.digits, scientific=small),
                    number=number,
                    first=place == 0 and not number,
                )
                for place, (cell, number, small) in enumerate(
                    zip(row, numeric, scientific, strict=True)
                )
            ),
        )
        for row in table.rows
    ]
    content = element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", joined(rows, "\n")),
        class_="sortable",
        aria_labelledby=identifier,
    )
    note = element("p", table.note, class_="note") if table.note else ""
    return element(
        "div",
        element("p", table.title, id=identifier, class_="caption"),
        element("div", content, class_="scroll", data_label=table.title),
        note,
        class_="table",
    )


def _cell(cell: Cell, text: str, *, number: bool, first: bool) -> Markup:
    value = as_number(cell) if number else None
    return element(
        "th" if first else "td",
        _words(text),
        scope="row" if first else None,
        class_="number" if number else None,
        data_value=None if value is None else repr(value).replace("inf", "Infinity"),
        data_none=text == DASH,
    )


def _verdicts(verdicts: Sequence[Verdict]) -> Markup:
    if not verdicts:
        return Markup("")
    entries = [
        element(
            "li",
            element(
                "p",
                badge(v),
                element("span", v.where, class_="place") if v.where else "",
                class_="top",
            ),
            element("p", v.claim, class_="claim"),
            element("p", v.numbers, class_="numbers") if v.numbers else "",
            command(v.command),
            class_=f"verdict {v.kind.key}",
        )
        for v in verdicts
    ]
    title = "Verdict" if len(entries) == 1 else "Verdicts"
    return joined([element("h3", title), element("ul", *entries, class_="verdicts")])


def _settings(settings: Mapping[str, str]) -> Markup:
    if not settings:
        return Markup("")
    return element(
        "details",
        element("summary", "Settings"),
        pairs(settings, class_="settings-list"),
        class_="settings",
    )


def command(text: str) -> Markup:
    """A command to be copied."""
    if not text:
        return Markup("")
    return element("div", element("pre", element("code", _words(text))), class_="command")


def _words(text: str) -> Markup:
    """Text whose lines break between words alone: EXP-PM and --jobs stay whole."""
    pieces = re.split(r"(\s+)", text)  # every other one is space
    return joined(element("span", p, class_="word") if "-" in p else p for p in pieces)


def _repeat(section: Section) -> Markup:
    parts: list[str] = []
    if section.command:
        parts += [element("p", "To repeat it", class_="what"), command(section.command)]
    if section.files:
        links = [
            element("li", element("a", name, href="./" + quote(name, safe="/", errors="replace")))
            for name in section.files
        ]
        parts.append(
            element(
                "div",
                element("p", "Files", class_="what"),
                element("ul", *links, class_="files"),
                class_="beside",
            )
        )
    if section.seconds is not None:
        parts.append(element("p", f"Computed in {duration(section.seconds)}.", class_="time"))
    return element("div", *parts, class_="repeat") if parts else Markup("")
