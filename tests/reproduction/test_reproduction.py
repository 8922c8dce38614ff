"""The paper's experiments: specs, measures, verdicts, and the command in real processes."""

import json
import random
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fedsel import InvalidArgument, solution
from fedsel.data import synthetic
from fedsel.experiments import Store
from fedsel.mechanisms import Piecewise
from fedsel.recipe import RECOMMENDED
from fedsel.simulation import Population, Training, train
from reproduction.catalogue import NAMES, PAPER, check_changes, experiment, specs_of, wanted
from reproduction.datasets import Published
from reproduction.lemmas import verdicts as exact_verdicts
from reproduction.measures.bounds import MaxError
from reproduction.measures.literal import literal_exp, literal_pe, literal_pm, literal_ps
from reproduction.measures.timing import ClientTime
from reproduction.measures.variance import UpdateVariance
from reproduction.paper import TABLE3
from reproduction.results import Gap, gap
from reproduction.run import Request, Watcher, missing_data, reproduce, write_page
from reproduction.views import VIEWS
from reproduction.views.base import HOLDS, UNDECIDED, judge
from reproduction.views.choosing import best_rates
from reproduction.views.gains import numbers_of, rmse_of
from tests.reproduction.support import run

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
NOTHING = Published()


# ---------------------------------------------------------------- specs

whole = cache(experiment)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in NAMES if name not in ("claims", "fair")),
        pytest.param("fair", marks=pytest.mark.slow),  # thousands of cells
    ],
)
def test_every_experiment_is_data_with_a_coarser_variant(name):
    full, quick = whole(name), experiment(name, quick=True)
    assert full.title
    assert full.text
    assert name in VIEWS

    def cost(one):
        return sum(task.cost * task.parts for task in one.tasks)

    assert 0 < cost(quick) < cost(full) / 2
    json.dumps([task.parameters for task in full.tasks])


def test_table3_is_the_papers_setting():
    tasks = experiment("table3").tasks
    assert {(t.dataset, t.model) for t in tasks} == set(TABLE3)
    assert sum(len(printed) for printed in TABLE3.values()) == 48
    names = ("epsilon", "mu", "k", "reg", "batch", "folds", "repeats", "epochs")
    assert {tuple(t.parameters[name] for name in names) for t in tasks} == {
        (2.0, 0.1, 0.1, 1e-4, 0.01, 5, 10, 1)
    }
    assert {t.draw for t in tasks if t.dataset == "syn-L"} == {0, 1, 2, 3, 4}
    assert len(tasks) == 7 * 2 * (5 + 3)


def test_names_and_changes():
    assert wanted(["all"]) == list(NAMES)
    assert wanted(["claims"]) == list(NAMES)
    assert wanted(["Fig2B", "table1"]) == ["table1", "fig2b"]
    assert set(PAPER) < set(NAMES)
    with pytest.raises(InvalidArgument, match="an experiment, such as table3"):
        wanted(["tabel3"])
    changed = experiment("fig2f", changes=[("epsilons", 3.0), ("models", "svm"), ("repeats", 2)])
    assert {t.model for t in changed.tasks} == {"svm"}
    assert {t.parameters["epsilon"] for t in changed.tasks} == {None, 3.0}
    check_changes(["table1", "fig2f"], [("trials", 3), ("mu", 0.2)])
    with pytest.raises(InvalidArgument, match="--set = 'colour=3'"):
        check_changes(["fig2f"], [("colour", 3)])
    with pytest.raises(InvalidArgument, match="folds = 1"):
        experiment("fig2f", changes=[("folds", 1)])


# ---------------------------------------------------------------- measures


def test_literal_mechanisms_follow_their_laws():
    """Means of 20 000 draws within 6 standard errors: false alarms 2e-9 each."""
    rng, n = random.Random(1), 20_000
    drawn = np.array([literal_pm(0.4, 1.5, rng) for _ in range(n)])
    exact = Piecewise(1.5).variance(0.4)
    assert abs(drawn.mean() - 0.4) < 6 * np.sqrt(exact / n)
    assert drawn.var() == pytest.approx(exact, rel=0.05)
    r = [0.1, -3.0, 0.5, 2.0]
    total = sum(np.exp(1.0 * j / 3) for j in range(1, 5))
    for draw, top in (
        (lambda: literal_exp(r, 1.0, total, rng), np.exp(4 / 3) / total),
        (lambda: literal_ps(r, 1, 1.0, rng), np.e / (np.e + 3)),
    ):
        share = np.mean([draw() == 1 for _ in range(n)])
        assert abs(share - top) < 6 * np.sqrt(top * (1 - top) / n)
    p = np.e / (1 + np.e)
    empty = np.mean([literal_pe(r, 1, 1.0, rng) == -1 for _ in range(n)])
    chance = (1 - p) * p**3
    assert abs(empty - chance) < 6 * np.sqrt(chance * (1 - chance) / n)


def test_max_error_falls_with_m_and_measures_what_it_says():
    few, many = (MaxError("PS-PM", 20, m, 1.0, trials=3) for m in (500, 20_000))
    rows = [t.combine([t.part(i, NOTHING) for i in range(3)]) for t in (few, many)]
    assert rows[1]["noise"] < rows[0]["noise"] / 3
    # The bias against the mean of the vectors does not go away.
    assert rows[1]["error"] > 0.3
    flat = MaxError("PM", 20, 20_000, 1.0, trials=1)
    noise, error, best = flat.part(0, NOTHING)
    assert noise == error
    assert best < 1.5 * error  # least squares, not least maximum
    compressed = MaxError("PM-RP", 40, 5000, 1.0, trials=1)
    assert compressed.q == 4
    assert compressed.part(0, NOTHING)[1] > compressed.part(0, NOTHING)[0]


def test_update_variances_are_exact_and_drawn_alike():
    """Relative error of a variance over 200 000 draws: a few per mille; 5 % is far out."""
    for s in (0.3, 3.0):
        task = UpdateVariance("PM", 1.8, 0.5, s)
        row = task.combine([task.part(0, NOTHING)])
        assert row["clipped"] == (s > 1)
        for name in ("adapted", "original"):
            assert row[f"{name}_measured"] == pytest.approx(row[name], rel=0.05)
        assert row["adapted"] < row["original"]
    above = UpdateVariance("Duchi", 1.0, 2.0, 5.0)
    row = above.combine([above.part(0, NOTHING)])
    assert row["adapted"] == pytest.approx(4 * row["original"])


@pytest.mark.parametrize("implementation", ["paper", "device", "cohort"])
def test_times_are_positive(implementation):
    for selection in ("none", "EXP", "PE", "PS"):
        task = ClientTime(selection, implementation, 10, repeats=1)
        assert 0 < task.combine([task.part(0, NOTHING)])["seconds"] < 1


def rs_training(name, rate, **given):
    return Training(solution(name, dim=16, **given), learning_rate=rate, batch=40, seed=0)


@pytest.mark.parametrize("epsilon", [2.0, 6.0])
def test_rs_pm_is_pm_at_alpha_over_d(epsilon):
    data = synthetic(d=16, n=800, seed=2)
    people = Population(data.X, data.y)
    weights = [
        train(rs_training(name, a, epsilon=epsilon), people)
        for name, a in (("PM", 0.5), ("RS-PM", 8.0))
    ]
    np.testing.assert_allclose(weights[0].weights, weights[1].weights, rtol=1e-9, atol=1e-12)
    plain = [train(rs_training(name, a), people) for name, a in (("NP-RS", 0.5), ("RS", 8.0))]
    np.testing.assert_allclose(plain[0].weights, plain[1].weights, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- verdicts


def test_a_claim_is_judged_by_paired_runs():
    up, flat, down = Gap(1.0, 0.1), Gap(0.1, 0.1), Gap(-1.0, 0.1)
    cases = [
        ({"a": up, "b": up}, False, HOLDS),
        ({"a": up, "b": flat}, False, "holds in 1 of 2"),
        ({"a": flat}, False, UNDECIDED),
        ({"a": flat, "b": down}, False, "does not hold"),
        ({"a": flat, "b": up}, True, HOLDS),
        ({"a": down}, True, "does not hold"),
        ({}, False, "not measured"),
    ]
    for gaps, ties, expected in cases:
        assert judge("x", "claim", "here", gaps, ties=ties).verdict == expected
    paired = gap(np.array([1.0, 5.0, 9.0]), np.array([0.0, 4.0, 8.0]))
    assert (paired.mean, paired.error, paired.above) == (1.0, 0.0, True)


def test_lemmas_are_judged_by_certificates():
    told = {v.where: v for v in exact_verdicts()}
    assert told["Lemma 1"].verdict == told["Lemma 3"].verdict == "holds"
    assert told["Lemma 2"].verdict == "does not hold"
    assert "1.333" in told["Lemma 2"].numbers
    assert "not with PE" in told["Theorem 1"].verdict


def row(solution, accuracy, **more):
    return {
        "dataset": "bank",
        "model": "svm",
        "solution": solution,
        "runs": [[0, i, a, 0.0] for i, a in enumerate(accuracy)],
        **more,
    }


def test_gains_and_losses_are_the_papers_definitions():
    rows = [row("PM", [0.80, 0.82])]
    for s in ("EXP", "PE", "PS"):
        rows += [row(f"{s}-PM", [0.84, 0.86]), row(f"{s}-PM-C", [0.85, 0.87])]
    numbers = numbers_of(rows)
    assert [n["ours"] for n in numbers] == pytest.approx([5.0, 1.0] * 3)
    assert [n["paper"] for n in numbers] == list(TABLE3["bank", "svm"])
    expected = np.sqrt(np.mean((np.array([5.0, 1.0] * 3) - TABLE3["bank", "svm"]) ** 2))
    assert rmse_of(numbers) == pytest.approx(expected, abs=1e-4)
    assert rmse_of([]) is None


def test_alpha_is_chosen_by_validation_not_by_test():
    shared = {"dataset": "bank", "draw": 0, "model": "svm", "solution": "PM", "epsilon": 1.0}
    rows = [
        {**shared, "learning_rate": a, "validation": [v], "test": [t]}
        for a, v, t in ((0.1, 0.7, 0.9), (1.0, 0.8, 0.6), (10.0, 0.75, 0.95))
    ]
    (chosen,) = best_rates(rows)
    assert (chosen["learning_rate"], chosen["at_edge"]) == (1.0, False)


@pytest.mark.slow
def test_draws_of_real_data_are_not_repeated_and_a_sweep_has_its_own_coarse_variant():
    tasks = whole("fair").tasks
    assert {t.draw for t in tasks if t.dataset == "syn-L"} == {0, 1, 2}
    assert {t.draw for t in tasks if t.dataset != "syn-L"} == {0}
    beyond = {RECOMMENDED, "RC", "J", "UJ", "PrivUnit", "Duchi-L2", "SignDS"}
    assert beyond < {t.recipe.solution for t in tasks}
    quick = experiment("fair", quick=True).tasks
    assert {t.recipe.solution for t in quick} == {
        "NP",
        "PM",
        "EXP-PM",
        "PS-PM",
        RECOMMENDED,
        "PrivUnit",
        "J",
        "RC",
    }
    assert {t.recipe.rho for t in quick if t.recipe.solution == RECOMMENDED} == {0.4, "auto"}


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_the_recommended_solution_is_compared_automatic_and_at_its_best_rate(quick):
    tasks = experiment("fair", quick=True).tasks if quick else whole("fair").tasks
    automatic = {t.recipe.solution for t in tasks if t.recipe.learning_rate == "auto"}
    assert automatic == {RECOMMENDED}
    assert RECOMMENDED in {t.recipe.solution for t in tasks if t.recipe.learning_rate != "auto"}


# ---------------------------------------------------------------- the whole way

TINY = [("repeats", 1), ("folds", 2), ("epsilons", [2.0])]


def test_without_real_data_the_rest_is_done_and_the_gap_is_named(tmp_path, monkeypatch):
    """No data folder, an empty cache and no network: only what is generated."""
    import reproduction.datasets.download as download
    from reproduction.datasets import DataUnavailable

    def refuse(entry, notify):
        raise DataUnavailable(f"{entry.name}: no network; put {entry.wanted} into FEDSEL_DATA")

    monkeypatch.setattr(download, "download", refuse)
    monkeypatch.setenv("FEDSEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDSEL_DATA", raising=False)
    request = Request(("table3", "fig2f"), quick=True, changes=[*TINY, ("draw", 0)])
    experiments = request.experiments
    missing = missing_data(experiments, NOTHING)
    assert set(missing) == {"bank", "kdd", "adult"}
    watcher = Watcher()
    store = Store(tmp_path / "results.sqlite")
    figure, table = reproduce(request, experiments, NOTHING, store, missing, watcher)
    assert not figure.rows
    assert "FEDSEL_DATA" in figure.missing[0]
    assert {n["dataset"] for n in table.view.numbers["numbers"]} == {"syn-L"}
    page = write_page([figure, table], request, tmp_path).read_text()
    assert "bank is missing" in page
    assert "12 numbers" in page


SMALL = ("--set", "repeats=2", "--set", "epsilons=[1.0, 2.0]", "--set", "models=logistic")


@pytest.mark.slow
def test_kill_in_the_middle_and_go_on(tmp_path):
    """kill -9 after the first kept cell; the second run ends with the numbers of a whole one."""
    whole = json.loads(run("fig2i", *SMALL, "--out", tmp_path / "whole", "--json").stdout)
    out = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "reproduction", "fig2i", *SMALL, "--out", str(out), "--jobs", "1"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    path = out / "results.sqlite"
    while time.monotonic() < deadline:
        if path.exists() and path.stat().st_size and len(Store(path)) >= 1:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    kept = len(Store(path))
    assert 1 <= kept < 8
    resumed = json.loads(run("fig2i", *SMALL, "--out", out, "--json").stdout)
    assert resumed["rows"] == whole["rows"]
    assert resumed["verdicts"] == whole["verdicts"]
    assert len(Store(path)) == 8
    for name in ("index.html", *(f"fig2i.{kind}" for kind in ("csv", "tex", "png", "svg", "pdf"))):
        assert (out / name).read_bytes()
    assert (out / "fig2i.csv").read_bytes() == (tmp_path / "whole" / "fig2i.csv").read_bytes()


@pytest.mark.slow
def test_table3_on_the_papers_data(tmp_path):
    if not SHARED.is_dir():
        pytest.skip("the paper's data files are not beside the repository")
    options = ("--set", "repeats=1", "--set", "folds=2", "--set", "draw=0", "--json")
    told = json.loads(
        run("table3", *options, "--out", tmp_path / "r", FEDSEL_DATA=str(SHARED)).stdout
    )
    assert len(told["numbers"]) == 48
    assert {"ours", "paper", "difference"} <= set(told["numbers"][0])
    assert told["rmse"] > 0
    assert not told["missing"]
    assert told["command"].startswith("python -m reproduction table3 --set repeats=1")


@pytest.mark.slow  # every experiment is laid out for it
def test_the_list():
    assert "fair" in run().stdout
    assert {r["name"] for r in json.loads(run("--json").stdout)} == set(NAMES)


@pytest.mark.slow
def test_several_names(tmp_path):
    told = json.loads(
        run(
            "theorem2", "fig2e", "--quick", "--set", "d=[10, 100]", "--json", "--out", tmp_path
        ).stdout
    )
    assert [e["name"] for e in told["experiments"]] == ["theorem2", "fig2e"]
    assert told["claims"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tabel3"], "an experiment, such as table3"),
        (["table3", "--set", "repeats"], "name=value"),
        (["table3", "--set", "colour=1"], "--set = 'colour=1'"),
        (["table3", "--set", "epsilons=[0.0]"], "epsilon = 0.0"),
        (["table3", "--set", "solutions=['XX']"], "solution = 'XX'"),
        (["table1", "--set", "trials=0"], "trials = 0"),
        (["table3", "--out", "no/such/folder"], "a folder that can be written"),
    ],
)
def test_wrong_input_ends_with_one_sentence_and_status_2(tmp_path, arguments, complaint):
    assert complaint in run(*arguments, status=2, cwd=tmp_path).stderr


QUICK = ("--set", "repeats=1", "--set", "folds=2", "-s", "PS-PM", "-s", "NP", "-e", "2")


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "d"), [("adult", 124), ("bank", 32), ("kdd", 115)])
def test_the_papers_data_sets(tmp_path, dataset, d):
    if not SHARED.is_dir():
        pytest.skip("the paper's data files are not beside the repository")
    options = (dataset, *QUICK, "--out", str(tmp_path), "--json")
    private, plain = json.loads(run("run", *options, FEDSEL_DATA=str(SHARED)).stdout)
    assert plain["bits"] == 32 * d
    assert private["epsilon_total"] == pytest.approx(2.0, abs=1e-9)
    assert private["within_budget"]
    assert 0.6 < private["accuracy"] <= plain["accuracy"] + 0.05


def test_lists_are_gone_through():
    specs = list(specs_of({"draw": [0, 1], "learning_rate": [0.1, 1.0], "epsilons": [2.0]}))
    points = [(s.draw, s.recipe["learning_rate"]) for s in specs]
    assert points == [(0, 0.1), (0, 1.0), (1, 0.1), (1, 1.0)]
