"""``fedsel solutions``, ``certify`` and ``mechanisms``: what there is, with what its law says."""

import io
import json

import pytest
from rich.console import Console

import fedsel
from fedsel import Solution
from fedsel.cli import _solutions as command
from fedsel.mechanisms import SignedSampling
from fedsel.solutions import entries, entry, names, register, unregister
from fedsel.solutions._solution import what_leaves
from tests.cli.support import run, run_here


def listed(*arguments):
    return {row["name"]: row for row in json.loads(run_here("solutions", *arguments).stdout)}


def test_all_lists_the_registry_with_figures_of_its_laws():
    rows = listed("--all", "--json", "--epsilon", "2", "--dim", "50", "--epochs", "2")
    assert set(rows) == set(names())
    for name in ("RJ", "PS-PM", "PM", "PE-published-PM", "PS-PM-C"):
        made = fedsel.solution(name, epsilon=2.0, dim=50, epochs=2)
        row = rows[name]
        assert row["epsilon"] == made.privacy.total
        assert row["epsilon_per_report"] == made.privacy.per_report
        assert row["bits"] == made.bits
        assert row["within_budget"] == made.privacy.within_budget
        assert row["leaves"] == what_leaves(made)
    assert rows["PE-published-PM"]["epsilon"] > 2
    assert not rows["PS-PM-C"]["within_budget"]
    for name in (known.name for known in entries() if known.plain):
        assert rows[name]["epsilon"] is None
        assert not rows[name]["private"]
    assert not rows["PrivUnit"]["certified"]


def test_each_has_a_sentence_of_its_own():
    sentences = {name: entry(name).when for name in names()}
    assert all(text.endswith(".") and len(text) > 20 for text in sentences.values())
    shown = [sentences[name] for name in names() if not entry(name).variant]
    assert len(set(shown)) >= len(shown) - 1  # two baselines say the same


def test_the_recommended_one_is_first_and_those_over_their_budget_last():
    order = [row["name"] for row in json.loads(run_here("solutions", "--json").stdout)]
    assert order[0] == "FJ"
    assert order.index("PS-PM") < order.index("NP")
    assert "PS-HM" not in order


def test_others_are_compared_with_the_recommended_one():
    """No sentence sends anybody to RJ; its own says that FJ comes first."""
    assert not [name for name in names() if "RJ" in entry(name).when]
    assert "FJ" in entry("RJ").when
    assert entry("FJ").when.startswith("First of all")


def test_names_of_ones_own_are_listed_with_their_figures():
    def compose(parameters):
        law = SignedSampling(parameters.epsilon)
        return Solution("Mine", parameters.dim, law, parameters.epochs)

    register("Mine", compose)
    try:
        row = listed("--json")["Mine"]
        assert row["epsilon"] == 1.0
        assert row["leaves"] == "one of 100 entries, with a sign"
        assert "register" in row["when"]
    finally:
        unregister("Mine")


def test_what_cannot_be_had_is_named_with_its_reason():
    done = run_here("solutions", "--dim", "1")
    said = " ".join(done.stdout.split())
    assert "Not possible here: BR (dim = 1: must be an integer in 2 … 65536), PrivUnit (" in said
    rows = listed("--dim", "1", "--json")
    assert "PrivUnit" not in rows
    assert "RJ" in rows
    done = run_here("solutions", "PrivUnit", "--dim", "1", status=2)
    assert "--dim = 1: must be at least 2 for PrivUnit" in done.stderr


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_table_is_readable_at_any_width(width, monkeypatch):
    console = Console(width=width, record=True, file=io.StringIO())
    monkeypatch.setattr(command, "output", lambda: console)
    command.solutions_command(["RJ", "PE-published-PM"])
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    flat = " ".join(text.replace("│", " ").split())
    assert "PE-published-PM" in flat
    assert "8 bits" in flat or width == 140


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["XX"], "NAME = 'XX': must be a known solution"),
        (["--dim", "0"], "--dim = 0"),
        (["--epsilon", "nan"], "--epsilon = nan"),
        (["--epochs", "0"], "--epochs = 0"),
    ],
)
def test_wrong_input(arguments, complaint):
    assert complaint in run_here("solutions", *arguments, status=2).stderr


def test_a_terminal_without_greek_still_shows_the_result():
    assert "Duchi" in run("mechanisms", PYTHONIOENCODING="latin-1").stdout


def test_mechanisms_lists_all():
    names = {row["name"] for row in json.loads(run_here("mechanisms", "--json").stdout)}
    assert {"EXP", "PE", "PS", "PM", "HM", "Duchi", "OW", "TopK", "Identity"} <= names
    assert "PerturbedSampling" in run_here("mechanisms").stdout
