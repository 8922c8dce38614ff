"""Parts of a page: cells, rows, verdicts and overviews."""

import re

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.pages import Overview, Table, Verdict
from tests.pages.sample import page, sections
from tests.pages.test_render import Tags, minimal, rendered


def test_cells_of_all_sorts():
    rows = (
        ("a", 1, 0.126, None, np.float64(2.5), "1.5 ± 0.2"),
        ("b", 20_000, -0.001, None, np.int64(3), "−10.5 ± 0.2"),
        (None, None, float("nan"), None, float("-inf"), None),
    )
    text = rendered(minimal(tables=(Table("t", ("text", "i", "f", "none", "np", "s"), rows),)))
    cells = re.findall(r"<t[dh]( scope=\"row\")?([^>]*)>([^<]*)</t[dh]>", text)
    shown = [cell[2] for cell in cells if "data-type" not in cell[1] and "scope" not in cell[1]]
    assert shown[:6] == ["a", "1", "0.13", "–", "2.50", "1.5 ± 0.2"]
    assert shown[6:12] == ["b", "20,000", "0.00", "–", "3", "−10.5 ± 0.2"]
    assert shown[12:] == ["–", "–", "not a number", "–", "−∞", "–"]
    assert 'data-value="0.126"' in text
    assert 'data-value="-10.5"' in text
    assert 'data-value="-Infinity"' in text
    assert "nan" not in re.findall(r'data-value="([^"]*)"', text)


def test_a_row_that_does_not_fit_is_refused():
    with pytest.raises(InvalidArgument, match=r"^row = .*must be 2 cells"):
        Table("t", ("a", "b"), ((1,),))


def test_the_overview_links_every_verdict_to_its_section():
    text = page()
    row = r'<tr role="row" data-kind="(\w+)">.*?<a href="#([^"]+)"'
    rows = re.findall(row, text, flags=re.DOTALL)
    expected = [(v.kind.key, s.name) for s in sections() for v in s.verdicts]
    assert rows == expected


def test_an_overview_is_in_the_words_of_its_page():
    words = Overview(title="Who was asked", where="On device", nothing="Nobody was asked.")
    given = Verdict("c", "phone 7", "holds", "", "")
    text = rendered(minimal(verdicts=(given,)), overview=words)
    assert "Who was asked" in text
    assert ">On device<" in text
    assert "Nobody was asked." in rendered(minimal(), overview=words)


def test_a_long_word_may_break_and_stays_one_word():
    """It would push a table off the paper; short ones stay whole."""
    word, hyphened = "x" * 30, "EXP-PM"
    text = rendered(minimal(tables=(Table("t", ("a", "b"), ((word, hyphened),)),)))
    assert "xxxxxxxxxxxx<wbr>xxxxxxxxxxxx<wbr>xxxxxx" in text
    assert '<span class="word">EXP-PM</span>' in text
    assert word in Tags(text).texts["th"]


def test_facts_points_and_the_title_of_what_is_missing():
    text = rendered(minimal(facts={"a": "b"}, points=("one", "two"), missing=("m",), notice="N"))
    assert "<dt>a</dt><dd>b</dd>" in text
    assert '<ul class="points"><li>one</li><li>two</li></ul>' in text
    assert "N</p><ul><li>m</li></ul>" in text
    assert 'class="points"' not in rendered(minimal())
