"""What a reproduction says of itself beforehand: settings as they are used, and the time."""

import re

import pytest

from fedsel.experiments import Store, cache_key
from fedsel.pages import svg_of
from reproduction import run
from reproduction.catalogue import experiment
from reproduction.datasets import Published


def said_of(name, **given):
    return " ".join(experiment(name, **given).text)


@pytest.mark.parametrize(
    ("name", "full", "coarse"),
    [
        ("table3", ("over 5 draws", "ε = 2."), ("over 1 draw of", "ε = 2.")),
        ("alpha", ("from 0.01 to 100,",), ("from 0.01 to 10,",)),
        ("fig3a", ("1 or 2 epochs",), ("1 epoch.",)),
    ],
)
def test_what_is_said_beforehand_comes_from_the_settings_that_are_used(name, full, coarse):
    assert all(words in said_of(name) for words in full)
    assert all(words in said_of(name, quick=True) for words in coarse)


def test_changed_settings_are_said_too():
    coarse = said_of("fair", quick=True)  # all of it is thousands of cells: left out here
    assert "over 2 runs, on syn-L over 1 draw of the data" in coarse
    assert "over 7 runs" in said_of("fair", quick=True, changes=[("repeats", 7)])
    assert "from 0.5 to auto," in said_of("alpha", changes=[("learning_rate", ["auto", 0.5])])
    assert "{" not in said_of("fair", changes=[("solutions", [])])


@pytest.mark.slow
def test_the_claims_that_are_counted_are_those_that_are_listed(quick_path):
    for names in (("theorem2",), ("claims",)):
        request = run.Request(names, quick=True, changes=[("draws", 1000)])
        some = [one for one in request.experiments if one.name == "theorem2"]
        store = Store(quick_path / "results.sqlite")
        outcomes = run.reproduce(request, some, Published(), store, {}, run.Watcher())
        run.write_page(outcomes, request, quick_path)
        text = (quick_path / "summary.md").read_text(encoding="utf-8")
        listed = re.search(r"^## Claims\n\n.*\n.*\n((?:\|.*\n)*)", text, re.M)[1].splitlines()
        assert text.count(f"\n{len(listed)} claims judged: ") == 1
        assert len(listed) == len(run.verdicts_of(outcomes, request)) > 0


@pytest.mark.slow
def test_the_page_draws_each_figure_once_however_often_it_is_written(quick_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(run, "svg_of", lambda figure: drawn.append(figure) or svg_of(figure))
    tiny = [("repeats", 1), ("folds", 2), ("epsilons", [2.0]), ("models", "logistic")]
    request = run.Request(("fig2i",), quick=True, changes=tiny)
    store = Store(quick_path / "results.sqlite")
    outcomes = run.reproduce(request, request.experiments, Published(), store, {}, run.Watcher())
    for _ in range(2):
        run.write_outcome(outcomes[0], quick_path)
        run.write_page(outcomes, request, quick_path)
    assert len(drawn) == len(outcomes[0].view.pictures) > 0
    assert (quick_path / "fig2i.svg").read_text(encoding="utf-8") == outcomes[0].figures[0].svg


def test_the_time_is_estimated_from_what_is_left(quick_path):
    request = run.Request(("theorem2", "fig2i"), quick=True)
    store = Store(quick_path / "results.sqlite")
    given = (request.experiments, {}, store, Published())
    one, two = (run.estimated_seconds(*given, jobs) for jobs in (1, 2))
    pages = 2 * run._SECONDS_PER_PAGE
    assert one - pages == pytest.approx(2 * (two - pages))
    assert one > two > pages
    every = run.estimated_seconds(run.Request(("fig2i",)).experiments, {}, store, Published(), 1)
    assert every > 5 * one  # ten times five folds in place of one
    tasks = request.experiments[0].tasks
    for task in tasks:
        store.add(cache_key(task, Published().identity), task, {}, 1.0)
    assert run.estimated_seconds(*given, 1) < one
