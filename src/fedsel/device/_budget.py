"""Limits of ε: how much of it reports may cost, for what and for whom, ever or in any interval.

A `Limit` is at most ε of the reports whose run stated its texts: of all that will ever be made, or
of those in any closed interval of so many seconds. The lifetime of a policy, its window and each
entry of its menu are such limits. One rule judges them all: a report is allowed if for each limit
that concerns it the charges that count, added up as a ledger does, and its own are ε at most.

A window counts entries with time ≥ t − seconds, where t is the time of the report. Times are whole
seconds that never decrease, so every interval of the clock is covered.

Proof: docs/proofs/composition.md, C9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import NamedTuple, Self, final

from fedsel._internal.settings import check_keys
from fedsel.errors import Epsilon, InvalidArgument, check_kind
from fedsel.recipe import decimal
from fedsel.solutions._privacy import added, total
from fedsel.wire import Intent
from fedsel.wire._request import MOST_TEXT_BYTES, check_text

MOST_DIGITS = 300
"""The most digits of a number in a policy, and its largest exponent."""
_UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600}
_DURATION = re.compile(r"([1-9][0-9]{0,4}) (hour|day|week)s|(1) (hour|day|week)")
_LONGEST = 3_650 * _UNITS["day"]
Window = tuple[Epsilon, str]
"""At most ε in any interval of a length: (2, "30 days")."""


class Past(NamedTuple):
    """A report of the past, as limits see it: when, its charge as it is written, and its texts."""

    time: int
    charge: str
    purpose: str = ""
    recipient: str = ""


@final
@dataclass(frozen=True)
class Limit:
    """At most ε of the reports that stated these texts, in any closed interval of ``seconds``.

    ``seconds`` is None for all reports ever; a text is None where any may be stated.

    >>> limit = Limit(Fraction(2), 30 * 86_400, purpose="Health research")
    >>> print(limit)
    ε = 2 in any 30 days for the purpose "Health research"
    >>> limit.held([Past(0, "1/2", "Health research"), Past(9, "1", "Advertising")], 30 * 86_400)
    Fraction(1, 2)
    """

    epsilon: Fraction
    seconds: int | None = None
    purpose: str | None = None
    recipient: str | None = None

    def __str__(self) -> str:
        lasting = "ever" if self.seconds is None else f"in any {duration(self.seconds)}"
        stated = ((name, getattr(self, name)) for name in MOST_TEXT_BYTES)
        texts = " and ".join(f'the {name} "{text}"' for name, text in stated if text is not None)
        return f"ε = {float(self.epsilon):.6g} {lasting}{f' for {texts}' if texts else ''}"

    @property
    def is_lifetime(self) -> bool:
        """Whether it is the limit of all reports ever, whatever they stated."""
        return (self.seconds, self.purpose, self.recipient) == (None, None, None)

    def concerns(self, stated: Intent | Past) -> bool:
        """Whether it counts reports that stated this, letter by letter."""
        return self.purpose in (None, stated.purpose) and self.recipient in (None, stated.recipient)

    def since(self, time: int) -> int | None:
        """The earliest time that counts for a report at ``time``; None if all of them do."""
        return None if self.seconds is None else time - self.seconds

    def held(self, past: Iterable[Past], time: int) -> Fraction:
        """What it counts for a report at ``time``."""
        since = self.since(time)
        counted = (one for one in past if since is None or one.time >= since)
        return total(one.charge for one in counted if self.concerns(one))

    def implies(self, other: Limit) -> bool:
        """Whether reports within this limit are within the other one, whatever they are.

        >>> Limit(Fraction(1)).implies(Limit(Fraction(2), 3600, "Health research"))
        True
        """
        return (
            self.epsilon <= other.epsilon
            and self.purpose in (None, other.purpose)
            and self.recipient in (None, other.recipient)
            and self._lasts_as_long_as(other)
        )

    def _lasts_as_long_as(self, other: Limit) -> bool:
        if self.seconds is None or other.seconds is None:
            return self.seconds is None
        return self.seconds >= other.seconds

    def renewals(self, past: Iterable[Past], time: int) -> tuple[tuple[int, Fraction], ...]:
        """What it gives back, and when, if no more reports are made after ``time``."""
        since = self.since(time)
        if since is None:
            return ()
        given: dict[int, Fraction] = {}
        for one in past:
            if one.time >= since and self.concerns(one):
                end = one.time + time - since + 1
                given[end] = given.get(end, Fraction(0)) + Fraction(one.charge)
        return tuple(sorted(given.items()))


def fits(
    limits: Iterable[Limit], stated: Intent, charge: Fraction, held: Callable[[Limit], Fraction]
) -> bool:
    """Whether every limit that concerns a report allows its charge, compared exactly.

    ``held(limit)`` is what that limit counts already.
    """
    concerned = (limit for limit in limits if limit.concerns(stated))
    return all(added(held(limit), charge) <= limit.epsilon for limit in concerned)


def longest_window(limits: Iterable[Limit]) -> int | None:
    """The seconds of the longest window; None without any."""
    return max((limit.seconds for limit in limits if limit.seconds is not None), default=None)


def loosened(asked: Iterable[Limit], present: Iterable[Limit]) -> tuple[Limit, ...]:
    """The present limits that nothing of what is asked implies."""
    new = tuple(asked)
    return tuple(old for old in present if not any(one.implies(old) for one in new))


def latest(now: float, known: int | None) -> int:
    """The whole second in which a report is made: a clock that was set back gives nothing back.

    ``known`` is the latest time that the ledger knows, None for none.
    """
    time = math.floor(now)
    return time if known is None else max(time, known)


@final
@dataclass(frozen=True)
class Standing:
    """What a limit counts at a time, what it has ever counted, and what it gives back when."""

    limit: Limit
    held: Fraction
    ever: Fraction
    renewals: tuple[tuple[int, Fraction], ...] = ()

    @classmethod
    def of(cls, limit: Limit, past: Iterable[Past], time: int) -> Self:
        """The standing of a limit for a report at ``time``."""
        known = tuple(past)
        ever = total(one.charge for one in known if limit.concerns(one))
        return cls(limit, limit.held(known, time), ever, limit.renewals(known, time))

    @property
    def left(self) -> Fraction:
        """The ε that may be spent now."""
        return max(Fraction(0), self.limit.epsilon - self.held)


@final
@dataclass(frozen=True)
class MenuItem:
    """What a policy allows for a purpose or a recipient; the policy itself allows it for any."""

    purpose: str | None = None
    recipient: str | None = None
    per_report: Epsilon | None = None
    lifetime: Epsilon | None = None
    per_window: Window | None = None

    def __post_init__(self) -> None:
        for name in ("per_report", "lifetime", "per_window"):
            if getattr(self, name) is not None:
                check = read_window if name == "per_window" else exact_epsilon
                object.__setattr__(self, name, check(name, getattr(self, name)))

    @classmethod
    def of(cls, name: str, table: object) -> MenuItem:
        """Read an entry of a menu, the table of its fields, which ``name`` names in errors."""
        if isinstance(table, MenuItem):
            table = vars(table)
        if not isinstance(table, Mapping):
            raise InvalidArgument(name, table, "a table")
        check_keys(table, [field.name for field in fields(cls)], within=f"{name}.")
        given = {key: value for key, value in table.items() if value is not None}
        texts = [key for key in given if key in MOST_TEXT_BYTES]
        if not texts or len(texts) == len(given):
            allowed = "a purpose or a recipient, with per_report, lifetime or per_window"
            raise InvalidArgument(name, dict(table), allowed)
        for key in texts:
            if not check_text(f"{name}.{key}", given[key], key):
                raise InvalidArgument(f"{name}.{key}", given[key], "a non-empty text")
        try:
            return cls(**given)
        except InvalidArgument as error:
            error.name = f"{name}.{error.name}"
            raise

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Its limits of several reports."""
        found = []
        if self.lifetime is not None:
            found.append(Limit(Fraction(self.lifetime), None, self.purpose, self.recipient))
        if self.per_window is not None:
            epsilon, length = self.per_window
            seconds = seconds_of("per_window", length)
            found.append(Limit(Fraction(epsilon), seconds, self.purpose, self.recipient))
        return tuple(found)

    def concerns(self, stated: Intent) -> bool:
        """Whether a report that states this is subject to it."""
        return Limit(Fraction(0), None, self.purpose, self.recipient).concerns(stated)


def exact_epsilon(name: str, value: object) -> Fraction:
    """Read ε as the decimal that is written; refuse what a ledger could not write down."""
    number = decimal(name, value)
    if number.denominator >= 10 ** (2 * MOST_DIGITS):
        raise InvalidArgument(name, value, f"a number of at most {MOST_DIGITS} digits")
    return number


def read_window(name: str, value: object) -> Window:
    """Read a pair of ε and a length of time.

    >>> read_window("per_window", [0.5, "1 week"])
    (Fraction(1, 2), '1 week')
    """
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InvalidArgument(name, value, 'ε and a length of time, such as [2, "30 days"]')
    seconds_of(name, value[1])
    return exact_epsilon(name, value[0]), value[1]


def seconds_of(name: str, text: object) -> int:
    """Read a length of time.

    >>> seconds_of("clock_tolerance", "2 weeks")
    1209600
    """
    check_kind(name, text, str)
    found = _DURATION.fullmatch(str(text))
    count, unit = (found[1] or found[3], found[2] or found[4]) if found else ("0", "day")
    seconds = int(count) * _UNITS[unit]
    if not 0 < seconds <= _LONGEST:
        raise InvalidArgument(name, text, '"N hours", "N days" or "N weeks": at most 3650 days')
    return seconds


def duration(seconds: int) -> str:
    """Write a length of time as a policy does, in days where they are whole.

    >>> duration(1_209_600), duration(5_400 * 24), duration(3_600)
    ('14 days', '36 hours', '1 hour')
    """
    unit = "hour" if seconds % _UNITS["day"] else "day"
    count = seconds // _UNITS[unit]
    return f"{count} {unit}{'s' if count != 1 else ''}"
