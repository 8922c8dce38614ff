"""The built wheel in clean environments: the core alone does what a device and a server need."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = {"numpy", "rich", "typer"}


def run(python, *words, check=True, cwd=None):
    done = subprocess.run(
        [python, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": ""},
    )
    assert done.returncode == 0 or not check, done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as a release is, from the files that git tracks or would."""
    folder = tmp_path_factory.mktemp("wheel")
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run(sys.executable, *command)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    """The Python of an environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("core")
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    python = str(folder / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    return python


def test_the_wheel_has_every_file_of_the_package(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "fedsel"
    for file in package.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert f"fedsel/{file.relative_to(package).as_posix()}" in packed
    assert "fedsel/cli/flower/app/pyproject.toml" in packed


def test_the_core_installs_numpy_and_the_command_line_alone(core):
    listed = json.loads(run(core, "-m", "pip", "list", "--format", "json").stdout)
    installed = {entry["name"].lower() for entry in listed}
    heavy = {"numba", "scipy", "scikit-learn", "joblib", "matplotlib", "torch", "flwr"}
    assert installed >= CORE | {"fedsel"}
    assert not installed & heavy


DEVICE_AND_SERVER = """
import numpy as np
from fedsel import Aggregator, Client, Policy, Recipe, Setting, resolved
recipe = resolved(Recipe(epsilon=1.0, reg=0.01), Setting(dim=8, clients=3, rounds=1, norm=1.0))
server = Aggregator(recipe, "server")
policy = Policy(lifetime=1.0, per_report=1.0, solutions=["RJ"], dimensions=[8])
for name in "abc":
    device = Client(policy, name, create=True)
    report = device.answer(server.request(), server.weights, lambda w: np.full(8, 0.1))
    print(server.receive(name, report).value)
server.step()
print(server.finished, float(np.abs(server.model).max()) > 0)
"""


def test_a_device_and_an_aggregator_run_on_the_core(core, tmp_path):
    done = run(core, "-c", DEVICE_AND_SERVER, cwd=tmp_path)
    assert done.stdout.split() == ["accepted"] * 3 + ["True", "True"]
    shown = run(core, "-m", "fedsel", "ledger", "show", "a", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["spent"] == 1.0
    told = run(core, "-m", "fedsel", "certify", "RJ", "--epsilon", "1", "--dim", "8", "--json")
    assert json.loads(told.stdout)["holds"] is True


PROOF = """
from fedsel import certify, certify_by_enumeration, solution
made = solution("PS-Duchi", epsilon=2.0, dim=2, k=1, epochs=2, momentum=0.5)
print(certify(made).holds, certify_by_enumeration(made, [(5, 0.1), (-5, 9), (0.1, -5)]).holds)
"""


def test_an_auditor_needs_no_more_than_the_core(core):
    assert run(core, "-c", PROOF).stdout.split() == ["True", "True"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-c", "import fedsel.sklearn"], "fedsel.sklearn: sklearn is missing"),
        (["-c", "from fedsel import FedSelClassifier"], "pip install 'fedsel[sklearn]'"),
        (["-c", "import fedsel.torch"], "pip install 'fedsel[torch]'"),
        (["-c", "import fedsel.flower"], "pip install 'fedsel[flower]'"),
        (["-c", "from fedsel import plotting; plotting.new_axes()"], "pip install 'fedsel[plots]'"),
        (["-m", "fedsel", "run"], "pip install 'fedsel[simulation]'"),
        (["-m", "fedsel", "audit"], "pip install 'fedsel[simulation]'"),
        (["-m", "fedsel", "bench"], "pip install 'fedsel[simulation]'"),
        (["-m", "fedsel", "advise", "-d", "9", "--clients", "99", "-e", "1"], "fedsel[simulation]"),
        (["-m", "fedsel", "flower", "demo"], "pip install 'fedsel[flower]'"),
    ],
)
def test_a_missing_extra_is_one_sentence_that_says_what_to_install(core, tmp_path, words, sentence):
    done = run(core, *words, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert sentence in done.stderr
    if words[0] == "-m":  # a command shows that and nothing else
        assert len(done.stderr.strip().splitlines()) == 1
