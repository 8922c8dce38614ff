"""What an ε means for a person, in percent and in one sentence.

Somebody holds two contents of a device to be equally likely and sees all of its reports. By Bayes'
rule the odds of the one against the other are then at most e^ε, whatever else is known:

    P[one | reports] ≤ e^ε / (1 + e^ε).
"""

from __future__ import annotations

import math
from fractions import Fraction

from fedsel.errors import Epsilon
from fedsel.pages import Section, Table

EXAMPLES = (0.5, 1, 2, 4, 8)
"""The ε of the table."""
SENTENCE = (
    "Whoever thinks two contents of {whose} equally likely and sees all that it sent can be at"
    " most {certainty} certain which it is."
)
"""What an ε means for a person."""
_NEARLY_ALL = 20.0
"""Above this ε no further digit of the certainty is worth reading."""


def certainty(epsilon: Epsilon) -> float:
    """e^ε/(1 + e^ε): the most that an even prior can become.

    >>> [round(certainty(e), 4) for e in (0, 1, 2, 4, 8)]
    [0.5, 0.7311, 0.8808, 0.982, 0.9997]
    """
    return 1.0 / (1.0 + _odds_against(epsilon))


def in_percent(epsilon: Epsilon) -> str:
    """The certainty in words: one decimal from 90 % on, and as many as it takes not to be 100.

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
    """A number as a decimal, and as the fraction that it is where the decimal is not exact.

    >>> exactly(Fraction(2)), exactly(Fraction(2, 15)), exactly(Fraction(3, 10))
    ('2', '0.133333333333 = 2/15 exactly', '0.3 = 3/10 exactly')
    """
    number = f"{float(amount):.12g}"
    return number if number == str(amount) else f"{number} = {amount} exactly"


def meaning(epsilon: Epsilon, whose: str = "a device") -> str:
    """One sentence for whoever is asked what an ε is.

    >>> meaning(2)
    'Whoever thinks two contents of a device equally likely and sees all that it sent can be at
    most 88 % certain which it is.'
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
            " ε bounds how much likelier one content makes a report than another: e^ε times at"
            " most. The bound holds for any content, any side knowledge and any computing power."
            " There is no exception of small probability (no δ).",
            "Somebody who thinks two contents equally likely is 50 % certain before the first"
            " report. The ε of its reports add up. With all of them the certainty is at most"
            " e^ε / (1 + e^ε), as in the table.",
        ),
        tables=(Table("Certainty at most, from an even prior", ("ε in total", "certainty"), rows),),
        points=(
            "The ε of all reports of a device counts, whoever asked for them.",
            "A person who owns several devices loses the sum of their ε.",
            "That a device took part, and when, is not hidden by ε.",
        ),
    )
