"""Limits of ε: no interval holds more, whatever the requests and the clock, and the vectors."""

import random
from fractions import Fraction

import pytest

from fedsel import InvalidArgument
from fedsel.device import Intent, Limit, Limits, Policy, Standing
from fedsel.device._budget import Past, duration, fits, latest, loosened, seconds_of
from fedsel.solutions._privacy import added
from tests.vectors.support import cases

HEALTH, ADS = Intent("Health research", "A hospital"), Intent("Advertising", "A shop")
STATED = (Intent(), HEALTH, ADS, Intent("Health research"), Intent("", "A hospital"))
CHARGES = [Fraction(x) for x in ("1/3", "1/2", "1", "1/7", "2/101", "1/2147483647")]


def of(kind):
    found = [case for case in cases("windows") if case["kind"] == kind]
    assert found
    return found


def limit_of(fields):
    epsilon, *rest = fields
    return Limit(Fraction(epsilon), *rest)


def policy_of(fields):
    """A policy whose ε are written as fractions, as in the vectors."""

    def read(value):
        if isinstance(value, dict):
            return {name: read_field(name, part) for name, part in value.items()}
        return [read(part) for part in value] if isinstance(value, list) else value

    def read_field(name, value):
        if name in ("lifetime", "per_report") and value is not None:
            return Fraction(value)
        if name == "per_window":
            return Fraction(value[0]), value[1]
        return read(value)

    return Policy.of(read(fields))


def test_lengths_of_time():
    for case in of("duration"):
        if case["seconds"] is None:
            with pytest.raises(InvalidArgument, match=r"^length = .*at most 3650 days"):
                seconds_of("length", case["text"])
        else:
            assert seconds_of("length", case["text"]) == case["seconds"]
            assert seconds_of("length", duration(case["seconds"])) == case["seconds"]


@pytest.mark.parametrize("value", [30, None, ["30 days"], b"30 days"])
def test_a_length_of_time_is_a_text(value):
    with pytest.raises(InvalidArgument, match=r"^length = "):
        seconds_of("length", value)


def test_tables_of_policies():
    for case in of("table"):
        if "wrong" in case:
            with pytest.raises(InvalidArgument) as error:
                Policy.of(case["values"])
            assert error.value.name == case["wrong"]
        else:
            limits = [limit_of(fields) for fields in case["limits"]]
            assert list(Policy.of(case["values"]).limits) == limits


def test_which_limits_are_looser():
    for case in of("change"):
        asked, present = ([limit_of(x) for x in case[name]] for name in ("asked", "present"))
        assert (not loosened(asked, present)) is case["allowed"]


def test_what_a_past_allows():
    """The rule on the records of a case, without a ledger; its reasons are the limits' alone."""
    seen = set()
    for case in of("past"):
        policy, asked = policy_of(case["policy"]), case["asked"]
        past = [Past(*entry.values()) for entry in case["entries"]]
        known = max((case["created"], *case["confirmed"], *(one.time for one in past)))
        time = latest(case["now"], known)
        for told, limit in zip(case["standings"], policy.limits, strict=True):
            one = Standing.of(limit, past, time)
            assert limit == limit_of(told["limit"])
            amounts = [one.held, one.ever, one.left]
            assert amounts == [Fraction(told[name]) for name in ("held", "ever", "left")]
            assert [(at, str(x)) for at, x in one.renewals] == [tuple(x) for x in told["renewals"]]
        seen.add(case["reason"])
        if case["reason"] in (None, "EXHAUSTED"):
            stated = Intent(asked["purpose"], asked["recipient"])
            charge = Fraction(asked["charge"])
            fitting = fits(policy.limits, stated, charge, lambda x: x.held(past, time))  # noqa: B023
            assert fitting is (case["reason"] is None), case["shows"]
    assert seen == {None, "EXHAUSTED", "CLOCK", "PURPOSE", "TOO_MUCH", "NOT_ALLOWED"}


def random_limits(rng):
    return [
        Limit(
            rng.choice([Fraction(1, 2), Fraction(1), Fraction(5, 3)]),
            rng.choice([None, 3, 5, 8]),
            rng.choice([None, None, "Health research", "Advertising"]),
            rng.choice([None, None, "A hospital"]),
        )
        for _ in range(rng.randint(1, 3))
    ]


def most_in_any_interval(limit, reports):
    """The twin: every closed interval that begins or ends with a report, and the true sum in it."""
    own = [(time, charge) for time, charge, stated in reports if limit.concerns(stated)]
    if limit.seconds is None:
        return sum((charge for _, charge in own), Fraction(0))
    begins = [time for time, _ in own] + [time - limit.seconds for time, _ in own]
    return max(
        (sum(c for t, c in own if a <= t <= a + limit.seconds) for a in begins), default=Fraction(0)
    )


@pytest.mark.parametrize("clock", ["right", "wrong"])
def test_no_interval_holds_more_than_its_limit(clock):
    """10,000 histories: by the times of the clock; where it is wrong, by those that were kept."""
    rng = random.Random(clock)
    refused = 0
    for _ in range(5000):
        limits, past, reports, now = random_limits(rng), [], [], Fraction(rng.randint(-20, 20))
        for _ in range(rng.randint(1, 12)):
            now += Fraction(rng.choice([0, 1, 2, 5, 8, 9, 12, 17]), 4)
            shown = now if clock == "right" else now + rng.choice([-1000, -3, 0, 0, 0])
            known = max((one.time for one in past), default=None)
            time, charge, stated = latest(shown, known), rng.choice(CHARGES), rng.choice(STATED)
            if fits(limits, stated, charge, lambda x: x.held(past, time)):  # noqa: B023
                past.append(Past(time, str(charge), stated.purpose, stated.recipient))
                reports.append((now if clock == "right" else Fraction(time), charge, stated))
            else:
                refused += 1
        assert [one.time for one in past] == sorted(one.time for one in past)
        for limit in limits:
            assert most_in_any_interval(limit, reports) <= limit.epsilon
    assert refused > 5000


def test_renewals_are_what_becomes_free_and_when():
    rng = random.Random(4)
    for _ in range(300):
        limit = Limit(Fraction(9), rng.choice([3, 5, 8]), rng.choice([None, "Health research"]))
        past = [
            Past(rng.randint(0, 12), str(rng.choice(CHARGES)), rng.choice(["", "Health research"]))
            for _ in range(6)
        ]
        now = latest(rng.randint(0, 20), max(one.time for one in past))
        plain = Fraction(0)
        for at, back in limit.renewals(past, now):
            assert at > now
            before = [Past(*one) for one in past if limit.concerns(one)]
            counted = [
                sum(Fraction(x.charge) for x in before if x.time >= t - limit.seconds)
                for t in (at - 1, at)
            ]
            assert counted[0] - counted[1] == back
            plain += back
        assert plain == sum(
            Fraction(x.charge) for x in past if limit.concerns(x) and x.time >= now - limit.seconds
        )


def test_limits_that_imply_others_allow_no_history_that_those_refuse():
    """By chance: whatever a policy allows that may take the place of others, these allow."""
    rng, stricter = random.Random(7), 0
    for _ in range(4000):
        old, new = random_limits(rng), random_limits(rng)
        if loosened(new, old):
            continue
        stricter += 1
        past = []
        for time in range(12):
            charge, stated = rng.choice(CHARGES), rng.choice(STATED)
            held = lambda x: x.held(past, time)  # noqa: B023, E731
            if fits(new, stated, charge, held):
                assert fits(old, stated, charge, held)
                past.append(Past(time, str(charge), stated.purpose, stated.recipient))
    assert stricter > 100


def test_a_ledger_and_its_twin_allow_the_same_reports():
    """The rule as SPEC.md says it, sum by sum and from the records alone."""
    rng = random.Random(3)
    verdicts = []
    for _ in range(3000):
        limits, time = random_limits(rng), rng.randint(0, 30)
        past = [
            Past(rng.randint(0, time), str(rng.choice(CHARGES)), *vars(rng.choice(STATED)).values())
            for _ in range(rng.randint(0, 8))
        ]
        charge, stated = rng.choice(CHARGES), rng.choice(STATED)
        allowed = True
        for limit in limits:
            if limit.purpose not in (None, stated.purpose):
                continue
            if limit.recipient not in (None, stated.recipient):
                continue
            spent = Fraction(0)
            for one in past:
                texts = (
                    limit.purpose in (None, one.purpose),
                    limit.recipient in (None, one.recipient),
                )
                if all(texts) and (limit.seconds is None or one.time + limit.seconds >= time):
                    spent = added(spent, Fraction(one.charge))
            allowed = allowed and added(spent, charge) <= limit.epsilon
        assert fits(limits, stated, charge, lambda x: x.held(past, time)) is allowed  # noqa: B023
        verdicts.append(allowed)
    assert 500 < sum(verdicts) < 2500


LOOK_ALIKES = [
    "health research",
    "Health  research",
    "Hеalth research",
    "Health research ",
    "Health",
]


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_texts_are_compared_letter_by_letter(text):
    limit = Limit(Fraction(1), 3600, purpose="Health research")
    assert not limit.concerns(Past(0, "1", text))
    assert limit.held([Past(0, "1", text)], 0) == 0
    assert loosened([Limit(Fraction(1), 3600, text)], [limit]) == (limit,)


def test_an_entry_of_a_menu_is_read_again_as_it_is():
    menu = [{"purpose": "Health research", "per_window": [2, "30 days"]}]
    policy = Policy(8, 1, ["RJ"], [6], menu=menu)
    assert Policy(8, 1, ["RJ"], [6], menu=policy.menu) == policy
    assert policy.most_per_report(HEALTH) == 1
    assert hash(policy)


def test_limits_as_people_read_them():
    day = 86_400
    said = [
        str(limit)
        for limit in (
            Limit(Fraction(8)),
            Limit(Fraction(1, 2), 36 * 3600, None, "A shop"),
            Limit(Fraction(1, 3), 7 * day, "Health", "A hospital"),
        )
    ]
    assert said == [
        "ε = 8 ever",
        'ε = 0.5 in any 36 hours for the recipient "A shop"',
        'ε = 0.333333 in any 7 days for the purpose "Health" and the recipient "A hospital"',
    ]
    assert Limits((Limit(Fraction(1), day),)).lifetime is None
