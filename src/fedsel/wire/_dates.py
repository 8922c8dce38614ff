"""Columns of dates, of which declared parts become features."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property, lru_cache
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_kind
from fedsel.wire._columns import BLANK, Bounds, Cells, each, given_fields, indicator_feature

Part = Literal["year", "month", "day", "weekday", "hour", "days"]
Moment = tuple[int, int, int, int]
"""Year, month, day, hour."""
_EPOCH = date(1970, 1, 1).toordinal()
PERIODS = {"month": 12, "day": 31, "weekday": 7, "hour": 24}
"""The parts that are points on a circle, and how many points that has."""
_ISO = "YYYY-MM-DD"
_ISO_READER = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_TOKENS = {"YYYY": r"(?P<year>\d{4})", "MM": r"(?P<month>\d{1,2})", "DD": r"(?P<day>\d{1,2})"}
_TOKENS |= {"hh": r"(?P<hour>\d{1,2})", "mm": r"\d{1,2}", "ss": r"\d{1,2}"}


@final
@dataclass(frozen=True)
class Date:
    """A column of dates, of which declared ``parts`` become features.

    "year" and "days" (since ``first``) are one number each and need public bounds, ``first`` and
    ``last``; "month", "day", "weekday" and "hour" are a point on a circle each, two numbers.
    Dates are ISO 8601, or as ``format`` has it ("DD.MM.YYYY hh:mm"); a time zone is not read. A
    missing date counts as ``missing``; without one it is in the middle of bounds and circles.

    >>> day = Date(["year", "weekday"], "2020-01-01", "2029-12-31")
    >>> day.encode(np.array(["2024-02-29", "soon"], dtype=object)).tolist()
    [[2024.0, -0.900969, 0.433884], [2024.5, 0.0, 0.0]]
    """

    parts: tuple[Part, ...]
    first: str | None = None
    last: str | None = None
    format: str = _ISO
    missing: str | None = None
    indicator: bool = False
    _reader: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = ("year", "days", *PERIODS)
        parts = tuple(self.parts) if isinstance(self.parts, list | tuple) else ()
        if not parts or len(set(parts)) != len(parts) or not set(parts) <= set(known):
            raise InvalidArgument(
                "date", self.parts, f"a list of {', '.join(known)}, each once at most"
            )
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_reader", _reader(self.format))
        needed = [part for part in parts if part not in PERIODS]
        for name in ("first", "last", "missing"):
            text = getattr(self, name)
            if text is not None and _iso_moment(text) is None:
                wanted = "dates such as 2024-12-31"
                raise InvalidArgument("range" if name != "missing" else name, text, wanted)
        if (self.first is None) != (self.last is None) or (needed and self.first is None):
            wanted = "[first, last], two dates"
            wanted += f": {needed[0]} needs public bounds" if needed else ""
            given = None if self.first is self.last else [self.first, self.last]
            raise InvalidArgument("range", given, wanted)
        if self.first is not None and not self._day("first") < self._day("last"):
            raise InvalidArgument("range", [self.first, self.last], "[first, last], first < last")
        check_kind("indicator", self.indicator, bool)

    def _day(self, name: str) -> int:
        moment = _iso_moment(getattr(self, name))
        return 0 if moment is None else days_of(*moment[:3])

    @cached_property
    def _bounds(self) -> dict[str, Bounds]:
        """The bounds of the parts that are numbers; days count from ``first``."""
        if self.first is None or self.last is None:
            return {}
        years = float(self.first[:4]), float(self.last[:4])
        days = 0.0, float(self._day("last") - self._day("first"))
        known: dict[str, Bounds] = {"year": years, "days": days}
        return {part: known[part] for part in self.parts if part in known}

    @cached_property
    def first_day(self) -> int:
        """The day that "days" count from, since 1970-01-01."""
        return self._day("first")

    @property
    def features(self) -> tuple[tuple[str, Bounds], ...]:
        """As `Number.features`."""
        named: list[tuple[str, Bounds]] = []
        for part in self.parts:
            if part in PERIODS:
                named += [(f".{part}.cos", (-1.0, 1.0)), (f".{part}.sin", (-1.0, 1.0))]
            else:
                named.append((f".{part}", self._bounds[part]))
        return (*named, *indicator_feature(self.indicator))

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """The features of n cells."""
        absent = self._numbers(None if self.missing is None else _iso_moment(self.missing))

        def encoded(cell: Any) -> list[float]:
            moment = self.moment(cell)
            numbers = absent if moment is None else self._numbers(moment)
            return [*numbers, float(moment is None)] if self.indicator else numbers

        numbers = np.array(each(encoded, cells), dtype=np.float64)
        return numbers.reshape(len(cells), len(self.features))

    def moment(self, cell: Any) -> Moment | None:
        """The year, month, day and hour of a cell; None where it is no date."""
        if isinstance(cell, date):
            if cell != cell:  # noqa: PLR0124 - pandas' NaT
                return None
            return cell.year, cell.month, cell.day, getattr(cell, "hour", 0)
        found = self._reader.fullmatch(cell.strip(BLANK)) if isinstance(cell, str) else None
        return None if found is None else _valid_moment(found)

    def _numbers(self, moment: Moment | None) -> list[float]:
        numbers: list[float] = []
        for part in self.parts:
            if part in PERIODS:
                numbers += (0.0, 0.0) if moment is None else circle(part, _part(part, moment))
                continue
            low, high = self._bounds[part]
            if moment is None:
                numbers.append((low + high) / 2)
            else:
                value = _part(part, moment) - (self.first_day if part == "days" else 0)
                numbers.append(min(max(float(value), low), high))
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """As `Number.to_dict`."""
        bounds = {} if self.first is None else {"range": [self.first, self.last]}
        return {
            "date": list(self.parts),
            **bounds,
            **given_fields(self, "format", "missing", "indicator"),
        }


def _reader(pattern: object) -> re.Pattern[str]:
    """The expression that reads dates of this format."""
    if pattern == _ISO:
        return _ISO_READER
    check_kind("format", pattern, str)
    pieces = re.split("(YYYY|MM|DD|hh|mm|ss)", str(pattern))
    if any(pieces.count(t) > 1 for t in _TOKENS) or not {"YYYY", "MM", "DD"} <= set(pieces):
        wanted = "a text with YYYY, MM and DD once each, and maybe hh, mm, ss"
        raise InvalidArgument("format", pattern, wanted)
    return re.compile("".join(_TOKENS.get(x, re.escape(x)) for x in pieces), re.ASCII)


def _iso_moment(text: object) -> Moment | None:
    found = _ISO_READER.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else _valid_moment(found)


def _valid_moment(found: re.Match[str]) -> Moment | None:
    parts = found.groupdict()
    moment = tuple(int(parts.get(n) or 0) for n in ("year", "month", "day", "hour"))
    try:
        datetime(*moment)  # type: ignore[arg-type]
    except ValueError:
        return None
    return moment  # type: ignore[return-value]


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    return date(year, month, day).toordinal() - _EPOCH


def _part(part: Part, moment: Moment) -> int:
    """A part of a date as a number; those on a circle count from 0, Monday first."""
    year, month, day, hour = moment
    if part in ("days", "weekday"):
        days = days_of(year, month, day)
        return days if part == "days" else (days + 3) % 7
    return {"year": year, "month": month - 1, "day": day - 1, "hour": hour}[part]


@lru_cache  # few points, asked for often
def circle(part: str, number: int) -> tuple[float, float]:
    """Cosine and sine of a part, rounded so that every language has the same bits."""
    angle = 2 * math.pi * number / PERIODS[part]
    cos, sin = (round(f(angle) * 1e6) / 1e6 + 0.0 for f in (math.cos, math.sin))
    return cos, sin
