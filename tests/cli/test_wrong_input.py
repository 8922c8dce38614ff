"""Wrong values of every option of every command: one sentence that names it, and status 2."""

from importlib import import_module

import numpy as np
import pytest
import typer

from fedsel import Schema
from fedsel.cli import app
from fedsel.device import Session
from fedsel.preparation import Preparation
from fedsel.service import Task
from fedsel.service.inviting import invitations_of
from fedsel.wire import Model, RecordPipeline
from tests.cli.records import write_people
from tests.cli.support import outcome, run_here
from tests.cli.test_commands import COMMANDS


class Reached(Exception):
    """The work would begin."""


@pytest.fixture
def no_work(monkeypatch):
    """Options are read and checked; then it would cost time."""

    def reached(*_, **__):
        raise Reached

    for module, name in (
        ("cli._run", "_perform"),
        ("cli._audit", "_audited"),
        ("service.running", "_worker"),
    ):
        monkeypatch.setattr(import_module(f"fedsel.{module}"), name, reached)
    monkeypatch.setattr(Session, "offer", reached)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["certify", "PSS", "-e", "1", "-d", "5"], "such as PS"),
        (["certify", "RJ", "-e", "1"], "--dim = None: must be an integer ≥ 1: RJ"),
        (
            ["certify", "FJ", "-e", "1", "-d", "9", "-k", "2"],
            "--k = '2': must be omitted: FJ derives it",
        ),
        (["certify", "RJ", "-e", "1", "-d", "5", "--words", "9"], "--words = 9: must be omitted"),
        (["certify", "RC", "-e", "1", "-d", "5", "--words", "0"], "--words = 0"),
        (["certify", "RC", "-e", "1", "-d", "0"], "--dim = 0"),
        (["certify", "PS", "-d", "5"], "--epsilon = None: must be a number > 0: PS"),
        (["certify", "PM", "-e", "1", "--shuffled", "0"], "--shuffled = 0"),
        (["certify", "PM", "-e", "1", "--shuffled", "9", "--delta", "nan"], "--delta = nan"),
        (["certify", "PM", "-e", "1", "--delta", "0.1"], "--delta = 0.1: must be omitted"),
        (["certify", "Identity", "--shuffled", "9"], "--shuffled = 9: must be omitted"),
        (["certify", "PS", "-e", "nan", "-d", "5"], "--epsilon = nan"),
        (["certify", "PS", "-e", "inf", "-d", "5"], "--epsilon = inf"),
        (["certify", "PM", "-e", "0"], "--epsilon = 0.0"),
        (["certify", "PS", "-e", "1"], "--dim = None: must be an integer ≥ 1"),
        (["certify", "PS", "-e", "1", "-d", "0"], "--dim = 0"),
        (["certify", "PS", "-e", "1", "-d", "5", "-k", "6"], "--k = 6: must be at most d = 5"),
        (["certify", "PS", "-e", "1", "-d", "5", "-k", "0"], "--k = 0"),
        (["certify", "PS", "-e", "1", "-d", "5", "-k", "x"], "--k = 'x'"),
        (["certify", "PS-PM", "-e", "1", "-d", "5", "--mu", "1"], "--mu = 1.0"),
        (["certify", "EXP", "-e", "1", "-d", "5", "-k", "2"], "--k = '2': must be omitted"),
        (["certify", "PS", "-e", "1", "-d", "5", "--mu", "0.2"], "--mu = 0.2: must be omitted"),
        (["certify", "PS-PM", "-d", "5"], "--epsilon = None: must be a number > 0: PS-PM"),
        (["audit", "--trials", "5"], "--trials"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_input_ends_with_one_sentence_and_status_2(arguments, complaint):
    done = run_here(*arguments, status=2)
    assert complaint in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


REQUIRED = {
    "run": (
        *("-s", "RJ", "-s", "PS-PM", "-s", "RC", "-e", "1", "--clients", "20"),
        *("--data", "people.csv", "--label", "rich"),
    ),
    "schema": ("people.csv",),
    "advise": ("--dim", "10", "--clients", "1000", "--epsilon", "1"),
    "ask": (
        *("people.csv", "--question", "histogram", "--epsilon", "8"),
        *("--column", "age", "--bounds", "0", "100"),
    ),
    "certify": ("PS-PM", "--epsilon", "1", "--dim", "10"),
    "audit": ("math:sin", "--epsilon", "1", "--inputs", "[0, 1]"),
    "serve": ("task.toml", "--port", "0"),
    "relay": ("relay.toml", "--port", "0"),
    "invite": ("task.toml",),
    "statement": ("task.toml",),
    "join": (
        *("http://127.0.0.1:9", "--data", "people.csv", "--label", "rich"),
        *("--store", "new", "--create", "--lifetime", "1"),
    ),
    "predict": ("model.json", "people.csv"),
    "export": ("model.json", "model.onnx"),
    "aggregate": ("reports.bin", "--task", "task.toml", "--run", "00" * 16),
}
TASK = "epsilon = 1\ndim = 4\nclients = 9\nclose_after = { reports = 3 }\n"
RELAY = f"""
service = "http://127.0.0.1:9"
run = "{"ab" * 16}"
server_key = "{"ab" * 32}"
signing_key = "{"ab" * 32}"
token = "a.b.c"
"""
HUGE = "99999999999999999999"
NUMBERS = ("0", "-1", "nan", "inf", "", "x", HUGE, "1e300")
BAD = {
    "integer": NUMBERS,
    "integer range": NUMBERS,
    "float": NUMBERS,
    "text": ("", "no such thing"),
    "path": ("no/such/folder/x", "a.file", "."),
}


def options():
    """(command, option, type) of all options that take a value."""
    for path in COMMANDS:
        command = typer.main.get_command(app)
        for name in path:
            command = command.commands[name]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.is_flag:
                longest = max(parameter.opts, key=len)
                yield " ".join(path), longest, parameter.type.name


ELSEWHERE = {
    ("aggregate", "--cluster"),  # waits for an answer
}
OPTIONS = sorted(
    (command, option, kind)
    for command, option, kind in options()
    if not command.startswith("ledger") and (command, option) not in ELSEWHERE
)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("command", "option", "kind"), OPTIONS)
def test_every_option_with_every_kind_of_nonsense(command, option, kind, tmp_path):
    """It is refused and named, or it is fine; no traceback, whatever it is."""
    (tmp_path / "a.file").write_text("")
    write_people(tmp_path / "people.csv", 30)
    (tmp_path / "task.toml").write_text(TASK)
    (tmp_path / "relay.toml").write_text(RELAY)
    (tmp_path / "relay.toml").chmod(0o600)
    (tmp_path / "reports.bin").write_bytes(bytes(32))
    schema = Schema({"age": (0, 100)}, classes=["no", "yes"])
    pipeline = RecordPipeline(schema.scale, Preparation.plain(1))
    model = Model(np.ones(2), schema, "logistic", schema.classes, pipeline)
    model.save(tmp_path / "model.json")
    if command == "statement":
        invitations_of(Task.load(tmp_path / "task.toml"), tmp_path / "task.store")
    refused = 0
    for value in BAD.get(kind, NUMBERS):
        arguments = (*command.split(), *REQUIRED.get(command, ()), option, value)
        try:
            status, done = outcome(*arguments, cwd=tmp_path)
        except Reached:
            continue
        assert status in (0, 1, 2)
        if status == 2:
            refused += 1
            named = option in done.stderr or f" in {value} = " in done.stderr  # a key of its file
            assert named, (value, done.stderr)
            assert done.stderr.count("\n") <= 5
            assert done.stdout == ""
    assert refused
