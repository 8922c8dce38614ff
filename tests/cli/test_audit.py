"""``fedsel audit module:function``: found, audited, and every mistake said in a sentence."""

import json
import re
import shlex
import sys

import pytest

from tests.cli.support import run, run_here

MODULE = '''
"""Randomisers as people write them."""
import math
import random

import numpy as np

NUMBER = 3
OWN = random.Random(5)  # a test is the same every time


def truth(answer, entropy):
    return answer if entropy.below(4) else not answer


def own(answer):
    return answer if OWN.random() < 0.75 else not answer


def laplace(x, rng, epsilon=1.0):
    return x + rng.laplace(scale=1 / epsilon)


def styled(x, *, sharp, rng=None):
    return int(rng.integers(2)) if not sharp else x


def largest(vector, rng):
    weights = np.exp(np.abs(vector))
    return int(rng.choice(len(vector), p=weights / weights.sum()))


def three(a, b, c):
    return a


def nothing():
    return 0


def crash(x):
    return 1 // x


def strange(x):
    return object()


async def later(x):
    return x


class Made:
    @staticmethod
    def respond(answer, entropy):
        return truth(answer, entropy)
'''
FEW = ("--trials", "2000", "--seed", "1")
BITS = ("--inputs", "[True, False]")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module; what it leaves in this process is taken back."""
    (tmp_path / "randomisers_of_a_test.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "needs.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in (NAME, "needs", "broken"):
        sys.modules.pop(name, None)


NAME = "randomisers_of_a_test"


def audit(folder, function, *arguments, status=0, file=False):
    target = f"{NAME}{'.py' if file else ''}:{function}"
    return run_here("audit", target, *arguments, *FEW, status=status, cwd=folder)


def test_a_claim_that_holds_and_one_that_does_not(folder):
    told = json.loads(audit(folder, "truth", "-e", "1.1", *BITS, "--json").stdout)
    assert told["verdict"] == "holds for these inputs"
    assert told["exact"]["ratio"] == "3"
    assert told["refuted"] is False
    assert told["lower_bound"] < told["exact"]["epsilon"]
    told = json.loads(audit(folder, "truth", "-e", "1", *BITS, "--json", status=1).stdout)
    assert told["refuted"] is True
    assert set(told) >= {"claimed", "alpha", "event", "hits", "trials", "inputs", "command"}


def test_a_function_with_draws_of_its_own_from_a_file(folder):
    plain = ("-e", "0.5", *BITS, "--trials", "2000")
    text = run_here("audit", f"{NAME}.py:own", *plain, status=1, cwd=folder).stdout
    assert "refuted" in text
    assert "output True" in text or "output False" in text
    assert "--seed" not in text  # it would change nothing
    text = audit(folder, "own", "-e", "1.2", "--inputs", "[true, false]").stdout
    assert "not refuted" in text


@pytest.mark.slow
def test_ranges_vectors_parameters_and_methods(folder):
    text = audit(folder, "laplace", "-e", "1", "--range", "0", "1", status=1).stdout
    assert "last binary digit" in text
    assert "--seed" in text
    audit(folder, "laplace", "-e", "1", "--range", "0", "1", "--values-only")
    audit(
        *(folder, "laplace", "-e", "1", "--range", "0", "1", "--values-only"),
        *("--set", "epsilon=4"),
        status=1,
    )
    audit(folder, "largest", "-e", "0.5", "--range", "-1", "1", "--dim", "3", status=1)
    audit(folder, "Made.respond", "-e", "1.1", *BITS)
    audit(folder, "styled", "-e", "1", *BITS, "--set", "sharp=False")
    audit(folder, "styled", "-e", "1", *BITS, "--set", "sharp=True", status=1)


def test_the_command_on_the_page_repeats_the_finding(folder):
    page = folder / "finding.html"
    first = json.loads(
        audit(folder, "truth", "-e", "1", *BITS, "--html", page, "--json", status=1).stdout
    )
    text = page.read_text(encoding="utf-8")
    assert "The claim ε = 1 is refuted" in text
    assert re.search(r"Content-Security-Policy", text)
    again = json.loads(run_here(*shlex.split(first["command"])[1:], cwd=folder, status=1).stdout)
    assert again == first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense", "-e", "1", *BITS], "module:function, path/to/file.py:function, or the"),
        ([f"{NAME}:", "-e", "1", *BITS], "module:function"),
        (["no_such_module:f", "-e", "1", *BITS], "there is no module no_such_module"),
        (["no/such.py:f", "-e", "1", *BITS], "there is no no/such.py"),
        (["needs:f", "-e", "1", *BITS], "it needs no_such_module_at_all, which is missing"),
        (["broken:f", "-e", "1", *BITS], "importing it raised ZeroDivisionError"),
        ([f"{NAME}:truht", "-e", "1", *BITS], "there is no truht in it, it has truth"),
        ([f"{NAME}:NUMBER", "-e", "1", *BITS], "NUMBER is an int"),
        ([f"{NAME}:Made", "-e", "1", *BITS], "Made is a class"),
        ([f"{NAME}:later", "-e", "1", *BITS], "later is an async one"),
        ([f"{NAME}:three", "-e", "1", *BITS], "it takes (a, b, c)"),
        ([f"{NAME}:nothing", "-e", "1", *BITS], "it takes ()"),
        ([f"{NAME}:crash", "-e", "1", "--inputs", "[1, 0]"], "raised ZeroDivisionError"),
        ([f"{NAME}:strange", "-e", "1", *BITS], "returned an object for the input True"),
        ([f"{NAME}:truth", *BITS], "--epsilon = None: must be the ε that TARGET claims"),
        ([f"{NAME}:truth", "-e", "-1", *BITS], "claimed = -1.0"),
        ([f"{NAME}:truth", "-e", "1"], "unless you set --range LOW HIGH"),
        ([f"{NAME}:truth", "-e", "1", "--inputs", "[1]"], "at least two different values"),
        ([f"{NAME}:truth", "-e", "1", "--inputs", "[1, 1]"], "at least two different values"),
        ([f"{NAME}:truth", "-e", "1", "--inputs", "open('x')"], "--inputs = \"open('x')\""),
        ([f"{NAME}:truth", "-e", "1", "--inputs", "[[1], [1, [2]]]"], "of one length"),
        ([f"{NAME}:truth", "-e", "1", *BITS, "--dim", "3"], "omitted with --range or --dim"),
        ([f"{NAME}:truth", "-e", "1", "--range", "1", "0"], "the smaller first"),
        ([f"{NAME}:truth", "-e", "1", *BITS, "--set", "x"], "--set = 'x': must be name=value"),
        ([f"{NAME}:truth", "-e", "1", *BITS, "--set", "p=1"], "a parameter of"),
        ([f"{NAME}:truth", "-e", "1", *BITS, "--html", "no/f.html"], "in a folder that exists"),
        (["--inputs", "[0, 1]"], "TARGET = None: must be module:function"),
    ],
)
def test_every_mistake_is_one_sentence(folder, arguments, said):
    done = run_here("audit", *arguments, status=2, cwd=folder)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.slow
def test_a_module_of_the_folder_that_the_user_is_in_is_found(folder):
    done = run("audit", f"{NAME}:truth", "-e", "1.1", *BITS, *FEW, cwd=folder)
    assert "holds for these inputs" in done.stdout


def test_a_solution_by_its_name():
    few = ("--trials", "3000", "--seed", "1")
    given = ("audit", "ps-pm-c", "-e", "2", "--set", "mu=0.5", "--set", "k=1", *few)
    told = json.loads(run_here(*given, "-d", "2", "--json", status=1).stdout)
    assert told["refuted"]
    assert "fedsel certify" in told["why_not_exact"]
    chosen = run_here(*given, "--inputs", "[[0, 1], [0, 0.99]]", "--json")
    assert json.loads(chosen.stdout)["inputs_tried"] == ["[0.0, 1.0]", "[0.0, 0.99]"]
    assert (
        "--dim = None: must be an integer ≥ 1: ps-pm-c needs it"
        in run_here(*given, status=2).stderr
    )
    wrong = run_here("audit", "PM", "-e", "1", "-d", "2", "--set", "rest=3", status=2)
    assert "rest" in wrong.stderr
