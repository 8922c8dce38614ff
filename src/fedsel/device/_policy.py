"""The policy: what the owner of a device lets any server have. A server may only ask for less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, cast, final

from fedsel._internal.settings import check_keys, check_omitted, naming_file, read_toml
from fedsel.device._budget import MOST_DIGITS, Limit, MenuItem, Window, longest_window, seconds_of
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_float,
    check_kind,
    check_positive,
)
from fedsel.mechanisms._base import MAX_DIMENSION
from fedsel.recipe import PRIVATE, Recipe
from fedsel.solutions._registry import canonical
from fedsel.wire import Sealing
from fedsel.wire._report import check_public_key
from fedsel.wire._request import MOST_TEXT_BYTES, Intent, check_text

_MOST = (1 << 32) - 1


class Reason(Enum):
    """Why a request was refused: from the request, the policy and past reports, never the data."""

    MALFORMED = "the request cannot be understood"
    VERSION = "the request is of an unknown version"
    SIGNATURE = "the request or its weights are not signed by the key in the policy of this device"
    WEIGHTS = "the weights do not have the announced shape, type and range"
    NOT_ALLOWED = "the policy of this device does not allow such a task"
    PURPOSE = "the policy of this device does not allow the purpose or the recipient of the request"
    TOO_MUCH = "the report would cost more than the policy of this device allows for one report"
    EXHAUSTED = "the budget of this device does not suffice for the report"
    CLOCK = (
        "the clock of this device is far ahead of its last report: its owner must confirm the time"
    )
    TOO_OFTEN = "this device has reported as often as its policy allows for now"
    OUT_OF_ORDER = "the round is older than one that this device has answered"
    CONFLICT = "the request contradicts an earlier one of the same run"
    LEDGER = "the ledger of this device cannot be used"
    INTERNAL = "the device could not answer"


class Refused(Exception):
    """A request that a device does not answer. Nothing was spent, and nothing left the device.

    >>> Refused(Reason.EXHAUSTED).reason.name
    'EXHAUSTED'
    """

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason.value

    def afresh(self) -> Refused:
        """The same refusal without traceback and context."""
        return Refused(self.reason)


@final
@dataclass(frozen=True)
class Policy:
    """The limits of one device.

    - ``lifetime``: the ε of all reports that this device will ever make (None: only with a
      ``per_window``);
    - ``per_report``: the most ε of one report;
    - ``per_window``: the most ε in any interval of a length, such as ``(2, "30 days")``. The
      reports of many such intervals add up;
    - ``menu``: what is allowed for a purpose or a recipient, a list of tables with ``purpose`` or
      ``recipient`` or both, and any of ``per_report``, ``lifetime`` and ``per_window``. What a
      request states must be on it, and all entries that fit must allow a report, beside the limits
      above;
    - ``clock_tolerance``: how far the clock may be ahead of the last report, with windows (None:
      twice the longest of them);
    - ``solutions``: the names that a task may have, private ones only;
    - ``dimensions``: the d that a task may have;
    - ``clip``: the most that a task may clip to, against absurd requests. It protects nothing: ε is
      the same for every clip, and what is clipped is the update times a factor that the server
      chooses (the learning rate of …-O, the scales of Flower);
    - ``reports_per_epoch`` of a run, and ``reports_per_day`` (24 hours; None: no limit of its own);
    - ``runs``: how many runs are open at a time; a further one closes the oldest;
    - ``weight_bound``: the largest magnitude of a weight that is believed;
    - ``least_seconds``: an answer takes at least that long, so that its time tells less;
    - ``require_purpose``, ``require_recipient``: whether a request must state them;
    - ``purposes``, ``recipients``: the texts that a request may have there, compared letter by
      letter; one of them is then required (None: any). They are what the server says, not proofs;
    - ``columns``: the columns of the owner's table that a task may use, by name, its label among
      them (None: any). Every update must then say which columns it is made of;
    - ``server_key``: reports leave sealed for the holder of this key
      (`fedsel.server.ServerKey.public`), by way of a shuffler, and in no other way (None: plain);
    - ``signing_key``: requests and weights must be signed by the holder of this key, so that a
      relay cannot change or mix them (None: no signature is asked for).

    An ε is the decimal that is written: ten reports of 0.1 are exactly 1.

    >>> policy = Policy(lifetime=2.0, per_report=0.5, solutions=["PS-PM"], dimensions=[100])
    >>> policy.lifetime, policy.solutions
    (Fraction(2, 1), ('PS-PM',))
    >>> policy = Policy(None, 0.5, ["PS-PM"], [100], per_window=(2, "30 days"))
    >>> [str(limit) for limit in policy.limits]
    ['ε = 2 in any 30 days']
    """

    lifetime: Epsilon | None
    per_report: Epsilon
    solutions: Iterable[str]
    dimensions: Iterable[int]
    clip: float = 1.0
    reports_per_epoch: int = 1
    reports_per_day: int | None = None
    runs: int = 1
    weight_bound: float = 1e6
    least_seconds: float = 0.0
    require_purpose: bool = False
    require_recipient: bool = False
    purposes: Iterable[str] | None = None
    recipients: Iterable[str] | None = None
    columns: Iterable[str] | None = None
    server_key: str | None = None
    signing_key: str | None = None
    per_window: Window | None = None
    menu: Iterable[Mapping[str, Any] | MenuItem] | None = None
    clock_tolerance: str | None = None

    def __post_init__(self) -> None:
        def put(name: str, check: Callable[..., Any], **limits: int) -> None:
            object.__setattr__(self, name, check(name, getattr(self, name), **limits))

        if self.lifetime is None and self.per_window is None:
            raise InvalidArgument("lifetime", None, "set, unless there is a per_window")
        own = MenuItem(None, None, self.per_report, self.lifetime, self.per_window)
        if own.per_report is None:
            raise InvalidArgument("per_report", None, "set: it has no default")
        for name in ("lifetime", "per_report", "per_window"):
            object.__setattr__(self, name, getattr(own, name))
        put("menu", _menu)
        put("solutions", _private)
        put("dimensions", _dimensions)
        for name in ("clip", "weight_bound"):
            put(name, check_positive)
        for name in ("reports_per_epoch", "reports_per_day", "runs"):
            if name != "reports_per_day" or self.reports_per_day is not None:
                put(name, check_count, most=_MOST)
        put("least_seconds", check_float)
        if not 0 <= self.least_seconds <= 86_400:
            raise InvalidArgument("least_seconds", self.least_seconds, "in 0 … 86400")
        for field in MOST_TEXT_BYTES:
            check_kind(f"require_{field}", getattr(self, f"require_{field}"), bool)
            put(f"{field}s", _texts)
        put("columns", _names)
        if longest_window(self.limits) is None:
            check_omitted("omitted without a per_window", clock_tolerance=self.clock_tolerance)
        elif self.clock_tolerance is not None:
            seconds_of("clock_tolerance", self.clock_tolerance)
        if self.server_key is not None:
            Sealing(b"", self.server_key).check()  # before anything is spent
        if self.signing_key is not None:
            check_public_key("signing_key", self.signing_key)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """The policy of a TOML file; unknown keys are refused, numbers are exact decimals."""
        values = read_toml("policy", path, parse_float=_exact)
        with naming_file(path):
            return cls.of(values)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Policy:
        """The policy of a table of its fields."""
        required = ["lifetime", "per_report", "solutions", "dimensions"]
        if "per_window" in values:
            required.remove("lifetime")
        check_keys(values, [field.name for field in fields(cls)], required=required)
        return cls(**{"lifetime": None, **values})

    @cached_property
    def _items(self) -> tuple[MenuItem, ...]:
        """What the policy allows for any purpose, and its menu."""
        menu = cast(tuple[MenuItem, ...], self.menu or ())
        return (MenuItem(None, None, self.per_report, self.lifetime, self.per_window), *menu)

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """Every limit of several reports, those of the menu included."""
        return tuple(dict.fromkeys(limit for item in self._items for limit in item.limits))

    def most_per_report(self, intent: Intent) -> Fraction:
        """The most ε of one report that states this."""
        prices = (item.per_report for item in self._items if item.concerns(intent))
        return min(Fraction(price) for price in prices if price is not None)

    def objection(self, recipe: Recipe, intent: Intent | None = None) -> Reason | None:
        """Why the policy forbids a recipe, before anything of its size is built; None if it allows.

        ``intent`` is what the request says about its purpose and recipient: nothing, if None.

        >>> policy = Policy(2.0, 0.5, ["PS-PM"], [100])
        >>> policy.objection(Recipe("PS-PM", epsilon=2.0, epochs=5, dim=10**9))
        <Reason.NOT_ALLOWED: 'the policy of this device does not allow such a task'>
        """
        if self.misfit(recipe) is not None:
            return Reason.NOT_ALLOWED
        stated = Intent() if intent is None else intent
        listed = not self._items[1:] or any(item.concerns(stated) for item in self._items[1:])
        accepted = listed and all(self._accepts(field, stated) for field in MOST_TEXT_BYTES)
        return None if accepted else Reason.PURPOSE

    def misfit(self, recipe: Recipe) -> str | None:
        """What of a recipe the policy forbids, beside what it allows; None if it allows all of it.

        >>> Policy(2.0, 0.5, ["FJ"], [3, 8]).misfit(Recipe("FJ", epsilon=2.0, dim=5))
        'd = 5, only 3, 8'
        """
        if recipe.solution not in tuple(self.solutions):
            return f"{recipe.solution}, only {', '.join(self.solutions)}"
        if recipe.dim not in tuple(self.dimensions):
            return f"d = {recipe.dim}, only {', '.join(map(str, self.dimensions))}"
        forbidden = recipe.clip > self.clip
        return f"a clip of {recipe.clip:g}, only {self.clip:g}" if forbidden else None

    def forbidden(self, columns: Iterable[str] | None) -> str | None:
        """What a task uses although the policy does not allow it; None if it allows all of it.

        ``columns`` are those of the owner's table that it uses; None: nobody says which.

        >>> policy = Policy(2.0, 0.5, ["FJ"], [3], columns=["age", "job"])
        >>> policy.forbidden(["age", "income"]), policy.forbidden(["job"])
        ('the column "income"', None)
        """
        allowed = self.columns
        if allowed is None:
            return None
        if columns is None:
            return "columns without names"
        return next(
            (f'the column "{name}"' for name in columns if name not in tuple(allowed)), None
        )

    def _accepts(self, field: str, intent: Intent) -> bool:
        text: str = getattr(intent, field)
        texts: tuple[str, ...] | None = getattr(self, f"{field}s")
        if texts is not None:
            return text in texts
        return bool(text) or not getattr(self, f"require_{field}")


def _exact(text: str) -> Fraction | str:
    """A number of TOML, exactly; what no field takes (inf, nan, 1e400) stays as it is written."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return text
    if number == 0:
        return Fraction(0)
    short = number.is_finite() and len(number.as_tuple().digits) <= MOST_DIGITS
    return Fraction(number) if short and abs(number.adjusted()) <= MOST_DIGITS else text


def _listed(name: str, values: object) -> tuple[Any, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidArgument(name, values, "a list")
    items = tuple(values)
    if not items:
        raise InvalidArgument(name, items, "a list of at least one")
    return items


def _dimensions(name: str, values: object) -> tuple[int, ...]:
    return tuple(check_count(name, d, most=MAX_DIMENSION) for d in _listed(name, values))


def _menu(name: str, values: object) -> tuple[MenuItem, ...] | None:
    """The entries of a menu, each named by its place."""
    if values is None:
        return None
    tables = enumerate(_listed(name, values))
    return tuple(MenuItem.of(f"{name}[{place}]", table) for place, table in tables)


def _texts(name: str, values: object) -> tuple[str, ...] | None:
    """The texts that a request may have; an empty one would be none at all."""
    if values is None:
        return None
    texts = tuple(check_text(name, text, name[:-1]) for text in _listed(name, values))
    if "" in texts:
        raise InvalidArgument(name, texts, "a list of non-empty texts")
    return texts


def _names(name: str, values: object) -> tuple[str, ...] | None:
    """The names of columns, as a schema has them."""
    if values is None:
        return None
    names = _listed(name, values)
    if not all(isinstance(x, str) and x and x.isprintable() for x in names):
        raise InvalidArgument(name, names, "a list of names: printable texts")
    return names


def _private(field: str, values: object) -> tuple[str, ...]:
    """Names as the paper writes them; a solution that is not private is no policy."""
    found = []
    for name in _listed(field, values):
        check_kind(field, name, str)
        recipe = Recipe(canonical(str(name), field), epsilon=1.0, dim=2, k=1, mu=0.1, rho=None)
        if not recipe.private:
            raise InvalidArgument(field, name, PRIVATE)
        found.append(recipe.solution)
    return tuple(found)
