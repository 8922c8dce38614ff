"""What the project says of itself is so: extras, commands of pages and workflows, and its tests."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob(".github/workflows/*.yml")),
]

# Modules without a test file of their own; the list may only shrink.
WITHOUT_TESTS = {
    "service/_migrations/env.py",
    "service/_migrations/versions/r1_tables.py",
}


def test_the_page_on_installation_says_what_every_extra_is_for():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = re.findall(r"\| `fedsel\[([a-z-]+)\]` \|", page)
    assert sorted(table) == sorted(
        EXTRAS.keys() - {"dev", "docs", "mutants"}
    )  # for work on fedsel itself


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_make_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:`|run: |^)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert set(named) <= targets


def test_every_workflow_says_what_it_may_do_and_for_how_long():
    for workflow in ROOT.glob(".github/workflows/*.yml"):
        text = workflow.read_text()
        assert "\npermissions:\n  contents: read\n" in text, workflow.name
        assert text.count("runs-on:") == text.count("timeout-minutes:"), workflow.name


def test_every_module_has_a_test_file_of_its_name():
    """The tests of `server/_step.py` are `tests/server/test_step.py`."""
    package = ROOT / "src" / "fedsel"
    modules = {file.relative_to(package) for file in package.rglob("[!_]*.py")}
    modules |= {file.relative_to(package) for file in package.rglob("_[!_]*.py")}
    mirrors = {m: ROOT / "tests" / m.parent / f"test_{m.name.lstrip('_')}" for m in modules}
    assert {str(m) for m, mirror in mirrors.items() if not mirror.exists()} == WITHOUT_TESTS


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_docstrings_and_tests_of_a_module_run_in_one_call():
    """Whoever collects a module by its path must not run it twice, nor hide a function by it."""
    both = ["src/fedsel/server/_step.py", "tests/server/test_step.py", "-k", "silence"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *both]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
