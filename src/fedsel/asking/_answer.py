"""An answer: what the clients' reports say about a question, in words, as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, Self, final

from fedsel.asking._estimates import margins_of, mean_of, quantile_of
from fedsel.asking._words import rows_of, sentence
from fedsel.errors import InvalidData
from fedsel.measuring import Estimate, Tally
from fedsel.measuring._tally import LEVEL
from fedsel.mechanisms._reports import Totals
from fedsel.pages import Table
from fedsel.recipe import Recipe
from fedsel.wire import Category, Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Label = str | tuple[str, ...]
"""An answer as people read it; in a cross table that of each column."""


@final
@dataclass(frozen=True, eq=False)
class Answer:
    """What ``clients`` said to a question, each at a cost of ε = ``epsilon``.

    - ``shares``: the share of each answer by its label, with its interval; of a cross table the
      labels are tuples. They are none below zero and sum to one. A mean has none.
    - ``mean``, ``quantiles``: in the units of the column, where the question asks for them.
    - ``margins``: of a cross table, the shares of each column's answers.

    Intervals have the given ``level`` each. They are about ``everyone`` of whom the clients are, at
    random, with ``population`` about all people of whom they are.
    """

    question: Question
    epsilon: Fraction
    clients: int
    everyone: int
    bits: int
    level: float = LEVEL
    population: bool = False
    shares: Mapping[Label, Estimate] = field(default_factory=dict)
    mean: Estimate | None = None
    quantiles: Mapping[float, Estimate] = field(default_factory=dict)
    margins: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        question: Question,
        recipe: Recipe,
        totals: Totals,
        *,
        everyone: int | None = None,
        level: float = LEVEL,
        population: bool = False,
    ) -> Self:
        """The answer that the totals of all reports give; ``recipe`` is the question's.

        The clients who reported may be some of ``everyone``, taken at random.
        """
        if not totals.count:
            raise InvalidData(f"{question}: there is no report to say anything of")
        solution = recipe.build()
        count = totals.count if everyone is None else everyone
        sampled = population or count > totals.count
        about: dict[str, Any] = {"level": level, "population": sampled}
        exact = Fraction(recipe.epsilon or 0)
        made: dict[str, Any] = {"bits": solution.bits, "everyone": count, "level": level}
        made["population"] = population
        if question.count == 1:
            mean = mean_of(solution, totals, **about)
            return cls(question, exact, totals.count, mean=_in_units(question, mean), **made)
        tally = Tally.of(solution, totals)
        made["shares"] = dict(zip(_labels(question), tally.estimates(**about), strict=True))
        for q in question.quantiles or ():
            edges = question.edges(*question.names)
            made.setdefault("quantiles", {})[q] = quantile_of(tally, edges, q, **about)
        if question.kind == "cross table":
            parts = question.parts
            found = margins_of(tally, tuple(map(len, parts.values())), **about)
            made["margins"] = {
                name: dict(zip(labels, estimates, strict=True))
                for (name, labels), estimates in zip(parts.items(), found, strict=True)
            }
        return cls(question, exact, totals.count, **made)

    @property
    def number(self) -> Estimate:
        """For a count: how many of ``everyone`` are as the question says."""
        yes = self.shares["yes"]
        return Estimate(*(self.everyone * x for x in (yes.value, yes.low, yes.high, yes.error)))

    # --- in words -------------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{sentence(self)}; {self._cost}."

    @property
    def _cost(self) -> str:
        cost = f"ε = {float(self.epsilon):g} per client"
        if self.everyone > self.clients:
            cost += f", {self.clients:,} of whom answered"
        return cost + ", and the intervals are about all people of whom they are" * self.population

    def named(self, label: Label) -> str:
        """An answer in a sentence: "job = cook", "age 20 to 30"."""
        if self.question.kind == "count":
            what = str(self.question).removeprefix("count of ")
            return what if label == "yes" else f"not {what}"
        labels = label if isinstance(label, tuple) else (label,)
        columns: Any = self.question.columns.columns
        return ", ".join(
            f"{name} = {one}" if isinstance(columns[name], Category) else f"{name} {one}"
            for name, one in zip(self.question.names, labels, strict=True)
        )

    @property
    def most_common(self) -> Label:
        """The answer with the largest share."""
        return max(self.shares, key=lambda label: self.shares[label].value)

    # --- as data --------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        found: dict[str, Any] = {
            "question": self.question.to_dict(),
            "sentence": str(self),
            "epsilon": float(self.epsilon),
            "clients": self.clients,
            "everyone": self.everyone,
            "bits": self.bits,
            "level": self.level,
            "population": self.population,
        }
        if self.question.kind == "count":
            found["number"] = self.number.as_dict()
        if self.mean is not None:
            found["mean"] = self.mean.as_dict()
        if self.quantiles:
            found["quantiles"] = [
                {"quantile": q, **one.as_dict()} for q, one in self.quantiles.items()
            ]
        if self.shares:
            found["shares"] = _listed(self.shares)
        if self.margins:
            found["margins"] = {name: _listed(own) for name, own in self.margins.items()}
        return found

    @property
    def table(self) -> Table:
        """The answer as a table, which prints itself on a terminal (rich) and in a page."""
        columns, rows = rows_of(self)
        ends = (f"{100 * self.level:g} % from", "to")
        note = f"{self.clients:,} clients, {self._cost}"
        title = str(self.question)
        return Table(title[0].upper() + title[1:], (*columns, *ends), tuple(rows), note)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw it: bars with their intervals, a cumulated curve for quantiles, or a heat map."""
        from fedsel.asking._figures import draw

        return draw(self, axes)


def _labels(question: Question) -> tuple[Label, ...]:
    if question.kind == "cross table":
        return tuple(product(*question.parts.values()))
    return question.labels


def _in_units(question: Question, scaled: Estimate) -> Estimate:
    value, low, high = (question.number(x) for x in (scaled.value, scaled.low, scaled.high))
    return Estimate(value, low, high, scaled.error * (question.number(1) - question.number(0)))


def _listed(shares: Mapping[Any, Estimate]) -> list[dict[str, Any]]:
    return [
        {"answer": [*label] if isinstance(label, tuple) else label, **share.as_dict()}
        for label, share in shares.items()
    ]
