"""The checks: exact ones in rationals, and samplers that must follow the law (chi-square)."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

import fedsel.mechanisms
from fedsel._internal.extras import needed
from fedsel._internal.random import stream
from fedsel.auditing import report_law
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import (
    BOTTOM,
    Mechanism,
    OneSymbol,
    ReportMechanism,
    Selection,
    Value,
    certify,
)
from fedsel.mechanisms._reports import Reports
from fedsel.sampling import device, simulated
from fedsel.solutions import Solution

FALSE_ALARM = 1e-9
"""The probability that one statistical check fails for a correct mechanism."""
DIMENSIONS = (1, 2, 3, 10, 123)
INPUTS = tuple(Fraction(t) for t in ("-1", "-2/3", "0", "1/7", "1/2", "1"))
MOST_SYMBOLS = 1 << 16
FEW_SYMBOLS = 64
CLIENTS = 200


def require(condition: object, message: str) -> None:
    """Fail unless the condition holds. (Python drops assert statements with -O.)"""
    if not condition:
        raise AssertionError(message)


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn any exception into an AssertionError that names the failing check.

    >>> with failing("Mine: check_rank_law"):
    ...     raise ValueError("no law at d = 1")
    Traceback (most recent call last):
    AssertionError: Mine: check_rank_law raised ValueError: no law at d = 1
    """
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def vectors(d: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return test vectors with and without ties, zeros included."""
    rows = np.random.default_rng(d).normal(size=(CLIENTS, d))
    rows[::2] = np.round(rows[::2])
    rows[0] = 0
    return rows


def check_frozen(mechanism: Mechanism) -> None:
    """Check that the parameters cannot be changed."""
    for field in fields(mechanism):  # type: ignore[arg-type]
        value = getattr(mechanism, field.name)
        try:
            setattr(mechanism, field.name, None)
        except FrozenInstanceError:
            continue
        setattr(mechanism, field.name, value)
        raise AssertionError(f"{mechanism!r}: {field.name} can be changed")


def check_reproducible(mechanism: Mechanism) -> None:
    """Check that repr and pickle give back an equal mechanism with the same hash."""
    parts = [mechanism, *(getattr(mechanism, f.name) for f in fields(mechanism))]  # type: ignore[arg-type]
    scope = dict(vars(fedsel.mechanisms))
    for part in parts:
        scope |= vars(sys.modules[type(part).__module__])
    again = eval(repr(mechanism), {**scope, "Fraction": Fraction, "inf": math.inf})  # noqa: S307
    require(again == mechanism, f"{mechanism!r}: its repr builds {again!r}")
    copy = pickle.loads(pickle.dumps(mechanism))  # noqa: S301
    require(copy == mechanism, f"{mechanism!r}: its pickle is {copy!r}")
    require(hash(mechanism) == hash(copy), f"{mechanism!r}: a copy has a different hash")
    for field in fields(mechanism):  # type: ignore[arg-type]
        value = getattr(mechanism, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and value == 1:
            try:
                other = replace(mechanism, **{field.name: float(value)})  # type: ignore[type-var]
            except InvalidArgument:
                continue
            require(
                other != mechanism or repr(other) == repr(mechanism),
                f"{mechanism!r} equals {other!r}, although their reprs differ",
            )


def check_epsilon_argument(mechanism: Mechanism) -> None:
    """Check that the constructor refuses NaN, infinity and negative ε."""
    parameters = {f.name: getattr(mechanism, f.name) for f in fields(mechanism)}  # type: ignore[arg-type]
    if "epsilon" not in parameters:
        return
    for bad in (math.nan, math.inf, -1.0, "1", True, None):
        name, complaint = type(mechanism).__name__, f"accepts epsilon = {bad!r}"
        try:
            type(mechanism)(**{**parameters, "epsilon": bad})
        except InvalidArgument:
            continue
        except Exception as error:
            wrong = f"{type(error).__name__} ({error})"
            complaint = f"refuses epsilon = {bad!r} with {wrong}, not with fedsel.InvalidArgument"
        raise AssertionError(f"{name} {complaint}")


def check_certificate(mechanism: Mechanism) -> None:
    """Check that the exact loss is at most the claimed one, except for published mechanisms."""
    least = mechanism.picks if isinstance(mechanism, ReportMechanism) else 1
    dimensions = (None,) if isinstance(mechanism, Value) else [d for d in DIMENSIONS if d >= least]
    for d in dimensions:
        certificate = certify(mechanism, d)
        excused = mechanism.published or not mechanism.private
        require(certificate.holds or excused, str(certificate))
        require(mechanism.private or certificate.exact in (0, math.inf), str(certificate))


def check_rank_law(selection: Selection) -> None:
    """Check that the law covers all d ranks and never favours a smaller magnitude."""
    for d in DIMENSIONS:
        law = selection.law(d)
        require(law.d == d, f"{selection!r}: its law at d = {d} has {law.d} ranks")
        weights = [law.weight(rank) for rank in range(d)]
        falling = sorted(weights, reverse=True)
        require(sum(weights) == law.total, f"{selection!r}: its weights do not add up at d = {d}")
        require(weights == falling, f"{selection!r}: not monotone at d = {d}")


def check_unbiased(value: Value) -> None:
    """Check that the decoded value has mean t, exactly."""
    for t in INPUTS:
        probabilities = value.law.probabilities(t)
        require(sum(probabilities) == 1, f"{value!r}: probabilities do not sum to 1 at t = {t}")
        mean = sum(p * value.law.decode_exact(s) for s, p in enumerate(probabilities))
        require(mean == t, f"{value!r}: mean {mean} at t = {t}")


def check_variance(value: Value) -> None:
    """Check that variance(t) is exact, and nowhere above the worst case."""
    for t in INPUTS:
        pairs = enumerate(value.law.probabilities(t))
        moment = sum((p * value.law.decode_exact(s) ** 2 for s, p in pairs), Fraction(0))
        require(value.law.variance(t) == moment - t**2, f"{value!r}: wrong variance at t = {t}")
    worst = value.worst_variance * (1 + 1e-12)
    for t in np.linspace(-1, 1, 401):
        require(value.variance(float(t)) <= worst, f"{value!r}: above its worst case at t = {t}")


def check_decoding(value: Value) -> None:
    """Check that the decode table is the exact one in floating point, and within the bound."""
    exact = [float(value.law.decode_exact(s)) for s in range(value.symbols)]
    np.testing.assert_allclose(value.decode_table, exact, rtol=1e-12, atol=1e-12)
    require(max(map(abs, exact)) == value.bound, f"{value!r}: its bound is not its largest value")


def check_shipped_law(mechanism: ReportMechanism) -> None:
    """Check that `draw`, enumerated over all its draws, has exactly the law."""
    for d in (max(1, mechanism.picks), max(2, mechanism.picks)):
        solution = simulated.as_solution(mechanism, d)
        if solution.alphabet.symbols > FEW_SYMBOLS:
            return
        for vector in product((-3.0, 0.0, 0.5, 3.0), repeat=d):
            law = {pairs: p for pairs, (p, _) in report_law(solution, vector).items()}
            exact = mechanism.report_law([Fraction(x) for x in vector])
            exact = {pairs: p for pairs, p in exact.items() if p}
            require(law == exact, f"{mechanism!r}: draw does not follow the law at {vector}")


def check_one_symbol_law(mechanism: OneSymbol) -> None:
    """Check that no report is likelier than the ratio allows, with ties and zeros."""
    grid = [Fraction(x) for x in (-3, -1, 0, 1, 3)]
    for d in (1, 2, 3):
        laws = [mechanism.report_law(list(v)) for v in product(grid, repeat=d)]
        for law in laws:
            require(sum(law.values()) == 1, f"{mechanism!r}: probabilities do not sum to 1")
        ratio = mechanism.loss_ratio(d)
        worst = max(
            max(law[report] for law in laws) / min(law[report] for law in laws)
            for report in laws[0]
        )
        require(ratio is not None and worst <= ratio, f"{mechanism!r}: loses more at d = {d}")


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
