"""Columns of a table: numbers, one-hot texts, and the label."""

import numpy as np
import pytest

from fedsel.data import read
from tests.data.test_files import CSV, write


@pytest.fixture
def table(tmp_path):
    return write(tmp_path, "people.csv", CSV)


def test_csv_numbers_and_one_hot_texts(table):
    data = read(table, "income")
    assert data.name == "people"
    assert data.feature_names == ("age", "city=Oslo", "city=Rome", "member=no", "member=yes")
    assert data.X.tolist() == [[31, 0, 1, 0, 1], [45, 1, 0, 1, 0], [28, 0, 1, 1, 0]]
    assert data.classes == ("high", "low")
    assert data.y.tolist() == [1, -1, -1]
    assert data.bounds.tolist() == [[-np.inf, np.inf]] + [[0, 1]] * 4
    assert not data.bounded


@pytest.mark.parametrize("label", ["income", 3, -1, "3", "-1"])
def test_the_label_by_name_or_number(table, label):
    assert read(table, label, positive="high").y.tolist() == [-1, 1, 1]


def test_texts_alone_have_public_bounds(tmp_path):
    data = read(write(tmp_path, "t.csv", "a,y\nu,0\nv,1\n"), "y")
    assert data.bounds.tolist() == [[0, 1], [0, 1]]
