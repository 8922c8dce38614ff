"""The device client and its budget: what was planned is met exactly, and no server uses it up."""

from fractions import Fraction

import pytest

from fedsel.device import Client, Reason
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
    richer = Client(policy(lifetime=0.4, per_report=0.1), tmp_path / "s")
    richer.answer(asked(3, of=tenths), WEIGHTS, UPDATE)
    assert richer.history().lifetime == Fraction(2, 5)
    # Also downwards: what the ledger says is what holds.
    poorer = Client(policy(lifetime=0.35, per_report=0.1), tmp_path / "s")
    assert poorer.history().lifetime == Fraction(7, 20)
    assert refusal(poorer, asked(4, of=tenths)) is Reason.EXHAUSTED


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
