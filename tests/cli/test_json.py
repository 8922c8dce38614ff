"""``--json`` of every command: one valid value on standard output, and nothing else there."""

import json
from importlib import import_module

import pytest

from tests.cli.records import write_people
from tests.cli.support import run_here


def strict(text):
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "arguments",
    [
        ("advise", "--dim", "20", "--clients", "100", "--epsilon", "0.1"),
        ("advise", "--dim", "1000000", "--clients", "10", "--epsilon", "500"),
        ("certify", "PS-PM", "-e", "1", "-d", "10"),
        ("solutions", "NP", "RJ"),
        ("mechanisms",),
        ("ledger", "create", "store", "--lifetime", "0.1"),
    ],
    ids=" ".join,
)
def test_a_valid_value(arguments, tmp_path):
    done = run_here(*arguments, "--json", cwd=tmp_path)
    assert strict(done.stdout)
    assert done.stderr == ""


def test_an_infinite_epsilon_is_null():
    assert strict(run_here("certify", "Identity", "--json", status=1).stdout)["exact"] is None
    assert strict(run_here("solutions", "NP", "--json").stdout)[0]["epsilon"] is None


def test_the_ledger_of_a_device(tmp_path):
    run_here("ledger", "create", tmp_path / "store", "--lifetime", "0.1", "--json")
    shown = strict(run_here("ledger", "show", tmp_path / "store", "--json").stdout)
    assert (shown["left"], shown["left_exact"]) == (0.1, "1/10")


def test_run_with_a_solution_without_epsilon(tmp_path, monkeypatch):
    table = import_module("fedsel.cli._run_table")
    monkeypatch.setattr(table, "write_figures", lambda *_: [])
    data = ("--data", write_people(tmp_path / "x.csv", 100), "--label", "rich")
    options = ("-s", "NP", "-s", "PrivUnit", "-e", "1", "--folds", "2", "--repeats", "1")
    done = run_here("run", *data, *options, "--out", tmp_path / "out", "--json")
    plain, unproved = strict(done.stdout)
    assert plain["epsilon_total"] is None
    assert not unproved["certified"]
    assert strict((tmp_path / "out" / "run.json").read_text(encoding="utf-8")) == [plain, unproved]
