"""What the page says in sentences: rules, times, guarantees."""

from __future__ import annotations

import time
from typing import Any

from fedsel._internal.display import shown
from fedsel.pages.markup import Markup, element
from fedsel.wire import CloseRule

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def span(seconds: float) -> str:
    """A time in words that do not change more often than they must.

    >>> [span(s) for s in (0.4, 12.34, 192, 3600, 3725, 200_000)]
    ['0 s', '12 s', '3 min 12 s', '1 h', '1 h 2 min', '2 d 7 h']
    """
    whole = int(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    place = next((i for i, (_, size) in enumerate(units) if whole >= size), len(units) - 1)
    parts = []
    for name, size in units[place : place + 2]:
        parts.append(f"{whole // size} {name}")
        whole %= size
    return " ".join(parts[:1] + [part for part in parts[1:] if not part.startswith("0 ")])


def about(seconds: float) -> str:
    """A time that is only an estimate: two parts would say more than is known.

    >>> [about(s) for s in (3, 44, 192, 3725, 9000, 200_000)]
    ['under 10 s', 'about 40 s', 'about 3 min', 'about 1.0 h', 'about 2.5 h', 'about 2.3 d']
    """
    if seconds < 10:
        return "under 10 s"
    if seconds < 60:
        return f"about {10 * round(seconds / 10)} s"
    if seconds < 3570:
        return f"about {round(seconds / 60)} min"
    if seconds < 86400:
        return f"about {seconds / 3600:.1f} h"
    return f"about {seconds / 86400:.1f} d"


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "report"), counted(12345, "report")
    ('1 report', '12,345 reports')
    """
    return f"{shown(number, 0)} {thing}{'' if number == 1 else 's'}"


def rule_sentence(rule: CloseRule) -> str:
    """When a round ends.

    >>> rule_sentence(CloseRule(reports=100, seconds=3600.0))
    'with 100 reports, or after 1 h with at least 1 report'
    >>> rule_sentence(CloseRule(seconds=30.0, least=0))
    'after 30 s'
    """
    parts = [] if rule.reports is None else [f"with {counted(rule.reports, 'report')}"]
    if rule.seconds is not None:
        needed = f" with at least {counted(rule.least, 'report')}" if rule.least else ""
        parts.append(f"after {span(rule.seconds)}{needed}")
    return ", or ".join(parts)


def moment(seconds: float) -> Markup:
    """A point in time, in UTC."""
    at = time.gmtime(seconds)
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", at)
    return element("time", text, datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", at))


def epsilon(value: float) -> str:
    """An ε: as it is where it is short, else rounded up, for it is a bound.

    >>> epsilon(2.0), epsilon(0.19992341), epsilon(1 / 3)
    ('2', '0.2', '0.3334')
    """
    if float(f"{value:.4g}") >= value:
        return f"{value:.4g}"
    digits = f"{value:.3e}"
    step = float(f"1e{int(digits.partition('e')[2]) - 3}")
    return f"{float(digits) + step:.4g}"


def central(found: dict[str, Any]) -> str:
    """A central guarantee, as `fedsel.mechanisms.central` has proved it."""
    mantissa, _, power = f"{found['delta']:.0e}".partition("e")
    delta = f"10{str(int(power)).translate(_RAISED)}"
    return f"ε = {epsilon(found['epsilon'])}, δ = {delta if mantissa == '1' else found['delta']}"
