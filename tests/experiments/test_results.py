"""Results as files: tables for programs, and table and figure for a paper."""

import csv

import pytest

from fedsel.experiments import (
    InMemorySource,
    Spec,
    Store,
    accuracy_figure,
    accuracy_table,
    override,
    sweep,
    tidy,
    write_csv,
    write_figures,
    write_tables,
)
from tests.experiments.test_running import SMALL, small_data

PLACE = {"dataset": "a_1", "repeats": 2, "folds": 3}


def row(solution, epsilon, accuracy, *, model="logistic", private=True, within_budget=True):
    scores = {"accuracy": accuracy, "deviation": 0.01}
    about = {"private": private, "within_budget": within_budget}
    return {**PLACE, "solution": solution, "epsilon": epsilon, "model": model, **scores, **about}


ROWS = [
    row("NP", None, 0.9, private=False),
    row("PM", 1.0, 0.6),
    row("PM", 2.0, 0.8),
    row("FJ", 1.0, 0.7),
    row("PE-published", 1.0, 0.95, within_budget=False),
]


def test_the_table_has_a_column_for_each_epsilon_and_the_best_that_keeps_it_in_bold():
    table = accuracy_table(ROWS)
    assert table.columns == ("solution", "ε = 1", "ε = 2")
    assert table.texts == (
        ("NP", "90.00 ± 1.00", "90.00 ± 1.00"),
        ("PM", "60.00 ± 1.00", "80.00 ± 1.00"),
        ("FJ", "70.00 ± 1.00", "–"),
        ("PE-published", "95.00 ± 1.00", "–"),
    )
    assert table.bold == {(2, 1), (1, 2)}
    assert table.title.startswith("a_1, logistic: test accuracy (%)")


def test_each_model_has_its_best():
    other = [row("PM", 1.0, 0.99, model="svm"), row("FJ", 1.0, 0.99, model="svm")]
    table = accuracy_table([*ROWS, *other])
    assert table.columns[:2] == ("model", "solution")
    assert table.bold == {(2, 2), (1, 3), (4, 2), (5, 2)}


def test_without_epsilon_there_is_one_column_and_nothing_is_best():
    table = accuracy_table(ROWS[:1])
    assert table.columns == ("solution", "accuracy")
    assert not table.bold


def test_a_csv_file_has_choices_as_columns_and_no_single_runs(tmp_path):
    rows = [{**ROWS[0], "chosen": {"rho": 0.4}, "runs": [[0, 0, 0.9, 0.1]], "notes": ["a", "b"]}]
    write_csv(tmp_path / "run.csv", tidy(rows))
    with (tmp_path / "run.csv").open(encoding="utf-8", newline="") as file:
        (read,) = csv.DictReader(file)
    assert read["chosen_rho"] == "0.4"
    assert read["notes"] == "a; b"
    assert "runs" not in read


def test_a_paper_gets_a_table_with_its_notes(tmp_path):
    written = write_tables(ROWS, tmp_path, ["one\nline"])
    assert [path.name for path in written] == ["run.csv", "run.json", "run.tex"]
    first, *rest = written[-1].read_text(encoding="utf-8").splitlines()
    assert first == r"% one\nline"
    assert r"% \label{tab:run}" in rest
    assert r"FJ & \textbf{70.00 $\pm$ 1.00} & – \\" in rest


@pytest.mark.slow
def test_figures_are_functions_of_the_rows(tmp_path):
    spec: Spec = override(SMALL, {"models": ["logistic", "svm"]})
    rows = sweep(spec.cells(), InMemorySource(small_data()), Store(tmp_path / "cells"))
    figure = accuracy_figure(rows)
    assert [axes.get_title() for axes in figure.axes] == ["syn-L, logistic", "syn-L, svm"]
    *_, pdf = write_figures(rows, tmp_path)
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/CIDFontType2" in content  # TrueType, which publishers take
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
