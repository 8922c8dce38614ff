"""What is shown is escaped, and nothing in it misleads a reader: pages, figures, spreadsheets."""

from decimal import Decimal
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest
from jinja2 import UndefinedError

from fedsel._internal.display import (
    in_cell,
    in_figure,
    macro,
    printable,
    rendered,
    safe,
    upper_bound,
)
from fedsel._internal.plotting import Point, accuracy_against_epsilon
from tests.cli.test_hostile_names import EVERY

HOSTILE = "<b>\"'&\x00\ud800\u202e"


def test_values_are_escaped_and_what_cannot_be_shown_is_replaced():
    page = rendered("statements/fragment.html", title=HOSTILE, summary=[], facts={}, sections=[])
    assert "<h3>&lt;b&gt;&#34;&#39;&amp;\ufffd\ufffd\ufffd</h3>" in page
    page.encode()


def test_parts_of_a_page_are_escaped_once():
    part = macro("service/dashboard/parts.html", "figures", drawn=[(HOSTILE, safe("<svg>"), "a&b")])
    assert "<h3>&lt;b&gt;" in part
    assert "<svg>" in part
    assert "a&amp;b" in part
    assert str(safe("{}").format(part)) == str(part)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        rendered("statements/fragment.html", title="a")


@pytest.mark.slow
@EVERY
def test_figures_show_names_as_they_are(name, tmp_path):
    points = [Point(name, epsilon, 0.5, 0.1) for epsilon in (1.0, 2.0)] + [Point("NP", None, 1, 0)]
    axes = accuracy_against_epsilon(points)
    axes.set_title(in_figure(name))
    axes.figure.savefig(tmp_path / "figure.svg")
    axes.figure.savefig(tmp_path / "figure.png")
    ElementTree.parse(tmp_path / "figure.svg")
    assert in_figure(name) in [text.get_text() for text in axes.get_legend().get_texts()]
    assert not axes.title._preprocess_math(axes.title.get_text())[1]
    drawn = axes.title._preprocess_math(axes.title.get_text())[0]
    assert drawn.strip()[:50] == printable(name)[:50]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((f"{sign}1+1", f"'{sign}1+1") for sign in "=+-@＝＋－＠"),
        ("  =1", "'  =1"),
        ("\t=1", r"\t=1"),
        ("a\r\n=1", r"a\r\n=1"),
        ("", ""),
        ("PS-PM", "PS-PM"),
        ("ε", "ε"),
        (-1.5, -1.5),
        (None, None),
    ],
)
def test_cells_of_a_spreadsheet(text, cell):
    assert in_cell(text) == cell


def test_an_upper_bound_is_never_below_the_number_and_near_it():
    rng = np.random.default_rng(7)
    for value in (10 ** rng.uniform(-30, 12, size=2000)).tolist():
        mantissa, _, power = upper_bound(value).rpartition("10")
        raised = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        text = upper_bound(value)
        if value < 1e-3:
            text = f"{mantissa.rstrip('·') or 1}e{raised}"
        said, digits = Decimal(text), Decimal(repr(value))
        assert digits <= said <= digits * Decimal("1.001")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1, "0.1"),
        (Fraction(1, 10), "0.1"),
        (Fraction(10**30 + 1, 10**31), "0.1001"),
        (0.99999, "1"),
        (0.00099999, "0.001"),
        (9.9999e-8, "10⁻⁷"),
        (99999, "100000"),
        (np.float64(2.5), "2.5"),
    ],
)
def test_upper_bounds(value, text):
    assert upper_bound(value) == text
