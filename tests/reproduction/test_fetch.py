"""Where raw files lie: the user's folders and the cache, and everything that can go wrong there."""

import gzip
import hashlib
import lzma
import os
import time

import pytest

from fedsel.errors import InvalidArgument
from reproduction.datasets import DataUnavailable, WrongContent, cache, fetch, find, load
from reproduction.datasets.cache import cache_folder
from reproduction.datasets.raw import RawFile
from tests.reproduction.test_toys import (
    CONTENT,
    TOY,
    TOY_FILE,
    cached,
    install,
    never,
    offline,
    use_sources,
)


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path)


# Names


@pytest.mark.parametrize(
    ("name", "close"), [("addult", "adult"), ("syn-M", "syn-L"), ("mnist", "syn-L, syn-H, bank")]
)
def test_unknown_names_list_the_close_ones(name, close):
    with pytest.raises(InvalidArgument, match=f"a known data set; close to it: .*{close}"):
        load(name)


@pytest.mark.parametrize("name", ["syn-L", "SYN-l-0.01-0.9", "Syn-L-0.01-0.9-sparse"])
def test_synthetic_names(name):
    assert load(name).name == "syn-L-0.01-0.9"


@pytest.mark.slow
def test_synthetic_options():
    assert load("syn-H-0.1-0.6").X.shape == (100_000, 300)
    assert load("syn-L", labels="dense").name == "syn-L-0.01-0.9-dense"
    assert (load("syn-L", seed=1).X[0] != load("syn-L").X[0]).any()
    with pytest.raises(InvalidArgument, match="labels = 'dense': must be left out"):
        load("toy", labels="dense")
    with pytest.raises(InvalidArgument, match="c1 and c2 as numbers"):
        load("syn-L-0.1.1-0.9")
    with pytest.raises(InvalidArgument, match=r"^c2 = 9.0"):
        load("syn-L-0.1-9")
    with pytest.raises(DataUnavailable, match="generated"):
        fetch("syn-L")


# Folders that the user names


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)]
)
@pytest.mark.parametrize("by", ["directory", "FEDSEL_DATA"])
def test_a_named_folder_comes_first(tmp_path, monkeypatch, suffix, pack, by):
    use_sources(monkeypatch, never)
    path = tmp_path / f"toy.txt{suffix}"
    path.write_bytes(pack(CONTENT))
    if by == "FEDSEL_DATA":
        monkeypatch.setenv("FEDSEL_DATA", str(tmp_path))
    directory = tmp_path if by == "directory" else None
    found = fetch("toy", directory)
    assert (found.paths, found.where) == ((path,), by)
    assert found.check() == [TOY_FILE.sha256]
    assert load("toy", directory).X.tolist() == [[1, 2], [3, 4]]


def test_folders_are_asked_in_order(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("directory", "environment")]
    for folder in folders:
        folder.mkdir()
        (folder / "toy.txt").write_bytes(CONTENT)
    fetch("toy")
    monkeypatch.setenv("FEDSEL_DATA", str(folders[1]))
    assert find("toy", folders[0]).paths[0].parent == folders[0]
    assert find("toy").paths[0].parent == folders[1]
    assert find("toy", tmp_path).paths[0].parent == folders[1]
    monkeypatch.setenv("FEDSEL_DATA", "")
    assert find("toy").where == "cache"


@pytest.mark.parametrize("by", ["directory", "FEDSEL_DATA"])
def test_a_named_folder_must_exist(tmp_path, monkeypatch, by):
    missing = str(tmp_path / "missing")
    if by == "FEDSEL_DATA":
        monkeypatch.setenv("FEDSEL_DATA", missing)
    with pytest.raises(InvalidArgument, match=f"{by} = .*a folder that exists"):
        load("toy", missing if by == "directory" else None)


@pytest.mark.parametrize("parsed_before", [False, True])
def test_a_wrong_file_in_a_named_folder_is_an_error(tmp_path, parsed_before):
    if parsed_before:
        load("toy")
    path = tmp_path / "toy.txt"
    path.write_bytes(b"something else")
    with pytest.raises(WrongContent) as caught:
        load("toy", tmp_path)
    found = hashlib.sha256(b"something else").hexdigest()
    assert all(part in str(caught.value) for part in (str(path), TOY_FILE.sha256, found))
    assert path.exists()


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".xz", lzma.compress(CONTENT)[:-9]),
        (".gz", gzip.compress(CONTENT, mtime=0)[:-9]),
        (".xz", b"not packed"),
        (".gz", b"not packed"),
        (".xz", b""),
    ],
    ids=["xz", "gz", "no xz", "no gz", "empty"],
)
def test_truncated_files_are_recognised(tmp_path, suffix, data):
    (tmp_path / f"toy.txt{suffix}").write_bytes(data)
    with pytest.raises(WrongContent, match=TOY_FILE.sha256):
        load("toy", tmp_path)


def test_a_published_archive_is_named_by_its_own_hash(tmp_path):
    packed = gzip.compress(CONTENT, mtime=0)
    file = RawFile("f", "0" * 64, hashlib.sha256(packed).hexdigest())
    (tmp_path / "f.gz").write_bytes(packed)
    assert file.check(tmp_path / "f.gz") == file.gz_sha256
    assert file.read(tmp_path / "f.gz") == CONTENT
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"other", mtime=0))
    with pytest.raises(WrongContent, match=f"expected SHA-256 {file.gz_sha256}"):
        file.check(tmp_path / "f.gz")


# The cache


def test_a_download_is_kept(monkeypatch):
    first = load("toy")
    assert cached()[0].startswith("toy-")
    assert "toy.txt" in cached()
    use_sources(monkeypatch, never)
    assert (load("toy").X == first.X).all()
    assert fetch("toy").where == "cache"


def test_a_wrong_file_in_the_cache_is_fetched_again():
    fetch("toy")
    path = cache_folder() / "toy.txt"
    path.write_bytes(b"rotten")
    assert fetch("toy").paths == (path,)
    assert path.read_bytes() == CONTENT


def test_a_wrong_file_in_the_cache_is_gone_even_offline(monkeypatch):
    cache_folder().mkdir()
    (cache_folder() / "toy.txt.xz").write_bytes(lzma.compress(CONTENT)[:20])
    use_sources(monkeypatch, offline)
    with pytest.raises(DataUnavailable):
        fetch("toy")
    assert cached() == []


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"PK" + b])
def test_a_damaged_parsed_file_is_parsed_again(damage):
    first = load("toy")
    (path,) = cache_folder().glob("toy-*.npz")
    path.write_bytes(damage(path.read_bytes()))
    assert (load("toy").X == first.X).all()
    assert cache.load_parsed("toy", TOY.variants[0]) is not None


def test_another_parser_or_another_file_has_another_parsed_form(monkeypatch):
    load("toy")
    assert cache.load_parsed("toy", TOY.variants[0]) is not None
    assert cache.load_parsed("toy", (RawFile("toy.txt", "0" * 64),)) is None
    monkeypatch.setattr(cache, "PARSER_VERSION", cache.PARSER_VERSION + 1)
    assert cache.load_parsed("toy", TOY.variants[0]) is None


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSEL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("FEDSEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedsel"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for relative in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert cache_folder() == tmp_path / "home/.cache/fedsel"


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    """Below a file there can be no folder, not even for root."""
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FEDSEL_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(DataUnavailable, match=r"cannot be written .*: set FEDSEL_CACHE"):
        load("toy")
    (tmp_path / "toy.txt").write_bytes(CONTENT)
    assert load("toy", tmp_path).n == 2


def test_a_full_disk_leaves_nothing(monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataUnavailable, match="No space left on device"):
        fetch("toy")
    assert cached() == []


def test_what_a_killed_process_left_is_swept_later():
    for name, age in ((".part-old", 2 * cache.STALE_SECONDS), (".part-new", 0)):
        folder = cache_folder() / name
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    fetch("toy")
    assert cached() == [".part-new", "toy.txt"]
