"""Checks of samplers: executors agree on the same words, and follow the law (chi-square)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel._internal.random import stream
from fedsel.checks._exact import (
    CLIENTS,
    DIMENSIONS,
    FALSE_ALARM,
    MOST_SYMBOLS,
    require,
    vectors,
)
from fedsel.mechanisms import BOTTOM, ReportMechanism, Selection, Value
from fedsel.mechanisms._reports import Reports
from fedsel.sampling import device, simulated
from fedsel.solutions import Solution

_DRAWS, _FEW_DRAWS = 200_000, 10_000


def check_selection_executors(selection: Selection) -> None:
    """Check that device, batch and kernel choose the same dimensions from the same words."""
    for d in DIMENSIONS:
        rows, who = vectors(d), simulated.cohort(CLIENTS, seed=d)
        alone = [
            simulated.select(selection, rows[:1], simulated.cohort(1, seed=d, first=i), "batch")[0]
            for i in range(20)
        ]
        together = simulated.select(selection, rows[:1], simulated.cohort(20, seed=d)).tolist()
        require(alone == together, f"{selection!r}: a client alone differs at d = {d}")
        fast = simulated.select(selection, rows, who).tolist()
        slow = simulated.select(selection, rows, who, "batch").tolist()
        single = [device.select(selection, row, stream(d, 0, i)) for i, row in enumerate(rows)]
        require(fast == slow == single, f"{selection!r}: executors differ at d = {d}")


def check_value_executors(value: Value) -> None:
    """Check that device, batch and kernel send the same symbols from the same words."""
    t = np.linspace(-1, 1, CLIENTS)
    who = simulated.cohort(CLIENTS, seed=1)
    fast = simulated.perturb(value, t, who).tolist()
    slow = simulated.perturb(value, t, who, "batch").tolist()
    entropies = (stream(1, 0, i, simulated.VALUES_ALONE) for i in range(CLIENTS))
    single = [device.perturb(value, float(x), e) for x, e in zip(t, entropies, strict=True)]
    require(fast == slow == single, f"{value!r}: executors differ")


def check_report_executors(mechanism: ReportMechanism) -> None:
    """Check that device, batch and kernel send the same reports from the same words."""
    for d in DIMENSIONS:
        if mechanism.picks <= d:
            same_reports(simulated.as_solution(mechanism, d), d)


def same_reports(solution: Solution, seed: int) -> Reports:
    """Return the reports of `encode`, which the fast executors must send as well."""
    rows = vectors(solution.dim).astype(np.float32)
    who = simulated.cohort(CLIENTS, seed=seed)
    single = _one_by_one(solution, rows, seed)
    if _known(solution):
        fast = simulated.report(solution, rows, who)
        slow = simulated.report(solution, rows, who, "batch")
        same = fast == slow == single
        require(same, f"{solution.name}: executors differ at d = {solution.dim}")
    return single


def _one_by_one(solution: Solution, rows: NDArray[np.float32], seed: int) -> Reports:
    nothing = np.zeros(solution.dim, dtype=np.float32)
    streams = (stream(seed, 0, i) for i in range(len(rows)))
    sent = (solution.encode(v, nothing, e)[0] for v, e in zip(rows, streams, strict=True))
    return Reports.of(sent)


def _known(solution: Solution) -> bool:
    """Return whether there are fast executors for all parts of a solution."""
    from fedsel.sampling._kernels import known

    return known(solution)


def check_selection_sampler(selection: Selection) -> None:
    """Check that the kernel follows the exact law, ties and ⊥ included (chi-square)."""
    vector = [0.5, -2.0, 0.5, 0.0, 1.0, -0.5, 0.0]
    drawn = simulated.select(selection, [vector], simulated.cohort(_DRAWS, seed=7))
    law = selection.law(len(vector))
    expected = dict(enumerate(law.over(vector))) | {BOTTOM: law.bottom_probability}
    assert_follows(drawn, {key: float(p) for key, p in expected.items()}, repr(selection))


def check_value_sampler(value: Value) -> None:
    """Check that the kernel follows the exact law at a value off the grid (chi-square)."""
    t = Fraction(5, 16)
    drawn = simulated.perturb(value, [float(t)], simulated.cohort(_DRAWS, seed=8))
    expected = {s: float(p) for s, p in enumerate(value.law.probabilities(t))}
    assert_follows(drawn, expected, repr(value))


def check_report_sampler(mechanism: ReportMechanism) -> None:
    """Check that reports of the kernel, or else of a device, follow the exact law (chi-square)."""
    vector = [Fraction(1, 4), Fraction(-3), Fraction(1, 4)]
    row = np.array([[float(x) for x in vector]], dtype=np.float32)
    law = mechanism.report_law(vector)
    if len(law) > MOST_SYMBOLS:
        return
    solution = simulated.as_solution(mechanism, len(vector))
    if _known(solution):
        drawn = simulated.report(solution, row, simulated.cohort(_DRAWS, seed=9)).pairs()
    else:
        drawn = _one_by_one(solution, np.repeat(row, _FEW_DRAWS, axis=0), seed=9).pairs()
    number = {pairs: i for i, pairs in enumerate(law)}
    expected = {number[pairs]: float(p) for pairs, p in law.items()}
    assert_follows(np.array([number[pairs] for pairs in drawn]), expected, repr(mechanism))


def assert_follows(
    drawn: np.ndarray[tuple[int], np.dtype[np.int64]], law: dict[int, float], name: str
) -> None:
    """Assert that draws follow a law: nothing impossible, and Pearson's chi-square.

    Outcomes expected fewer than 20 times are pooled, so that the chi-square law applies.
    """
    values, counts = np.unique(drawn, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    impossible = [v for v in seen if not law.get(v)]
    require(not impossible, f"{name}: drew the impossible {impossible[:3]}")
    n = len(drawn)
    observed, expected = [0.0], [0.0]
    for outcome, p in law.items():
        if n * p < 20:
            observed[0] += seen.get(outcome, 0)
            expected[0] += n * p
        else:
            observed.append(seen.get(outcome, 0))
            expected.append(n * p)
    if expected[0] < 20:  # too rare for a chi-square test: pooled with the last outcome
        observed[-1] += observed.pop(0)
        expected[-1] += expected.pop(0)
    if len(expected) < 2:
        return
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    with needed("simulation", "checks"):
        from scipy.stats import chi2

    p_value = float(chi2.sf(statistic, len(expected) - 1))
    require(p_value > FALSE_ALARM, f"{name}: chi-square {statistic:.1f}, p = {p_value:.2g}")
