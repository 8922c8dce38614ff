"""Delimited text: how every .csv file becomes rows of texts, on devices and elsewhere."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

_DELIMITERS = ",;\t|"


def delimited_rows(file: TextIO) -> Iterator[list[str]]:
    """The rows of a file that is opened with newline=""; empty lines are none.

    The first line decides between comma, semicolon, tab and bar. Space before a quote is ignored.
    """
    delimiter = max(_DELIMITERS, key=file.readline().count)
    file.seek(0)
    return (row for row in csv.reader(file, delimiter=delimiter, skipinitialspace=True) if row)


def header_fault(names: Sequence[str]) -> str | None:
    """What is wrong with the names in the first line of a file, if anything is.

    >>> header_fault(["age", "", "age"]), header_fault(["age", "job", "age"])
    ('column 2 has no name', "two columns are called 'age'")
    """
    if not names:
        return "it is empty"
    if "" in names:
        return f"column {names.index('') + 1} has no name"
    twice = first_twice(names)
    return None if twice is None else f"two columns are called {twice!r}"


def first_twice(names: Iterable[Any]) -> Any:
    """The first name that occurs a second time; None if all differ."""
    seen: set[Any] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]
