"""An answer in a sentence, and as the rows of a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from fedsel._internal.display import printable, shown
from fedsel.measuring import Estimate

if TYPE_CHECKING:
    from fedsel.asking._answer import Answer, Label

Cells = tuple[str | float, ...]
Rows = tuple[tuple[str, ...], list[Cells]]
"""The first headings of a table, and its rows."""
ALL = "all"
_MOST_DECIMALS = 6


def sentence(answer: Answer) -> str:
    """What an answer says, without what it costs."""
    return _SENTENCES[answer.question.kind](answer)


def rows_of(answer: Answer) -> Rows:
    """An answer as a table; two further columns have the ends of intervals."""
    return _TABLES[answer.question.kind](answer)


def decimals_for(width: float) -> int:
    """How many decimals show two digits of half the width of an interval.

    >>> [decimals_for(width) for width in (30, 3, 0.3, 0.0)]
    [0, 1, 2, 2]
    """
    if not width > 0:
        return 2
    return min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(width / 2) + 1e-9)))


def in_words(estimate: Estimate, unit: str = "", factor: float = 1.0) -> str:
    """A number with its interval.

    >>> in_words(Estimate(0.312, 0.298, 0.326, 0.007), " %", 100)
    '31.2 % (29.8 to 32.6 %)'
    """
    digits = decimals_for(factor * (estimate.high - estimate.low))
    if unit:
        digits = min(max(digits, 1), 4)
    value, low, high = (
        shown(factor * x, digits) for x in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}{unit} ({low} to {high}{unit})"


def _percent(estimate: Estimate) -> str:
    return in_words(estimate, " %", 100)


def _of_clients(answer: Answer) -> str:
    return f"Of {answer.everyone:,} clients"


def _say_count(answer: Answer) -> str:
    number = round(answer.number.value)
    share = _percent(answer.shares["yes"])
    return f"{_of_clients(answer)} {share}, about {number:,}, have {_said(answer, 'yes')}"


def _say_most(answer: Answer) -> str:
    most = answer.most_common
    share = _percent(answer.shares[most])
    return f"{_of_clients(answer)} the most, {share}, have {_said(answer, most)}"


def _say_mean(answer: Answer) -> str:
    (name,), mean = answer.question.names, in_words(cast(Estimate, answer.mean))
    return f"The mean of {printable(name)} is {mean} over {answer.everyone:,} clients"


def _say_quantiles(answer: Answer) -> str:
    (name,) = answer.question.names
    first, *others = (
        f"below {in_words(one)}" if i else f"have {printable(name)} below {in_words(one)}"
        for i, one in enumerate(answer.quantiles.values())
    )
    shares = [f"{100 * q:g} %" for q in answer.quantiles]
    parts = [f"{share} {text}" for share, text in zip(shares, (first, *others), strict=True)]
    return f"{_of_clients(answer)} {', '.join(parts)}"


def _said(answer: Answer, label: Label) -> str:
    return printable(answer.named(label))


_SENTENCES = {
    "count": _say_count,
    "histogram": _say_most,
    "mean": _say_mean,
    "quantiles": _say_quantiles,
    "cross table": _say_most,
}


def _row(estimate: Estimate, factor: float = 1.0) -> tuple[float, ...]:
    return tuple(factor * x for x in (estimate.value, estimate.low, estimate.high))


def _count_rows(answer: Answer) -> Rows:
    number = tuple(map(round, _row(answer.number)))
    rows: list[Cells] = [("share (%)", *_row(answer.shares["yes"], 100)), ("clients", *number)]
    return ("", "estimate"), rows


def _share_rows(answer: Answer) -> Rows:
    names = answer.question.names
    rows: list[Cells] = [
        (*(label if isinstance(label, tuple) else (label,)), *_row(share, 100))
        for label, share in answer.shares.items()
    ]
    for place, own in enumerate(answer.margins.values()):
        for label, share in own.items():
            labels = [label if i == place else ALL for i in range(len(names))]
            rows.append((*labels, *_row(share, 100)))
    return (*names, "share (%)"), rows


def _mean_rows(answer: Answer) -> Rows:
    (name,), mean = answer.question.names, cast(Estimate, answer.mean)
    return ("", "mean"), [(name, *_row(mean))]


def _quantile_rows(answer: Answer) -> Rows:
    rows: list[Cells] = [(f"{100 * q:g} %", *_row(one)) for q, one in answer.quantiles.items()]
    return ("below", answer.question.names[0]), rows


_TABLES = {
    "count": _count_rows,
    "histogram": _share_rows,
    "mean": _mean_rows,
    "quantiles": _quantile_rows,
    "cross table": _share_rows,
}
