"""Solutions of one's own by `--import`: in every command, and what is wrong with a file."""

import json

import pytest

from fedsel.solutions import unregister
from tests.cli.support import run, run_here

OWN = """
from fedsel import Feedback, Solution, TwoStage
from fedsel.mechanisms import {value}, PerturbedSampling
from fedsel.solutions import register


def compose(recipe):
    budget = recipe.budget
    stages = TwoStage(PerturbedSampling(budget.selection, recipe.k), {value}(budget.value))
    kept = Feedback(accumulate=True)
    return Solution("{name}", recipe.dim, stages, recipe.epochs, feedback=kept,
                    budget=budget.per_epoch, note="of my own")


register("{name}", compose)
"""
pytestmark = pytest.mark.usefixtures("own_solutions_forgotten")
SMALL = ("-e", "2", "--repeats", "1", "--folds", "2", "--rounds", "6")


def own(folder, stem="my_own", name="TT-Duchi", value="Duchi"):
    file = folder / f"{stem}.py"
    file.write_text(OWN.format(name=name, value=value))
    return file


def results(folder, *arguments):
    done = run_here("run", *arguments, *SMALL, "--out", str(folder), "--json")
    return {row["solution"]: row for row in json.loads(done.stdout)}


def test_every_command_knows_a_solution_of_ones_own(tmp_path):
    given = ("--import", str(own(tmp_path)))
    rows = results(tmp_path / "out", *given, "-s", "tt-duchi", "-s", "PS-Duchi")
    # The same composition as one of ours, on the same draws.
    assert rows["TT-Duchi"]["runs"] == rows["PS-Duchi"]["runs"]
    told = json.loads(
        run_here("certify", "TT-Duchi", *given, "-e", "1", "-d", "9", "--json").stdout
    )
    assert (told["solution"], told["holds"]) == ("TT-Duchi", True)
    listed = json.loads(run_here("solutions", *given, "--json").stdout)
    assert "TT-Duchi" in [row["name"] for row in listed]
    asked = ("--dim", "50", "--clients", "5000", "--epsilon", "2", "--json")
    advice = json.loads(run_here("advise", *given, *asked).stdout)
    assert "TT-Duchi" in [row["name"] for row in advice["outlooks"]]
    tried = ("-e", "1", "-d", "3", "--trials", "2000", "--seed", "1", "--json")
    audited = json.loads(run_here("audit", "TT-Duchi", *given, *tried).stdout)
    assert not audited["refuted"]
    assert f"--import {given[1]}" in audited["command"]


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_module_several_files_and_a_configuration_file(tmp_path):
    """In processes of their own, with many threads, from the folder of the files."""
    own(tmp_path)
    own(tmp_path, "other", "TT-HM", "Hybrid")
    (tmp_path / "run.toml").write_text('import = ["my_own", "other.py"]\nsolution = "TT-HM"\n')
    both = ("--import", "my_own", "--import", "other.py", "-s", "TT-Duchi", "-s", "TT-HM")
    first = run("run", *both, *SMALL, "--jobs", "4", "--json", cwd=tmp_path).stdout
    again = run("run", "--config", "run.toml", *SMALL, "--out", "b", "--json", cwd=tmp_path).stdout
    assert json.loads(first)[1]["runs"] == json.loads(again)[0]["runs"]


def test_results_of_changed_code_are_not_taken_from_before(tmp_path):
    file = own(tmp_path)
    out = tmp_path / "out"
    before = results(out, "--import", str(file), "-s", "TT-Duchi")["TT-Duchi"]
    assert results(out, "--import", str(file), "-s", "TT-Duchi")["TT-Duchi"] == before
    unregister("TT-Duchi")
    changed = own(tmp_path, "my_changed", value="Hybrid")
    after = results(out, "--import", str(changed), "-s", "TT-Duchi")["TT-Duchi"]
    assert after["composed_by"] != before["composed_by"]
    assert after["runs"] != before["runs"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "must be a file that exists; there is no "),
        ("def compose(:", "importing it raised SyntaxError: "),
        ("x = 1", "must be a module that calls fedsel.solutions.register(name, compose)"),
        (OWN.format(name="ps-PM", value="Duchi"), "; PS-PM is taken"),
        (OWN.format(name="x" * 30, value="Duchi"), "a new name of at most 24 ASCII letters"),
        ("import no_such_module", "it needs no_such_module, which is missing"),
        ("raise ValueError('not today')", "importing it raised ValueError: not today"),
    ],
)
@pytest.mark.parametrize("command", ["run", "certify"])
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path, text, complaint, command):
    file = tmp_path / "wrong.py"
    if text is not None:
        file.write_text(text)
    arguments = {"run": ("-s", "PM"), "certify": ("PM", "-e", "1")}[command]
    done = run_here(command, *arguments, "--import", str(file), status=2, cwd=tmp_path)
    assert done.stderr.startswith(f"fedsel: --import = '{file}': must be ")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_module_that_is_not_there(tmp_path):
    done = run_here("solutions", "--import", "nowhere.at_all", status=2, cwd=tmp_path)
    assert "there is no module nowhere" in done.stderr


def test_a_wrong_composition_is_refused_before_the_work(tmp_path):
    file = own(tmp_path)
    file.write_text(file.read_text().replace("recipe.dim, stages", "recipe.dim + 1, stages"))
    arguments = ("run", "--import", str(file), "-s", "TT-Duchi", *SMALL)
    assert "must be TT-Duchi with dim = " in run_here(*arguments, status=2, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("returned", "shown"), [("None", "None"), ("1 // 0", "ZeroDivisionError(")]
)
@pytest.mark.parametrize("command", ["run", "certify"])
def test_a_composition_that_fails_is_one_sentence(tmp_path, command, returned, shown):
    file = tmp_path / "wrong.py"
    register = "from fedsel.solutions import register"
    file.write_text(f"{register}\nregister('TT-Duchi', lambda recipe: {returned})\n")
    arguments = {"run": ("-s", "TT-Duchi"), "certify": ("TT-Duchi", "-e", "1", "-d", "9")}[command]
    done = run_here(command, *arguments, "--import", str(file), status=2, cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"fedsel: compose(TT-Duchi) = {shown}")
    assert last.endswith(": must be a Solution")
    assert "Traceback" not in done.stderr


def test_a_composition_over_its_budget_is_marked_without_a_note_of_its_own(tmp_path):
    file = own(tmp_path)
    text = file.read_text().replace("budget.value", "budget.per_epoch")
    file.write_text(text.replace(', note="of my own"', ""))
    arguments = ("--import", str(file), "-s", "TT-Duchi", "-s", "PM", *SMALL)
    done = run_here("run", *arguments, "--out", str(tmp_path / "out"))
    assert "TT-Duchi: its exact ε is above what it was given" in done.stdout.splitlines()
