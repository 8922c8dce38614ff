"""What an ε means for a person, alone and if a shuffler mixes the reports, and the page for it.

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
from functools import cached_property
from typing import Any, final

from fedsel import __version__
from fedsel._internal.display import rendered
from fedsel._internal.progress import note
from fedsel.errors import Epsilon
from fedsel.mechanisms.central import DELTA, CentralGuarantee, add_up
from fedsel.mechanisms.central._guarantee import remembers
from fedsel.pages import Section, Table, render
from fedsel.solutions import Privacy

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


@final
@dataclass(frozen=True)
class IfShuffled:
    """The central guarantee of a run if a shuffler mixes the reports of each round.

    ``reports`` is how many the smallest round had, ``epochs`` how often a client has reported.
    """

    privacy: Privacy
    reports: int
    epochs: int
    delta: float = DELTA

    @classmethod
    def of(cls, privacy: Privacy, reports: int, epochs: int) -> IfShuffled | None:
        """None where there is no report, or none that a certificate covers."""
        certified = privacy.charge is not None and privacy.source is not None
        return cls(privacy, reports, epochs) if certified and reports and epochs else None

    @cached_property
    def guarantee(self) -> CentralGuarantee:
        """The guarantees of all epochs added up: quick, and larger than what `central` composes."""
        if self.privacy.source is None:
            raise TypeError("a privacy without a source has no shuffled reports")
        with note("proving the central guarantee", 1) as advance:
            found = add_up(
                self.privacy.source, reports=self.reports, epochs=self.epochs, delta=self.delta
            )
            advance(1)
        return found

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """The guarantees of all epochs, composed; several epochs need dp_accounting."""
        return self.privacy.central(reports=self.reports, delta=delta, epochs=self.epochs)

    @property
    def local(self) -> float:
        """The ε of the same reports without a shuffler, as a ledger charges them."""
        return float((self.privacy.charge or 0) * self.epochs)

    @property
    def epsilon(self) -> str:
        """The central ε and its δ in figures."""
        return f"central ε = {self.guarantee.epsilon:.4g} at δ = {self.delta:g}"

    @property
    def sentence(self) -> str:
        """The local and the central number, and when each holds."""
        return (
            f"Local ε = {self.local:.6g} holds without trust in anybody but the device. If a"
            f" trusted shuffler mixes the reports of each round, at least {self.reports:,} of them"
            f" from honest clients, {self.epsilon} holds as well{self._epochs}."
        )

    @property
    def _epochs(self) -> str:
        if self.epochs == 1:
            return ""
        if self.privacy.source is not None and remembers(self.privacy.source):
            return (
                "; over several epochs shuffling proves nothing more, because clients keep what"
                " they have not sent"
            )
        return f" ({self.epochs} epochs added up; central() in Python may prove a smaller ε)"

    @property
    def facts(self) -> dict[str, str]:
        """A row of a page."""
        among = f"among at least {self.reports:,} honest reports of a round"
        return {"if shuffled": f"{self.epsilon}, {among}"}

    @property
    def trust(self) -> tuple[str, ...]:
        """Who must be trusted for which number."""
        return (
            f"For local ε = {self.local:.6g}: only the device must be trusted. The bound holds"
            " against everybody else together.",
            f"For {self.epsilon}: the shuffler must be trusted as well, to forward neither names"
            " nor order nor times and not to collude with the server, and"
            f" {self.reports:,} clients of each round must report honestly. The bound holds against"
            " an observer of what the shuffler forwards. Without a shuffler it does not hold.",
            "The central guarantee compares two runs that differ in the content of one client: up"
            " to δ, no observation is more than e^ε times as likely in one of them as in the"
            " other.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The two numbers as JSON holds them."""
        return {
            "epsilon": self.guarantee.epsilon,
            "delta": self.delta,
            "reports": self.reports,
            "epochs": self.epochs,
            "local": self.local,
        }
