"""The device client under the settings of its program: they never change whether it answers."""

import ast
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedsel.device import Client, Policy, Request
from fedsel.solutions import names
from tests.solutions.test_shipped_law import KINDS
from tests.wire.support import complete

ROOT = Path(__file__).parents[2]
D = 8
PRIVATE = [n for n in names() if complete(n, epsilon=1.0, dim=D, words=16).private]
TINY, HUGE = np.float32(1e-45), np.float32(3e38)
UPDATES = {
    "zero": np.zeros(D),
    "tiny": np.full(D, TINY),
    "huge": np.full(D, -HUGE),
    "mixed": np.array([0, TINY, HUGE, -HUGE, -TINY, 1.0, 1e-30, HUGE]),
    "subnormal doubles": np.full(D, 5e-324),
    "not finite": np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 0, 1]),
}


@pytest.fixture(scope="module")
def policy():
    return Policy(lifetime=500, per_report=2.0, solutions=PRIVATE, dimensions=[D], runs=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_floating_point_settings_and_warning_filters_do_not_silence_a_device(
    quick_path, policy, name
):
    """Each update twice: the second time a residual of its kind is there."""
    client = Client(policy, quick_path / "s", create=True)
    for number, update in enumerate(UPDATES.values()):
        extreme = {"rho": 1e-30, "clip": 1e-30, "momentum": 1e30, "learning_rate": 1e30}
        for changes in ({}, extreme):
            plan = complete(name, epsilon=2.0, dim=D, epochs=2, words=16, k=1, **changes)
            run = bytes([number, bool(changes)]) * 8
            for epoch in range(2):
                request = Request(run, epoch, epoch, plan).encode()
                with np.errstate(all="raise"), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    client.answer(request, np.zeros(D), update)


def test_no_warning_is_given_either(quick_path, policy):
    """Not one that a filter hides: filters are the whole process's, other threads change them."""
    client = Client(policy, quick_path / "s", create=True)
    plan = complete("RC", epsilon=2.0, dim=D, epochs=2, words=16, rho=1.0)
    with np.errstate(all="warn"), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for number, update in enumerate(UPDATES.values()):
            client.answer(Request(bytes([number]) * 16, 0, 0, plan).encode(), np.zeros(D), update)
    assert given == []


def test_the_update_has_the_settings_of_its_program(quick_path, policy):
    client = Client(policy, quick_path / "s", create=True)
    plan = complete("PM", epsilon=2.0, dim=D)
    seen = []

    def update(weights):
        seen.append(np.geterr())
        return weights

    with np.errstate(over="raise", under="warn", divide="call", invalid="ignore"):
        before = np.geterr()
        client.answer(Request(bytes(16), 0, 0, plan).encode(), np.zeros(D), update)
        assert seen == [before] == [np.geterr()]


def test_threads_keep_their_settings(quick_path, policy):
    """While one thread answers, another has the settings that it had."""
    client = Client(policy, quick_path / "s", create=True)
    plan = complete("RC", epsilon=2.0, dim=D, words=16)
    done, seen = threading.Event(), set()

    def watch():
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            while not done.is_set():
                seen.add((*np.geterr().values(), warnings.filters[0][0]))

    other = threading.Thread(target=watch)
    other.start()
    try:
        for number in range(40):
            request = Request(bytes([number]) * 16, 0, 0, plan).encode()
            client.answer(request, np.zeros(D), UPDATES["mixed"])
    finally:
        done.set()
        other.join()
    assert seen == {("raise",) * 4 + ("error",)}


OPTIMISED = """
import sys
import numpy as np
from fedsel import InvalidArgument, Recipe
from fedsel.device import Client, Policy, Refused, Request

if __debug__:
    sys.exit("this must run with -O")
given = {"lifetime": 1.0, "per_report": 0.5, "solutions": ["PM"], "dimensions": [8]}
wrong = [("solutions", [name]) for name in ("NP", "NP-RS", "NP-K", "PS", "EXP-O", "PrivUnit", "x")]
wrong += [("lifetime", 0), ("per_report", float("nan")), ("dimensions", [0]), ("clip", -1.0)]
wrong += [("runs", 0), ("weight_bound", float("inf")), ("least_seconds", -1), ("solutions", [])]
for name, value in wrong:
    try:
        Policy.of({**given, name: value})
    except InvalidArgument as error:
        if error.name != name:
            sys.exit(f"{name} = {value} was refused as {error.name}")
    else:
        sys.exit(f"{name} = {value} was accepted")

client = Client(Policy.of(given), sys.argv[1], create=True)
def ask(solution="PM", epsilon=0.5, dim=8, weights=np.zeros(8), **changes):
    recipe = Recipe(solution, epsilon=epsilon, dim=dim, mu=0.1, learning_rate=1.0, **changes)
    try:
        return len(client.answer(Request(bytes(16), 0, 0, recipe).encode(), weights, np.ones(8)))
    except Refused as refused:
        return refused.reason.name

print(ask("NP"), ask("HM"), ask(dim=9), ask(clip=2.0), ask(epsilon=0.6))
print(ask(weights=np.zeros(9)), ask(weights=np.full(8, np.nan)), ask(), ask(epsilon=0.4))
"""


def test_nothing_is_allowed_with_asserts_switched_off(quick_path):
    command = [sys.executable, "-O", "-c", OPTIMISED, str(quick_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == [
        *("NOT_ALLOWED", "NOT_ALLOWED", "NOT_ALLOWED", "NOT_ALLOWED", "TOO_MUCH"),
        *("WEIGHTS", "WEIGHTS", "16", "CONFLICT"),
    ]


def test_no_check_of_the_package_is_an_assert():
    found = [
        f"{file.name}:{node.lineno}"
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) or getattr(node, "id", "") == "__debug__"
    ]
    assert found == []


def test_ruff_refuses_an_assert_in_the_package():
    ruff = Path(sys.executable).parent / "ruff"
    command = [str(ruff), "check", "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    command += ["--stdin-filename", str(ROOT / "src" / "fedsel" / "new.py"), "-"]
    done = subprocess.run(
        command, input="assert 1\n", capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert "S101" in done.stdout
