"""``--help`` of every command: complete, with examples, and readable at any width."""

import re
from pathlib import Path

import pytest
import typer

from fedsel.cli import app
from fedsel.cli._commands import continued
from fedsel.experiments import Spec
from tests.cli.support import run_here


def leaves(command, path=()):
    """The paths of all commands that are no groups."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield path
        return
    for name, sub in subcommands.items():
        yield from leaves(sub, (*path, name))


COMMANDS = sorted(leaves(typer.main.get_command(app)))


def help_of(*path, columns="80"):
    return run_here(*path, "--help", COLUMNS=columns).stdout


def test_all_commands_are_found():
    names = {" ".join(path) for path in COMMANDS}
    assert {"run", "advise", "solutions", "ledger show"} <= names


def test_the_page_on_commands_has_them_all():
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    listed = {match[1] for match in re.finditer(r"^fedsel ([a-z]+)", page, re.MULTILINE)}
    explained = set(re.findall(r"`([a-z]+)`(?=.* \|)", page))
    assert listed == explained == {path[0] for path in COMMANDS}


@pytest.mark.parametrize("columns", ["60", "80", "120"])
@pytest.mark.parametrize("path", [(), *COMMANDS], ids=" ".join)
def test_help_fits_the_terminal(path, columns):
    lines = help_of(*path, columns=columns).splitlines()
    assert max(map(len, lines)) <= int(columns)
    # The sentences have room: none is pressed into a narrow column.
    texts = [line[40:] for line in lines if line[:40].strip() == "" and line.strip()]
    assert not texts or columns == "120" or max(len(t) for t in texts) <= int(columns) - 40


@pytest.mark.parametrize("path", [(), ("ledger",)], ids=" ".join)
def test_a_group_alone_shows_its_help(path):
    assert run_here(*path, COLUMNS="80").stdout == help_of(*path)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_json(path):
    text = help_of(*path)
    assert re.search(r"^Examples?:\n  \S", text, re.MULTILINE)
    assert "--json" in text
    assert "\\[" not in text
    assert "[b]" not in text


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_arguments_and_options_have_help(path):
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    text = " ".join(help_of(*path).split())
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = parameter.metavar or parameter.name.upper()
            assert re.search(rf"Arguments: .*{re.escape(shown)}\S* +[A-Za-z]", text)
        elif parameter.name != "help":
            assert parameter.help
            assert parameter.help.split(".")[0][:30] in text.replace("- ", "-")


def shown_defaults():
    """Option without its dashes → default, of ``fedsel run``."""
    text = " ".join(help_of("run", columns="120").split())
    return dict(re.findall(r"--([a-z-]+)(?: [A-Z]+)? (?:(?!--)[^\[])*\[default: ([^\]]*)\]", text))


def test_run_tells_its_defaults_as_they_are():
    text = help_of("run")
    assert text.count("[default:") >= 30
    shown, spec = shown_defaults(), Spec()
    plain = {"epochs", "batch", "reg", "dropout", "theta", "k", "momentum", "clip", "ratio"}
    plain |= {"folds", "repeats", "seed", "draw", "dataset", "mu", "spread", "centre"}
    row = next(spec.cells()).parameters
    for name in plain:
        expected = row[name]
        assert shown[name] == (expected if isinstance(expected, str) else f"{expected:g}"), name
    listed = re.split(r", | and ", shown["solution"])
    assert tuple(listed) == spec.solutions
    assert tuple(float(e) for e in re.split(r", | and ", shown["epsilon"])) == spec.epsilons
    assert shown["model"] == spec.models[0]


def test_run_lists_solutions_and_where_to_find_the_others():
    text = " ".join(help_of("run").split())
    assert "--solution TEXT FJ, J," in text
    assert "PS-PM" in text
    assert "fedsel solutions" in text


def test_options_of_run_are_in_sections():
    titles = re.findall(r"^(\w.*):$", help_of("run"), re.MULTILINE)
    assert titles[0] == "What to train on"
    assert titles[-2:] == ["Options", "Examples"]
    assert len(titles) >= 7


def test_an_example_is_copied_as_it_is():
    line = "fedsel run --data my.csv --label income --solution PS-PM --epsilon 2"
    for width in (30, 50, 200):
        parts = continued(line, width)
        assert max(map(len, parts)) <= width
        assert "".join(p.removesuffix("\\") for p in parts).split() == line.split()
        assert all(p.endswith(" \\") for p in parts[:-1])


def test_commands_are_listed_with_whole_sentences():
    text = " ".join(help_of(columns="60").split())
    assert "Train with each solution at each ε by cross-validation, and compare." in text
    assert "..." not in text.replace("[ARGS]...", "")
