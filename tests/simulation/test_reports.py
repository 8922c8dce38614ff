"""Reports on vectors computed elsewhere: chunks, parts, factors and residuals."""

import math

import numpy as np
import pytest

from fedsel import solution
from fedsel._internal.models import LinearModel
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.sampling._batch import Outer, rows_of
from fedsel.simulation import _stages
from fedsel.simulation._stages import VectorReports, chunks
from tests.simulation.test_rounds import D, Linear, N, a_stranger, data, run


@pytest.mark.parametrize("most", [1, 2, 3, 8, 20, 1000])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 20])
def test_chunks_are_few_and_equally_large(count, most):
    clients = np.arange(count)[::-1]
    cut = chunks(clients, most)
    sizes = [len(some) for some in cut]
    assert np.concatenate([*cut, clients[:0]]).tolist() == clients.tolist()
    assert len(cut) == math.ceil(count / most)
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@pytest.mark.parametrize("name", ["NP", "PS-PM", "PM-RP"])
def test_chunks_change_nothing_not_a_bit(name):
    X, y = data()
    made = solution(name, epsilon=8.0, dim=D, epochs=2)
    # One record at a time, so that numpy's own sums are alike in every chunk.
    gradients = [Linear(X, y, LinearModel()) for _ in range(3)]
    means = []
    for chunk, source in zip((1, 7, N), gradients, strict=True):
        source.receive(np.zeros(D))
        rounds = VectorReports(made, N, seed=3)
        for at in range(0, N, chunk):
            clients = np.arange(at, min(at + chunk, N))
            rows = [source.vectors(clients[i : i + 1]) for i in range(len(clients))]
            rounds.report(0, clients, [np.concatenate(part) for part in zip(*rows, strict=True)])
        means.append(made.expand(rounds.totals.mean()))
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_array_equal(means[0], means[2])


def test_a_scale_of_one_and_a_scale_for_all_are_a_clip():
    """Dividing everything by s and clipping at c is clipping at s·c."""
    X, y = data()
    half = solution("PS-PM", epsilon=8.0, dim=D, clip=0.5)
    whole = solution("PS-PM", epsilon=8.0, dim=D, clip=1.0)
    expected = run(half, X, y).weights
    scaled = run(whole, X, y, scales=np.full(D, 0.5, np.float32)).weights
    np.testing.assert_allclose(scaled, expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["NP", "PS-PM", "PM-RP"])
def test_vectors_that_are_not_finite_are_refused(bad, name):
    rounds = VectorReports(solution(name, epsilon=1.0, dim=3), 2, seed=0)
    rows = np.ones((2, 3), np.float32)
    rows[1, 2] = bad
    with pytest.raises(InvalidData, match="must be finite") as caught:
        rounds.report(0, np.arange(2), [rows])
    assert "nan" not in str(caught.value)


def test_large_finite_vectors_pass():
    rounds = VectorReports(solution("PS-PM", epsilon=1.0, dim=3), 2, seed=0)
    rounds.report(0, np.arange(2), [np.full((2, 3), 3e38, np.float32)])
    assert np.isfinite(rounds.totals.mean()).all()


def test_parts_that_do_not_fit_are_refused():
    rounds = VectorReports(solution("NP", dim=3), 2, seed=0)
    with pytest.raises(InvalidArgument, match="3 entries"):
        rounds.report(0, np.arange(2), [np.ones((2, 2), np.float32)])
    for made in (rounds.solution, a_stranger(rounds.solution)):
        with pytest.raises(InvalidArgument, match=r"parts = '1 rows'.*2 \(clients\)"):
            VectorReports(made, 2, seed=0).report(0, np.arange(2), [np.ones((1, 3), np.float32)])


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["NP", "PS-PM", "PM", "RJ", "PM-RP"])
def test_factored_vectors_are_reported_as_their_products(name, scaled):
    rng = np.random.default_rng(7)
    n, factors = 50, rng.random(23).astype(np.float32) if scaled else None
    left, right, rest = (rng.normal(size=(n, k)).astype(np.float32) for k in (4, 5, 3))
    made = solution(name, epsilon=4.0, dim=23)
    clients = rng.permutation(n)
    for reporting in (made, a_stranger(made)):
        means = []
        for parts in ([Outer(left, right), rest], [rows_of(Outer(left, right)), rest]):
            rounds = VectorReports(reporting, n, seed=3, factors=factors)
            rounds.report(0, clients, parts)
            means.append(rounds.totals.mean())
        np.testing.assert_array_equal(*means)
        assert np.abs(means[0]).max() > 0


def test_factors_that_do_not_fit_are_refused():
    two, three = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
    for left, right in ((two, three), (two[0], two), (two, two[None])):
        with pytest.raises(InvalidArgument, match="parts"):
            Outer(left, right)
    for made in (solution("NP", dim=16), a_stranger(solution("NP", dim=16))):
        rounds = VectorReports(made, 2, seed=0)
        with pytest.raises(InvalidArgument, match=r"parts = '3 rows'.*2 \(clients\)"):
            rounds.report(0, np.arange(2), [Outer(three, three)])
        with pytest.raises(InvalidData, match="must be finite"):
            rounds.report(0, np.arange(2), [Outer(two * np.float32(1e30), two * np.float32(1e30))])


def test_no_reports_are_a_mean_of_zero():
    made = solution("PS-PM", epsilon=1.0, dim=3)
    means = VectorReports(made, 2, seed=0).totals.mean()
    assert made.expand(means).tolist() == [0] * 3


def test_residuals_are_bounded_or_on_disk(tmp_path, monkeypatch):
    X, y = data()
    made = solution("PS-PM", epsilon=3.0, dim=D, epochs=2)
    in_memory = run(made, X, y)
    on_disk = run(made, X, y, residual_directory=tmp_path)
    np.testing.assert_array_equal(in_memory.weights, on_disk.weights)
    assert (tmp_path / "residual.f32").stat().st_size == N * D * 4
    monkeypatch.setattr(_stages, "RESIDUAL_LIMIT", N * D * 4 - 1)
    with pytest.raises(InvalidArgument, match="residual_directory = None: must be a folder"):
        run(made, X, y)
    run(solution("PS-PM", epsilon=3.0, dim=D), X, y)  # one epoch keeps nothing
