"""Figures: looks of the palette, labels that do not collide, legends that cover nothing."""

import numpy as np
import pytest
from matplotlib.text import Text

from fedsel._internal import palette
from fedsel._internal.plotting import (
    Point,
    accuracy_against_epsilon,
    history,
    legend_below,
    new_axes,
    new_figure,
)
from fedsel.experiments import accuracy_figure
from fedsel.server._step import Round
from reproduction import figures
from reproduction.views import gains

SOLUTIONS = ("NP", "PM", "EXP-PM", "PE-PM", "PS-PM", "RJ")


def boxes(texts):
    """Where texts are; that of an annotation without its arrow."""
    return [Text.get_window_extent(text) for text in texts]


def check_apart(texts):
    """No two texts of a figure that was drawn overlap."""
    found = boxes(texts)
    for place, one in enumerate(found):
        assert not any(one.overlaps(other) for other in found[place + 1 :]), texts[place]


def check_legend(figure):
    """The legend of a figure lies within it and touches no panel."""
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= -1
    assert box.x1 <= figure.bbox.width + 1
    assert box.y0 >= -1
    for axes in figure.axes:
        assert axes.get_legend() is None
        if axes.get_visible():
            assert not box.overlaps(axes.get_tightbbox())
    return [text.get_text() for text in legend.get_texts()]


def rows(model="logistic"):
    for place, name in enumerate(SOLUTIONS):
        for epsilon in [None] if name == "NP" else [0.5, 1.0, 2.0]:
            yield {
                "dataset": "syn-L",
                "model": model,
                "solution": name,
                "epsilon": epsilon,
                "accuracy": 0.6 + 0.05 * place + 0.02 * (epsilon or 0),
                "deviation": 0.01,
            }


def test_a_run_draws_each_solution_in_its_look():
    figure = accuracy_figure([*rows(), *rows("svm")])
    assert check_legend(figure) == ["NP (not private)", *SOLUTIONS[1:]]
    for axes in figure.axes:
        drawn = {c.get_label(): c.lines[0] for c in axes.containers}
        for name in SOLUTIONS[1:]:
            look = palette.look(name)
            assert drawn[name].get_color() == look.colour
            assert drawn[name].get_marker() == look.marker


def test_a_new_figure_has_its_legend_beside_it():
    axes = accuracy_against_epsilon([Point("RJ", 1.0, 0.8, 0.1), Point("NP", None, 0.9, 0.0)])
    axes.figure.draw_without_rendering()
    assert axes.get_legend().get_window_extent().x0 > axes.bbox.x1


def test_two_histories_of_one_solution_differ_in_their_lines():
    axes = new_axes()
    rounds = [Round(i, 1, 1.0, 8, 1, 0.5, 0.5) for i in range(30)]
    for label in ("RJ, ε = 1", "RJ, ε = 2"):
        history(rounds, label, axes, "RJ")
    one, other = axes.get_lines()
    assert one.get_color() == other.get_color() == palette.look("RJ").colour
    assert one.get_linestyle() != other.get_linestyle()


@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_legend_below_fits_whatever_it_holds(count):
    figure, panels = figures.panels(["one", "two"], width=3)
    for place in range(count):
        panels[place % 2].plot([1, 2], [1, 2], label=f"a curve with a long name, number {place}")
    panels[0].legend()
    legend_below(figure)
    assert len(check_legend(figure)) == count


def test_names_beside_curves_do_not_collide():
    figure, (axes,) = figures.panels(["all end at one point"], height=4)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    figures.label_ends(axes, [(name, 1.0, 0.5 + 0.001 * i) for i, name in enumerate(SOLUTIONS * 2)])
    figure.draw_without_rendering()
    check_apart(axes.texts)
    for box in boxes(axes.texts):
        assert box.x0 > axes.bbox.x1
        assert axes.bbox.y0 - 8 < box.y0
        assert box.y1 < axes.bbox.y1 + 8


def test_places_are_moved_no_further_than_they_must():
    rng = np.random.default_rng(1)
    for count in (1, 2, 7, 15):
        places = sorted(rng.random(count))
        moved = figures.space_out(places, 0.06)
        assert min(np.diff(moved), default=1) >= 0.06 - 1e-12
        assert moved[0] >= 0
        assert moved[-1] <= 1 + 1e-12
    assert figures.space_out([0.1, 0.5, 0.9], 0.06) == pytest.approx([0.1, 0.5, 0.9])
    assert figures.space_out([], 0.1) == []


def test_labels_of_the_ablation_do_not_collide():
    keys = [(d, m) for d in ("syn-L", "bank", "kdd", "adult") for m in ("logistic", "svm")]
    body = [(*key, s, 5.0, 4.5, 0.5, 0.2, 1.0, 1.0) for key in keys for s in ("EXP", "PE", "PS")]
    figure = gains._bars(body)
    assert len(check_legend(figure)) == 4
    texts = [label for axes in figure.axes for label in (*axes.get_xticklabels(), axes.title)]
    check_apart([text for text in texts if text.get_text()])


def test_the_legend_of_table_3_hides_nothing():
    numbers = [
        {"selection": s, "quantity": q, "paper": p, "ours": p + 1, "error": 0.5}
        for s in ("EXP", "PE", "PS")
        for q in ("gain", "loss")
        for p in (0.0, 4.0, 8.0)
    ]
    assert len(check_legend(gains._scatter(numbers))) == 6


@pytest.mark.parametrize("reach", [16, 1000])
def test_numbers_of_logarithmic_axes_do_not_collide(reach):
    figure, (axes,) = figures.panels(["a panel"], width=4)
    at = np.geomspace(1250, 1250 * reach, 6)
    figures.scaling(axes, {"PM, noise": (at, at), "PS-PM, noise": (at, 1 / at)}, "x", "y")
    legend_below(figure)
    assert check_legend(figure) == ["PM, noise", "PS-PM, noise"]
    ticks = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    low, high = axes.bbox.x0, axes.bbox.x1
    shown = [t for t in ticks if t.get_text() and low < t.get_window_extent().x1 < high + 30]
    assert len(shown) >= 3
    check_apart(shown)


def test_no_legend_without_a_label():
    figure = new_figure()
    figure.subplots()
    legend_below(figure)
    assert not figure.legends
