"""The tool of `make mutants`: what it tries in place, and what it imports afresh, end alike."""

import gc
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tools.mutants.generating import changed_lines, mutants_of
from tools.mutants.patching import LiveFunctions, RanAtImport

ROOT = Path(__file__).parent.parent

EXAMPLE = '''\
import functools
LIMIT = 3


def twice(function):
    @functools.wraps(function)
    def called(*values):
        return 2 * function(*values)
    return called


def at_import(value):
    return value + LIMIT


TABLE = [at_import(1)]


class Shape:
    sides = 4

    def __init__(self, size=5):
        self.size = size

    @property
    def area(self):
        if self.size > 1:
            return sum(self.size for _ in range(self.size))
        return 0

    @staticmethod
    @functools.lru_cache
    def cached(value):
        return (lambda: value * 7)()


@twice
def doubled(value):
    """
    >>> doubled(0)
    22
    """
    return value + 11
'''
CHECKS = (
    "doubled(1)", "at_import(1)", "TABLE[0]", "Shape().area", "Shape(1).area", "Shape.sides",
    "Shape.cached(2)", "Shape().size", "LIMIT",
)  # fmt: skip
IN_PLACE = (
    ("value + 11", "value - 11"),
    ("self.size > 1", "self.size >= 1"),
    ("for _ in range(self.size)", "for _ in range(0)"),
    ("return 0", "return 0.0"),
    ("value * 7", "value * 8"),
    ("2 * function", "3 * function"),
)
AFRESH = (
    ("LIMIT = 3", "LIMIT = 4"),
    ("sides = 4", "sides = 5"),
    ("size=5", "size=6"),
    ("value + LIMIT", "value - LIMIT"),  # a constant was computed by it
    ("@twice\n", ""),
    ("    return called", "    return function"),
)


def module(code, file="example.py"):
    made = types.ModuleType("example")
    exec(compile(code, file, "exec"), vars(made))
    return made


def seen(example):
    return {check: repr(eval(check, vars(example))) for check in CHECKS}


@pytest.mark.slow
@pytest.mark.parametrize("change", [*IN_PLACE, *AFRESH], ids=lambda change: change[1].strip())
def test_what_is_changed_in_place_is_what_would_be_imported(change, request):
    file = f"{request.node.name}.py"
    with RanAtImport(file) as ran:
        live = module(EXAMPLE, file)
    assert EXAMPLE.count(change[0]) == 1
    mutant = EXAMPLE.replace(*change)
    gc.freeze()  # as tests/conftest.py does once they are collected
    live_functions = LiveFunctions(ran.keys)
    gc.freeze()
    replaced = live_functions.replacements(file, EXAMPLE, mutant)
    if change in AFRESH:
        assert replaced is None or replaced.stale
        return
    assert not replaced.stale
    replaced.make()
    assert seen(live) == seen(module(mutant)) != seen(module(EXAMPLE))


def test_a_change_is_executed_with_its_statement_or_the_head_of_it():
    code = "def f(x):\n    if (\n        x > 1\n    ):\n        try:\n            return [\n"
    code += "                x,\n            ]\n        except (\n            ValueError\n"
    code += "        ):\n            pass\n"
    for old, lines in (("x > 1", (2, 5)), ("x,", (6, 9)), ("ValueError", (9, 12))):
        assert changed_lines(code, code.replace(old, f"not {old}")) == range(*lines)


SAME = """\
from __future__ import annotations
from functools import lru_cache
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import numpy
@lru_cache(maxsize=7)
def f(x: int | None, *, y: tuple[int, 3]) -> int | None:
    if x == "a":
        raise ValueError(f"{x + 1} of {-x}")
    return zip(x.reshape(-1, 2), y, strict=True)
"""


def test_changes_that_mean_nothing_are_no_mutants(tmp_path):
    (tmp_path / "same.py").write_text(SAME)
    mutants = mutants_of(tmp_path, "same.py", tmp_path / "kept")
    changed = [mutant.diff.splitlines()[-1].strip("+ ") for mutant in mutants]
    assert sorted(changed) == [
        'if not x == "a":',
        'if x != "a":',
        "pass",
        "return zip(x.reshape(+1, 2), y, strict=True)",
        "return zip(x.reshape(- 0, 2), y, strict=True)",
        "return zip(x.reshape(-1, 1), y, strict=True)",
        "return zip(x.reshape(-1, 3), y, strict=True)",
    ]
    assert [m.id for m in mutants_of(tmp_path, "same.py", tmp_path / "kept")] == [
        mutant.id for mutant in mutants
    ]


TESTS = """\
import example


def test_area():
    assert example.Shape().area == 25


def test_doubled():
    assert example.doubled(1) == 24


def test_side_and_table():
    assert example.Shape.sides == 4 and example.TABLE == [4]
"""
KINDS = '''\
class Kind:
    """
    >>> Kind().size
    3
    """
    size = 3
    unused = 4
'''
TESTS_OF_KINDS = """\
from shapes import Kind
from shapes.kinds import Kind as Same


def test_a_module_is_there_once():
    assert Kind is Same
"""
FILES = {
    "src/example.py": EXAMPLE,
    "src/shapes/__init__.py": "from shapes.kinds import Kind\n",
    "src/shapes/kinds.py": KINDS,
    "tests/test_example.py": TESTS,
    "tests/test_kinds.py": TESTS_OF_KINDS,
    "pytest.ini": "[pytest]\naddopts = --doctest-modules --import-mode=importlib\n",
}
SCRIPT = """\
import json, sys, types
from pathlib import Path
from tools.mutants.baseline import TestSet
from tools.mutants.generating import Mutant
from tools.mutants.running import Runner

root, changes = Path(sys.argv[1]), json.loads(sys.argv[2])
tests = TestSet(root, "src", ["tests"], root / "notes")
runner = Runner(root, tests, quick=60, enough=60, say=lambda _: None)
waiting = []
for module, *change in changes:
    before = (root / module).read_text()
    spec = types.SimpleNamespace(module_path=module)
    waiting.append((Mutant(spec, before, before.replace(*change)), before, {}))
found = dict(runner.outcomes(waiting, float("inf")))
print(json.dumps([found[mutant] for mutant, *_ in waiting]))
"""


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_run_says_what_is_noticed(tmp_path):
    root = tmp_path / "root"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    expected = {
        ("value + 11", "value - 11"): "killed",
        ("self.size > 1", "self.size > 2"): "survived",
        ("return 0", "return 1"): "not executed",
        ("value * 7", "value * 8"): "not executed",
        ("if self.size > 1:", "while True:\n            continue"): "timed out",
        ("sides = 4", "sides = 5"): "killed",
        ("value + LIMIT", "value - LIMIT"): "killed",
        ("size=5", "size=6"): "killed",
        ("import functools", "import functool"): "killed",
        ("@functools.lru_cache\n", "@functools.cache\n"): "survived",
    }
    changes = [("src/example.py", *change) for change in expected]
    # What is imported afresh is collected with its doctests, and is there once.
    for change, outcome in {("size = 3", "size = 5"): "killed", ("= 4", "= 5"): "survived"}.items():
        changes.append(("src/shapes/kinds.py", *change))
        expected[change] = outcome
    command = [sys.executable, "-c", SCRIPT, str(root), json.dumps(changes)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.splitlines()[-1]) == list(expected.values())
