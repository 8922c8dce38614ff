"""One statement as a page of its own, or as a piece of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from fedsel._internal.templates import rendered
from fedsel._version import __version__
from fedsel.pages import Section, render


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
        return rendered("statements/fragment.html", **vars(self))
