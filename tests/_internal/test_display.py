"""Names as they are shown: in figures and in cells of a spreadsheet."""

from xml.etree import ElementTree

import pytest

from fedsel._internal.display import in_cell, in_figure, printable
from fedsel._internal.plotting import Point, accuracy_against_epsilon
from tests.cli.test_hostile_names import EVERY


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
