"""The benchmark of hostile clients: its attacks are the worst, its trimming spares the honest."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import poisoning
from fedsel import Reports, solution
from fedsel._internal.random import stream
from fedsel.simulation._stages import VectorReports

ROOT = Path(__file__).parents[2]
D, N = 12, 400


def built(name, epsilon=2.0):
    return solution(name, epsilon=epsilon, dim=D, mu=0.1, rho=0.4).in_round(3)


def nothing(made):
    return made.totals()


@pytest.mark.parametrize("name", poisoning.PRIVATE)
def test_the_one_report_is_the_worst_of_all(name):
    made, aim = built(name), np.random.default_rng(1).normal(size=D)
    sent = poisoning.hostile_reports(made, aim, "one", 3, nothing(made), 0)
    assert sent.clients == 3
    says = made.alphabet
    every = [
        made.decode(Reports([slot], [symbol])) @ aim
        for slot in range(says.slots)
        for symbol in {0, 1, says.symbols // 2, says.symbols - 1}
    ]
    assert made.decode(sent) @ aim == pytest.approx(max(every), rel=1e-12)
    assert max(every) > 0


@pytest.mark.parametrize("name", poisoning.PRIVATE)
def test_spread_reports_point_along_the_aim(name):
    made, aim = built(name), np.random.default_rng(2).normal(size=D)
    sent = poisoning.hostile_reports(made, aim, "spread", 20_000, nothing(made), 0)
    assert sent.clients == 20_000
    mean = made.decode(sent)
    assert mean @ aim / np.linalg.norm(mean) / np.linalg.norm(aim) > 0.999


def unanimous(made, vector, seed):
    """The totals of clients who all hold one vector: the farthest that honest sums get."""
    reporting = VectorReports(made, N, seed=seed)
    rows = np.tile(vector.astype(np.float32), (N, 1))
    reporting.report(0, np.arange(N), [rows])
    return reporting.totals


@pytest.mark.parametrize("name", poisoning.PRIVATE)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_honest_sums_stay_as_they_are(name, epsilon):
    """To the bit, also where all clients agree on the most extreme vectors; others are cut off."""
    made = built(name, epsilon).in_round(0)
    limit = poisoning.honest_limit(made, N)
    largest = 0
    for seed in range(5):
        for vector in (np.eye(D)[0] * 9, -np.ones(D) * 9, np.zeros(D), made.transform.codeword(1)):
            totals = unanimous(made, np.asarray(vector), seed)
            kept = poisoning.trimmed(totals, limit)
            assert kept.count == totals.count == N
            np.testing.assert_array_equal(kept.sums, totals.sums)
            largest = max(largest, np.abs(totals.sums).max())
    assert largest > limit / 4  # no idle bound
    aim = np.ones(D)
    totals.add(poisoning.hostile_reports(made, aim, "one", 4 * N, totals, limit))
    assert np.abs(poisoning.trimmed(totals, limit).sums).max() == limit


@pytest.mark.parametrize("name", poisoning.PRIVATE)
def test_who_stays_within_is_not_trimmed(name):
    made, aim = built(name), np.random.default_rng(4).normal(size=D)
    limit = poisoning.honest_limit(made, N)
    totals = nothing(made)
    for client in range(N):
        totals.add(made.encode(-aim, np.zeros(D), stream(1, 0, client))[0])
    sent = poisoning.hostile_reports(made, aim, "within", N // 4, totals, limit)
    before = made.expand(totals.mean()) @ aim
    totals.add(sent)
    np.testing.assert_array_equal(poisoning.trimmed(totals, limit).sums, totals.sums)
    assert sent.clients == N // 4
    assert made.expand(totals.mean()) @ aim > before


def test_the_best_of_many_codewords_are_as_close_as_those_of_the_sphere():
    """As many as expected lie beyond the 100th of 2^15: a Poisson number, within 1e-9."""
    dim, searched = 100, 1 << 15
    made = solution("FJ", epsilon=2.0, dim=dim, rho=0.4)
    words = made.transform.codewords(np.arange(searched)).astype(float)
    aim = np.random.default_rng(1).normal(size=dim)
    cosines = np.abs(words @ aim) / np.linalg.norm(words, axis=1) / np.linalg.norm(aim)
    least = poisoning.best_cosines(dim, 100, searched)[-1]
    assert 47 <= (cosines > least).sum() <= 169


def test_hostile_codewords_count_as_long_as_real_ones_and_point_along_the_aim():
    made, aim = (
        solution("FJ", epsilon=2.0, dim=100, rho=0.4),
        np.random.default_rng(3).normal(size=100),
    )
    one, many = (poisoning.hostile_codewords(made, aim, count, 7) for count in (1, 1000))
    assert (one.count, many.count) == (1, 1000)
    real = made.transform.codeword(5)
    assert np.linalg.norm(one.sums) == pytest.approx(np.linalg.norm(real), rel=1e-6)
    unit = aim / np.linalg.norm(aim)
    assert one.sums[0] @ unit / np.linalg.norm(one.sums) == pytest.approx(0.6, abs=0.1)
    assert many.sums[0] @ unit / np.linalg.norm(many.sums) > 0.99


def test_vectors_without_privacy_stay_within_the_clip():
    aim = np.array([3.0, -4.0, 0.5])
    made = solution("NP", dim=3)
    np.testing.assert_allclose(made.decode(poisoning.hostile_vectors(aim, False, 2)), np.sign(aim))
    short = made.decode(poisoning.hostile_vectors(aim, True, 2))
    np.testing.assert_allclose(short, aim / np.linalg.norm(aim))


@pytest.mark.slow
def test_a_model_is_poisoned_and_the_figure_drawn(tmp_path, monkeypatch, capsys):
    """The whole command on few clients: hostile ones harm, and rows, table and figure agree."""
    small = poisoning.records("syn-L", True, 0, None)
    few = small._replace(X=small.X[:4000], y=small.y[:4000])
    monkeypatch.setattr(poisoning, "records", lambda *_: few)
    given = ["poisoning", "--quick", "--seeds", "1", "--clients", "1000", "--json"]
    monkeypatch.setattr(sys, "argv", [*given, "--plot", str(tmp_path / "p.png")])
    poisoning.main()
    rows = json.loads(capsys.readouterr().out)
    assert (tmp_path / "p.png").stat().st_size > 10_000
    for name in ("RJ", "FJ"):
        at = {"solution": name, "trims": False}
        clean, harmed = (poisoning.worst(rows, share=f, **at)["accuracy"] for f in (0.0, 0.1))
        assert clean > 60
        assert harmed < 40
    assert len(poisoning.tables(rows)) == 1


def test_the_table_of_influences_is_what_the_command_prints():
    page = (ROOT / "benchmarks" / "poisoning.md").read_text(encoding="utf-8")
    assert poisoning.influences() in page
