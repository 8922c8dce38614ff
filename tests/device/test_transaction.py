"""Windows and menus in a ledger: clocks, owners, crashes, several processes, looser policies."""

import os
import random
import shutil
import signal
import time
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.device import (
    Client,
    Fault,
    Intent,
    Ledger,
    LedgerError,
    Limit,
    Policy,
    Reason,
    Refused,
    Request,
)
from fedsel.device import _storage as storage
from tests.device.test_ledger import tamper
from tests.wire.support import complete

D, DAY = 8, 86_400
TIME = 1_700_000_000
HEALTH, ADS = Intent("Health research"), Intent("Advertising")
FIELDS = {"lifetime": None, "per_report": 1, "solutions": ["PM"], "dimensions": [D], "runs": 999}
WINDOW = Policy.of({**FIELDS, "per_window": (1, "1 day")})
MENU = Policy.of(
    {
        **FIELDS,
        "lifetime": 8,
        "menu": [
            {"purpose": "Health research", "per_window": (1, "1 day")},
            {"purpose": "Advertising", "lifetime": 0.5},
        ],
    }
)


class Device:
    """A client with a clock that a test sets; each request is of a run of its own."""

    def __init__(self, store, policy=WINDOW, now=TIME, **options):
        self.now = now
        ledger = Ledger(store)
        ledger._now = self.clock
        if not ledger.exists:
            ledger.create(policy)
        self.client = Client(policy, store, **options)
        self.client._now = self.client.ledger._now = self.clock
        self.asked = len(self.client.history().entries)

    def clock(self):
        return self.now

    def ask(self, epsilon=0.5, stated=None):
        """The reason of a refusal, or the time of the entry."""
        self.asked += 1
        plan = complete("PM", epsilon=epsilon, dim=D)
        request = Request(self.asked.to_bytes(16, "big"), 0, 0, plan, stated or Intent())
        try:
            self.client.answer(request.encode(), np.zeros(D), np.zeros(D))
        except Refused as refused:
            return refused.reason
        return self.client.history().entries[-1].time


def fault_of(work):
    with pytest.raises(LedgerError) as error:
        work()
    return error.value


def test_a_window_is_spent_and_renewed_to_the_second(quick_path):
    device = Device(quick_path / "s")
    assert [device.ask() for _ in range(3)] == [TIME, TIME, Reason.EXHAUSTED]
    device.now = TIME + DAY + 0.999
    assert device.ask() is Reason.EXHAUSTED
    device.now = TIME + DAY + 1
    assert [device.ask() for _ in range(3)] == [device.now, device.now, Reason.EXHAUSTED]
    history = device.client.history()
    assert (history.spent, history.lifetime, history.left) == (2, None, None)
    (standing,) = history.standings(device.now)
    assert (standing.held, standing.left, standing.ever) == (1, 0, 2)
    assert standing.renewals == ((device.now + DAY + 1, 1),)


def test_a_clock_that_is_set_back_gives_nothing_back(quick_path):
    device = Device(quick_path / "s")
    assert [device.ask(), device.ask()] == [TIME, TIME]
    for back in (1, DAY, 400 * DAY, TIME, TIME + 1e6, 1e17):
        device.now = TIME - back
        assert device.ask() is Reason.EXHAUSTED
    device.now = TIME + DAY + 1
    assert device.ask() == device.now
    device.now = TIME  # the newest report has the latest time that is known
    assert device.ask() == TIME + DAY + 1
    assert device.ask() is Reason.EXHAUSTED


def test_a_clock_that_is_set_back_before_the_first_report_gives_nothing_either(quick_path):
    device = Device(quick_path / "s")
    device.now = TIME - 2 * DAY
    assert [device.ask(), device.ask()] == [TIME, TIME]
    device.now = TIME + DAY
    assert device.ask() is Reason.EXHAUSTED


def test_a_clock_that_is_set_back_between_check_and_entry(quick_path):
    """The clock is read once for both."""
    device = Device(quick_path / "s")
    device.ask()
    device.now = TIME + DAY + 1
    readings = iter([TIME + DAY + 1] * 2 + [TIME - DAY] * 9)
    device.client._now = lambda: next(readings)
    assert device.ask(1.0) == TIME + DAY + 1


@pytest.mark.parametrize("now", [TIME + 2 * DAY + 1, 1e12, 1e17])
def test_a_clock_far_ahead_is_refused_until_the_owner_confirms(quick_path, now):
    device = Device(quick_path / "s")
    assert device.ask(1.0) == TIME
    before = device.client.history()
    device.now = now
    assert device.ask() is Reason.CLOCK
    assert device.client.history() == before
    for wrong in ("", " Ada", "two\nlines", 7, "x" * 101):
        with pytest.raises(InvalidArgument, match=r"^by = "):
            device.client.ledger.confirm_clock(wrong)
    assert device.ask() is Reason.CLOCK
    device.client.ledger.confirm_clock("Ada Bell")
    assert device.ask() == int(now)
    (confirmed,) = device.client.history().confirmations
    assert (confirmed.time, confirmed.reports, confirmed.by) == (int(now), 1, "Ada Bell")
    device.now = TIME
    assert device.ask() == int(now)  # a confirmed time is known, too


def test_a_request_that_was_answered_is_answered_whatever_the_clock_says(quick_path):
    device = Device(quick_path / "s")
    assert device.ask() == TIME
    device.now, device.asked = TIME + 99 * DAY, 0
    assert device.ask() == TIME
    assert len(device.client.history().entries) == 1


def test_clocks_that_are_no_numbers_answer_nothing(quick_path):
    device = Device(quick_path / "s")
    for wrong in (float("nan"), float("inf"), float("-inf")):
        device.now = wrong
        assert device.ask() in (Reason.INTERNAL, Reason.LEDGER)
    assert device.client.history().entries == ()


def test_a_leap_second_and_a_summer_time_are_nothing_special(quick_path):
    """Times are seconds since 1970: a second that comes twice counts as one."""
    device = Device(quick_path / "s", now=1_483_228_799)  # before the leap second of 2016
    device.ask()
    device.now = 1_483_228_800
    assert device.ask() == 1_483_228_800
    device.now = 1_483_228_799.5
    assert device.ask() is Reason.EXHAUSTED


def test_a_lifetime_alone_takes_any_clock_as_before(quick_path):
    device = Device(quick_path / "s", Policy.of({**FIELDS, "lifetime": 8}))
    assert device.ask() == TIME
    for now in (TIME + 9999 * DAY, TIME - 9999 * DAY, -5, TIME):
        device.now = now
        assert device.ask() == now


def test_a_menu_has_windows_of_its_own(quick_path):
    device = Device(quick_path / "s", MENU)
    asked = [device.ask(0.5, stated) for stated in (HEALTH, HEALTH, HEALTH, ADS, ADS, None)]
    assert asked == [TIME, TIME, Reason.EXHAUSTED, TIME, Reason.EXHAUSTED, Reason.PURPOSE]
    device.now = TIME + DAY + 1
    assert [device.ask(0.5, HEALTH), device.ask(0.5, ADS)] == [device.now, Reason.EXHAUSTED]
    assert [float(one.held) for one in device.client.history().standings(device.now)] == [
        2,
        0.5,
        0.5,
    ]
    look_alike = Intent("Heаlth research")
    assert device.ask(0.1, look_alike) is Reason.PURPOSE


LOOSER = {
    "a larger lifetime": {"lifetime": 9},
    "no lifetime": {"lifetime": None},
    "more in a window": {"per_window": (Fraction(200001, 100000), "30 days")},
    "a shorter window": {"per_window": (2, "719 hours")},
    "no window": {"per_window": None},
    "more on the menu": {"menu": [{"purpose": "Health research", "per_window": (1.01, "1 week")}]},
    "a shorter one there": {"menu": [{"purpose": "Health research", "per_window": (1, "6 days")}]},
    "for less": {
        "menu": [{"purpose": "Health research", "recipient": "A shop", "per_window": (1, "1 week")}]
    },
    "for a look-alike": {"menu": [{"purpose": "Heаlth research", "per_window": (1, "1 week")}]},
    "as a price": {"menu": [{"purpose": "Health research", "per_report": 0.5}]},
    "no menu": {"menu": None},
}
STRICT = Policy.of(
    {
        **FIELDS,
        "lifetime": 8,
        "per_window": (2, "30 days"),
        "menu": [{"purpose": "Health research", "per_window": (1, "1 week")}],
    }
)


@pytest.mark.parametrize("change", LOOSER.values(), ids=LOOSER)
def test_a_looser_policy_is_refused_until_somebody_allows_it(quick_path, change):
    store = quick_path / "s"
    strict, looser = Device(store, STRICT), replace(STRICT, **change)
    assert strict.ask(0.5, HEALTH) == TIME
    before = strict.client.history()
    error = fault_of(lambda: Client(looser, store))
    assert error.fault in (Fault.LIMITS, Fault.LIFETIME)
    assert "fedsel ledger raise DIR" in str(error)
    assert strict.client.history() == before
    with pytest.raises(InvalidArgument, match=r"^by = "):
        strict.client.ledger.raise_limits(looser, "")
    strict.client.ledger.raise_limits(looser, "Ada Bell")
    history = Client(looser, store).history()
    assert history.limits == looser.limits
    assert [(one.limits, one.by) for one in history.changes] == [
        (STRICT.limits, ""),
        (looser.limits, "Ada Bell"),
    ]
    assert len(history.raises) == 1
    with pytest.raises(InvalidArgument, match=r"^policy = .*needs nobody's name"):
        strict.client.ledger.raise_limits(looser, "Ada Bell")


STRICTER = {
    "a smaller lifetime": {"lifetime": 7},
    "less in a window": {"per_window": (1, "30 days")},
    "a longer window": {"per_window": (2, "60 days")},
    "a longer one on the menu": {
        "menu": [{"purpose": "Health research", "per_window": (1, "8 days")}]
    },
    "for more": {
        "per_window": (1, "30 days"),
        "menu": [{"purpose": "Health research", "lifetime": 1}],
    },
    "one more": {"menu": [*STRICT.menu, {"purpose": "Advertising", "lifetime": 1}]},
}


@pytest.mark.parametrize("change", STRICTER.values(), ids=STRICTER)
def test_a_stricter_policy_is_taken_up_at_once_and_stays(quick_path, change):
    store = quick_path / "s"
    Device(store, STRICT)
    stricter = replace(STRICT, **change)
    history = Client(stricter, store).history()
    assert (history.limits, history.raises) == (stricter.limits, ())
    assert fault_of(lambda: Client(STRICT, store)).reason is Reason.LEDGER


def test_the_order_of_limits_is_no_change(quick_path):
    store = quick_path / "s"
    Device(store, replace(STRICT, menu=[*STRICT.menu, {"purpose": "Advertising", "lifetime": 1}]))
    turned = [{"purpose": "Advertising", "lifetime": 1}, *STRICT.menu]
    assert len(Client(replace(STRICT, menu=turned), store).history().changes) == 1


def test_the_stricter_of_policy_and_ledger_holds_for_a_client_that_is_open(quick_path):
    device = Device(quick_path / "s", Policy.of({**FIELDS, "lifetime": 8}))
    assert device.ask(1.0) == TIME
    both = Policy.of({**FIELDS, "lifetime": 8, "per_window": (1, "1 day")})
    Client(both, quick_path / "s")
    assert device.ask() is Reason.EXHAUSTED
    device.now = TIME + DAY + 1
    assert device.ask() == device.now
    device.now = TIME + 4 * DAY
    assert device.ask() is Reason.CLOCK  # by twice the window of the ledger


def test_a_lifetime_is_raised_beside_a_window(quick_path):
    store = quick_path / "s"
    Device(store, STRICT)
    Ledger(store).raise_lifetime(12, "Ada")
    assert Ledger(store).read().limits == (Limit(Fraction(12)), *STRICT.limits[1:])
    Device(quick_path / "w")
    with pytest.raises(InvalidArgument, match=r"^lifetime = 12.*has no lifetime"):
        Ledger(quick_path / "w").raise_lifetime(12, "Ada")


EDITS = [
    "UPDATE limits SET limits = replace(limits, '86400', '3600')",
    "UPDATE limits SET limits = replace(limits, 'Health research', 'Advertising')",
    "UPDATE limits SET limits = replace(limits, 'null', '\"\"')",
    "UPDATE limits SET time = time - 1",
    "UPDATE limits SET time = NULL",
    "UPDATE limits SET allowed_by = 'Ada'",
    "UPDATE clocks SET time = time + 1",
    "UPDATE clocks SET reports = 0",
    "UPDATE clocks SET allowed_by = 'Somebody'",
    "DELETE FROM clocks",
    "INSERT INTO clocks VALUES (2, 9999999999, 2, 'Ada')",
    "UPDATE reports SET time = time - 999999 WHERE number = 1",
    "UPDATE reports SET time = 'now' WHERE number = 1",
    "UPDATE purposes SET purpose = 'Statistics'",
    "DELETE FROM purposes",
    "UPDATE state SET lifetime = ''",
    "UPDATE state SET lifetime = '80'",
    "UPDATE runs SET open = 0",
]


@pytest.mark.parametrize("statement", EDITS)
def test_every_edit_is_noticed_before_a_report(quick_path, statement):
    device = Device(quick_path / "s", MENU)
    device.ask(0.5, HEALTH)
    device.client.ledger.confirm_clock("Ada")
    device.ask(0.5, ADS)
    tamper(quick_path / "s" / storage.LEDGER_NAME, statement)
    assert device.ask(0.1, HEALTH) is Reason.LEDGER
    assert fault_of(device.client.history).fault is Fault.DAMAGED
    assert fault_of(Ledger(quick_path / "s").inspect).fault is Fault.DAMAGED


def in_child(work):
    """Start a process of its own; returns its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other tests may have left threads: the child needs none
        child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def test_processes_on_one_store_spend_a_window_once(quick_path):
    Device(quick_path / "s", Policy.of({**FIELDS, "per_window": (2, "1 day")}))

    def work(worker):
        device = Device(quick_path / "s", Policy.of({**FIELDS, "per_window": (2, "1 day")}))
        for number in range(20):
            device.asked = 1000 * worker + number
            device.now = TIME + number - worker
            device.ask(0.25)

    children = [in_child(lambda i=i: work(i)) for i in range(1, 4)]
    for child in children:
        os.waitpid(child, 0)
    history = Ledger(quick_path / "s").read()
    assert (len(history.entries), history.spent) == (8, 2)
    times = [entry.time for entry in history.entries]
    assert times == sorted(times)


@pytest.mark.slow
def test_kills_between_charge_and_answer_never_spend_a_window_twice(quick_path):
    """SIGKILL at random instants: what was released is charged, and no window holds more."""
    rng = random.Random(2)
    store = quick_path / "s"
    Device(store)
    released, killed = 0, 0
    for number in range(120):
        mine, theirs = os.pipe()

        def work(number=number, ready=theirs):
            device = Device(store, now=TIME + 7000 * number)
            device.asked = 1000 * number
            os.write(ready, b"begun.")
            for _ in range(3):
                if isinstance(device.ask(), int):
                    os.write(ready, b"!")

        child = in_child(work)
        os.close(theirs)
        os.read(mine, 6)
        time.sleep(rng.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        while found := os.read(mine, 10):
            released += found.count(b"!")
        os.close(mine)
        entries = Ledger(store).read().entries
        assert released <= len(entries)
        for entry in entries:
            window = [e for e in entries if entry.time <= e.time <= entry.time + DAY]
            assert sum(e.charge for e in window) <= 1
    assert killed > 20
    assert len(entries) > 15


def test_random_requests_and_clocks_on_a_ledger_are_judged_as_by_the_records(quick_path):
    """Through files: the twin is told of nothing but what was asked and when."""
    rng = random.Random(6)
    for number in range(12):
        policy = replace(
            MENU if number % 2 else WINDOW, per_window=(1, "2 hours"), clock_tolerance="1 day"
        )
        device = Device(quick_path / str(number), policy)
        allowed = []  # time, charge, purpose
        for _ in range(25):
            device.now = device.now + rng.choice([-90_000, -60, 0, 1, 3600, 7200, 7201, 80_000])
            known = max([TIME, *(one[0] for one in allowed)])
            stated, charge = rng.choice([Intent(), HEALTH, ADS]), rng.choice(["0.25", "0.5", "1"])
            moment, price = max(device.now, known), Fraction(charge)
            due = moment
            if device.now - known > DAY:
                due = Reason.CLOCK
            for limit in policy.limits:
                counted = sum(
                    c
                    for t, c, p in allowed
                    if limit.purpose in (None, p)
                    and (limit.seconds is None or t >= moment - limit.seconds)
                )
                if limit.purpose in (None, stated.purpose) and counted + price > limit.epsilon:
                    due = due if due is Reason.CLOCK else Reason.EXHAUSTED
            if policy.menu and not stated:
                due = Reason.PURPOSE
            found = device.ask(float(charge), stated)
            assert found == due
            if not isinstance(found, Reason):
                allowed.append((found, price, stated.purpose))


def test_a_copy_of_a_store_keeps_its_limits(quick_path):
    Device(quick_path / "s", MENU).ask(0.5, HEALTH)
    shutil.copytree(quick_path / "s", quick_path / "copy")
    assert Ledger(quick_path / "copy").inspect() == Ledger(quick_path / "s").inspect()
