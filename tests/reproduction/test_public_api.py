"""The reproduction uses nothing but the public API of fedsel, and fedsel nothing of it."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = re.findall(r"^## `(fedsel[.a-z]*)`", REFERENCE, re.M)
FILES = sorted((ROOT / "reproduction").rglob("*.py"))


def imported(file):
    """(module, name) of everything that a file imports from fedsel."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and is_ours(node.module):
            yield from ((node.module, alias.name) for alias in node.names)


def is_ours(module):
    return module.partition(".")[0] == "fedsel"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_only_public_names_are_imported(file):
    for module, name in imported(file):
        assert module in PUBLIC, f"{module} is not in docs/api.md"
        assert name is None or f"{module}.{name}" in PUBLIC or name in import_module(module).__all__


def test_the_package_does_not_know_the_reproduction():
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) reproduction", text, re.M), file
