"""Audit of any randomiser: (value) → output or (value, entropy) → output, with any kind of value.

There are two independent answers. The experiment (`fedsel.auditing.experiment`) attacks any
program. If all draws are ``entropy.below(n)``, the program is also enumerated, which gives its
exact loss over the inputs that were tried.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from fedsel._internal.exact import exceeds_exp, log
from fedsel.auditing._enumeration import exact_law
from fedsel.auditing._events import Raw
from fedsel.auditing._experiment import (
    FALSE_ALARM,
    AuditEntropy,
    Finding,
    Tell,
    called_again,
    candidate_inputs,
    experiment,
    own_inputs,
    own_sampler,
)
from fedsel.errors import (
    InvalidArgument,
    check_count,
    check_epsilon,
    check_finite,
    check_vectors,
)
from fedsel.mechanisms import Entropy
from fedsel.solutions import Solution

Program = Callable[[Any, AuditEntropy], Any]
Law = dict[Any, Fraction]
TRIALS, PILOT = 100_000, 20_000
_MOST_PATHS, _MOST_DRAWS = 5_000, 1_000
_SCALARS = (bool, int, float, complex, str, bytes, Fraction, Decimal, Enum, np.generic, type(None))


class ProgramError(ValueError):
    """A program cannot be audited. The message says what it did, for which input."""


class _DrawsOtherwiseError(BaseException):
    """The program uses its entropy other than by ``below``. No `except Exception` catches it."""


class _DrawsOnError(BaseException):
    """The program draws by ``below``, once or endlessly. No `except Exception` catches it."""


@dataclass(frozen=True)
class ExactLoss:
    """The largest ratio of probabilities over the inputs tried, and where it occurs.

    ``ratio`` is None if an output of one input is impossible for another: no ε covers that.
    """

    ratio: Fraction | None
    pair: tuple[Any, Any]
    output: Any
    probabilities: tuple[Fraction, Fraction]

    @property
    def epsilon(self) -> float:
        """ln(ratio), or infinity."""
        return math.inf if self.ratio is None else log(self.ratio)

    def exceeds(self, claimed: float) -> bool:
        """Whether the loss is above a claim, decided exactly."""
        return self.ratio is None or exceeds_exp(self.ratio, claimed)


@dataclass(frozen=True)
class ProgramAudit:
    """The result of a program's audit: by experiment and, if possible, exact."""

    claimed: float
    inputs: tuple[Any, ...]
    finding: Finding
    exact: ExactLoss | None
    why_not_exact: str
    """Why there is no exact loss; empty if there is one."""
    seed: int

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, by the exact loss or else by the experiment."""
        if self.exact is not None and self.finding.delta == 0:
            return self.exact.exceeds(self.claimed)
        return self.finding.violated

    @property
    def verdict(self) -> str:
        """The verdict in two or three words."""
        if self.refuted:
            return "refuted"
        proved = self.exact is not None and not self.exact.exceeds(self.claimed)
        return "holds for these inputs" if proved else "not refuted"


def audit_program(
    program: Program,
    *,
    inputs: Sequence[Any],
    claimed: float,
    delta: float = 0.0,
    trials: int = TRIALS,
    pilot: int = PILOT,
    seed: int | None = None,
    alpha: float = FALSE_ALARM,
    float_bits: bool = True,
) -> ProgramAudit:
    """Attack a program (value, entropy) → output, and enumerate it if possible.

    Any two of ``inputs`` must be values that two people may have. A ``seed`` makes ``entropy``
    repeatable; it does not affect other sources of randomness.

    >>> def respond(answer, entropy):  # the truth three times of four: ε = ln 3
    ...     return answer if entropy.below(4) else not answer
    >>> found = audit_program(respond, inputs=[True, False], claimed=1.0, trials=20_000)
    >>> found.verdict, found.exact.ratio, found.finding.lower_bound < 1.0987
    ('refuted', Fraction(3, 1), True)
    """
    check_epsilon("claimed", claimed, zero_allowed=True)
    if len(inputs) < 2:
        raise InvalidArgument("inputs", list(inputs), "at least two values")
    for value in inputs:
        _try_out(program, value)
    stream = secrets.randbelow(1 << 32) if seed is None else check_count("seed", seed, least=0)
    exact, why_not = _exact(program, inputs)

    def sample(value: Any, count: int, seed: int, tell: Tell) -> Raw:
        return called_again(lambda v, e: _called(program, v, e), value, count, seed, tell)

    finding = experiment(
        sample,
        inputs,
        claimed=claimed,
        trials=trials,
        pilot=pilot,
        seed=stream,
        alpha=alpha,
        delta=delta,
        float_bits=float_bits,
    )
    if exact is not None and delta == 0 and finding.lower_bound > exact.epsilon:
        # The experiment contradicts the enumeration, so the program has another random source.
        exact, why_not = None, "it draws from another source than entropy.below(n), too"
    return ProgramAudit(claimed, tuple(inputs), finding, exact, why_not, stream)


def audit_solution(
    solution: Solution,
    *,
    inputs: Sequence[Any] | None = None,
    claimed: float,
    delta: float = 0.0,
    trials: int = TRIALS,
    pilot: int = PILOT,
    seed: int | None = None,
) -> ProgramAudit:
    """Attack the first report of a solution's client, and say what its certificate is.

    ``inputs`` are updates (d,), by default extreme ones. The experiment knows nothing of the law
    that the certificate is computed from.

    >>> from fedsel import solution
    >>> control = solution("PS-PM-C", epsilon=2.0, dim=2, mu=0.5, k=1)  # which spends 3
    >>> audit_solution(control, claimed=2.0, trials=20_000, seed=0).verdict
    'refuted'
    """
    check_epsilon("claimed", claimed, zero_allowed=True)
    given = own_inputs(solution, None) if inputs is None else inputs
    vectors = [check_vectors("inputs", value, ndim=1).astype(np.float64) for value in given]
    if any(len(vector) != solution.dim for vector in vectors):
        raise InvalidArgument("inputs", "of another length", f"vectors of {solution.dim} entries")
    stream = secrets.randbelow(1 << 32) if seed is None else check_count("seed", seed, least=0)
    finding = experiment(
        own_sampler(solution),
        vectors,
        claimed=claimed,
        trials=trials,
        pilot=pilot,
        seed=stream,
        delta=delta,
    )
    loss = solution.privacy.per_report
    why = f"a report is not enumerated. By its law, fedsel certify, it costs ε = {loss:.6g}"
    return ProgramAudit(claimed, tuple(vectors), finding, None, why, stream)


def values_within(low: float, high: float, d: int | None = None) -> list[Any]:
    """Values of a range that expose real errors: extremes, zero, a third, near neighbours.

    With d they are vectors of that many entries.

    >>> values_within(0, 1)
    [0.0, 1.0, 0.5, 0.3333333333333333, 0.33333333333333337, 0.6666666666666667]
    >>> len(values_within(-1, 1)), values_within(-1, 1, d=2)[1]
    (6, array([1., 1.]))
    """
    least, most = float(check_finite("low", low)), float(check_finite("high", high))
    if not least < most:
        raise InvalidArgument("range", (low, high), "two numbers, the smaller first")
    if d is not None:
        return [least + (v + 1) / 2 * (most - least) for v in candidate_inputs(check_count("d", d))]
    third = least + (most - least) / 3
    neighbour = math.nextafter(third, most)
    proposed = [least, most, 0.0, least / 2 + most / 2, third, neighbour, most - (third - least)]
    return list(dict.fromkeys(v for v in proposed if least <= v <= most))


def _called(program: Program, value: Any, entropy: Any) -> Any:
    """Run the program once. Arrays are copied, so that it may change its input."""
    try:
        return program(value.copy() if isinstance(value, np.ndarray) else value, entropy)
    except Exception as error:
        raise ProgramError(
            f"it raised {type(error).__name__} ({error}) for the input {value!r}; an error is an "
            "output that others see: catch it, and return what would be sent"
        ) from error


def _try_out(program: Program, value: Any) -> None:
    """Check with one call that the program returns something that can be compared."""
    output = _called(program, value, AuditEntropy(np.random.Philox(0)))
    try:
        _frozen(output, scalars=_SCALARS)
    except TypeError as wrong:
        noun = str(wrong)
        raise ProgramError(
            f"it returned {'an' if noun[0].lower() in 'aeiou' else 'a'} {noun} for the input "
            f"{value!r}; an output must be a number, a text, None, an array, or a tuple, list, "
            "dict or set of such"
        ) from None


def _exact(program: Program, inputs: Sequence[Any]) -> tuple[ExactLoss | None, str]:
    """The exact loss, or the reason why there is none."""
    try:
        if not any(_draws(program, value) for value in inputs):
            return None, "it does not draw by entropy.below(n)"
        laws = [_law(program, value) for value in inputs]
        again = [_law(program, value) for value in inputs]
    except _DrawsOtherwiseError as other:
        return None, f"it draws by entropy.{other}, not by entropy.below(n) alone"
    except (InvalidArgument, _DrawsOnError):
        return None, f"it has more than {_MOST_PATHS:,} paths, or draws until something is accepted"
    except ProgramError:
        return None, "it does with a drawn integer what the enumeration cannot follow"
    if laws != again:
        return None, "it draws from another source than entropy.below(n), too"
    return _largest(laws, inputs), ""


class _OnlyBelow:
    """Entropy that has ``below`` and nothing else."""

    def __init__(self, below: Callable[[int], int]) -> None:
        self._below, self._draws = below, 0

    def below(self, n: int, /) -> int:
        self._draws += 1
        if self._draws > _MOST_DRAWS:
            raise _DrawsOnError
        return self._below(n)

    def __getattr__(self, name: str) -> Any:
        raise _DrawsOtherwiseError(name)


def _law(program: Program, value: Any) -> Law:
    def run(entropy: Entropy) -> Any:
        return _frozen(_called(program, value, _OnlyBelow(entropy.below)))

    return exact_law(run, most_paths=_MOST_PATHS)


def _draws(program: Program, value: Any) -> bool:
    """Whether it draws by ``below`` at all."""

    def below(_: int) -> int:
        raise _DrawsOnError

    try:
        _called(program, value, _OnlyBelow(below))
    except _DrawsOnError:
        return True
    return False


def _frozen(output: Any, scalars: Any = object) -> Any:
    """Make an output hashable: lists and arrays become tuples, dicts and sets frozen sets.

    Any other part must be one of the ``scalars``; otherwise a TypeError names its type.
    """
    if isinstance(output, np.ndarray) and output.dtype.kind in "biufcSU":
        output = output.tolist()
    if isinstance(output, Mapping):
        return frozenset((_frozen(k, scalars), _frozen(v, scalars)) for k, v in output.items())
    if isinstance(output, set | frozenset):
        return frozenset(_frozen(part, scalars) for part in output)
    if isinstance(output, list | tuple):
        return tuple(_frozen(part, scalars) for part in output)
    if not isinstance(output, scalars):
        raise TypeError(type(output).__name__)
    return output


def _largest(laws: Sequence[Law], inputs: Sequence[Any]) -> ExactLoss:
    """The largest ratio of two inputs' probabilities of one output."""
    losses = []
    for output in dict.fromkeys(output for law in laws for output in law):
        chances = [law.get(output, Fraction(0)) for law in laws]
        most = max(range(len(laws)), key=chances.__getitem__)
        least = min(range(len(laws)), key=chances.__getitem__)
        p, q = chances[most], chances[least]
        pair = (inputs[most], inputs[least])
        losses.append(ExactLoss(p / q if q else None, pair, output, (p, q)))
    impossible = next((loss for loss in losses if loss.ratio is None), None)
    return impossible or max(losses, key=lambda loss: loss.ratio or 0)
