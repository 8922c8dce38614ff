"""What an ε means for a person, and the page for it.

An observer considers two contents of a device equally likely and sees all of its reports. By Bayes'
rule the odds of the one against the other are then at most e^ε, whatever else the observer knows:

    P[one | reports] ≤ e^ε / (1 + e^ε).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from fedsel import __version__
from fedsel._internal.display import rendered
from fedsel.errors import Epsilon
from fedsel.pages import Section, Table, render

EXAMPLES = (0.5, 1, 2, 4, 8)
"""The ε of the table."""
SENTENCE = (
    "An observer who considers two contents of {whose} equally likely and sees everything that it"
    " sent is at most {certainty} certain which of them is true."
)
"""What an ε means for a person."""
_NEARLY_ALL = 20.0
"""Above this ε no further digit of the certainty is worth reading."""


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


class Statement(ABC):
    """A statement for people: a page of its own, and plain HTML in a notebook."""

    @property
    @abstractmethod
    def document(self) -> Document:
        """The statement for people."""

    def to_html(self) -> str:
        """The statement as one self-contained page."""
        return self.document.to_html()

    def _repr_html_(self) -> str:
        return self.document.fragment()


def certainty(epsilon: Epsilon) -> float:
    """e^ε/(1 + e^ε): the most certain that an observer with an even prior can become.

    >>> [round(certainty(e), 4) for e in (0, 1, 2, 4, 8)]
    [0.5, 0.7311, 0.8808, 0.982, 0.9997]
    """
    return 1.0 / (1.0 + _odds_against(epsilon))


def in_percent(epsilon: Epsilon) -> str:
    """The certainty in percent: one decimal from 90 % on, and enough of them not to say 100.

    >>> [in_percent(e) for e in (0, 1, 2, 4, 8, 12, 100)]
    ['50 %', '73 %', '88 %', '98.2 %', '99.97 %', '99.9994 %', 'practically 100 %']
    """
    if epsilon > _NEARLY_ALL:
        return "practically 100 %"
    against = _odds_against(epsilon)
    doubt = 100 * against / (1 + against)
    decimals = 0 if doubt > 10 else max(1, math.ceil(-math.log10(doubt)))
    return f"{100 - doubt:.{decimals}f} %"


def _odds_against(epsilon: Epsilon) -> float:
    return math.exp(-min(float(epsilon), 700.0))


def exactly(amount: Fraction) -> str:
    """A number as a decimal, and also as a fraction where the decimal is not exact.

    >>> exactly(Fraction(2)), exactly(Fraction(2, 15)), exactly(Fraction(3, 10))
    ('2', '0.133333333333 = 2/15 exactly', '0.3 = 3/10 exactly')
    """
    number = f"{float(amount):.12g}"
    return number if number == str(amount) else f"{number} = {amount} exactly"


def numbers(name: str, exact: Fraction | None) -> dict[str, Any]:
    """An ε for JSON; None where there is none.

    >>> numbers("spent", Fraction(2, 5))
    {'spent': 0.4, 'spent_exact': '2/5'}
    """
    if exact is None:
        return {name: None, f"{name}_exact": None}
    return {name: float(exact), f"{name}_exact": str(exact)}


def meaning(epsilon: Epsilon, whose: str = "a device") -> str:
    """What an ε means, in one sentence.

    >>> meaning(2)
    'An observer who considers two contents of a device equally likely and sees everything that it
    sent is at most 88 % certain which of them is true.'
    """
    return SENTENCE.format(whose=whose, certainty=in_percent(epsilon))


def meaning_section() -> Section:
    """What ε means, with a table, for the pages."""
    rows = tuple((f"{epsilon:g}", in_percent(epsilon)) for epsilon in EXAMPLES)
    return Section(
        name="meaning",
        title="What ε means for a person",
        text=(
            "A report is drawn at random, so that every content of a device could have led to it."
            " ε bounds how much more likely a report is under one content than under another: at"
            " most e^ε times. The bound holds for any content, any background knowledge and any"
            " computing power, without an exception of small probability (no δ).",
            "An observer who considers two contents equally likely is 50 % certain before the first"
            " report. The ε of all reports of a device add up. After all of them the observer is at"
            " most e^ε / (1 + e^ε) certain, as the table shows.",
        ),
        tables=(Table("Certainty at most, from an even prior", ("ε in total", "certainty"), rows),),
        points=(
            "Every report of a device counts, whoever asked for it.",
            "For a person with several devices, the ε of the devices add up.",
            "ε does not hide that a device took part, nor when.",
        ),
    )
