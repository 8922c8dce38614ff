"""The results as Markdown: what is long is folded, and nothing is lost."""

import re

import pytest

from fedsel.pages import Table
from reproduction.summary import FOLDED, markdown

COLUMNS = ("data set", "model", "solution", "test accuracy (%)")


def page(rows, title="At its own best α", columns=COLUMNS):
    tables = {"fair": [Table(title, columns, tuple(rows))]}
    return markdown("T", ["one <line>"], {"cores": "2", "folder": "a <b>"}, (), tables)


def rows(count):
    return [(("syn-L", "adult")[i % 2], "svm", "RJ", float(i)) for i in range(count)]


def test_facts_are_a_list_and_no_markup():
    assert "\none &lt;line>\n\n- cores: 2\n- folder: a &lt;b>\n" in page(rows(1))


def test_a_short_table_stays_as_it_is():
    text = page(rows(FOLDED))
    assert "<details" not in text
    assert text.count("| svm | RJ |") == FOLDED


def test_a_long_table_is_folded_by_data_set_and_model():
    text = page(rows(FOLDED + 2))
    half = FOLDED // 2 + 1
    summaries = re.findall(r"<summary>(.*)</summary>\n\n\| solution \| test", text)
    assert summaries == [f"syn-L, svm, {half} rows", f"adult, svm, {half} rows"]
    assert [float(v) for v in re.findall(r"^\| RJ \| (.+) \|$", text, re.M)] == [
        *range(0, FOLDED + 2, 2),
        *range(1, FOLDED + 2, 2),
    ]


@pytest.mark.parametrize("columns", [("solution", "ε"), ("model", "ε")])
def test_a_long_table_without_data_sets_is_folded_as_a_whole_or_by_model(columns):
    text = page([("RJ", float(i)) for i in range(FOLDED + 1)], columns=columns)
    assert text.count("<details") == 1
    assert f"{FOLDED + 1} rows</summary>" in text
