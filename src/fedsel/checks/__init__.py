"""The contract of mechanisms and solutions as code, for fedsel's and for your own.

>>> from fedsel.mechanisms import Duchi
>>> check_mechanism(Duchi(epsilon=1.0))

Exact checks use rationals. Statistical checks have a false-alarm rate of `FALSE_ALARM` each. All
failures are reported in one AssertionError.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from itertools import product
from typing import Any

import numpy as np

from fedsel import mechanisms as m
from fedsel.auditing import certify_by_enumeration
from fedsel.checks import _checks as own
from fedsel.checks._checks import (
    FALSE_ALARM,
    assert_follows,
    check_selection_executors,
    check_selection_sampler,
    check_shipped_law,
    check_unbiased,
    failing,
    require,
)
from fedsel.errors import check_kind
from fedsel.solutions import Solution

__all__ = [
    "EXAMPLES",
    "FALSE_ALARM",
    "assert_follows",
    "check_mechanism",
    "check_selection_executors",
    "check_selection_sampler",
    "check_shipped_law",
    "check_solution",
    "check_unbiased",
    "checks_of",
]

_FEW_DIMENSIONS = 3

EXAMPLES: tuple[m.Mechanism, ...] = (
    *(
        cls(e)
        for cls in (m.Exponential, m.Duchi, m.Piecewise, m.Hybrid, m.OptimalWindow)
        for e in (0.5, 3.0)
    ),
    *(
        cls(e, k)
        for cls in (m.PerturbedSampling, m.PerturbedEncoding, m.PublishedPerturbedEncoding)
        for e in (0.5, 3.0)
        for k in (1, 0.3)
    ),
    m.Uniform(),
    m.TopK(k=1),
    m.TopK(k=0.5),
    m.Identity(),
    m.TwoStage(m.PerturbedSampling(0.5, k=1), m.Piecewise(1.0, grid=8)),
    m.TwoStage(m.PerturbedEncoding(0.5, k=1), m.Hybrid(1.0, grid=8), clip=0.5),
    m.TwoStage(m.Exponential(0.5), m.Duchi(1.0), clip=2.0),
    m.FlatPicks(m.Duchi(0.5), picks=2, clip=0.5),
    m.FlatPicks(m.OptimalWindow(2.0)),
    *(
        m.SignedSampling(e, k, radius=r)
        for e, k, r in ((0.5, None, 2.0), (3.0, 1, None), (6.0, 1, 3.0))
    ),
    *(m.Choice(m.PerturbedSampling(e, k)) for e, k in ((0.5, 0.3), (3.0, 1))),
    *(m.UnbiasedJoint(e, k, clip=c) for e, k, c in ((0.5, 0.3, 1.0), (3.0, 1, 2.0))),
)
"""Instances of every mechanism of fedsel, on which the contract is tested."""


def checks_of(mechanism: m.Mechanism) -> Iterator[Callable[[Any], None]]:
    """Return the checks that apply to a mechanism."""
    yield from (own.check_frozen, own.check_reproducible)
    yield from (own.check_epsilon_argument, own.check_certificate)
    if isinstance(mechanism, m.Selection):
        yield from (own.check_rank_law, check_selection_executors, check_selection_sampler)
    if isinstance(mechanism, m.Value):
        yield own.check_value_executors
        if mechanism.symbols <= own.MOST_SYMBOLS:
            yield from (check_unbiased, own.check_variance, own.check_decoding)
            yield own.check_value_sampler
    if isinstance(mechanism, m.ReportMechanism):
        yield from (own.check_report_executors, own.check_report_sampler)
        yield check_shipped_law
    if isinstance(mechanism, m.OneSymbol):
        yield own.check_one_symbol_law


def check_mechanism(mechanism: m.Mechanism) -> None:
    """Run every check that applies, and name all that fail in one AssertionError."""
    check_kind("mechanism", mechanism, m.Mechanism)
    require(is_dataclass(mechanism), f"{mechanism!r}: not a dataclass")
    failures = []
    for check in checks_of(mechanism):
        try:
            with failing(f"{type(mechanism).__name__}: {check.__name__}"):
                check(mechanism)
        except AssertionError as failure:
            failures.append(str(failure))
    require(not failures, "\n".join(failures))


def check_solution(solution: Solution) -> None:
    """Check a solution against the contract.

    Its certificate must hold, and bound `encode` on every draw (if d is at most 3 and there are few
    symbols). All executors that support it must send the same reports, and the sum of reports must
    decode to the mean of the individually decoded reports.

    >>> from fedsel import solution
    >>> check_solution(solution("RJ", epsilon=1.0, dim=3, rho=1.0))
    """
    check_kind("solution", solution, Solution)
    with failing(solution.name):
        _check_solution(solution)


def _check_solution(solution: Solution) -> None:
    require(
        pickle.loads(pickle.dumps(solution)) == solution,  # noqa: S301
        f"{solution.name}: a pickled copy differs from it",
    )
    if not solution.private:
        return
    certificate = m.certify(solution)
    excused = solution.mechanism.published or solution.budget is None
    require(certificate.holds or excused, str(certificate))
    alphabet = solution.alphabet
    if solution.dim <= _FEW_DIMENSIONS and alphabet.symbols <= own.FEW_SYMBOLS:
        grid = list(product((-5.0, 0.3, 9.0), repeat=solution.dim))[:: solution.dim]
        enumerated = certify_by_enumeration(solution, grid, epochs=min(2, solution.epochs))
        bound = certificate.ratio
        require(
            enumerated.ratio is not None
            and bound is not None
            and enumerated.ratio <= bound ** min(2, solution.epochs),
            f"{solution.name}: encode loses more than its certificate says",
        )
    reports = own.same_reports(solution, seed=5)
    require(
        int(reports.slot.max()) < alphabet.slots, f"{solution.name}: a slot beyond its alphabet"
    )
    require(int(reports.symbol.max()) < alphabet.symbols, f"{solution.name}: an unknown symbol")
    one_by_one = [solution.decode(reports.rows(np.array([i]))) for i in range(own.CLIENTS)]
    np.testing.assert_allclose(
        solution.decode(reports), np.mean(one_by_one, axis=0), rtol=1e-9, atol=1e-9
    )
