"""Delimited text: one way of reading .csv files, for devices and for everybody else."""

import io

import pytest

from fedsel._internal.delimited import delimited_rows, first_twice, header_fault

CELLS = [["a", "b c"], ["1", 'say "hi", you'], ["", "two\nlines"]]
TEXTS = [
    'a,b c\n1,"say ""hi"", you"\n,"two\nlines"\n',
    'a;b c\r\n1;"say ""hi"", you"\r\n;"two\nlines"',
    'a\tb c\n1\t "say ""hi"", you"\n\t"two\nlines"\n\n\n',
    'a|b c\n\n1|"say ""hi"", you"\n|"two\nlines"\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_rows(text):
    assert list(delimited_rows(io.StringIO(text, newline=""))) == CELLS


def test_nothing_is_no_row():
    assert list(delimited_rows(io.StringIO("\n\n", newline=""))) == []


def test_names():
    assert header_fault(["age", "job"]) is None
    assert header_fault([]) == "it is empty"
    assert header_fault(["age", ""]) == "column 2 has no name"
    assert header_fault(["age", "job", "job", "age"]) == "two columns are called 'job'"
    assert first_twice([1, "1", ("a",), ("a",)]) == ("a",)
