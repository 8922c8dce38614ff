"""The contract of a mechanism as code: run it on ours or on your own.

>>> from fedsel.mechanisms import Duchi
>>> check_mechanism(Duchi(epsilon=1.0))

Exact checks come first, in rationals; the statistical one has a false-alarm rate of `FALSE_ALARM`.
Each check raises AssertionError with a sentence on what is wrong.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

import fedsel.mechanisms
from fedsel.auditing.transcripts import certify_by_enumeration, report_law
from fedsel.errors import InvalidArgument, check_kind
from fedsel.extras import needed
from fedsel.mechanisms import (
    BOTTOM,
    Duchi,
    Exponential,
    FlatPicks,
    Hybrid,
    Identity,
    Mechanism,
    OneSymbol,
    OptimalWindow,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    PublishedPerturbedEncoding,
    ReportMechanism,
    Selection,
    SignedSampling,
    TopK,
    TwoStage,
    UnbiasedJoint,
    Uniform,
    Value,
    certify,
)
from fedsel.random import stream
from fedsel.reports import Reports
from fedsel.sampling import device, simulated
from fedsel.solutions import Solution

FALSE_ALARM = 1e-9
"""The chance that one statistical check fails for a correct mechanism."""

DIMENSIONS = (1, 2, 3, 10, 123)
INPUTS = tuple(Fraction(t) for t in ("-1", "-2/3", "0", "1/7", "1/2", "1"))

EXAMPLES: tuple[Mechanism, ...] = (
    *(cls(e) for cls in (Exponential, Duchi, Piecewise, Hybrid, OptimalWindow) for e in (0.5, 3.0)),
    *(
        cls(e, k)
        for cls in (PerturbedSampling, PerturbedEncoding, PublishedPerturbedEncoding)
        for e in (0.5, 3.0)
        for k in (1, 0.3)
    ),
    Uniform(),
    TopK(k=1),
    TopK(k=0.5),
    Identity(),
    TwoStage(PerturbedSampling(0.5, k=1), Piecewise(1.0, grid=8)),
    TwoStage(PerturbedEncoding(0.5, k=1), Hybrid(1.0, grid=8), clip=0.5),
    TwoStage(Exponential(0.5), Duchi(1.0), clip=2.0),
    FlatPicks(Duchi(0.5), picks=2, clip=0.5),
    FlatPicks(OptimalWindow(2.0)),
    *(
        SignedSampling(e, k, radius=r)
        for e, k, r in ((0.5, None, 2.0), (3.0, 1, None), (6.0, 1, 3.0))
    ),
    *(UnbiasedJoint(e, k, clip=c) for e, k, c in ((0.5, 0.3, 1.0), (3.0, 1, 2.0))),
)
"""One or more of every mechanism of fedsel: the table that the contract is run on."""


def checks_of(mechanism: Mechanism) -> Iterator[Callable[[Mechanism], None]]:
    """The checks that apply to a mechanism."""
    yield from (check_frozen, check_reproducible, check_epsilon_argument, check_certificate)
    if isinstance(mechanism, Selection):
        yield from (check_rank_law, check_selection_executors, check_selection_sampler)
    if isinstance(mechanism, Value):
        yield from (check_unbiased, check_variance, check_decoding)
        yield from (check_value_executors, check_value_sampler)
    if isinstance(mechanism, ReportMechanism):
        yield from (check_report_executors, check_report_sampler, check_shipped_law)
    if isinstance(mechanism, OneSymbol):
        yield check_one_symbol_law


def _require(condition: object, message: str) -> None:
    """Not an assert statement: the contract must also hold where Python drops those (-O)."""
    if not condition:
        raise AssertionError(message)


def check_mechanism(mechanism: Mechanism) -> None:
    """Run every check that applies."""
    check_kind("mechanism", mechanism, Mechanism)
    _require(is_dataclass(mechanism), f"{mechanism!r}: not a dataclass")
    for check in checks_of(mechanism):
        check(mechanism)


def check_solution(solution: Solution) -> None:
    """The contract of a solution, of the registry or composed by yourself.

    Its parts are public and frozen, its certificate holds, `encode` on every draw that matters is
    within it (where d is at most 3 and symbols are few), all executors that know its parts send the
    same reports, and the sum of reports decodes as they do one by one.

    >>> from fedsel import solution
    >>> check_solution(solution("RJ", epsilon=1.0, dim=3, rho=1.0))
    """
    check_kind("solution", solution, Solution)
    _require(
        pickle.loads(pickle.dumps(solution)) == solution,  # noqa: S301
        f"{solution.name}: its pickle is another",
    )
    if not solution.private:
        return
    certificate = certify(solution)
    excused = solution.mechanism.published or solution.budget is None
    _require(certificate.holds or excused, str(certificate))
    says = solution.alphabet
    if solution.dim <= _FEW_DIMENSIONS and says.symbols <= _FEW_SYMBOLS:
        grid = list(product((-5.0, 0.3, 9.0), repeat=solution.dim))[:: solution.dim]
        found = certify_by_enumeration(solution, grid, epochs=min(2, solution.epochs))
        bound = certificate.ratio
        _require(
            found.ratio is not None
            and bound is not None
            and found.ratio <= bound ** min(2, solution.epochs),
            f"{solution.name}: encode loses more than its certificate says",
        )
    reports = _same_reports(solution, seed=5)
    _require(int(reports.slot.max()) < says.slots, f"{solution.name}: a slot beyond its alphabet")
    _require(int(reports.symbol.max()) < says.symbols, f"{solution.name}: an unknown symbol")
    one_by_one = [solution.decode(reports.rows(np.array([i]))) for i in range(_CLIENTS)]
    np.testing.assert_allclose(
        solution.decode(reports), np.mean(one_by_one, axis=0), rtol=1e-9, atol=1e-9
    )


def check_frozen(mechanism: Mechanism) -> None:
    """Public parameters only, immutable, with equality and hash."""
    for field in fields(mechanism):  # type: ignore[arg-type]
        value = getattr(mechanism, field.name)
        try:
            setattr(mechanism, field.name, None)
        except FrozenInstanceError:
            continue
        setattr(mechanism, field.name, value)
        raise AssertionError(f"{mechanism!r}: {field.name} can be changed")
    copy = pickle.loads(pickle.dumps(mechanism))  # noqa: S301
    _require(hash(mechanism) == hash(copy), f"{mechanism!r}: a copy has another hash")


def check_reproducible(mechanism: Mechanism) -> None:
    """repr and pickle give back an equal mechanism."""
    parts = [mechanism, *(getattr(mechanism, f.name) for f in fields(mechanism))]  # type: ignore[arg-type]
    scope = dict(vars(fedsel.mechanisms))
    for part in parts:
        scope |= vars(sys.modules[type(part).__module__])
    again = eval(repr(mechanism), {**scope, "Fraction": Fraction, "inf": math.inf})  # noqa: S307
    _require(again == mechanism, f"{mechanism!r}: its repr builds {again!r}")
    copy = pickle.loads(pickle.dumps(mechanism))  # noqa: S301
    _require(copy == mechanism, f"{mechanism!r}: its pickle is {copy!r}")
    for field in fields(mechanism):  # type: ignore[arg-type]
        value = getattr(mechanism, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and value == 1:
            try:
                other = replace(mechanism, **{field.name: float(value)})  # type: ignore[type-var]
            except InvalidArgument:
                continue
            _require(
                other != mechanism or repr(other) == repr(mechanism),
                f"{mechanism!r} equals {other!r}, which reads otherwise",
            )


def check_epsilon_argument(mechanism: Mechanism) -> None:
    """NaN, infinity and negative ε are refused when the mechanism is made."""
    given = {f.name: getattr(mechanism, f.name) for f in fields(mechanism)}  # type: ignore[arg-type]
    if "epsilon" not in given:
        return
    for bad in (math.nan, math.inf, -1.0, "1", True, None):
        try:
            type(mechanism)(**{**given, "epsilon": bad})
        except InvalidArgument:
            continue
        raise AssertionError(f"{type(mechanism).__name__} accepts epsilon = {bad!r}")


def check_certificate(mechanism: Mechanism) -> None:
    """The exact loss is at most the claimed one; only a published mechanism may exceed it."""
    least = mechanism.picks if isinstance(mechanism, ReportMechanism) else 1
    dimensions = (None,) if isinstance(mechanism, Value) else [d for d in DIMENSIONS if d >= least]
    for d in dimensions:
        certificate = certify(mechanism, d)
        excused = mechanism.published or not mechanism.private
        _require(certificate.holds or excused, str(certificate))
        _require(mechanism.private or certificate.exact in (0, math.inf), str(certificate))


def check_rank_law(selection: Mechanism) -> None:
    """A law over all d ranks that never favours a smaller magnitude."""
    assert isinstance(selection, Selection)
    for d in DIMENSIONS:
        law = selection.law(d)
        _require(law.d == d, f"{selection!r}: its law at d = {d} has {law.d} ranks")
        weights = [law.weight(rank) for rank in range(d)]
        falling = sorted(weights, reverse=True)
        _require(sum(weights) == law.total, f"{selection!r}: its weights do not add up at d = {d}")
        _require(weights == falling, f"{selection!r}: not monotone at d = {d}")


def check_unbiased(value: Mechanism) -> None:
    """The decoded value has mean t, exactly."""
    assert isinstance(value, Value)
    if value.symbols > _MOST_SYMBOLS:
        return
    for t in INPUTS:
        probabilities = value.law.probabilities(t)
        _require(sum(probabilities) == 1, f"{value!r}: probabilities do not sum to 1 at t = {t}")
        mean = sum(p * value.law.decode_exact(s) for s, p in enumerate(probabilities))
        _require(mean == t, f"{value!r}: mean {mean} at t = {t}")


def check_variance(value: Mechanism) -> None:
    """variance(t) is that of the law, exactly, and nowhere above the worst case."""
    assert isinstance(value, Value)
    if value.symbols > _MOST_SYMBOLS:
        return
    for t in INPUTS:
        pairs = enumerate(value.law.probabilities(t))
        moment = sum((p * value.law.decode_exact(s) ** 2 for s, p in pairs), Fraction(0))
        _require(value.law.variance(t) == moment - t**2, f"{value!r}: wrong variance at t = {t}")
    worst = value.worst_variance * (1 + 1e-12)
    for t in np.linspace(-1, 1, 401):
        _require(value.variance(float(t)) <= worst, f"{value!r}: above its worst case at t = {t}")


def check_decoding(value: Mechanism) -> None:
    """The decode table is the exact one in floating point, and within the bound."""
    assert isinstance(value, Value)
    if value.symbols > _MOST_SYMBOLS:
        return
    exact = [float(value.law.decode_exact(s)) for s in range(value.symbols)]
    np.testing.assert_allclose(value.decode_table, exact, rtol=1e-12, atol=1e-12)
    _require(max(map(abs, exact)) == value.bound, f"{value!r}: its bound is not its largest value")


_MOST_SYMBOLS = 1 << 16
_FEW_SYMBOLS = 64
_FEW_DIMENSIONS = 3
_CLIENTS = 200
_DRAWS, _FEW_DRAWS = 200_000, 10_000


def _vectors(d: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Rows with and without ties, zeros included."""
    rows = np.random.default_rng(d).normal(size=(_CLIENTS, d))
    rows[::2] = np.round(rows[::2])
    rows[0] = 0
    return rows


def check_selection_executors(selection: Mechanism) -> None:
    """Device, batch and kernel choose the same dimensions from the same words."""
    assert isinstance(selection, Selection)
    for d in DIMENSIONS:
        rows, who = _vectors(d), simulated.cohort(_CLIENTS, seed=d)
        alone = [
            simulated.select(selection, rows[:1], simulated.cohort(1, seed=d, first=i), "batch")[0]
            for i in range(20)
        ]
        together = simulated.select(selection, rows[:1], simulated.cohort(20, seed=d)).tolist()
        _require(alone == together, f"{selection!r}: a client alone differs at d = {d}")
        fast = simulated.select(selection, rows, who).tolist()
        slow = simulated.select(selection, rows, who, "batch").tolist()
        single = [device.select(selection, row, stream(d, 0, i)) for i, row in enumerate(rows)]
        _require(fast == slow == single, f"{selection!r}: executors differ at d = {d}")


def check_value_executors(value: Mechanism) -> None:
    """Device, batch and kernel send the same symbols from the same words."""
    assert isinstance(value, Value)
    t = np.linspace(-1, 1, _CLIENTS)
    who = simulated.cohort(_CLIENTS, seed=1)
    fast = simulated.perturb(value, t, who).tolist()
    slow = simulated.perturb(value, t, who, "batch").tolist()
    entropies = (stream(1, 0, i, simulated.VALUES_ALONE) for i in range(_CLIENTS))
    single = [device.perturb(value, float(x), e) for x, e in zip(t, entropies, strict=True)]
    _require(fast == slow == single, f"{value!r}: executors differ")


def check_report_executors(mechanism: Mechanism) -> None:
    """Device, batch and kernel send the same reports from the same words."""
    assert isinstance(mechanism, ReportMechanism)
    for d in DIMENSIONS:
        if mechanism.picks <= d:
            _same_reports(simulated.as_solution(mechanism, d), d)


def _same_reports(solution: Solution, seed: int) -> Reports:
    """Those of `encode`, one client after another, which the fast executors must send as well."""
    rows, who = _vectors(solution.dim), simulated.cohort(_CLIENTS, seed=seed)
    rows = rows.astype(np.float32)
    single = _one_by_one(solution, rows, seed)
    if _known(solution):
        fast = simulated.report(solution, rows, who)
        slow = simulated.report(solution, rows, who, "batch")
        same = fast == slow == single
        _require(same, f"{solution.name}: executors differ at d = {solution.dim}")
    return single


def _one_by_one(solution: Solution, rows: np.ndarray, seed: int) -> Reports:
    nothing = np.zeros(solution.dim, dtype=np.float32)
    streams = (stream(seed, 0, i) for i in range(len(rows)))
    sent = (solution.encode(v, nothing, e)[0] for v, e in zip(rows, streams, strict=True))
    return Reports.of(sent)


def _known(solution: Solution) -> bool:
    """Whether there are fast executors; parts by somebody else run as a device runs them."""
    from fedsel.sampling.kernels.tables import known

    return known(solution)


def check_selection_sampler(selection: Mechanism) -> None:
    """The kernel follows the exact law, ties and ⊥ included (chi-square)."""
    assert isinstance(selection, Selection)
    vector = [0.5, -2.0, 0.5, 0.0, 1.0, -0.5, 0.0]
    drawn = simulated.select(selection, [vector], simulated.cohort(_DRAWS, seed=7))
    law = selection.law(len(vector))
    expected = dict(enumerate(law.over(vector))) | {BOTTOM: law.bottom_probability}
    assert_follows(drawn, {key: float(p) for key, p in expected.items()}, repr(selection))


def check_value_sampler(value: Mechanism) -> None:
    """The kernel follows the exact law at a value off the grid (chi-square)."""
    assert isinstance(value, Value)
    if value.symbols > _MOST_SYMBOLS:
        return
    t = Fraction(5, 16)
    drawn = simulated.perturb(value, [float(t)], simulated.cohort(_DRAWS, seed=8))
    expected = {s: float(p) for s, p in enumerate(value.law.probabilities(t))}
    assert_follows(drawn, expected, repr(value))


def check_report_sampler(mechanism: Mechanism) -> None:
    """The kernel's reports follow the exact law (chi-square), or a device's where there is none."""
    assert isinstance(mechanism, ReportMechanism)
    vector = [Fraction(1, 4), Fraction(-3), Fraction(1, 4)]
    row = np.array([[float(x) for x in vector]], dtype=np.float32)
    law = mechanism.report_law(vector)
    if len(law) > _MOST_SYMBOLS:
        return
    made = simulated.as_solution(mechanism, len(vector))
    if _known(made):
        drawn = simulated.report(made, row, simulated.cohort(_DRAWS, seed=9)).pairs()
    else:
        drawn = _one_by_one(made, np.repeat(row, _FEW_DRAWS, axis=0), seed=9).pairs()
    number = {pairs: i for i, pairs in enumerate(law)}
    expected = {number[pairs]: float(p) for pairs, p in law.items()}
    assert_follows(np.array([number[pairs] for pairs in drawn]), expected, repr(mechanism))


def check_shipped_law(mechanism: Mechanism) -> None:
    """What `draw` does on every draw that matters has exactly the law, and is within the ratio."""
    assert isinstance(mechanism, ReportMechanism)
    for d in (max(1, mechanism.picks), max(2, mechanism.picks)):
        solution = simulated.as_solution(mechanism, d)
        if solution.alphabet.symbols > _FEW_SYMBOLS:
            return
        for vector in product((-3.0, 0.0, 0.5, 3.0), repeat=d):
            law = {said: p for said, (p, _) in report_law(solution, vector).items()}
            exact = mechanism.report_law([Fraction(x) for x in vector])
            exact = {said: p for said, p in exact.items() if p}
            _require(law == exact, f"{mechanism!r}: draws by another law at {vector}")


def check_one_symbol_law(mechanism: Mechanism) -> None:
    """Over many vectors, ties and zeros included, no report is likelier than the ratio allows."""
    assert isinstance(mechanism, OneSymbol)
    grid = [Fraction(x) for x in (-3, -1, 0, 1, 3)]
    for d in (1, 2, 3):
        laws = [mechanism.report_law(list(v)) for v in product(grid, repeat=d)]
        for law in laws:
            _require(sum(law.values()) == 1, f"{mechanism!r}: probabilities do not sum to 1")
        ratio = mechanism.loss_ratio(d)
        worst = max(
            max(law[report] for law in laws) / min(law[report] for law in laws)
            for report in laws[0]
        )
        _require(ratio is not None and worst <= ratio, f"{mechanism!r}: loses more at d = {d}")


def assert_follows(
    drawn: np.ndarray[tuple[int], np.dtype[np.int64]], law: dict[int, float], name: str
) -> None:
    """Assert that draws follow a law: nothing impossible, and Pearson's chi-square.

    Outcomes expected fewer than 20 times are pooled, so that the chi-square law applies.
    """
    values, counts = np.unique(drawn, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    impossible = [v for v in seen if not law.get(v)]
    _require(not impossible, f"{name}: drew the impossible {impossible[:3]}")
    n = len(drawn)
    observed, expected = [0.0], [0.0]
    for outcome, p in law.items():
        if n * p < 20:
            observed[0] += seen.get(outcome, 0)
            expected[0] += n * p
        else:
            observed.append(seen.get(outcome, 0))
            expected.append(n * p)
    if expected[0] < 20:  # too rare to be judged: join the pool with the last outcome
        observed[-1] += observed.pop(0)
        expected[-1] += expected.pop(0)
    if len(expected) < 2:
        return
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    with needed("simulation", "checks"):
        from scipy.stats import chi2

    p_value = float(chi2.sf(statistic, len(expected) - 1))
    _require(p_value > FALSE_ALARM, f"{name}: chi-square {statistic:.1f}, p = {p_value:.2g}")
