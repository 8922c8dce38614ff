"""A question about a model: which of its public answers a labelled record gives.

- "spread": the bin of the score alone, from which the others' edges follow; a score is the margin
  of two classes, the lead of more (below);
- "scores", of two classes: the class, and the bin of the margin;
- "predictions", of more than two: the class, and the class that the model predicts;
- "confidence", of more than two: whether the model is right, and the bin of its lead, the largest
  margin less the second largest;
- "residuals", of numbers in [−1, 1]: the bin of the target, and that of its distance from the
  prediction.

Edges are public: they follow from the weights, which everybody has. A bin begins with its edge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Self, final, get_args

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_count, check_float
from fedsel.solutions._blocks import MOST_ANSWERS
from fedsel.wire._report import RUN_BYTES

MOST_QUESTION_BYTES = 1 << 16
"""Of a question's text."""
MOST_QUESTIONS = 3
"""Of a model, in a run."""
ModelKind = Literal["spread", "scores", "predictions", "confidence", "residuals"]
NO_ANSWER = -1
_ROWS = ("wrong", "right")


@final
@dataclass(frozen=True)
class ModelQuestion:
    """What is asked about a model: the table has a row for each class (or as above), and columns.

    ``edges`` are the inner edges of the bins, ascending; ``targets`` those of a target's bins.

    >>> question = ModelQuestion("scores", 2, edges=(0.0,))
    >>> question.answers(np.array([[-0.5], [0.5], [0.5]]), np.array([0, 0, 1])).tolist()
    [0, 1, 3]
    """

    kind: ModelKind
    classes: int = 2
    edges: tuple[float, ...] = ()
    targets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(ModelKind):
            allowed = f"one of {', '.join(get_args(ModelKind))}"
            raise InvalidArgument("measure.kind", self.kind, allowed)
        check_count("measure.classes", self.classes, least=2, most=MOST_ANSWERS)
        for name in ("edges", "targets"):
            checked = tuple(check_float(f"measure.{name}", x) for x in getattr(self, name))
            if sorted(set(checked)) != [*checked]:
                raise InvalidArgument(f"measure.{name}", [*checked], "ascending numbers")
            object.__setattr__(self, name, checked)
        rows, columns = self.shape
        check_count("measure.answers", rows * columns, least=2, most=MOST_ANSWERS)

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of its table."""
        bins = len(self.edges) + 1
        if self.kind == "spread":
            return 1, bins
        if self.kind == "predictions":
            return self.classes, self.classes
        if self.kind == "residuals":
            return len(self.targets) + 1, bins
        return (2 if self.kind == "confidence" else self.classes), bins

    @property
    def count(self) -> int:
        """M, the number of its answers."""
        return self.shape[0] * self.shape[1]

    def answers(self, margins: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
        """The answer (n,) of each record: its margins (n, 1 or C), and its class or target.

        A label that is none, and margins that are not finite, give no answer: −1.
        """
        known = self._known(labels) & np.isfinite(margins).all(axis=1)
        shown = np.where(known[:, None], margins, 0.0)
        rows, columns = self._places(shown, np.where(known, labels, 0.0))
        return np.where(known, rows * self.shape[1] + columns, NO_ANSWER).astype(np.int64)

    def _known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each label is a number, or the number of a class."""
        known: NDArray[np.bool_] = np.isfinite(labels)
        if self.kind != "residuals":
            known &= (np.floor(labels) == labels) & (labels >= 0) & (labels < self.classes)
        return known

    def _places(self, margins: NDArray[Any], labels: NDArray[Any]) -> tuple[Any, Any]:
        if self.kind == "residuals":
            distance = np.abs(np.clip(margins[:, 0], -1, 1) - labels)
            return np.searchsorted(self.targets, labels, "right"), self._bins(distance)
        if self.kind == "predictions":
            return labels.astype(np.int64), margins.argmax(axis=1)
        bins = self._bins(self._scores(margins))
        if self.kind == "spread":
            return np.zeros(len(bins), dtype=np.int64), bins
        if self.kind == "scores":
            return labels.astype(np.int64), bins
        return (margins.argmax(axis=1) == labels).astype(np.int64), bins

    def _scores(self, margins: NDArray[Any]) -> NDArray[np.float64]:
        if margins.shape[1] == 1:
            return np.asarray(margins[:, 0])
        if self.classes == 2:
            return np.asarray(margins[:, 1] - margins[:, 0])
        ordered = np.sort(margins, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -2])

    def _bins(self, values: NDArray[Any]) -> NDArray[np.int64]:
        return np.searchsorted(self.edges, values, side="right").astype(np.int64)

    @property
    def axes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the rows and the columns stand for, in words; classes by their numbers."""
        classes = tuple(f"class {c}" for c in range(self.classes))
        if self.kind == "predictions":
            return classes, tuple(f"predicted {c}" for c in range(self.classes))
        if self.kind == "residuals":
            return _ranges("target", self.targets), _ranges("off by", self.edges)
        named = _ranges("score" if self.classes == 2 else "lead", self.edges)
        if self.kind == "spread":
            return ("all",), named
        return (classes if self.kind == "scores" else _ROWS), named

    def to_dict(self) -> dict[str, Any]:
        """The question in plain values, for JSON."""
        values: dict[str, Any] = {"kind": self.kind, "classes": self.classes}
        lists = {"edges": [*self.edges], "targets": [*self.targets]}
        return {**values, **{name: given for name, given in lists.items() if given}}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """The question of plain values, checked."""
        lists = (tuple(values.get(name, ())) for name in ("edges", "targets"))
        return cls(values["kind"], values["classes"], *lists)


def measuring_run(run: bytes, number: int) -> bytes:
    """The run of the reports on a question about the model that a run trains.

    Whoever knows the run knows its name; so a device can tell which run it measures for.

    >>> measuring_run(bytes(16), 0) != measuring_run(bytes(16), 1)
    True
    """
    return hashlib.sha256(b"fedsel measuring" + run + bytes([number])).digest()[:RUN_BYTES]


def measured_question(run: bytes, asked: bytes) -> int | None:
    """The number of the question that a request of run ``asked`` asks about a run's model."""
    runs = (measuring_run(run, number) for number in range(MOST_QUESTIONS))
    return next((number for number, one in enumerate(runs) if one == asked), None)


def _ranges(what: str, edges: tuple[float, ...]) -> tuple[str, ...]:
    """The bins between edges in words.

    >>> _ranges("score", (-0.5, 0.5))
    ('score below -0.5', 'score -0.5 to 0.5', 'score from 0.5')
    """
    if not edges:
        return (f"any {what}",)
    between = [f"{what} {a:.3g} to {b:.3g}" for a, b in pairwise(edges)]
    return (f"{what} below {edges[0]:.3g}", *between, f"{what} from {edges[-1]:.3g}")
