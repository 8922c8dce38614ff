"""A data set of two records, for the tests of how raw files are found and fetched."""

import hashlib
import urllib.error

import numpy as np
import pytest

from fedsel.data import from_arrays
from reproduction.datasets import catalogue, download
from reproduction.datasets.cache import cache_folder
from reproduction.datasets.catalogue import RealData
from reproduction.datasets.download import Source
from reproduction.datasets.raw import RawFile

CONTENT = b"1 2 no\n3 4 yes\n"
TOY_FILE = RawFile("toy.txt", hashlib.sha256(CONTENT).hexdigest())


def parse(_, contents):
    *rows, labels = zip(*(line.split() for line in contents[0].decode().splitlines()), strict=True)
    return from_arrays(np.array(rows, np.float32).T, labels, name="toy")


TOY = RealData("toy", 2, 2, ((TOY_FILE,),), parse)


def toy_source(work):
    return {TOY_FILE: CONTENT}


def offline(work):
    raise urllib.error.URLError("no route to host")


def never(work):
    pytest.fail("must not be asked")


def install(monkeypatch, folder):
    """A cache of its own, the toy among the data sets and no network."""
    monkeypatch.setenv("FEDSEL_CACHE", str(folder / "cache"))
    monkeypatch.delenv("FEDSEL_DATA", raising=False)
    monkeypatch.setitem(catalogue.REAL, "toy", TOY)
    for name in ("bank", "adult", "kdd"):
        monkeypatch.setitem(download.SOURCES, name, (Source("nowhere", offline),))
    use_sources(monkeypatch, toy_source)


def use_sources(monkeypatch, *fetchers):
    made = tuple(Source(f"source {i}", fetcher) for i, fetcher in enumerate(fetchers))
    monkeypatch.setitem(download.SOURCES, "toy", made)


def cached():
    """What lies in the cache."""
    return sorted(path.name for path in cache_folder().iterdir())


def test_the_toy_is_what_it_should_be():
    data = parse(None, [CONTENT])
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.classes == ("no", "yes")
