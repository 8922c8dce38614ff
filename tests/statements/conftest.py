"""Ledgers of a fleet, and the report on them."""

import pytest

from fedsel.statements import inspect_ledgers
from tests.statements.support import MADE, fleet


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module")
def stores(folder):
    return fleet(folder)


@pytest.fixture(scope="module")
def report(stores):
    return inspect_ledgers(stores, made=MADE)
