"""Pictures of answers: bars, columns, points, curves and heat maps, on any axes."""

import warnings

import numpy as np
import pytest

from fedsel import ask
from fedsel._internal.plotting import new_figure
from fedsel.asking._figures import MOST_BARS
from fedsel.errors import SeededNoiseWarning
from fedsel.wire import Number
from tests.asking.people import JOBS, QUESTIONS, TABLE

pytest.importorskip("matplotlib", reason="needs the extra fedsel[plots]")


def asked(*given, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return ask(*given, seed=1, **more)


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_kind_of_question_has_a_picture(name, tmp_path):
    answer = asked(TABLE, QUESTIONS[name], 4.0)
    axes = answer.plot()
    assert "1,000 clients, ε = 4" in axes.get_title()
    axes.figure.savefig(tmp_path / "figure.png")
    given = new_figure().subplots()
    assert answer.plot(given) is given


def test_bars_have_their_shares_and_names():
    answer = asked(TABLE, QUESTIONS["histogram"], 4.0)
    axes = answer.plot()
    widths = [100 * share.value for share in answer.shares.values()]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(widths)
    assert [text.get_text() for text in axes.get_yticklabels()] == JOBS
    assert axes.get_ylabel() == "job"
    ends = axes.containers[-1].lines[2][0].get_segments()
    for (low, high), share in zip(ends, answer.shares.values(), strict=True):
        assert [low[0], high[0]] == pytest.approx([100 * share.low, 100 * share.high])


def test_numbers_have_columns_as_wide_as_their_bins():
    answer = asked(TABLE, QUESTIONS["numbers"], 4.0)
    axes = answer.plot()
    assert [bar.get_x() for bar in axes.patches] == pytest.approx([0, 16, 32, 48, 64])
    assert axes.get_xlim() == (0, 80)
    missing = {"age": Number(0, 80, indicator=True)}
    named = asked(TABLE, "histogram", 4.0, columns=missing).plot()
    assert named.get_yticklabels()[-1].get_text() == "missing"


def test_what_is_counted_comes_first():
    axes = asked(TABLE, QUESTIONS["count"], 4.0).plot()
    first, second = (text.get_text() for text in axes.get_yticklabels())
    assert first.startswith("job = cook and age from")
    assert second.startswith("not job = cook")
    assert axes.yaxis_inverted()


def test_of_very_many_answers_the_largest_are_drawn():
    answer = asked(np.arange(2000) % 100, "histogram", 4.0, levels=range(100))
    axes = answer.plot()
    assert len(axes.patches) == MOST_BARS
    assert axes.get_xlabel().endswith("the 40 largest of 100")
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(widths, reverse=True)


def test_quantiles_lie_on_the_curve():
    answer = asked(TABLE, QUESTIONS["quantiles"], 4.0)
    axes = answer.plot()
    curve = axes.get_lines()[0]
    for q, found in answer.quantiles.items():
        assert np.interp(found.value, *curve.get_data()) == pytest.approx(100 * q)


def test_a_heat_map_has_every_cell():
    answer = asked(TABLE, QUESTIONS["cross table"], 4.0)
    axes = answer.plot()
    (image,) = axes.images
    np.testing.assert_allclose(
        image.get_array().ravel(), [100 * share.value for share in answer.shares.values()]
    )
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "job")
    assert len(axes.texts) == 16
    three = {"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"]}
    table = {name: ["x", "y"] * 500 for name in three}
    bars = asked(table, "cross table", 4.0, columns=three).plot()
    assert bars.get_yticklabels()[0].get_text() == "x × x × x"


def test_names_are_text_and_no_formulas():
    levels = ["$x$", "_hidden", "a" * 200]
    axes = asked(levels * 300, "histogram", 4.0, levels=levels, columns="$y$").plot()
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[0] == r"\$x\$"
    assert labels[2].endswith("…")
    assert axes.get_ylabel() == r"\$y\$"
