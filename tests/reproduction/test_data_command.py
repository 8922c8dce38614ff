"""``python -m reproduction data``: what it prints, where, and the status it ends with."""

import json

import pytest

from fedsel.data import read
from reproduction.datasets import command
from reproduction.datasets.cache import cache_folder
from tests.reproduction.support import run as reproduction
from tests.reproduction.test_toys import (
    CONTENT,
    TOY_FILE,
    install,
    offline,
    toy_source,
    use_sources,
)


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path)
    monkeypatch.setattr(command, "NAMES", ("syn-L", "toy"))


def run(*arguments, status=0):
    return reproduction("data", *arguments, status=status)


def test_list_as_json(tmp_path):
    synthetic, missing = json.loads(run("list", "--json").stdout)
    assert synthetic == {
        "name": "syn-L",
        "n": 60_000,
        "d": 100,
        "source": "generated",
        "present": True,
        "paths": [],
    }
    assert (missing["source"], missing["present"]) == ("download", False)
    (tmp_path / "toy.txt").write_bytes(CONTENT)
    present = json.loads(run("list", "--json", "--directory", tmp_path).stdout)[1]
    assert (present["source"], present["present"]) == ("directory", True)
    assert present["paths"] == [str(tmp_path / "toy.txt")]


def test_list_as_a_table():
    before = run("list").stdout
    assert "60,000" in before
    assert "download (source 0)" in before
    run("fetch", "toy")
    assert "cache (" in run("list").stdout


def test_fetch_prints_path_and_hash_and_says_where_it_looks(monkeypatch):
    use_sources(monkeypatch, offline, toy_source)
    done = run("fetch", "TOY")
    assert done.stdout == f"{cache_folder() / 'toy.txt'}  {TOY_FILE.sha256}\n"
    assert done.stderr.splitlines() == [
        "toy: downloading from source 0",
        "toy: downloading from source 1",
    ]
    assert run("fetch", "toy").stderr == ""  # it is in the cache


def test_fetch_offline_is_one_sentence_and_status_one(monkeypatch):
    use_sources(monkeypatch, offline)
    done = run("fetch", "toy", status=1)
    assert done.stdout == ""
    assert done.stderr.splitlines()[1].startswith("reproduction: toy: could not be downloaded")
    assert "set FEDSEL_DATA or --directory to a folder with toy.txt" in done.stderr
    assert done.stderr.count("\n") == 2


def test_synthetic_data_need_no_fetching():
    assert "nothing to fetch" in run("fetch", "syn-L").stdout
    assert "has no file" in run("path", "syn-L", status=1).stderr


def test_path_prints_paths_or_says_what_to_do(tmp_path):
    assert "python -m reproduction data fetch toy" in run("path", "toy", status=1).stderr
    run("fetch", "toy")
    assert run("path", "toy").stdout == f"{cache_folder() / 'toy.txt'}\n"
    (tmp_path / "toy.txt").write_bytes(b"wrong")
    assert "wrong content" in run("path", "toy", "--directory", tmp_path, status=1).stderr


@pytest.mark.parametrize("name", ["fetch", "path"])
def test_unknown_names_and_folders_are_wrong_arguments(name, tmp_path):
    for arguments in (("toyy",), ("toy", "--directory", tmp_path / "missing")):
        assert " = '" in run(name, *arguments, status=2).stderr


def test_a_data_set_is_saved_for_fedsel_run(tmp_path):
    assert "3 records" not in run("save", "toy", tmp_path / "toy.npz").stdout
    saved = read(tmp_path / "toy.npz")
    assert (saved.name, saved.X.tolist(), saved.y.tolist()) == ("toy", [[1, 2], [3, 4]], [-1, 1])
    assert "ends in .npz" in run("save", "toy", tmp_path / "toy.csv", status=2).stderr
