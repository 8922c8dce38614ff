"""Budgets that last, as somebody would write them who has read SPEC.md alone (sections 8 and 9)."""

import math
import re
from fractions import Fraction

GRID = math.lcm(*range(1, 101), 2**40, 10**17)
SECONDS = {"hour": 3_600, "day": 86_400, "week": 604_800}
MOST = 3_650 * 86_400


def added(spent, price):
    if GRID * price.denominator % spent.denominator:
        spent = Fraction(math.ceil(spent * GRID), GRID)
    return spent + price


def seconds(text):
    """The seconds of a length of time; None if it is none."""
    found = re.fullmatch(r"([1-9][0-9]{0,4}) (hour|day|week)s|1 (hour|day|week)", text)
    if not found:
        return None
    length = int(found[1] or 1) * SECONDS[found[2] or found[3]]
    return length if length <= MOST else None


def limits_of(policy):
    """The limits (ε, W, purpose, recipient) of a policy, each once."""
    found = []
    for entry in (policy, *(policy.get("menu") or ())):
        texts = (entry.get("purpose"), entry.get("recipient"))
        if entry.get("lifetime") is not None:
            found.append((Fraction(entry["lifetime"]), None, *texts))
        if entry.get("per_window") is not None:
            epsilon, length = entry["per_window"]
            found.append((Fraction(epsilon), seconds(length), *texts))
    return list(dict.fromkeys(found))


def concerns(texts, run):
    return all(text in (None, other) for text, other in zip(texts, run, strict=True))


def implies(a, b):
    lasting = a[1] is None or (b[1] is not None and a[1] >= b[1])
    return a[0] <= b[0] and lasting and concerns(a[2:], b[2:])


def held(limit, entries, time):
    """What a limit counts of (time, charge, purpose, recipient) for a report at a time."""
    total = Fraction(0)
    for when, charge, *run in entries:
        if concerns(limit[2:], run) and (limit[1] is None or when >= time - limit[1]):
            total = added(total, charge)
    return total


def time_of(now, times, in_force, tolerance):
    """The time of a report; None where the clock is too far ahead."""
    now, longest = math.floor(now), max((w for _, w, *_ in in_force if w is not None), default=None)
    if longest is None:
        return now
    known = max(times, default=0)
    allowed = 2 * longest if tolerance is None else seconds(tolerance)
    return None if now - known > allowed else max(now, known)


def judged(policy, ledger, entries, times, now, charge, run):
    """The time of a report, or why there is none."""
    menu = policy.get("menu") or ()
    own = [e for e in menu if concerns((e.get("purpose"), e.get("recipient")), run)]
    for text, known in zip(run, (policy.get("purposes"), policy.get("recipients")), strict=True):
        if known is not None and text not in known:
            return "PURPOSE"
    if menu and not own:
        return "PURPOSE"
    prices = [e["per_report"] for e in (policy, *own) if e.get("per_report") is not None]
    if any(charge > Fraction(price) for price in prices):
        return "TOO_MUCH"
    in_force = [*limits_of(policy), *ledger]
    time = time_of(now, times, in_force, policy.get("clock_tolerance"))
    if time is None:
        return "CLOCK"
    for limit in in_force:
        if concerns(limit[2:], run) and added(held(limit, entries, time), charge) > limit[0]:
            return "EXHAUSTED"
    return time
