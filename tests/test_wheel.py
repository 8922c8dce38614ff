"""The built packages: complete, light, and at work in environments of their own.

The wheel is built from the sdist, as a release does. The core is installed by pip into an empty
environment. Each extra is installed alone, in the newest versions that there are, and in the lowest
that it allows: people have those, and not what the tests of the checkout run with.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from tests.clients import model_cases
from tests.environments import empty, installed, pip_install, run
from tests.service.conftest import cluster, postgres_url  # noqa: F401 - fixtures
from tests.service.support import ServiceProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]  # one build for all

ROOT = Path(__file__).parent.parent
APP = ROOT / "examples" / "flower_adult"
CLIENT = "clients/js/src/"
MEGABYTES = 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def sdist(folder):
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def source(sdist, folder):
    """The sdist, unpacked."""
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def build_wheel(source, to, *, check=True, **variables):
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", to, source]
    return run(sys.executable, *build, check=check, **variables)


@pytest.fixture(scope="module")
def wheel(source, folder):
    build_wheel(source, folder / "native")
    (built,) = (folder / "native").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def pure_wheel(wheel, source, folder):
    """Built where a compiled module lies about: that of ``wheel``."""
    build_wheel(source, folder / "pure", FEDSEL_PURE="1")
    (built,) = (folder / "pure").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def core(wheel, folder):
    """The Python of an environment with the wheel and what it asks for, and nothing else."""
    python = empty(folder / "core")
    pip_install(python, "--no-compile", wheel)  # what is imported will be compiled, no more
    return python


@pytest.fixture(scope="module")
def environment(wheel, folder):
    """The Python of an environment of a wheel and some extras, by their names."""
    made = {}

    def environment_of(*extras, versions="newest", wheel=wheel):
        key = "-".join([*extras, versions, wheel.parent.name])
        if key not in made:
            made[key] = installed(folder / key, wheel, extras, versions)
        return made[key]

    return environment_of


def fedsel(python, *words, **options):
    """The installed command, as a user calls it."""
    return run(python, python.parent / "fedsel", *words, **options)


# --- complete ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracked():
    """The files of the repository: those that git tracks, or would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git repository")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


def test_the_sdist_has_the_files_of_the_repository_and_no_other(sdist, tracked):
    with tarfile.open(sdist) as packed:
        names = {PurePosixPath(name) for name in packed.getnames()}
    assert {str(name.relative_to(name.parts[0])) for name in names} == tracked | {"PKG-INFO"}


def package_files(tracked):
    """What a wheel has of the repository: the package, and within it the client in JavaScript."""
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/fedsel/")}
    client = {name.removeprefix(CLIENT) for name in tracked if name.startswith(CLIENT)}
    return package | {f"fedsel/service/joining/client/{name}" for name in client}


def of_the_package(wheel):
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if not name.startswith("fedsel-")}


def test_the_wheel_has_the_files_of_the_package_and_the_kernels(wheel, tracked):
    kernels = {"fedsel/_internal/_native.abi3.so"}
    assert of_the_package(wheel) == package_files(tracked) | kernels
    assert "-cp311-abi3-" in wheel.name


def test_the_wheel_says_where_the_project_lives(wheel):
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (n for n in packed.namelist() if n.endswith("/METADATA"))
        told = packed.read(name).decode()
    assert "Project-URL: Homepage, https://github.com/fedsel/fedsel\n" in told
    assert "License-Expression: Apache-2.0\n" in told


# --- the core ---------------------------------------------------------------------------------

INSTALLED = """
import compileall, json
from importlib.metadata import distribution, distributions
own = distribution("fedsel")
folders = {own.locate_file(f.parts[0]) for f in own.files if f.parts[0] != ".."}
for folder in folders:
    compileall.compile_dir(folder, quiet=1)  # as pip does, unless told otherwise
size = sum(f.stat().st_size for folder in folders for f in folder.rglob("*") if f.is_file())
print(json.dumps({"names": [d.name.lower() for d in distributions()], "size": size}))
"""


def test_the_core_is_numpy_rich_typer_jinja2_filelock_and_at_most_fifteen_megabytes(core):
    told = json.loads(run(core, "-c", INSTALLED).stdout)
    installed = set(told["names"])
    assert installed >= {"fedsel", "filelock", "jinja2", "numpy", "rich", "typer"}
    assert len(installed) < 18, sorted(installed)  # what rich, typer and jinja2 ask for
    heavy = {"scipy", "scikit-learn", "joblib", "matplotlib", "torch", "flwr", "pip", "setuptools"}
    assert not installed & heavy
    assert 10**6 < told["size"] <= MEGABYTES * 2**20


HELP = """
import typer
from typer.testing import CliRunner
from fedsel.cli import app

def walk(command, words):
    yield words
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, [*words, name])

for words in walk(typer.main.get_command(app), []):
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0, (words, shown.exception)
    assert "Usage" in shown.output and "Example" in shown.output or not words, words
    print(*words)
"""


def test_every_command_has_its_help_on_the_core(environment, versions):
    python = environment(versions=versions)
    listed = run(python, "-c", HELP).stdout.splitlines()
    assert set(listed) >= {"run", "audit", "ledger show"}
    assert "Usage" in fedsel(python, "--help").stdout


DEVICE_AND_SERVER = """
import numpy as np
from fedsel import Aggregator, Client, Policy, Recipe, PublicFacts, resolve_auto
facts = PublicFacts(dim=8, clients=3, rounds=1, norm=1.0)
recipe = resolve_auto(Recipe(epsilon=1.0, reg=0.01), facts)
server = Aggregator(recipe, "server")
policy = Policy(lifetime=1.0, per_report=1.0, solutions=["FJ"], dimensions=[8])
for name in "abc":
    device = Client(policy, name, create=True)
    report = device.answer(server.request(), server.weights, lambda w: np.full(8, 0.1))
    print(server.receive(name, report).value)
server.step()
print(server.finished, float(np.abs(server.model).max()) > 0)
"""


def check_device_and_server(python, where):
    done = run(python, "-c", DEVICE_AND_SERVER, cwd=where)
    assert done.stdout.split() == ["accepted"] * 3 + ["True", "True"]
    shown = fedsel(python, "ledger", "show", "a", "--json", cwd=where)
    assert json.loads(shown.stdout)["spent"] == 1.0
    told = fedsel(python, "certify", "RJ", "--epsilon", "1", "--dim", "8", "--json")
    assert json.loads(told.stdout)["holds"] is True


def test_a_device_and_an_aggregator_run_on_the_core(environment, versions, tmp_path):
    check_device_and_server(environment(versions=versions), tmp_path)


PROOF = """
from fedsel import certify, certify_by_enumeration, solution
made = solution("PS-Duchi", epsilon=2.0, dim=2, k=1, epochs=2, momentum=0.5)
print(certify(made).holds, certify_by_enumeration(made, [(5, 0.1), (-5, 9), (0.1, -5)]).holds)
"""


def test_an_auditor_needs_no_more_than_the_core(core):
    assert run(core, "-c", PROOF).stdout.split() == ["True", "True"]


def test_a_model_predicts_on_the_core(core, tmp_path):
    _, model, records = next(model_cases.models())
    model.save(tmp_path / "model.json")
    lines = [",".join(str(record[name]) for name in model.schema.columns) for record in records[:3]]
    (tmp_path / "my.csv").write_text("\n".join([",".join(model.schema.columns), *lines]))
    done = fedsel(core, "predict", "model.json", "my.csv", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert told["predictions"] == model.predict(records[:3]).tolist()
    np.testing.assert_allclose(told["probabilities"], model.predict_proba(records[:3]))
    done = fedsel(core, "export", "model.json", "x.onnx", cwd=tmp_path, check=False)
    assert "onnx is missing, pip install 'fedsel[onnx]'" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-c", "import fedsel.sklearn"], "fedsel.sklearn: sklearn is missing"),
        (["-c", "from fedsel import FedSelClassifier"], "pip install 'fedsel[sklearn]'"),
        (["-c", "import fedsel.torch"], "pip install 'fedsel[torch]'"),
        (["-c", "import fedsel.flower"], "pip install 'fedsel[flower]'"),
        (
            ["-c", "from fedsel import pages; pages.new_figure()"],
            "pip install 'fedsel[plots]'",
        ),
        (["-m", "fedsel", "run"], "pip install 'fedsel[simulation]'"),
        (["-m", "fedsel", "audit", "operator:neg", "-e", "1"], "pip install 'fedsel[simulation]'"),
        (["-m", "fedsel", "advise", "-d", "9", "--clients", "99", "-e", "1"], "fedsel[simulation]"),
    ],
)
def test_a_missing_extra_is_one_sentence_that_says_what_to_install(core, tmp_path, words, sentence):
    done = run(core, *words, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert sentence in done.stderr
    if words[0] == "-m":  # a command shows that and nothing else
        assert len(done.stderr.strip().splitlines()) == 1


# --- the extras -------------------------------------------------------------------------------


@pytest.fixture(params=["newest", "lowest"])
def versions(request, monkeypatch):
    """Which versions are installed; with the newest no warning comes, of ours or of an extra's."""
    if request.param == "newest":  # old packages are warned of by newer ones that they use
        # The typer that Flower asks for imports names that newer versions of click deprecate.
        monkeypatch.setenv("PYTHONWARNINGS", "error,ignore:'click.:DeprecationWarning")
    return request.param


SMALL = ["--solution", "PS-PM", "--epsilon", "2", "--repeats", "1", "--folds", "2", "--rounds", "5"]


def test_the_main_job_runs_on_the_simulation_alone(environment, versions, tmp_path):
    python = environment("simulation", versions=versions)
    done = fedsel(python, "run", *SMALL, "--json", cwd=tmp_path)
    (row,) = json.loads(done.stdout)
    assert 0 < row["accuracy"] < 1
    assert {file.name for file in (tmp_path / "results").iterdir()} >= {"run.csv", "run.json"}
    assert "no figures: matplotlib is missing, pip install 'fedsel[plots]'" in done.stderr
    assert "" not in done.stderr.splitlines()


def test_the_demo_has_its_figure(environment, versions, tmp_path):
    done = fedsel(environment("demo", versions=versions), "run", *SMALL, cwd=tmp_path)
    assert "PS-PM" in done.stdout
    assert (tmp_path / "results" / "accuracy.png").stat().st_size > 10_000


def python_of(page, after):
    """The first block of Python after a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8").split(after, 1)[1]
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


READ_PARQUET = """
import pyarrow, pyarrow.parquet
table = pyarrow.table({"x": [0.0, 0.5, 1.0], "y": ["no", "yes", "yes"]})
pyarrow.parquet.write_table(table, "own.parquet")
from fedsel.data import read
print(read("own.parquet", "y").X.shape)
"""
WRITE_PARQUET = """
import pyarrow, pyarrow.parquet
table = pyarrow.table({"report": pyarrow.array([bytes(16), b""], pyarrow.binary())})
pyarrow.parquet.write_table(table, "x.parquet")
"""
PICTURE = """
from fedsel._internal import plotting
points = [plotting.Point("RJ", epsilon, 0.8, 0.01) for epsilon in (0.5, 1.0, 2.0)]
axes = plotting.accuracy_against_epsilon(points)
axes.figure.savefig("figure.png")
print("drawn")
"""
ACCOUNTING = """
from fedsel import solution
from fedsel.mechanisms.central import compose
print(compose(solution("Duchi", epsilon=1.0, dim=8), reports=40, epochs=9, delta=1e-2))
"""
CLUSTER = """
import joblib
from distributed import Client
from fedsel import solution
from fedsel.data import synthetic
from fedsel.simulation import Population, Training
from fedsel.simulation import cross_validate
data = synthetic(d=5, n=500, seed=1)
training = Training(solution("RJ", epsilon=2.0, dim=5), batch=50, seed=0)
with Client(processes=False, dashboard_address=None), joblib.parallel_config(backend="dask"):
    print(cross_validate(training, Population(data.X, data.y), folds=2, repeats=1, jobs=-1))
"""

TRACK = """
from fedsel import solution
from fedsel.tracking import MLflowTracker, Run, TensorBoardTracker
tracker = {}
tracker.on_start(Run.of("trial", None, solution("PM", epsilon=1.0, dim=3).privacy, rounds=1))
tracker.on_round(dict(round=1, reports=5))
tracker.on_end(None)
"""
MLFLOW = f"""
import warnings
warnings.simplefilter("ignore")  # of MLflow about SQLAlchemy
{TRACK.format('MLflowTracker(tracking_uri="sqlite:///runs.db")')}
print(tracker.client.get_run(tracker.run_id).data.metrics)
"""
TENSORBOARD = f"""
{TRACK.format("TensorBoardTracker('events')")}
print(*(file.name for file in tracker.folder.iterdir()))
"""

ONNX = """
import numpy as np, onnx
from fedsel import Schema
from fedsel.preparation import Preparation
from fedsel.wire import Category, Date, Model, Number, RecordPipeline
columns = {"a": Number(0, 1), "b": Category(["1", "x"]), "c": Date(["hour"])}
schema = Schema(columns, classes=["no", "yes"])
pipeline = RecordPipeline(schema.scale, Preparation.plain(5))
Model(np.ones(6), schema, "logistic", ("no", "yes"), pipeline).to_onnx("model.onnx")
onnx.checker.check_model("model.onnx")
print(*(value.name for value in onnx.load("model.onnx").graph.input))
"""


@pytest.mark.parametrize(
    ("extra", "code", "said"),
    [
        ("sklearn", python_of("docs/index.md", "## What it looks like"), "Not covered"),
        ("torch", python_of("docs/torch.md", "# fedsel in PyTorch"), "bits"),
        ("parquet", READ_PARQUET, "(3, 1)"),
        ("plots", PICTURE, "drawn"),
        ("cluster", CLUSTER, "accuracy"),
        ("accounting", ACCOUNTING, "central ε = 1.1"),
        ("mlflow", MLFLOW, "{'reports': 5.0}"),
        ("tensorboard", TENSORBOARD, "events.out.tfevents."),
        ("onnx", ONNX, "a b c"),
        ("shuffling", python_of("docs/shuffling.md", "## The shuffler"), "accepted=20"),
    ],
    ids=[
        *("sklearn", "torch", "parquet", "plots", "cluster", "accounting", "mlflow", "tensorboard"),
        *("onnx", "shuffling"),
    ],
)
def test_an_extra_brings_all_that_its_purpose_needs(
    environment, versions, tmp_path, extra, code, said
):
    python = environment(extra, versions=versions)
    assert said in run(python, "-c", code, cwd=tmp_path).stdout


TASK = """
epsilon = 4
dim = 8
clients = 40
close_after = { reports = 5 }
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_starts_answers_and_ends(environment, versions, tmp_path, request, workers):
    python = environment("service", versions=versions)
    (tmp_path / "task.toml").write_text(TASK)
    store = tmp_path / "store" if workers == 1 else request.getfixturevalue("postgres_url")
    words = (tmp_path / "task.toml", store, "--workers", str(workers))
    with ServiceProcess(*words, python=python, PYTHONPATH="") as service:
        for path, said in (("/v1/task", b"epsilon"), ("/metrics", b"fedsel_"), ("/", b"<html")):
            with urllib.request.urlopen(service.address + path, timeout=60) as answer:
                assert said in answer.read()
        invited = fedsel(python, "invite", words[0], "--store", store)
        assert invited.stdout.count(".") >= 2  # a signed token
        assert service.stop() == 0, service.errors


@pytest.mark.parametrize("kind", ["bin", "parquet"])
def test_reports_at_rest_are_added_up(environment, versions, tmp_path, kind):
    extras = ("service",) if kind == "bin" else ("service", "parquet")
    python = environment(*extras, versions=versions)
    (tmp_path / "task.toml").write_text(TASK)
    (tmp_path / "x.bin").write_bytes(bytes(32))
    if kind == "parquet":
        run(python, "-c", WRITE_PARQUET, cwd=tmp_path)
    words = ["aggregate", f"x.{kind}", "--task", "task.toml", "--run", "00" * 16, "--json"]
    told = json.loads(fedsel(python, *words, cwd=tmp_path).stdout)
    assert (told["reports"], told["rejected"]) == (0, 2)


APP_MODULES = """
import sys
sys.path.insert(0, sys.argv[1])
from flower_adult import client_app, server_app
print(client_app.app is not None, server_app.app is not None)
"""


def test_the_flower_app_runs_on_the_wheel(environment, versions, tmp_path):
    """Importable, and Flower packs it; that it runs, with processes, is tested in the checkout."""
    python = environment("flower", versions=versions)
    assert run(python, "-c", APP_MODULES, APP).stdout.split() == ["True", "True"]
    own = {"HOME": str(tmp_path), "PYTHONWARNINGS": ""}  # what Flower's own command warns of
    named = shutil.copytree(APP, tmp_path / "flower-adult")  # Flower allows no underscore here
    run(python, python.parent / "flwr", "build", "--app", named, cwd=tmp_path, **own)
    (packed,) = tmp_path.glob("*.fab")
    with zipfile.ZipFile(packed) as bundle:
        assert {"flower_adult/task.py", "flower_adult/client_app.py"} <= set(bundle.namelist())


EVERY_MODULE = """
import importlib, pkgutil, fedsel
for module in pkgutil.walk_packages(fedsel.__path__, "fedsel."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(fedsel.__file__)
"""


def test_every_module_can_be_imported_with_all_extras(environment):
    python = environment("all")
    assert Path(run(python, "-c", EVERY_MODULE).stdout).is_relative_to(python.parents[1])


# --- built otherwise --------------------------------------------------------------------------


def test_a_pure_build_serves_devices_and_servers(pure_wheel, environment, tracked, tmp_path):
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert of_the_package(pure_wheel) == package_files(tracked)
    python = environment("simulation", wheel=pure_wheel)
    check_device_and_server(python, tmp_path)
    done = fedsel(python, "run", *SMALL, check=False, cwd=tmp_path)
    assert done.returncode == 1
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.startswith("fedsel: simulations need fedsel's compiled kernels")


def test_a_build_without_a_compiler_says_what_to_do(source, folder):
    done = build_wheel(source, folder / "none", check=False, CC=os.devnull + "/no-compiler")
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "fedsel's kernels could not be compiled" in said
    assert "Install a C compiler; or, for a device or a server, which need no kernels, set " in said
    assert not list((folder / "none").iterdir())
