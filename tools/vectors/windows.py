"""Budgets that last: lengths of time, policies with windows and menus, and what a past allows."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import numpy as np

from fedsel.device import Client, Entry, Ledger, Limit, Policy, Refused
from fedsel.device._budget import loosened, seconds_of
from fedsel.device._entries import KnownRun
from fedsel.errors import InvalidArgument
from fedsel.wire import Intent, Request
from tools.vectors.encoding import Case, quiet, rational
from tools.vectors.policies import DEFAULTS, policy_fields
from tools.vectors.requests import recipe

ABOUT = (
    "Lengths of time, policies with windows and menus and their limits, which limits are looser "
    "than others, and whether a past allows a report: null, or the reason why not."
)

HOUR, DAY = 3_600, 86_400
TIME = 1_700_000_000
_DIM = 6
HEALTH, ADS = Intent("Health research", "A hospital"), Intent("Advertising", "Example Ltd")
NOTHING = Intent()


@final
@dataclass(frozen=True)
class Past:
    """What a ledger holds, and a request at a time."""

    shows: str
    policy: dict[str, Any]
    entries: Sequence[tuple[int, str, Intent]]
    now: float
    charge: str = "1"
    stated: Intent = NOTHING
    created: int = TIME
    confirmed: Sequence[int] = field(default_factory=tuple)

    def case(self, folder: Path) -> Case:
        """What a device makes of it: ``time`` is that of the new entry, where there is one."""
        policy = Policy.of({**DEFAULTS, "runs": 999, **self.policy})
        client = _client_with(self, policy, folder)
        history = client.history()
        made = recipe("PM", dim=_DIM, epsilon=Fraction(self.charge), epochs=1)
        request = Request(b"asked now" + bytes(7), 0, 0, made, self.stated).encode()
        reason = time = None
        try:
            with quiet():
                client.answer(request, np.zeros(_DIM), np.zeros(_DIM))
            time = client.history().entries[-1].time
        except Refused as refused:
            reason = refused.reason.name
        return {
            "kind": "past",
            "shows": self.shows,
            "policy": _set_fields(policy),
            "created": self.created,
            "confirmed": list(self.confirmed),
            "entries": [_reported(*entry) for entry in self.entries],
            "now": self.now,
            "asked": _reported(None, rational(made.charge), self.stated),
            "reason": reason,
            "time": time,
            "standings": [
                {
                    "limit": limit_fields(one.limit),
                    "held": rational(one.held),
                    "ever": rational(one.ever),
                    "left": rational(one.left),
                    "renewals": [[at, rational(epsilon)] for at, epsilon in one.renewals],
                }
                for one in history.standings(self.now)
            ],
        }


def _client_with(past: Past, policy: Policy, folder: Path) -> Client:
    """A client whose ledger holds these entries, each of a run of its own."""
    ledger = Ledger(folder)
    ledger._now = lambda: past.created
    ledger.create(policy)
    client = Client(policy, folder)
    client._now = lambda: past.now
    plan = recipe("PM", dim=_DIM, epochs=1)
    with ledger.transaction(write=True) as books:
        for number, (time, charge, stated) in enumerate(past.entries, 1):
            run = number.to_bytes(16, "big")
            books.open_run(run, KnownRun.of(Request(run, 0, 0, plan, stated)), 999)
            entry = Entry(number, run, 0, 0, time, Fraction(charge), bytes(32), b"a report")
            books.record(entry, None)
        for time in past.confirmed:
            books.confirm(time, "The owner")
    return client


def _set_fields(policy: Policy) -> Case:
    """The fields of a policy that are not what they are by default."""
    usual = {field.name: field.default for field in fields(Policy)}
    found = policy_fields(policy)
    return {name: value for name, value in found.items() if value != usual[name]}


def _reported(time: int | None, charge: str, stated: Intent) -> Case:
    texts = {"charge": charge, "purpose": stated.purpose, "recipient": stated.recipient}
    return texts if time is None else {"time": time, **texts}


def limit_fields(limit: Limit) -> list[Any]:
    """A limit: ε, seconds (null: ever), purpose and recipient (null: any)."""
    return [rational(limit.epsilon), limit.seconds, limit.purpose, limit.recipient]


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _durations()
    yield from _tables()
    yield from _changes()
    with tempfile.TemporaryDirectory() as folder:
        for number, past in enumerate((*_pasts(), *_menus(), *_random_pasts())):
            yield past.case(Path(folder) / str(number))


def _durations() -> Iterator[Case]:
    for text in (
        *("1 hour", "1 hours", "2 hours", "36 hours", "1 day", "30 days", "1 week", "521 weeks"),
        *("3650 days", "87600 hours", "3651 days", "87601 hours", "522 weeks", "0 days", "00 days"),
        *("01 days", "2 day", "1 Day", "30  days", " 30 days", "30 days ", "30days", "30", "days"),
        *("1.5 days", "-1 days", "+1 days", "30 minutes", "1 month", "1e2 days", "100000 hours"),
        *(
            "３０ days",
            "30\N{NO-BREAK SPACE}days",
            "30 d\N{CYRILLIC SMALL LETTER A}ys",
            "30 days\n",
            "",
        ),
    ):
        case: Case = {"kind": "duration", "text": text}
        try:
            yield {**case, "seconds": seconds_of("text", text)}
        except InvalidArgument:
            yield {**case, "seconds": None}


def _tables() -> Iterator[Case]:
    good: dict[str, Any] = {"per_report": 0.5, "solutions": ["RJ"], "dimensions": [6]}
    window = {**good, "per_window": [2, "30 days"]}
    health: dict[str, Any] = {"purpose": "Health research", "per_window": [2, "30 days"]}
    for values in (
        window,
        {**window, "lifetime": 8},
        {**window, "clock_tolerance": "1 hour"},
        {**window, "menu": [health, {"recipient": "Example Ltd", "per_report": 0.25}]},
        {**good, "lifetime": 8, "menu": [{**health, "recipient": "A hospital", "lifetime": 4}]},
        {**window, "menu": [health, health]},
        {**good, "lifetime": 8, "menu": [health], "clock_tolerance": "52 weeks"},
        good,
        {**good, "menu": [health]},
        {**good, "lifetime": 8, "clock_tolerance": "60 days"},
        {**window, "clock_tolerance": "60 minutes"},
        {**window, "clock_tolerance": 60},
        {**good, "per_window": 2},
        {**good, "per_window": [2]},
        {**good, "per_window": ["30 days", 2]},
        {**good, "per_window": [0, "30 days"]},
        {**good, "per_window": [501, "30 days"]},
        {**good, "per_window": [True, "30 days"]},
        {**good, "per_window": [2, "30 minutes"]},
        {**good, "per_window": [2, 30]},
        {**window, "lifetime": 0},
        {**window, "menu": []},
        {**window, "menu": health},
        {**window, "menu": ["Health research"]},
        {**window, "menu": [{"purpose": "Health research"}]},
        {**window, "menu": [{"per_window": [2, "30 days"]}]},
        {**window, "menu": [health, {**health, "purpose": ""}]},
        {**window, "menu": [{**health, "purpose": "two  spaces"}]},
        {**window, "menu": [{**health, "recipient": 7}]},
        {**window, "menu": [health, {**health, "purposes": ["Health research"]}]},
        {**window, "menu": [{**health, "per_window": [2, "1 month"]}]},
        {**window, "menu": [{**health, "per_report": 0}]},
        {**window, "menu": [{**health, "lifetime": True}]},
    ):
        case: Case = {"kind": "table", "values": values}
        try:
            policy = Policy.of(values)
        except InvalidArgument as error:
            yield {**case, "wrong": error.name}
        else:
            yield {**case, "limits": [limit_fields(limit) for limit in policy.limits]}


def _changes() -> Iterator[Case]:
    ever, month = Limit(Fraction(8)), Limit(Fraction(2), 30 * DAY)
    health = Limit(Fraction(1), 30 * DAY, "Health research")
    hospital = Limit(Fraction(1), 30 * DAY, "Health research", "A hospital")
    for asked, present in (
        ((ever,), (ever,)),
        ((Limit(Fraction(7)),), (ever,)),
        ((Limit(Fraction(9)),), (ever,)),
        ((month,), (ever,)),
        ((ever, month), (ever,)),
        ((ever,), (ever, month)),
        ((Limit(Fraction(2)),), (ever, month)),
        ((month, ever), (ever, month)),
        ((Limit(Fraction(2), 60 * DAY),), (month,)),
        ((Limit(Fraction(2), 30 * DAY - HOUR),), (month,)),
        ((Limit(Fraction(2), 30 * DAY - HOUR), Limit(Fraction(2), 31 * DAY)), (month,)),
        ((Limit(Fraction(3, 2), 30 * DAY),), (month,)),
        ((Limit(Fraction(200000001, 100000000), 30 * DAY),), (month,)),
        ((month, health), (month,)),
        ((month,), (month, health)),
        ((Limit(Fraction(1), 30 * DAY),), (month, health)),
        ((month, hospital), (month, health)),
        ((month, health), (month, hospital)),
        ((month, Limit(Fraction(1), 30 * DAY, "health research")), (month, health)),
        ((month, Limit(Fraction(1), 30 * DAY, None, "Health research")), (month, health)),
        ((month, Limit(Fraction(1), None, "Health research")), (month, health)),
        (
            (month, Limit(Fraction(1), 30 * DAY, "He\N{CYRILLIC SMALL LETTER A}lth research")),
            (month, health),
        ),
    ):
        yield {
            "kind": "change",
            "asked": [limit_fields(limit) for limit in asked],
            "present": [limit_fields(limit) for limit in present],
            "allowed": not loosened(asked, present),
        }


def _pasts() -> Iterator[Past]:
    window: dict[str, Any] = {"lifetime": None, "per_window": (2, "1 day")}
    two = [(TIME, "1", NOTHING), (TIME + HOUR, "1", NOTHING)]
    yield Past("an empty ledger", window, [], TIME)
    yield Past("the window is full", window, two, TIME + 2 * HOUR)
    yield Past("a closed interval: its first second counts", window, two, TIME + DAY)
    yield Past("a second later it does not", window, two, TIME + DAY + 1)
    yield Past("half a second later it still does", window, two, TIME + DAY + 0.5)
    yield Past("what is renewed may be less than is asked", window, two, TIME + DAY + 1, "3/2")
    yield Past("just what is renewed", window, two, TIME + DAY + 1, "1")
    yield Past("a clock that was set back gives nothing back", window, two, TIME - 900 * DAY)
    yield Past("a report has the latest time that is known", window, two[:1], TIME - 900 * DAY)
    yield Past("a negative time", window, [], -0.5, created=-DAY)
    yield Past(
        "a negative time, floored", window, [(-DAY - 1, "2", NOTHING)], -0.5, created=-2 * DAY
    )
    yield Past("the creation is known, too", window, [], TIME - 5 * DAY)
    yield Past("ahead by as much as is allowed", window, two[:1], TIME + 2 * DAY)
    yield Past("ahead by more", window, two[:1], TIME + 2 * DAY + 1)
    yield Past(
        "ahead by more than a second less than a second", window, two[:1], TIME + 2 * DAY + 0.9
    )
    yield Past("ahead of the creation", window, [], TIME + 2 * DAY + 1)
    yield Past(
        "the owner has confirmed", window, two[:1], TIME + 9 * DAY, confirmed=[TIME + 9 * DAY]
    )
    yield Past("a confirmation is known", window, two[:1], TIME, confirmed=[TIME + 9 * DAY])
    yield Past(
        "an old confirmation does not help", window, two[:1], TIME + 9 * DAY, confirmed=[TIME + DAY]
    )
    wide = {**window, "clock_tolerance": "10 days"}
    yield Past("a tolerance of one's own", wide, two[:1], TIME + 10 * DAY)
    yield Past("and beyond", wide, two[:1], TIME + 10 * DAY + 1)
    yield Past("a huge time", window, two[:1], 1e17)
    yield Past(
        "without windows no clock is too far ahead", {"lifetime": 8}, two, TIME + 9_999 * DAY
    )
    yield Past(
        "without windows a report has the time of the clock", {"lifetime": 8}, two, TIME - DAY
    )
    unordered = [(TIME + 9 * HOUR, "1", NOTHING), (TIME, "1/2", NOTHING)]
    yield Past("older entries out of order: the latest is known", window, unordered, TIME)
    yield Past("and each counts by its own time", window, unordered, TIME + DAY + 1)
    both: dict[str, Any] = {"lifetime": 3, "per_window": (2, "1 day")}
    yield Past("a lifetime beside the window", both, two, TIME + DAY + HOUR + 1)
    yield Past(
        "the lifetime is spent", both, [*two, (TIME + DAY + HOUR + 1, "1", NOTHING)], TIME + 3 * DAY
    )
    odd = [(TIME, "1/101", NOTHING), (TIME, "1/103", NOTHING)]
    exact = Fraction(1, 101) + Fraction(1, 103) + Fraction(1, 107)
    for epsilon in (exact, exact + Fraction(1, 10**50)):
        tight = {**window, "per_window": (epsilon, "1 day")}
        yield Past("sums are rounded up to the grid", tight, odd, TIME, "1/107")


def _menus() -> Iterator[Past]:
    menu: dict[str, Any] = {
        "lifetime": 8,
        "menu": [
            {"purpose": "Health research", "per_window": (2, "1 day")},
            {"recipient": "A hospital", "lifetime": 3},
            {"purpose": "Advertising", "per_report": 0.5, "per_window": (0.5, "1 day")},
        ],
    }
    mixed = [(TIME, "2", HEALTH), (TIME, "1/2", ADS)]
    later = TIME + DAY + 1
    yield Past("a menu without a match", menu, [], TIME, stated=Intent("Statistics"))
    yield Past("nothing stated is no match", menu, [], TIME)
    yield Past("letter by letter", menu, [], TIME, stated=Intent("health research"))
    look_alike = Intent("He\N{CYRILLIC SMALL LETTER A}lth research")
    yield Past("a look-alike is another text", menu, [], TIME, stated=look_alike)
    yield Past("its own window is full", menu, mixed, TIME + HOUR, "1/2", HEALTH)
    yield Past("another one is not", menu, mixed[:1], TIME + HOUR, "1/2", ADS)
    yield Past("the price of the entry", menu, [], TIME, "1", ADS)
    yield Past("the window is renewed", menu, mixed, later, "1", HEALTH)
    yield Past("another matching entry is spent", menu, mixed, later, "3/2", HEALTH)
    yield Past("which does not match this", menu, mixed, later, "3/2", Intent("Health research"))
    other = Intent("Health research", "A university")
    yield Past("one entry of two matches", menu, mixed, TIME + HOUR, "1", other)
    yield Past(
        "one is enough to be on the menu", menu, mixed, TIME + HOUR, "1", Intent("", "A hospital")
    )
    yield Past(
        "the policy's own limit counts all", {**menu, "lifetime": 3}, mixed, later, "1", HEALTH
    )
    yield Past("the menu comes after the solution", {**menu, "solutions": ["RJ"]}, [], TIME)
    yield Past(
        "and before the price", {**menu, "per_report": 0.5}, [], TIME, "1", Intent("Statistics")
    )
    yield Past(
        "purposes hold beside the menu",
        {**menu, "purposes": ["Advertising"]},
        [],
        TIME,
        "1",
        HEALTH,
    )


def _random_pasts() -> Iterator[Past]:
    """Small windows, times out of order or not, clocks ahead and behind, on and off the menu."""
    rng = random.Random(32)  # noqa: S311
    stated = (NOTHING, HEALTH, ADS, Intent("Health research"), Intent("", "A hospital"))
    charges = ("1/3", "1/2", "1", "1/7", "2/101")
    for _ in range(120):
        policy: dict[str, Any] = {
            "lifetime": rng.choice((None, 3, 8)),
            "per_window": (rng.choice((1, 2, Fraction(3, 2))), rng.choice(("1 hour", "3 hours"))),
        }
        if rng.random() < 0.5:
            policy["menu"] = [
                {"purpose": "Health research", "per_window": (1, rng.choice(("2 hours", "1 day")))},
                {"recipient": "A hospital", "lifetime": rng.choice((1, 2))},
                {"purpose": "Advertising", "recipient": "Example Ltd", "per_report": 0.5},
            ][: rng.randint(1, 3)]
        steps = [rng.choice((0, 1, 600, 1800, HOUR, HOUR + 1)) for _ in range(rng.randint(0, 6))]
        times = [TIME + sum(steps[:place]) for place in range(len(steps))]
        if rng.random() < 0.3:
            rng.shuffle(times)
        entries = [(time, rng.choice(charges), rng.choice(stated)) for time in times]
        now = max(times, default=TIME) + rng.choice(
            (-HOUR, 0, 1, 900, HOUR, HOUR + 1, 2 * HOUR, DAY)
        )
        yield Past("chance", policy, entries, now, rng.choice(charges), rng.choice(stated))
