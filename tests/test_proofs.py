"""The proofs cannot go stale: what they cite exists, and what there is to prove is cited."""

import ast
import importlib
import re
import runpy
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from fedsel import solution
from fedsel.mechanisms._base import Mechanism
from fedsel.solutions import Feedback, Transform, names
from fedsel.solutions._baselines import PrivUnit

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "proofs"
PAGES = sorted(FOLDER.glob("*.md"))
TOOL = runpy.run_path(str(ROOT / "tools" / "proofs.py"))
CODE, TEST, statements, slug = (TOOL[name] for name in ("CODE", "TEST", "statements", "slug"))
CELL = re.compile(r"`([^`]+)`")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)

ALL = {heading: (page, body) for page in PAGES for heading, body in statements(page).items()}
NUMBERS = {heading.split()[0] for heading in ALL}


@cache
def functions_of(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if hasattr(node, "name")}


def resolved(dotted: str) -> object:
    """What a dotted name stands for: a module, and then attributes."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(dotted)


def expanded(pattern: str) -> list[str]:
    """The names that a pattern with braces stands for."""
    pieces = re.split(r"\{([^}]*)\}", pattern)
    choices = [p.split(",") if i % 2 else [p] for i, p in enumerate(pieces)]
    return ["".join(parts) for parts in product(*choices)]


def test_braces():
    assert expanded("{,a-}b{c,d}") == ["bc", "bd", "a-bc", "a-bd"]


@every_page
def test_the_code_and_the_tests_that_are_cited_exist(page):
    text = page.read_text()
    for dotted in CODE.findall(text):
        resolved(dotted)
    for file, function in TEST.findall(text):
        assert function in functions_of(ROOT / file), f"{file}::{function}"


@every_page
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^)]*)\)", page.read_text()):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor:
            assert anchor in {slug(heading) for heading in statements(file)}, anchor


def test_every_statement_is_proved_and_names_its_code_and_its_tests():
    assert len(ALL) > 50
    assert len(NUMBERS) == len(ALL)
    for heading, (_, body) in ALL.items():
        assert body.count("**Statement.**") == body.count("**Proof.**") == 1, heading
        assert "∎" in body, heading
        assert CODE.search(body[body.index("\n- Code:") : body.index("\n- Checked by:")]), heading
        assert TEST.search(body[body.index("\n- Checked by:") :]), heading


def test_the_index_says_what_the_pages_say():
    text = (FOLDER / "index.md").read_text()
    written = text.partition("## Statements\n\n")[2]
    assert written == TOOL["listing"](), "python tools/proofs.py writes it anew"
    assert {page.name for page in PAGES} - {"index.md"} == set(re.findall(r"\((\w+\.md)\)", text))


def kinds(base: type) -> set[type]:
    """All public classes of the package that extend one."""
    found = set()
    for kind in base.__subclasses__():
        found |= {kind} | kinds(kind)
    return {k for k in found if k.__module__.startswith("fedsel.") and k.__name__[0] != "_"}


def test_every_mechanism_transform_and_feedback_is_cited():
    cited = {resolved(dotted) for page in PAGES for dotted in CODE.findall(page.read_text())}
    wanted = kinds(Mechanism) | kinds(Transform) | {Feedback}
    assert PrivUnit in wanted
    assert wanted - cited == set()


def rows_of_solutions() -> list[list[str]]:
    lines = (FOLDER / "solutions.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [row for row in rows if row[0].startswith("`")]


def test_every_private_name_of_the_registry_has_its_row():
    """As it is composed, so it is described: mechanism, selection, transform and residual."""
    private = {name for name in names() if solution(name, epsilon=1.0, dim=2, k=1).privacy.charge}
    described = []
    for pattern, mechanism, transform, keeps, cited in rows_of_solutions():
        for name in expanded(CELL.findall(pattern)[0]):
            made = solution(name, epsilon=1.0, dim=2, k=1)
            parts = [type(made.mechanism).__name__]
            if hasattr(made.mechanism, "selection"):
                parts.append(type(made.mechanism.selection).__name__)
            assert CELL.findall(mechanism) == parts, name
            assert CELL.findall(transform) == [type(made.transform).__name__], name
            assert keeps == ("yes" if made.accumulates else "no"), name
            described.append(name)
        assert statements_in(cited) <= NUMBERS
    assert sorted(described) == sorted(private)


def statements_in(text: str) -> set[str]:
    """R1, R3–R5: the numbers of statements, ranges included."""
    found = set()
    for letter, first, last in re.findall(r"\b([A-Z])(\d+)(?:–[A-Z](\d+))?", text):
        found |= {f"{letter}{i}" for i in range(int(first), int(last or first) + 1)}
    return found


def test_statements_that_are_referred_to_exist():
    """In the pages, by their number; and in the docstrings, by page and number."""
    for heading, (_, body) in ALL.items():
        prose = re.sub(r"`[^`]*`", "", body)
        for number in re.findall(r"\b([A-Z]\d{1,2})\b", prose):
            assert number in NUMBERS, f"{heading}: {number}"
    referring = 0
    for file in (ROOT / "src").rglob("*.py"):
        for page, cited in re.findall(r"docs/proofs/(\w+)\.md, ([A-Z0-9, –]+)", file.read_text()):
            here = {heading.split()[0] for heading in statements(FOLDER / f"{page}.md")}
            assert statements_in(cited) <= here, f"{file}: {page}, {cited}"
            referring += 1
    assert referring > 20
