"""``fedsel run --config``: options from a TOML file, their spellings, and what is wrong in it."""

import json
import tomllib
from pathlib import Path

import pytest

from fedsel.cli import _run_table as table
from tests.cli.records import write_people
from tests.cli.support import run_here

EXAMPLE = Path(__file__).parents[2] / "examples" / "run.toml"
QUICK = 'data = "people.csv"\nlabel = "rich"\nfolds = 2\nrepeats = 1\nrounds = 3\n'


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """A figure takes most of a second, and is looked at elsewhere."""
    monkeypatch.setattr(table, "write_figures", lambda *_: [])


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Write a file and run it, beside a file of records."""
    write_people(tmp_path / "people.csv", 200)
    monkeypatch.chdir(tmp_path)

    def call(text, *arguments, status=0):
        path = tmp_path / "c.toml"
        path.write_text(text)
        out = ("--out", tmp_path / "out", "--jobs", "1")
        return run_here("run", "--config", path, *out, *arguments, status=status)

    return call


def points(done):
    return [(row["solution"], row["epsilon"], row["model"]) for row in json.loads(done.stdout)]


def test_options_win(config):
    text = QUICK + 'solutions = ["PM"]\nepsilons = [1.0]\nmu = "auto"\n'
    done = config(text, "-e", "3", "--json")
    assert points(done) == [("PM", 3.0, "logistic")]
    assert json.loads(done.stdout)[0]["mu"] == "auto"


@pytest.mark.parametrize(
    "text",
    [
        'solution = "PM"\nepsilon = 2\nmodel = "svm"\n',
        'solutions = ["PM"]\nepsilons = [2]\nmodels = ["svm"]\n',
        'solutions = "pm"\nepsilons = 2.0\nmodel = ["svm"]\n',
    ],
)
def test_singular_and_plural_a_value_or_a_list(config, text):
    assert points(config(QUICK + text, "--json")) == [("PM", 2.0, "svm")]


def test_keys_are_the_options_with_either_dash(config):
    text = QUICK + 'solution = "PM"\nepsilon = 2\n'
    text += "learning-rate = 0.25\nunit_records = true\ncentre = false\nk = 3\nbatch = 100\n"
    (row,) = json.loads(config(text, "--json").stdout)
    assert (row["learning_rate"], row["unit_records"], row["centre"]) == (0.25, True, 0.0)
    assert (row["k"], row["batch"]) == (3, 100)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("epsilom = 1", "epsilom in FILE = 1: must be a known key, such as epsilon, epsilons"),
        ("colour = 1", "colour in FILE = 1: must be a known key: dataset, data"),
        ("epsilon = 0", "epsilon in FILE = 0.0: must be a number > 0"),
        ("epsilons = [1, -2]", "epsilons in FILE = -2.0: must be a number > 0"),
        ("epsilons = []", "epsilons in FILE = []: must be a number, or a list"),
        ("epsilon = 'x'", "epsilon in FILE = 'x': must be a number"),
        ("epochs = 1.5", "epochs in FILE = 1.5: must be an integer"),
        ("epochs = true", "epochs in FILE = True: must be an integer"),
        ("intercept = 1", "intercept in FILE = 1: must be true or false"),
        ("folds = [2, 3]", "folds in FILE = [2, 3]: must be an integer"),
        ("solution = 'PS-PN'", "solution in FILE = 'PS-PN': must be a known solution"),
        ("models = ['tree']", "models in FILE = 'tree': must be one of logistic, svm"),
        ("learning-rate = -1", "learning-rate in FILE = -1: must be a finite number > 0"),
        ("scale = 'log'", "scale in FILE = 'log': must be one of none"),
        (
            "epsilon = 1\nepsilons = [2]",
            "epsilons in FILE = [2]: must be set once, not beside epsilon in",
        ),
        ("config = 'x'", "config in FILE = 'x': must be"),
        ("protocol = 'holdout'", "protocol in FILE = 'holdout': must be"),
        ("[table]\nx = 1", "table in FILE = {'x': 1}: must be"),
        ("epsilon = [", "--config = 'FILE': must be valid TOML"),
        ("dataset = 'adult'\ndata = 'x.csv'", "dataset in FILE = 'adult': must be omitted with"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(config, tmp_path, text, complaint):
    done = config(text, status=2)
    assert complaint.replace("FILE", str(tmp_path / "c.toml")) in done.stderr


def test_an_option_that_overrides_a_key_is_named_as_an_option(config):
    assert "fedsel: --epsilon = 0.0" in config("epsilon = 1", "-e", "0", status=2).stderr


def test_the_example_has_no_key_but_options_and_runs(tmp_path):
    keys = tomllib.loads(EXAMPLE.read_text())
    assert {"dataset", "solutions", "epsilons", "model", "out"} <= set(keys)
    options = ("--folds", "2", "--rounds", "3", "-e", "2", "--out", tmp_path, "--json")
    done = run_here("run", "--config", EXAMPLE, *options)
    assert [p[0] for p in points(done)] == keys["solutions"]
    assert json.loads(done.stdout)[0]["repeats"] == keys["repeats"]


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_is_none(tmp_path, name):
    done = run_here("run", "--config", tmp_path / name, status=2)
    assert "--config" in done.stderr
    assert "a TOML file that can be read" in done.stderr
