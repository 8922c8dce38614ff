"""The contract of a mechanism as code: run it on ours or on your own.

>>> from fedsel.mechanisms import Duchi
>>> check_mechanism(Duchi(epsilon=1.0))

Exact checks come first, in rationals; the statistical one has a false-alarm rate of `FALSE_ALARM`.
What is wrong is an AssertionError with a sentence for each check that fails, whatever it met.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from itertools import product

import numpy as np

from fedsel.auditing import certify_by_enumeration
from fedsel.checks._exact import (
    CLIENTS,
    FALSE_ALARM,
    FEW_SYMBOLS,
    check_certificate,
    check_decoding,
    check_epsilon_argument,
    check_frozen,
    check_one_symbol_law,
    check_rank_law,
    check_reproducible,
    check_shipped_law,
    check_unbiased,
    check_variance,
    failing,
    require,
)
from fedsel.checks._samplers import (
    assert_follows,
    check_report_executors,
    check_report_sampler,
    check_selection_executors,
    check_selection_sampler,
    check_value_executors,
    check_value_sampler,
    same_reports,
)
from fedsel.errors import check_kind
from fedsel.mechanisms import (
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


def check_mechanism(mechanism: Mechanism) -> None:
    """Run every check that applies, and tell of all that fail in one AssertionError."""
    check_kind("mechanism", mechanism, Mechanism)
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
    """The contract of a solution, of the registry or composed by yourself.

    Its parts are public and frozen, its certificate holds, `encode` on every draw that matters is
    within it (where d is at most 3 and symbols are few), all executors that know its parts send the
    same reports, and the sum of reports decodes as they do one by one.

    >>> from fedsel import solution
    >>> check_solution(solution("RJ", epsilon=1.0, dim=3, rho=1.0))
    """
    check_kind("solution", solution, Solution)
    with failing(solution.name):
        _check_solution(solution)


def _check_solution(solution: Solution) -> None:
    require(
        pickle.loads(pickle.dumps(solution)) == solution,  # noqa: S301
        f"{solution.name}: its pickle is another",
    )
    if not solution.private:
        return
    certificate = certify(solution)
    excused = solution.mechanism.published or solution.budget is None
    require(certificate.holds or excused, str(certificate))
    alphabet = solution.alphabet
    if solution.dim <= _FEW_DIMENSIONS and alphabet.symbols <= FEW_SYMBOLS:
        grid = list(product((-5.0, 0.3, 9.0), repeat=solution.dim))[:: solution.dim]
        enumerated = certify_by_enumeration(solution, grid, epochs=min(2, solution.epochs))
        bound = certificate.ratio
        require(
            enumerated.ratio is not None
            and bound is not None
            and enumerated.ratio <= bound ** min(2, solution.epochs),
            f"{solution.name}: encode loses more than its certificate says",
        )
    reports = same_reports(solution, seed=5)
    require(
        int(reports.slot.max()) < alphabet.slots, f"{solution.name}: a slot beyond its alphabet"
    )
    require(int(reports.symbol.max()) < alphabet.symbols, f"{solution.name}: an unknown symbol")
    one_by_one = [solution.decode(reports.rows(np.array([i]))) for i in range(CLIENTS)]
    np.testing.assert_allclose(
        solution.decode(reports), np.mean(one_by_one, axis=0), rtol=1e-9, atol=1e-9
    )
