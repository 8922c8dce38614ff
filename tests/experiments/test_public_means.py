"""``fedsel run --public-mean``: a file of means, for data sets by name and for one's own."""

import json

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.cli._run_records import means_of
from tests.cli.support import run_here
from tests.experiments.test_sources import table


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "age,41.5\njob=a,0.25\n"),
        ("m.csv", "feature,mean\nage, 41.5\n\njob=a,0.25\n"),
        ("m.csv", '\ufeffname,mean\r\nage,41.5\r\n"job=a",0.25\r\n'),
        ("m.toml", 'age = 41.5\n"job=a" = 0.25\n'),
        ("m.TOML", "age = 41.5\n[job]\na = 0.25\n"),
    ],
)
def test_a_file_has_a_mean_for_each_name(name, text, tmp_path):
    assert means_of(written(tmp_path / name, text)) == (("age", 41.5), ("job=a", 0.25))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("m.csv", "", "nothing in .*has a mean"),
        ("m.csv", "name,mean\n", "has a mean"),
        ("m.csv", "age,41\nage,42\n", "age in .*each feature once"),
        ("m.csv", "age,41\njob=a\n", "name,mean .*job=a"),
        ("m.csv", "age,41\njob=a,many\n", "many"),
        ("m.csv", "age,nan\n", r"public_mean\['age'\] = nan"),
        ("m.csv", "age,inf\n", r"public_mean\['age'\] = inf"),
        ("m.toml", "age = 1\nage = 2\n", "name = mean"),
        ("m.toml", "age = 'x'\n", r"public_mean\['age'\] = 'x'"),
        ("m.toml", "[job]\na = true\n", r"public_mean\['job=a'\] = True"),
        ("m.toml", "age = [1]\n", r"public_mean\['age'\] = \[1\]"),
        ("m.toml", "job.a = 1\n'job=a' = 2\n", "job=a in .*once"),
    ],
)
def test_files_that_are_wrong(name, text, words, tmp_path):
    with pytest.raises(InvalidArgument, match=words):
        means_of(written(tmp_path / name, text))
    with pytest.raises(InvalidArgument, match="a file"):
        means_of(tmp_path / "none.csv")


@pytest.mark.slow
def test_the_command_takes_public_means(tmp_path):
    rows = table(1500, 1)
    data = written(tmp_path / "data.csv", "\n".join(["age,job,rich", *map(",".join, rows)]))
    age = np.mean([float(a) for a, *_ in rows])
    shares = [np.mean([job == level for _, job, _ in rows]) for level in "abc"]
    lines = [f"job={level},{share}" for level, share in zip("abc", shares, strict=True)]
    means = written(tmp_path / "means.csv", "\n".join([*lines, f"age,{age}"]))
    options = ("run", "--data", data, "--label", "rich", "-e", "4", "--folds", "2")
    options += ("--repeats", "1", "--out", tmp_path / "out", "-s", "FJ")
    given = ("--public-mean", means)
    row = json.loads(run_here(*options, *given, "--json").stdout)[0]
    # Nobody knows the range of the age: that is left to learn.
    assert row["scale"] == "private"
    assert row["chosen"]["public_means"] == 4
    assert row["chosen"]["centre_rounds"] == 0
    assert row["chosen"]["spread_rounds"] > 0
    assert row["accuracy"] > 0.7
    shown = run_here(*options, *given).stdout
    assert "public means for 4 of the features, which cost no ε" in shown
    # Other means are another result, not that of the folder.
    written(means, "job=a,0.3")
    some = json.loads(run_here(*options, *given, "--json").stdout)[0]
    assert some["chosen"]["public_means"] == 1
    assert some["chosen"]["centre_rounds"] > 0
    assert some["runs"] != row["runs"]
    for text, words in (
        ("jobs=a,0.3", "--public-mean['jobs=a'] = 0.3: must be the mean of a known feature"),
        (
            "job=a,1.3",
            "--public-mean['job=a'] = 1.3: must be a number in its public bounds, [0, 1]",
        ),
        ("job=a", "--public-mean = "),
    ):
        written(means, text)
        assert words in run_here(*options, *given, status=2).stderr.replace("\n", " ")
    written(means, "job=a,0.3")
    for more, words in (
        (("--scale", "standard"), "--scale"),
        (("--no-intercept",), "intercept"),
        (("--public", data), "--public-mean"),
    ):
        assert words in run_here(*options, *given, *more, status=2).stderr


@pytest.mark.slow
def test_data_sets_by_name_take_them_too(tmp_path):
    means = written(tmp_path / "m.toml", "x0 = 0.1\n")
    options = ("run", "--dataset", "syn-L", "-s", "FJ", "-e", "4", "--repeats", "1", "--folds", "2")
    options += ("--public-mean", means, "--out", tmp_path / "out", "--batch", "0.05")
    assert "--intercept = False: must be true" in run_here(*options, status=2).stderr
    row = json.loads(run_here(*options, "--intercept", "--json").stdout)[0]
    assert (row["scale"], row["chosen"]["public_means"]) == ("unit", 1)
    written(means, "x999 = 0.1\n")
    assert "--public-mean['x999']" in run_here(*options, "--intercept", status=2).stderr
