"""The examples of README and docs run, page by page, and the commands they name exist."""

import re
import shlex
import shutil
import warnings
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from fedsel.cli import app
from tests.cli.support import COMMANDS, run_here

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "SPEC.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "benchmarks").glob("*.md"))  # long tables, beside what makes them
MUTANTS = ROOT / "tools" / "mutants" / "results.md"
PAGES += [*sorted((ROOT / "reproduction").rglob("*.md")), MUTANTS]
TOURS = sorted((ROOT / "docs" / "tours").glob("*.md"))
TORCH = [pytest.mark.slow, pytest.mark.xdist_group("torch")]
MARKS = {
    "docs/advise.md": [pytest.mark.slow],
    "docs/large-models.md": TORCH,
    "docs/scaling.md": [pytest.mark.slow],
    "docs/shuffling.md": [pytest.mark.slow],
    "docs/tables.md": [pytest.mark.slow],
    "docs/torch.md": TORCH,
    "docs/tracking.md": [pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")],
    "docs/tours/pytorch-flower.md": TORCH,
    "docs/tours/researcher.md": [pytest.mark.slow],
    "docs/tours/scikit-learn.md": [pytest.mark.slow],
    "docs/tours/officer.md": [pytest.mark.slow],
    "docs/tours/asking.md": [pytest.mark.slow, pytest.mark.xdist_group("processes")],
    "docs/tours/product.md": [pytest.mark.slow, pytest.mark.xdist_group("processes")],
}


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(page):
    found = re.findall(
        r"^( *)```(\w*)(?: title=\"(.+?)\")?\n(.*?)^\1```$", page.read_text(), re.M | re.S
    )
    return [Block(language, title, text) for _, language, title, text in found]


def name(page):
    return page.relative_to(ROOT).as_posix()


def of(pages):
    return [pytest.param(page, marks=MARKS.get(name(page), ()), id=name(page)) for page in pages]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page):
    """Nothing that looks like Python escapes the next test by its name."""
    assert page.read_text().count("```") == 2 * len(blocks(page))
    for block in blocks(page):
        assert block.language in {"python", "js", "sh", "toml", "json", "text"}, block
        ours = block.language in {"python", "js"}  # those of JavaScript run in tests/clients
        assert ours or not re.search(r"^(import|from) \w", block.text, re.M)


@pytest.mark.parametrize("page", of(page for page in PAGES if page not in TOURS))
def test_python_blocks_run_in_order(page, capsys):
    scope: dict[str, object] = {}
    for block in blocks(page):
        if block.language == "python":
            exec(block.text, scope)


@pytest.mark.usefixtures("own_solutions_forgotten")
@pytest.mark.parametrize("page", of(TOURS))
def test_a_tour_can_be_followed_from_beginning_to_end(page, tmp_path, monkeypatch, capsys):
    """All of it, in an empty folder: files, commands and Python, but for pip and npm."""
    monkeypatch.chdir(tmp_path)
    if any(block.language == "js" for block in blocks(page)):
        if shutil.which("node") is None:
            pytest.skip("no node: install Node.js 20 or newer (make javascript)")
        Path("node_modules").mkdir()
        Path("node_modules/fedsel").symlink_to(ROOT / "clients" / "js", target_is_directory=True)
    scope: dict[str, object] = {}
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            exec(block.text, scope)
        for line in commands(block) if block.language == "sh" else ():
            run(line)


def run(line):
    """Run a command; it ends with the status that its comment names, or 0."""
    expected = re.search(r"# status (\d)", line)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as in a process of its own
        run_here(*shlex.split(line, comments=True)[1:], status=int(expected[1]) if expected else 0)


def commands(block):
    """The lines of a block that call fedsel, continued ones as one, without variables before."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [
        re.sub(r"^(?:\w+=\S+ )+", "", line)
        for line in lines
        if re.match(r"(?:\w+=\S+ )*fedsel ", line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist_with_their_options(page):
    for block in blocks(page):
        for line in commands(block) if block.language in {"sh", "text"} else ():
            arguments = shlex.split(line, comments=True)[1:]
            check(arguments, values=True)
    for line in re.findall(r"(?<!`)`(?:\w+=\S+ )*fedsel ([a-z-][^`]*)`", page.read_text()):
        check(shlex.split(line), values=False)  # in a sentence: `--epochs E`


def check(arguments, *, values):
    """Parse a command line without running it: its commands and options, and what options take."""
    command: click.Command = COMMANDS(app)
    while isinstance(command, click.Group) and not arguments[0].startswith("-"):
        assert arguments[0] in command.commands, arguments
        command, arguments = command.commands[arguments[0]], arguments[1:]
        if not arguments:
            break
    context = click.Context(command, info_name="fedsel")
    parsed, left, _ = command.make_parser(context).parse_args(list(arguments))
    assert not left, arguments
    for parameter in command.params if values else ():
        value = parsed.get(parameter.name)
        if isinstance(value, str | list | tuple) and not isinstance(parameter.type, click.Path):
            parameter.type_cast_value(context, value)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text()):
        assert (page.parent / target).exists(), target


def test_a_figure_is_described_alike_on_every_page():
    described = {}
    for page in PAGES:
        for told, target in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", page.read_text()):
            described.setdefault((page.parent / target).resolve(), set()).add(told)
    assert all(len(told) == 1 for told in described.values()), described


SOURCES = [
    file.as_posix()
    for folder in (
        "src",
        "tests",
        "clients/js/src",
        "clients/js/test",
        "clients/c",
        "tools",
        "benchmarks",
    )
    for file in (ROOT / folder).rglob("*.*")
]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name)
def test_sources_that_a_page_names_exist(page):
    if page == MUTANTS:
        pytest.skip("it names modules as they were when their mutants were tried")
    for source in re.findall(r"`((?:[\w-]+/)*\w+\.(?:py|js|c|sh))`", page.read_text()):
        assert any(file.endswith(f"/{source}") for file in SOURCES), source
