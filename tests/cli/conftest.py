"""``fedsel run`` on a file of people."""

import json

import pytest

from tests.cli.records import QUICK, write_people
from tests.cli.support import run_here


@pytest.fixture
def fedsel_run(tmp_path):
    """Run on a file of people; the rows, or what went wrong."""
    write_people(tmp_path / "people.csv")

    def call(*arguments, data="people.csv", label="rich", status=0, as_json=True):
        where = ("--data", tmp_path / data, "--label", label, "--out", tmp_path / "out")
        shown = ("--json",) if as_json and not status else ()
        done = run_here("run", *where, *QUICK, *arguments, *shown, status=status)
        return json.loads(done.stdout) if shown else done

    return call
