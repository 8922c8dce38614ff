"""Vectors in parts: the same numbers, whether they are factored or not; the kernel's own checks."""

import numpy as np
import pytest

from fedsel import InvalidArgument, InvalidData, solution
from fedsel._internal.random import own_stream, stream
from fedsel.sampling import _kernels as clients_module
from fedsel.sampling._batch import Outer, rows_of
from fedsel.sampling._kernels import ReportKernel

RNG = np.random.default_rng(5)
LEFT, RIGHT = (RNG.normal(size=(4, n)).astype(np.float32) for n in (2, 3))
REST = RNG.normal(size=(4, 3)).astype(np.float32)
ROWS = np.concatenate([np.einsum("ni,nj->nij", LEFT, RIGHT).reshape(4, 6), REST], axis=1)


def test_products_are_those_of_left_and_right():
    outer = Outer(LEFT, RIGHT)
    assert (len(outer), outer.entries, outer.rows().shape) == (4, 6, (4, 6))
    np.testing.assert_array_equal(outer.rows(), ROWS[:, :6])
    np.testing.assert_array_equal(rows_of(outer), outer.rows())
    np.testing.assert_array_equal(rows_of(REST), REST)
    assert rows_of(np.ones((4, 2, 3))).shape == (4, 6)
    assert rows_of([[1.0, 2.0]]).dtype == np.float32


def test_products_too_large_are_no_warning():
    huge = np.full((1, 1), 1e30, dtype=np.float32)
    assert np.isinf(Outer(huge, huge).rows()).all()
    none = np.array([[0.0, np.inf]], dtype=np.float32)
    assert np.isnan(Outer(none, none[:, ::-1]).rows()[0, 0])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (LEFT[:, 0], RIGHT),
        (LEFT, RIGHT[:, 0]),
        (LEFT[:, :, None], RIGHT),
        (LEFT, RIGHT[:, :, None]),
        (LEFT, RIGHT[:3]),
        (LEFT[:1], RIGHT),
    ],
)
def test_what_is_no_product_is_refused(left, right):
    with pytest.raises(InvalidArgument, match=r"^parts = .*outer products of \(n, a\) and"):
        Outer(left, right)


def sent_by(made, parts, factors=None):
    kernel = ReportKernel(made, 3, factors)
    sent = np.zeros((4, 2), dtype=np.int64)
    kernel.send(1, np.arange(4), parts, sent=sent)
    return kernel, sent


def expected_of(made, rows, numbers=range(4)):
    nothing = np.zeros(made.dim, dtype=np.float32)
    reports = [
        made.encode(row, nothing, stream(3, 1, int(i)))[0]
        for row, i in zip(rows, numbers, strict=True)
    ]
    return [[int(report.slot[0]), int(report.symbol[0])] for report in reports], reports


@pytest.mark.parametrize("name", ["PS-PM", "PM", "RJ", "UJ", "PM-RP"])
def test_parts_side_by_side_are_one_vector(name):
    made = solution(name, epsilon=3.0, dim=9, k=3)
    expected, reports = expected_of(made, ROWS)
    for parts in ([ROWS], [Outer(LEFT, RIGHT), REST], [ROWS[:, :2], ROWS[:, 2:]]):
        kernel, sent = sent_by(made, parts)
        assert sent.tolist() == expected
        totals = made.totals()
        for report in reports:
            totals.add(report)
        assert kernel.totals.count == 4
        np.testing.assert_array_equal(kernel.totals.sums, totals.sums)
    wide = np.asfortranarray(ROWS).reshape(4, 3, 3)
    assert sent_by(made, [wide])[1].tolist() == expected


def test_factors_multiply_what_is_reported():
    made = solution("PS-PM", epsilon=8.0, dim=9, k=1)
    factors = np.linspace(5, -3, 9).astype(np.float32)
    assert (
        sent_by(made, [ROWS], factors=factors)[1].tolist() == expected_of(made, ROWS * factors)[0]
    )
    assert sent_by(made, [ROWS])[1].tolist() == expected_of(made, ROWS)[0]


def test_counts_go_on_and_one_row_serves_all():
    made = solution("PS-PM", epsilon=3.0, dim=9)
    kernel = ReportKernel(made, 3)
    kernel.send(1, np.arange(4), [ROWS])
    kernel.send(2, np.arange(7), [ROWS[:1]])
    assert kernel.totals.count == 11
    numbers = np.array([6, 2, 9])
    found = ReportKernel(made, 3).reports(1, numbers, ROWS[:3])
    assert [[*pairs[0]] for pairs in found.pairs()] == expected_of(made, ROWS[:3], numbers)[0]
    alone = ReportKernel(made, 3).reports(1, numbers[:1], ROWS[:1])
    assert alone.pairs() == found.pairs()[:1]


@pytest.mark.parametrize("parts", [[ROWS[:, :8]], [ROWS, ROWS[:, :1]], [Outer(LEFT, RIGHT)], []])
def test_parts_of_another_size_are_refused(parts):
    kernel = ReportKernel(solution("PS-PM", epsilon=3.0, dim=9), 3)
    with pytest.raises(InvalidArgument, match=r"^parts = .* entries.*9 entries"):
        kernel.send(0, np.arange(4), parts)
    assert kernel.totals.count == 0


@pytest.mark.parametrize("place", [0, 2, 3])
def test_what_is_not_finite_is_no_report(place):
    kernel, rows = ReportKernel(solution("PS-PM", epsilon=3.0, dim=9), 3), ROWS.copy()
    rows[place, 1] = np.inf
    with pytest.raises(InvalidData, match=r"^update: every entry must be finite"):
        kernel.send(0, np.arange(4), [rows])
    assert kernel.totals.count == 0


def test_every_round_has_its_basis():
    made = solution("RJ", epsilon=6.0, dim=9, seed=8)
    kernel = ReportKernel(made.in_round(2), 3)
    for number in (2, 5, 0):
        kernel.in_round(number)
        found = kernel.reports(1, np.arange(4), ROWS)
        expected = expected_of(made.in_round(number), ROWS)[0]
        assert [[*pairs[0]] for pairs in found.pairs()] == expected
    begun = ReportKernel(made.in_round(2), 3).reports(1, np.arange(4), ROWS)
    expected = expected_of(made.in_round(2), ROWS)[0]
    assert [[*pairs[0]] for pairs in begun.pairs()] == expected


def test_without_a_seed_each_report_has_bits_of_its_own(monkeypatch):
    bits = RNG.integers(0, 2**64, (4, 2), dtype=np.uint64)
    asked = []
    monkeypatch.setattr(clients_module, "fresh_seeds", lambda n: asked.append(n) or bits)
    made = solution("PS-PM", epsilon=3.0, dim=9)
    found = ReportKernel(made, None).reports(1, np.arange(4), ROWS)
    nothing = np.zeros(9, dtype=np.float32)
    expected = [
        made.encode(row, nothing, own_stream(own, 1))[0].pairs()[0]
        for row, own in zip(ROWS, bits, strict=True)
    ]
    assert (found.pairs(), asked) == (expected, [4])
