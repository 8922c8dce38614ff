"""How good a model is on the people who trained it, from one report of each who was asked.

A table of answers (`fedsel.wire.ModelQuestion`) gives every metric at once, as
`fedsel.measuring._metrics` says. Where several questions tell the same metric, each counts by its
variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.display import upper_bound
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.measuring._metrics import ONE, Calibration, part_of
from fedsel.measuring._recalibration import BOLD, Recalibration, recalibration
from fedsel.measuring._tally import LEVEL, Estimate, Shares, Tally, deviations
from fedsel.recipe import Recipe
from fedsel.solutions import best_blocks
from fedsel.wire._model_question import ModelQuestion

Doubles = NDArray[np.float64]

SPREAD = (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.36, 0.42, 0.5, 0.58, 0.68, 0.8, 1.0)
"""The edges of the first question, on both sides of 0: of a linear model's margin, over the norm of
its weights (records have about norm 1, so no margin is larger)."""
LOGITS = 12.0
"""The same for log-odds of a network, over this."""
MOST_CONFUSED = 30
"""The most classes of which a table by predicted class is asked for."""
SMALLEST = 1e-100
"""The norms of weights, and their inverses, below which edges would run into each other."""
_MANY = 10**12
"""Reports of which shares are exact."""
OF_SPREAD = 0.25
"""The share of the measuring clients that answer the first question."""
RESIDUAL_EDGES = (0.05, 0.1, 0.2, 0.4)
TARGET_EDGES = (-0.5, 0.0, 0.5)
TARGETS = tuple(np.linspace(-1, 1, 17)[1:-1].tolist())
"""The edges of the first question about numbers: of the targets alone."""
_LEAST_APART = 0.02
PRECISE, USEFUL = 0.01, 0.05
"""The standard errors of the accuracy up to which "auto" asks for eight and for four bins."""


def measuring_clients(measure: float, clients: int) -> int:
    """How many of the clients measure: at least one, and one is left to train.

    >>> measuring_clients(0.1, 1000), measuring_clients(0.1, 1), measuring_clients(0.0, 50)
    (100, 0, 0)
    """
    return min(clients - 1, max(1, round(measure * clients))) if measure and clients > 1 else 0


@final
@dataclass(frozen=True)
class Measured:
    """What is asked about a model, one question after another, each of other clients.

    ``classes`` is 0 for a regression. ``linear`` says that records have about norm 1, and margins
    are compared with the norm of the weights. With ``spread`` the first question is about scores
    alone, or targets: the bins of the others are then about equally full. Of three to thirty
    classes ``several`` says that both predictions and leads are asked for, else predictions alone;
    of more classes leads are.
    """

    classes: int
    linear: bool
    bins: int = 2
    spread: bool = False
    several: bool = True

    @classmethod
    def planned(
        cls,
        classes: int,
        clients: int,
        epsilon: Fraction | float,
        *,
        linear: bool,
        rounds: int | None = None,
    ) -> Measured:
        """As many bins as so many reports at ε bear, by the accuracy's standard error.

        In a run each of ``rounds`` asks one question, so some can ask no more than one.

        >>> [Measured.planned(2, n, 1.0, linear=True).bins for n in (1_000, 5_000, 200_000)]
        [2, 4, 8]
        """
        can = rounds is None or rounds >= 4
        several = rounds is None or rounds >= 2
        if classes == 0:
            return cls(0, linear, spread=can)
        exact = Fraction(repr(epsilon)) if isinstance(epsilon, float) else epsilon
        useful = USEFUL if classes == 2 else 2 * USEFUL  # predictions tell the accuracy, too
        for bins, most in ((8, PRECISE), (4, useful)):
            cells = 2 * bins
            each = clients * (1 - OF_SPREAD) * (1 if classes == 2 else 0.5)
            # A sum over half of the cells, of which those that are counted vary together.
            error = math.sqrt(cells / 4 * best_blocks(exact, cells).error(exact) / max(1.0, each))
            if error <= most:
                return cls(classes, linear, bins, can, several)
        return cls(classes, linear, several=several)

    @property
    def shares(self) -> tuple[float, ...]:
        """Which share of the measuring clients answers each question."""
        others = (0.6, 0.4) if self._confused and self.several else (1.0,)
        first = (OF_SPREAD,) if self.spread else ()
        return (*first, *((1 - sum(first)) * share for share in others))

    @property
    def _confused(self) -> bool:
        """Whether a table by predicted class is asked for: one of very many is all noise."""
        return 2 < self.classes <= MOST_CONFUSED

    def numbers(self, rounds: int) -> tuple[int, ...]:
        """The number of the question that each of so many rounds asks; every one is asked.

        >>> Measured(2, linear=True, bins=8, spread=True).numbers(5)
        (0, 1, 1, 1, 1)
        """
        ends = np.cumsum(self.shares) * rounds
        most = np.arange(1, len(ends) + 1)
        ends = np.maximum(np.floor(ends + 0.5), most)
        return tuple(int(np.searchsorted(ends[:-1], place, "right")) for place in range(rounds))

    def question(self, number: int, weights: Doubles | None, spread: Tally | None) -> ModelQuestion:
        """A question about a model with these weights, once the ``spread`` of scores is known."""
        if self.classes == 0:
            if self.spread and number == 0:
                return ModelQuestion("residuals", 2, (), TARGETS)
            return ModelQuestion("residuals", 2, RESIDUAL_EDGES, _quarters(spread))
        first = self._first(weights)
        if self.spread and number == 0:
            return ModelQuestion("spread", self.classes, first)
        if self.classes == 2:
            return ModelQuestion("scores", 2, self._edges(first, spread))
        if self._confused and number == int(self.spread):
            return ModelQuestion("predictions", self.classes)
        return ModelQuestion("confidence", self.classes, self._edges(first, spread))

    def _first(self, weights: Doubles | None) -> tuple[float, ...]:
        """The edges of the first question: a lead is never below 0."""
        scale = LOGITS
        if self.linear:
            with np.errstate(over="ignore"):
                norm = 1.0 if weights is None else float(np.linalg.norm(weights))
            scale = norm if SMALLEST < norm < 1 / SMALLEST else 1.0  # else all scores are alike
        above = [scale * edge for edge in SPREAD]
        below = [-edge for edge in reversed(above)]
        return (*below, 0.0, *above) if self.classes == 2 else (*above,)

    def _edges(self, first: tuple[float, ...], spread: Tally | None) -> tuple[float, ...]:
        """The edges of B bins: quantiles of the spread, and for two classes 0, where it decides."""
        scale, inner, two = first[-1], self.bins - 1, self.classes == 2
        if self.spread and spread is not None and spread.count:
            below = float(spread.shares[: len(first) // 2 + 1].sum()) if two else 0.0
            found = quantiles_of(first, spread.shares, _even(inner - two, below))
        else:
            below = 0.5 if two else 0.0
            found = [scale * (float(x) - below) for x in _even(inner - two, below)]
        return _apart(found, 1e-3 * scale, zero=two)

    def clients_for(self, width: float, epsilon: Fraction | float, accuracy: float = 0.85) -> int:
        """How many clients must measure a model of two classes for its accuracy ± ``width``.

        With intervals of 95 %, and all bins equally full.

        >>> [Measured(2, linear=True, bins=bins).clients_for(0.02, 2.0) for bins in (2, 4)]
        [5172, 11002]
        """
        each = (deviations(LEVEL) * self._error_of_one(epsilon, accuracy) / width) ** 2
        return math.ceil(each / self.shares[-1])

    def reach(self, clients: int, epsilon: Fraction | float, accuracy: float = 0.85) -> float:
        """How far the interval of the accuracy will reach: the inverse of `clients_for`.

        >>> round(Measured(2, linear=True).reach(5172, 2.0), 4)
        0.02
        """
        each = max(1.0, clients * self.shares[-1])
        return deviations(LEVEL) * self._error_of_one(epsilon, accuracy) / math.sqrt(each)

    def _error_of_one(self, epsilon: Fraction | float, accuracy: float) -> float:
        """√n times the standard error of the accuracy from n reports, of two classes."""
        right = np.zeros((2, self.bins))
        right[0, : self.bins // 2] = right[1, self.bins // 2 :] = 1
        shares = np.where(right, accuracy, 1 - accuracy).ravel() / self.bins
        solution = answer_recipe(2 * self.bins, epsilon).build()
        held = np.zeros(solution.transform.places, dtype=np.int64)
        own, other = Tally(solution, held, 0).coins
        held += round(_MANY * other)
        held[: len(shares)] = np.rint(_MANY * (other + shares * (own - other)))
        error = Tally(solution, held, _MANY).error_of(right.ravel(), population=True)
        return error * math.sqrt(_MANY)

    @property
    def counts(self) -> tuple[int, ...]:
        """M of each question, at most: it does not depend on what is learnt."""
        return tuple(self._count(number) for number in range(len(self.shares)))

    def _count(self, number: int) -> int:
        return self.question(number, None, None).count


def _quarters(spread: Tally | None) -> tuple[float, ...]:
    """The edges of four bins of targets that are about equally full, as far as that is known."""
    if spread is None or not spread.count:
        return TARGET_EDGES
    reached = np.concatenate([[0.0], np.cumsum(spread.shares)])
    reached += 1e-12 * np.arange(len(reached))
    found = np.interp((0.25, 0.5, 0.75), reached, (-1.0, *TARGETS, 1.0))
    return tuple(x - 1 for x in _apart((found + 1).tolist(), _LEAST_APART, zero=False))


def _even(count: int, below: float) -> Doubles:
    """So many quantiles which divide both the share ``below`` 0 and the rest of it evenly.

    >>> _even(2, 0.0).round(2).tolist(), _even(3, 0.6).round(2).tolist()
    ([0.33, 0.67], [0.2, 0.4, 0.8])
    """
    negative = round(count * below)
    positive = count - negative
    first = below * np.arange(1, negative + 1) / (negative + 1)
    return np.append(first, below + (1 - below) * np.arange(1, positive + 1) / (positive + 1))


def quantiles_of(edges: Sequence[float], shares: Shares, wanted: Doubles) -> list[float]:
    """Where the distribution of a histogram reaches these shares, by straight lines.

    >>> [round(x, 9) for x in quantiles_of((0.0, 1.0), np.array([0.0, 1.0, 0.0]), np.array([0.5]))]
    [0.5]
    """
    inner = np.array(edges)
    least = 0.0 if inner[0] > 0 else 2 * inner[0] - inner[1]
    ends = np.concatenate([[least], inner, [2 * inner[-1] - inner[-2]]])
    reached = np.concatenate([[0.0], np.cumsum(shares)]) + 1e-12 * np.arange(len(ends))
    return [float(x) for x in np.interp(wanted, reached, ends)]


def _apart(found: list[float], least: float, *, zero: bool) -> tuple[float, ...]:
    """The edges, each at least so far from the next, and with 0 among them or all above it.

    >>> _apart([0.0, 0.5, 0.5], 0.1, zero=True)
    (0.0, 0.1, 0.5, 0.6)
    """
    above: list[float] = []
    for edge in sorted(e for e in found if e >= 0 or not zero):
        above.append(max(edge, (above[-1] if above else 0.0) + least))
    below: list[float] = []
    for edge in sorted((e for e in found if e < 0 and zero), reverse=True):
        below.append(min(edge, (below[-1] if below else 0.0) - least))
    return (*reversed(below), 0.0, *above) if zero else tuple(above)


@final
@dataclass(frozen=True, eq=False)
class Measurement:
    """What the reports say about a model; every number with its interval.

    ``metrics`` by name; ``confusion`` (C, C) are shares of all people, rows are classes; ``shares``
    of the classes; ``clients`` have reported, at ``epsilon`` each; ``tables`` are the consistent
    shares of each question's answers; ``tallies`` are what these follow from.
    """

    clients: int
    epsilon: float
    metrics: dict[str, Estimate]
    shares: tuple[Estimate, ...] = ()
    confusion: Doubles | None = None
    calibration: tuple[Calibration, ...] = ()
    questions: tuple[ModelQuestion, ...] = ()
    tables: tuple[Doubles, ...] = ()
    tallies: tuple[Tally, ...] = ()
    level: float = LEVEL

    def __getitem__(self, name: str) -> Estimate:
        return self.metrics[name]

    def recalibration(self, doubt: float = BOLD) -> Recalibration | None:
        """What the scores of a model of two classes say best, where they were asked for by bins.

        ``doubt`` is how many standard errors are taken off what another scale and offset gain.
        """
        return recalibration(self.questions, self.tallies, doubt, self.level)

    @property
    def sentence(self) -> str:
        """The first metric for people, with n and ε."""
        name, found = next(iter(self.metrics.items()))
        numbers = (f"{x:.1%}" if self.shares else f"{x:.3f}" for x in vars(found).values())
        value, low, high, _ = numbers
        return (
            f"{name.capitalize() if self.shares else name}: {value} ({low} to {high}), by"
            f" {self.clients:,} client{'s' * (self.clients > 1)} who measured and did not train,"
            f" at ε ="
            f" {upper_bound(self.epsilon)} each."
        )

    def __str__(self) -> str:
        lines = [f"{name:>20} {estimate}" for name, estimate in self.metrics.items()]
        return "\n".join([self.sentence, *lines])

    def as_dict(self) -> dict[str, Any]:
        """The measurement for JSON."""
        curve = [
            {"score": c.score, "said": c.said, "rate": c.rate.as_dict(), "share": c.share}
            for c in self.calibration
        ]
        return {
            "clients": self.clients,
            "epsilon": self.epsilon,
            "level": self.level,
            "sentence": self.sentence,
            "metrics": {name: found.as_dict() for name, found in self.metrics.items()},
            "shares": [share.as_dict() for share in self.shares],
            "confusion": None if self.confusion is None else self.confusion.tolist(),
            "calibration": curve,
            "questions": [question.to_dict() for question in self.questions],
            "tables": [table.tolist() for table in self.tables],
        }


def answer_recipe(answers: int, epsilon: Fraction | float, epochs: int = 1) -> Recipe:
    """The recipe of a question with so many answers: the best blocks for ε.

    >>> answer_recipe(16, 1.0).build().transform.block_size
    4
    """
    asked = Recipe("BR", epsilon=epsilon, epochs=epochs, dim=answers)
    return resolve_auto(asked, PublicFacts(answers, 1, epochs))


def measurement(
    questions: Sequence[ModelQuestion],
    tallies: Sequence[Tally],
    *,
    epsilon: Fraction | float,
    level: float = LEVEL,
) -> Measurement | None:
    """What the answers to some questions say about a model; None without any report."""
    given = [(q, t) for q, t in zip(questions, tallies, strict=True) if t.count]
    if not given:
        return None
    # Of a regression the first table tells where the targets are within the bins of the other.
    targets = next((t.shares for q, t in given if q.kind == "residuals" and not q.edges), None)
    parts = [part_of(question, tally, level, targets) for question, tally in given]
    names = dict.fromkeys(name for part in parts for name in part.metrics)
    found = {
        name: _together([p.metrics[name] for p in parts if name in p.metrics], level)
        for name in names
    }
    return Measurement(
        clients=sum(tally.count for _, tally in given),
        epsilon=float(epsilon),
        metrics={name: found[name] for name in _ORDER if name in found},
        shares=next((p.shares for p in parts if p.shares), ()),
        confusion=next((p.confusion for p in parts if p.confusion is not None), None),
        calibration=next((p.calibration for p in parts if p.calibration), ()),
        questions=tuple(question for question, _ in given),
        tables=tuple(tally.shares.reshape(question.shape) for question, tally in given),
        tallies=tuple(tally for _, tally in given),
        level=level,
    )


_ORDER = (
    *("accuracy", "balanced accuracy", "AUC", "log loss", "AUC of the lead"),
    *("R²", "mean error", "root mean squared error"),
)


def _together(estimates: list[Estimate], level: float) -> Estimate:
    """The mean of independent estimates of one number, weighted by their variances."""
    if len(estimates) == 1:
        return estimates[0]
    weights = np.array([1 / max(e.error, 1e-12) ** 2 for e in estimates])
    value = float(weights @ [e.value for e in estimates] / weights.sum())
    return Estimate.around(value, 1 / math.sqrt(weights.sum()), level, ONE)
