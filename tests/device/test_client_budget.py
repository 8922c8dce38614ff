"""The device client and its budget: what was planned is met exactly, and no server uses it up."""

import time
from fractions import Fraction

import pytest

from fedsel import InvalidArgument
from fedsel.device import Client, Ledger, LedgerError, Reason, Refused
from tests.device.support import primes_below
from tests.device.test_client import OTHER_RUN, UPDATE, WEIGHTS, asked, policy, recipe, refusal


def test_the_lifetime_is_exact_and_final(tmp_path):
    client = Client(policy(lifetime=0.3, per_report=0.1), tmp_path / "s", create=True)
    tenths = recipe(epsilon=0.5)  # five of one tenth: three are left
    for i in range(3):
        client.answer(asked(i, of=tenths), WEIGHTS, UPDATE)
    assert client.history().left == 0
    assert refusal(client, asked(3, of=tenths)) is Reason.EXHAUSTED
    tiny = recipe("PM", epsilon=1e-11, epochs=1)
    assert refusal(client, asked(0, run=OTHER_RUN, of=tiny)) is Reason.EXHAUSTED
    reopened = Client(policy(lifetime=0.3, per_report=0.1), tmp_path / "s")
    assert refusal(reopened, asked(3, of=tenths)) is Reason.EXHAUSTED
    # The owner, and only the owner, may think again.
    richer = Client(policy(lifetime=0.4, per_report=0.1), tmp_path / "s", raised_by="The owner")
    richer.answer(asked(3, of=tenths), WEIGHTS, UPDATE)
    assert richer.history().lifetime == Fraction(2, 5)
    # Also downwards: what the ledger says is what holds.
    poorer = Client(policy(lifetime=0.35, per_report=0.1), tmp_path / "s")
    assert poorer.history().lifetime == Fraction(7, 20)
    assert refusal(poorer, asked(4, of=tenths)) is Reason.EXHAUSTED


def test_a_lifetime_is_raised_in_somebodys_name_alone_and_on_record_for_ever(tmp_path):
    store = tmp_path / "s"
    client = Client(policy(lifetime=0.3, per_report=0.1), store, create=True)
    tenths = recipe(epsilon=0.5)
    for i in range(3):
        client.answer(asked(i, of=tenths), WEIGHTS, UPDATE)
    generous = policy(lifetime=80, per_report=0.1)
    before = client.history()
    with pytest.raises(
        LedgerError, match=r"lifetime = 80.0 must be at most 0.3[.] .*fedsel ledger raise"
    ):
        Client(generous, store)
    assert client.history() == before
    for wrong in ("", " ", "two\nlines", "x" * 101, 7):
        with pytest.raises(InvalidArgument, match="raised_by = "):
            Client(generous, store, raised_by=wrong)
    assert client.history() == before

    begun = int(time.time())
    Client(generous, store, raised_by="Ada, data protection officer")
    Client(generous, store, raised_by="Ada, data protection officer")  # nothing to be raised
    Client(generous, store)
    Client(policy(lifetime=0.25, per_report=0.1), store)
    Ledger(store).raise_lifetime(0.5, by="Grace")
    changes = client.history().changes
    assert [float(one.lifetime) for one in changes] == [0.3, 80, 0.25, 0.5]
    assert [one.by for one in changes] == ["", "Ada, data protection officer", "", "Grace"]
    assert [one.reports for one in changes] == [0, 3, 3, 3]
    assert all(one.time >= begun for one in changes[1:])
    raises = [(float(old.lifetime), float(new.lifetime)) for old, new in client.history().raises]
    assert raises == [(0.3, 80), (0.25, 0.5)]
    assert client.history().left == Fraction(1, 5)
    for wrong in (0.5, 0.25, -1, 501, float("nan"), "2"):
        with pytest.raises(InvalidArgument, match=r"^lifetime = "):
            Ledger(store).raise_lifetime(wrong, by="Grace")
    assert client.history().changes == changes


def test_the_stricter_of_policy_and_ledger_holds_also_for_a_client_that_is_open(tmp_path):
    tenths = recipe(epsilon=0.5)
    first = Client(policy(lifetime=0.3, per_report=0.1), tmp_path / "s", create=True)
    first.answer(asked(0, of=tenths), WEIGHTS, UPDATE)
    second = Client(policy(lifetime=0.1, per_report=0.1), tmp_path / "s")
    for client in (first, second):
        assert refusal(client, asked(1, of=tenths)) is Reason.EXHAUSTED
        with pytest.raises(Refused):
            client.earlier(asked(1, of=tenths))
    second.ledger.raise_lifetime(5, by="Grace")
    assert refusal(second, asked(1, of=tenths)) is Reason.EXHAUSTED  # by its own policy
    first.answer(asked(1, of=tenths), WEIGHTS, UPDATE)
    first.answer(asked(2, of=tenths), WEIGHTS, UPDATE)
    assert refusal(first, asked(3, of=tenths)) is Reason.EXHAUSTED


def test_no_fractions_of_a_server_use_a_ledger_up(tmp_path):
    """Each charge has a new denominator of 64 bits; ordinary requests are answered all the same."""
    client = Client(policy(runs=99), tmp_path / "s", create=True)
    for i, prime in enumerate(primes_below(1 << 64, 20)):
        odd = recipe("PM", epsilon=Fraction(prime // 2000, prime), epochs=1)
        client.answer(asked(0, run=bytes([i + 1]) * 16, of=odd), WEIGHTS, UPDATE)
        assert client.history().spent.denominator.bit_length() <= 310
    assert Fraction(1, 100) - 10**-9 < client.history().spent < Fraction(1, 100)
    for i, epsilon in enumerate((0.1, 0.35, Fraction(1, 3), 0.5)):
        usual = recipe("PM", epsilon=epsilon, epochs=1)
        client.answer(asked(0, run=bytes([i + 50]) * 16, of=usual), WEIGHTS, UPDATE)


@pytest.mark.parametrize(
    ("lifetime", "plans"),
    [
        (1, [(Fraction(1), 3)]),  # three reports of 1/3
        (2.0, [(2.0, 101)]),
        (Fraction(12, 101), [(Fraction(12, 101), 12)]),
        (1.0, [(0.1, 1), (0.2, 3), (0.7, 7)]),
        (1.0, [(0.1, 13), (0.2, 97), (0.7, 2)]),
    ],
)
def test_a_lifetime_that_was_planned_is_met_to_the_last_report(quick_path, lifetime, plans):
    client = Client(policy(lifetime=lifetime), quick_path / "s", create=True)
    for number, (epsilon, epochs) in enumerate(plans):
        run, plan = bytes([number]) * 16, recipe("PM", epsilon=epsilon, epochs=epochs)
        for i in range(epochs):
            client.answer(asked(i, run=run, of=plan), WEIGHTS, UPDATE)
    assert client.history().spent == client.history().lifetime == Fraction(str(lifetime))
    least = recipe("PM", epsilon=1e-9, epochs=1)
    assert refusal(client, asked(0, run=b"x" * 16, of=least)) is Reason.EXHAUSTED


@pytest.mark.parametrize("epsilon", [1.0, 0.1, Fraction(1, 3), Fraction(2**58, 2**61 - 1)])
def test_a_report_may_cost_what_the_policy_says(tmp_path, epsilon):
    client = Client(policy(per_report=epsilon), tmp_path / "s", create=True)
    client.answer(asked(0, of=recipe("PM", epsilon=epsilon, epochs=1)), WEIGHTS, UPDATE)
    more = recipe("PM", epsilon=round(float(epsilon) + 1e-9, 12), epochs=1)
    assert refusal(client, asked(0, run=OTHER_RUN, of=more)) is Reason.TOO_MUCH
