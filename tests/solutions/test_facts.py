"""Facts about solutions are asked of their entry and their parts, never guessed from outside.

A name is not parsed (`fedsel.solutions.entry` knows), and the kind of a part is not tested (the
part has a property). What is left is counted here, module by module: the counts may only fall.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

import fedsel
from fedsel import mechanisms, solutions
from fedsel.solutions import names

PACKAGE = Path(fedsel.__file__).parent
ABSTRACT = {"Mechanism", "Selection", "Value", "ReportMechanism", "Transform"}
"""Kinds of arguments that a function may take, such as a mechanism or a solution."""
KINDS = {
    name
    for module, bases in (
        (mechanisms, (mechanisms.Mechanism,)),
        (solutions, (solutions.Transform, solutions.Feedback)),
    )
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, bases)
} - ABSTRACT | {"Fresh", "Baseline", "PrivUnit", "SignDS", "WholeVector"}
ENDINGS = {"-C", "-O", "-RP", "-PM", "RS-", "NP-", "PS-", "PE-", "EXP-"}
KINDS_ASKED = {"checks/__init__.py": 1, "advising/_moments.py": 2}
NAMES_TESTED: dict[str, int] = {}


def kinds_asked(tree: ast.AST) -> int:
    """How often isinstance is asked for a kind of part."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    asked = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "isinstance"]
    given = [{n.id for n in ast.walk(c.args[1]) if isinstance(n, ast.Name)} for c in asked]
    return sum(bool(KINDS & ids) for ids in given)


def names_tested(tree: ast.AST) -> int:
    """How often something is compared with names of solutions, or with their first or last part."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            sides += [part for side in sides for part in ast.iter_child_nodes(side)]
            constants = {side.value for side in sides if isinstance(side, ast.Constant)}
            found += bool(constants & set(names()))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            ends = node.func.attr in ("startswith", "endswith", "removesuffix", "removeprefix")
            parts = {n.value for a in node.args for n in ast.walk(a) if isinstance(n, ast.Constant)}
            found += ends and bool(parts & (ENDINGS | set(names())))
    return found


def counted(count) -> Counter[str]:
    sources = {p.relative_to(PACKAGE).as_posix(): p for p in PACKAGE.rglob("*.py")}
    return +Counter({name: count(ast.parse(p.read_text())) for name, p in sources.items()})


@pytest.mark.parametrize(
    ("source", "kinds", "tested"),
    [
        ("isinstance(x.mechanism, TwoStage | OneSymbol)", 1, 0),
        ("isinstance(x, (int, Rotated))", 1, 0),
        ("isinstance(x, Value)", 0, 0),
        ("name == 'RJ'", 0, 1),
        ("solution.name in ('NP', other)", 0, 1),
        ("name.endswith('-RP') or name.startswith(('EXP-', 'PE-'))", 0, 2),
        ("kind == 'shuffled'", 0, 0),
    ],
)
def test_what_is_counted(source, kinds, tested):
    assert (kinds_asked(ast.parse(source)), names_tested(ast.parse(source))) == (kinds, tested)


def test_no_new_place_asks_for_the_kind_of_a_part():
    found = counted(kinds_asked)
    assert {name: n for name, n in found.items() if n > KINDS_ASKED.get(name, 0)} == {}


def test_no_new_place_tests_the_name_of_a_solution():
    found = counted(names_tested)
    assert {name: n for name, n in found.items() if n > NAMES_TESTED.get(name, 0)} == {}
