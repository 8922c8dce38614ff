"""The comparison of BR with other protocols: its formulas are exact, and it runs without them."""

import itertools
import json
import math
import sys

import numpy as np
import pytest
from scipy.linalg import hadamard

from benchmarks import frequencies
from fedsel import solution
from fedsel.measuring._tally import LEVEL, score_intervals


def error_of(law, estimates):
    """n × the mean squared error of a share: of reports (M, y) that say (y, M), in turn."""
    answers = len(law)
    np.testing.assert_allclose(law @ estimates, np.eye(answers), atol=1e-9)  # unbiased
    return float(np.mean([law[x] @ (estimates - np.eye(answers)[x]) ** 2 for x in range(answers)]))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("answers", [3, 4, 7, 10])
def test_hadamard_response_from_all_its_reports(answers, epsilon):
    growth, found = math.exp(epsilon), []
    for size in (2, 4, 8, 16):
        groups = -(-answers // (size - 1))
        likely = np.zeros((answers, groups * size))
        counted = np.zeros((groups * size, answers))
        unit = 2 * (growth + 2 * groups - 1) / (growth - 1)
        for answer in range(answers):
            group, row = divmod(answer, size - 1)
            signs = hadamard(size)[row + 1]
            mine = slice(group * size, (group + 1) * size)
            likely[answer, mine] = signs > 0
            counted[mine, answer] = unit * signs / 2
        weights = np.where(likely > 0, growth, 1.0)
        found.append(error_of(weights / weights.sum(axis=1, keepdims=True), counted))
    assert frequencies.hadamard(answers, growth).error == pytest.approx(min(found), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_subset_selection_and_unary_encoding_from_all_their_reports(epsilon):
    answers, growth, found = 5, math.exp(epsilon), []
    for k in range(1, answers):
        held = np.array(
            [[x in block for x in range(answers)] for block in itertools.combinations(range(5), k)]
        )
        weights = np.where(held.T, growth, 1.0)
        law = weights / weights.sum(axis=1, keepdims=True)
        own, other = (law @ held)[0, :2]
        found.append(error_of(law, (held - other) / (own - other)))
    assert frequencies.subsets(answers, growth).error == pytest.approx(min(found), rel=1e-9)
    bits = np.array(list(itertools.product([0, 1], repeat=answers)))
    q = 1 / (growth + 1)
    chance = np.where(np.eye(answers, dtype=bool), 0.5, q)
    law = np.where(bits == 1, chance[:, None], 1 - chance[:, None]).prod(axis=2)
    error = error_of(law, (bits - q) / (0.5 - q))
    assert frequencies.unary(answers, growth).error == pytest.approx(error, rel=1e-9)


def test_the_goal_of_the_issue():
    """Within 5 % of the best known at M = 256."""
    for epsilon, known in ((1.0, 3.68), (2.0, 0.72), (4.0, 0.08)):
        row = frequencies.formulas(256, epsilon)
        assert row["ratio"] <= frequencies.GOAL
        assert row["errors"]["BR"] <= 1.05 * known
        assert row["errors"][row["best"]] <= known


@pytest.mark.parametrize("population", [False, True])
def test_exact_coverage_from_all_reports_of_four_clients(population):
    n, coins = 4, (0.7, 0.2)
    limits = score_intervals(np.arange(n + 1.0), n, coins, LEVEL, population=population)
    chances = []
    for count in range(n + 1):
        share = coins[1] + count / n * (coins[0] - coins[1])
        each = [share] * n if population else [coins[0]] * count + [coins[1]] * (n - count)
        chances.append(
            sum(
                math.prod(p if said else 1 - p for p, said in zip(each, saying, strict=True))
                for saying in itertools.product([0, 1], repeat=n)
                if limits[sum(saying)][0] <= count / n <= limits[sum(saying)][1]
            )
        )
    assert frequencies.exact_coverage(coins, n, population) == pytest.approx(min(chances))


@pytest.mark.parametrize("answers", [5, 300])
def test_runs_are_counted_as_one_by_one(answers):
    """By the blocks of many runs at once, and by totals where there are too many blocks."""
    made = solution("BR", epsilon=4.0, dim=answers)
    held = np.arange(12).reshape(3, 4) % answers
    several = [tally.held for tally in frequencies.tallies(made, held, 0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frequencies, "AT_ONCE", 0)
        alone = [tally.held for tally in frequencies.tallies(made, held, 0)]
    np.testing.assert_array_equal(several, alone)


def test_without_a_package_index_formulas_remain(monkeypatch, tmp_path, capsys):
    small = frequencies.Plan((2, 16), (1.0,), (16,), (2,), (50,), 20, 1)
    lacking = "pip finds no multi-freq-ldpy or pure-ldp: compared with formulas alone"
    monkeypatch.setattr(frequencies, "QUICK", small)
    monkeypatch.setattr(frequencies, "ENTRIES", 200)
    monkeypatch.setattr(frequencies, "rival_python", lambda _: (None, lacking))
    for form in ("--markdown", "--json"):
        picture = tmp_path / "figure.png"
        monkeypatch.setattr(
            sys, "argv", ["frequencies.py", "--quick", form, "--plot", str(picture)]
        )
        frequencies.main()
        assert picture.stat().st_size > 10_000
        shown = capsys.readouterr().out
        if form == "--json":
            found = json.loads(shown)
            assert found["rivals"] == []
            assert found["covered"][0]["exact"] > 0.93
        else:
            assert lacking in shown
            assert "| 16 | 3.19 (+0.0 %) |" in shown
