"""Folders whose names must last: each is flushed in the folder above it before it is used."""

import os
from fractions import Fraction

import numpy as np
import pytest

from fedsel import Recipe
from fedsel._internal.paths import make_folder
from fedsel.device import Ledger
from fedsel.server import Aggregator, Shuffler
from tests.server.shuffling import recipe

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are flushed where one can")


def of_a_ledger(folder):
    Ledger(folder / "store").create(Fraction(1))


def of_a_witness(folder):
    Ledger(folder.parents[1] / "store", folder / "witness").create(Fraction(1))


def of_an_aggregator(folder):
    Aggregator(recipe(), folder).close()


def of_a_shuffler(folder):
    Shuffler(folder, n_min=2).close()


def of_a_service(folder):
    from fedsel.service._store import open_store

    open_store(folder).close()


def of_a_strategy(folder):
    from flwr.app import ArrayRecord

    from fedsel.flower._session import Session
    from fedsel.server._plan import ServerPlan
    from fedsel.wire import Intent

    planned = ServerPlan(Recipe("J", epsilon=1.0), nodes=2)
    session = Session.open(ArrayRecord([np.zeros(3)]), 1.0, planned, folder, Intent("", ""))
    session.server.close()


OPENED = [of_a_ledger, of_a_witness, of_an_aggregator, of_a_shuffler, of_a_service, of_a_strategy]


@pytest.fixture
def flushed(monkeypatch):
    """What os.fsync has seen, by its number."""
    flush, seen = os.fsync, []

    def noted(handle):
        flush(handle)
        seen.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    return seen


@pytest.mark.parametrize("opened", [make_folder, *OPENED], ids=lambda f: f.__name__)
def test_the_names_of_new_folders_are_durable(tmp_path, flushed, opened):
    place = tmp_path / "above" / "folder"
    opened(place)
    assert {folder.stat().st_ino for folder in (tmp_path, tmp_path / "above")} <= set(flushed)
    assert place.is_dir()


def test_a_folder_that_is_there_is_left_alone(tmp_path, flushed):
    """The one above it may be another's, which this process must not read."""
    make_folder(tmp_path)
    assert flushed == []


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file" / "folder")
