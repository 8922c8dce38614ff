"""The exact checks, in rationals, and helpers of all checks."""

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

import fedsel.mechanisms
from fedsel.auditing import report_law
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import Mechanism, OneSymbol, ReportMechanism, Selection, Value, certify
from fedsel.sampling import simulated

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
    AssertionError: Mine: check_rank_law ends in ValueError: no law at d = 1
    """
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} ends in {type(error).__name__}: {error}") from error


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
    require(hash(mechanism) == hash(copy), f"{mechanism!r}: a copy has another hash")
    for field in fields(mechanism):  # type: ignore[arg-type]
        value = getattr(mechanism, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and value == 1:
            try:
                other = replace(mechanism, **{field.name: float(value)})  # type: ignore[type-var]
            except InvalidArgument:
                continue
            require(
                other != mechanism or repr(other) == repr(mechanism),
                f"{mechanism!r} equals {other!r}, which reads otherwise",
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
            require(law == exact, f"{mechanism!r}: draws by another law at {vector}")


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
