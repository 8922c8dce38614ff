"""`fedsel certify`: the exact ε of every mechanism and of every solution."""

import json

import pytest

from fedsel import certify, solution
from fedsel.solutions import entries
from tests.cli.support import outcome, run_here


def test_certify_proves_the_central_guarantee_of_shuffled_reports():
    arguments = ("certify", "Duchi", "-e", "1", "--shuffled", "50", "--delta", "1e-3")
    assert "if the shuffler is honest" in run_here(*arguments).stdout
    central = json.loads(run_here(*arguments, "--json").stdout)["central"]
    assert 0.2 < central["epsilon"] < 0.9
    assert (central["reports"], central["delta"], central["epochs"]) == (50, 1e-3, 1)
    assert json.loads(run_here(*arguments[:4], "--json").stdout)["central"] is None


def test_certify_prints_and_speaks_json():
    text = run_here("certify", "ps", "--epsilon", "1", "--dim", "100").stdout
    assert "holds" in text
    assert "hits the top k with probability 0.231969" in text
    coded = json.loads(run_here("certify", "rj", "-e", "2", "-d", "123", "--json").stdout)
    assert (coded["d"], coded["codewords"], coded["holds"]) == (123, 128, True)
    assert 2 - 1e-9 < coded["exact"] <= 2
    text = run_here("certify", "RC", "-e", "2", "-d", "100", "--words", "64").stdout
    assert "RC at d = 100 is J on 64 codewords" in text
    answer = json.loads(run_here("certify", "PS-PM", "-e", "2", "-d", "123", "--json").stdout)
    assert answer["holds"]
    assert answer["claimed"] == 2.0
    failing = run_here("certify", "pe-published", "-e", "1", "-d", "10", "--json", status=1)
    published = json.loads(failing.stdout)
    assert published["exact"] == pytest.approx(1.173, abs=1e-3)
    assert not published["holds"]
    nothing = json.loads(run_here("certify", "Identity", "--json", status=1).stdout)
    assert nothing["exact"] is None
    assert not nothing["private"]
    assert not nothing["holds"]


@pytest.mark.parametrize("known", [e for e in entries() if not e.variant], ids=lambda e: e.name)
def test_every_name_that_is_listed_can_be_certified(known):
    """An officer files this for each solution of a policy; its ε is what a ledger charges."""
    claim = () if known.plain else ("-e", "1")
    status, done = outcome("certify", known.name, *claim, "-d", "10", "--json")
    told = json.loads(done.stdout)
    assert status == (0 if told["holds"] else 1)
    built = solution(known.name, epsilon=None if known.plain else 1.0, dim=10)
    if told["solution"] is not None:
        assert told["holds"] == (built.privacy.within_budget and built.private)
        ratio = certify(built).ratio
        assert told["ratio"] == (None if ratio is None else str(ratio))
        assert built.privacy.certified or not told["holds"]
    elif not built.private:  # a selection that is private alone
        assert f"the solution {known.name} is not private" in told["note"]


@pytest.mark.parametrize("name", ["PM-RP", "ps-pm-c", "PrivUnit", "RS-PM", "Duchi"])
def test_a_solution_is_described(name):
    _, done = outcome("certify", name, "-e", "1", "-d", "20")
    first, second, *_ = done.stdout.splitlines()
    assert first.lower().startswith(f"{name.lower()} at d = 20: ")
    expected = {"ps-pm-c": "exact ε = 1.1: FAILS", "PrivUnit": "UNPROVED for floats"}
    assert second.endswith(expected.get(name, "exact ε = 1: holds"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("PM-RP", "-e", "1"), "--dim = None: must be an integer ≥ 1: PM-RP needs it"),
        (("PM-RP", "-e", "1", "-d", "9", "-k", "2"), "PM-RP has no such parameter"),
        (("EXP-PM-C", "-e", "1", "-d", "9", "-k", "2"), "EXP-PM-C has no such parameter"),
        (("NP", "-e", "1", "-d", "9"), "--epsilon = 1.0: must be omitted: NP"),
        (("PM-RP", "-d", "9"), "--epsilon = None"),
        (("PM", "-e", "1", "-d", "9", "--mu", "0.2"), "--mu = 0.2: must be omitted: PM has no"),
        (("Identity", "-d", "9"), "--dim = 9: must be omitted: Identity has no such parameter"),
        (("NP", "-d", "9", "--shuffled", "9"), "--shuffled = 9: must be omitted"),
    ],
)
def test_options_that_a_solution_lacks_are_refused(arguments, complaint):
    assert complaint in run_here("certify", *arguments, status=2).stderr


def test_the_parameters_of_a_solution_count():
    told = [
        json.loads(outcome("certify", "PS-PM-C", "-e", "1", "-d", "9", "--mu", mu, "--json")[1][0])
        for mu in ("0.1", "0.4")
    ]
    assert [one["exact"] for one in told] == [pytest.approx(1.1), pytest.approx(1.4)]
