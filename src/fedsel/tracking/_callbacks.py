"""Callbacks of a run, what is passed to them, and who calls them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Self, final

from fedsel.errors import InvalidArgument
from fedsel.recipe import Recipe
from fedsel.server._step import History, Round
from fedsel.solutions import Privacy

LOG = logging.getLogger("fedsel.tracking")

Record = dict[str, float]
"""A round in numbers.

The keys are ``round`` (from 1), ``epoch``, ``epsilon`` (the most that a client has spent so far),
``reports``, ``bits`` (of all reports), ``learning_rate``, ``norm`` (of the model's weights), and
``accuracy``, ``loss`` or other metrics where the model was evaluated. A value that is not finite is
left out."""


@final
@dataclass(frozen=True)
class Run:
    """What is public about a run before its first round.

    ``epsilon`` is the ε of a client in all rounds (infinite without privacy), ``statement`` says
    what that covers, and ``parameters`` are plain values: the recipe with a number for everything
    automatic, and more that the front end knows.

    >>> from fedsel import solution
    >>> pm = solution("PM", epsilon=2.0, dim=3).privacy
    >>> Run.of("mine", None, pm, rounds=10, solution="PM").parameters
    {'solution': 'PM', 'rounds': 10, 'seeded': False}
    """

    name: str
    rounds: int
    epsilon: float
    statement: str
    parameters: Mapping[str, str | float | bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        recipe: Recipe | None,
        privacy: Privacy,
        *,
        rounds: int,
        seeded: bool = False,
        **more: object,
    ) -> Self:
        """The run of a recipe, with other public parameters; None and "" are left out."""
        own = {} if recipe is None else {f.name: getattr(recipe, f.name) for f in fields(recipe)}
        given = {**own, **more, "rounds": rounds, "seeded": seeded}
        plain = {
            key: float(value) if isinstance(value, Fraction) else value
            for key, value in given.items()
            if isinstance(value, str | int | float | Fraction) and value != ""
        }
        cost = f"ε = {privacy.per_report:.6g} a report, {privacy.total:.6g} in total"
        statement = f"{cost}; {privacy.note}"
        if seeded:
            statement += "; drawn from a seed, with which anyone can undo the noise: not to release"
        return cls(name, rounds, privacy.total, statement, plain)


class Callback:
    """What a run calls. Override what you need; every method does nothing by itself.

    >>> class Best(Callback):
    ...     accuracy = 0.0
    ...
    ...     def on_round(self, record):
    ...         self.accuracy = max(self.accuracy, record.get("accuracy", 0.0))
    """

    def on_start(self, run: Run) -> None:
        """Before the first round, and before any ε is spent: an error here stops the run."""

    def on_round(self, record: Record) -> None:
        """After each round, in order; fast simulations call it for many rounds at a time."""

    def on_end(self, history: History) -> None:
        """After the last round, with all rounds and the weights of the model."""


Callbacks = Sequence[Callback | Callable[[Record], object]]
"""What ``callbacks=`` takes: a list of `Callback` objects or of functions of a record."""


class _Function(Callback):
    """A plain function as a callback."""

    def __init__(self, function: Callable[[Record], object]) -> None:
        self.function = function

    def on_round(self, record: Record) -> None:
        self.function(record)


@final
class Tracking:
    """Calls the callbacks of one run. Front ends use it.

    >>> rows = []
    >>> tracking = Tracking([rows.append])
    >>> tracking.round(Round(1, 0, 2.0, bits=40, reports=5, loss=0.6), norm=1.5)
    >>> rows[0]["loss"], rows[0]["norm"], "accuracy" in rows[0]
    (0.6, 1.5, False)
    """

    def __init__(self, callbacks: Callbacks | None) -> None:
        self._callbacks = _checked(callbacks)
        self._after, self._rate = 0, math.nan
        self._failed = dict[Callback, int]()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def start(self, run: Run, *, after: int = 0) -> None:
        """Announce the run; errors are raised, because nothing is spent yet.

        Rounds are counted on from those ``after`` which the run begins.
        """
        self._after = after
        self._rate = float(run.parameters.get("learning_rate", math.nan))
        for one in self._callbacks:
            one.on_start(run)

    def round(
        self, row: Round, norm: float = math.nan, metrics: Mapping[str, object] | None = None
    ) -> None:
        """Pass on a round, with the norm of the model and whatever metrics are numbers."""
        number = row.round + self._after
        own = {**vars(row), "round": number, "learning_rate": self._rate, "norm": norm}
        given = {**(metrics or {}), **own}
        numbers = {key: v for key, v in given.items() if isinstance(v, int | float)}
        record = {key: number for key, number in numbers.items() if math.isfinite(number)}
        for one in self._callbacks:
            self._call(one, one.on_round, dict(record))

    def end(self, history: History) -> None:
        """Announce the end, and say how often a callback has failed."""
        for one in self._callbacks:
            self._call(one, one.on_end, history)
        for one, times in self._failed.items():
            if times > 1:
                LOG.warning("%s failed %d times in this run", _name(one), times)

    def _call(self, one: Callback, method: Callable[[Any], None], value: object) -> None:
        try:
            method(value)
        except Exception:
            self._failed[one] = self._failed.get(one, 0) + 1
            if self._failed[one] == 1:  # thousands of rounds may fail alike
                LOG.exception("%s failed; the run goes on, because it has spent ε", _name(one))


def _checked(callbacks: Callbacks | None) -> list[Callback]:
    allowed = "a list of fedsel.tracking.Callback objects or functions of a round's record"
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple):
        raise InvalidArgument("callbacks", callbacks, allowed)
    for one in callbacks:
        if isinstance(one, type):  # a class can be called, but that is hardly meant
            raise InvalidArgument("callbacks", one, f"{allowed}, such as {one.__name__}(…)")
        if not isinstance(one, Callback) and not callable(one):
            raise InvalidArgument("callbacks", one, allowed)
    return [one if isinstance(one, Callback) else _Function(one) for one in callbacks]


def _name(one: Callback) -> str:
    shown = one.function if isinstance(one, _Function) else type(one)
    return f"the callback {getattr(shown, '__qualname__', repr(shown))}"
