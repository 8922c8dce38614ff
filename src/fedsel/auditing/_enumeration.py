"""The exact law of a randomised program, found by running the program on every draw that matters.

A draw ``below(n)`` is a uniform integer that stays undecided until the program uses it. A question
such as ``x < 1000`` splits the remaining integers in two, ``x // 7`` into quotients; only then the
path branches, with integer weights. So n may be 2^59, and the result is the law of the program as
it runs on a device, in rationals.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from fedsel.errors import InvalidArgument, check_count
from fedsel.mechanisms import Entropy

Outcome = TypeVar("Outcome", bound=Hashable)
Loop = tuple[tuple[int, ...], int]
"""The start of a loop: the decisions before it, and its place among loops that start there."""
_Finished = tuple[list[Loop], list[tuple[int, int, Any]]]
"""A finished path: the loops that it passed, and its outcomes with their probabilities n/m."""

_MOST_BRANCHES = 1 << 20


class _BeginsAnewError(BaseException):
    """A rejection loop has returned to its first draw. No `except Exception` catches it."""


class _Path:
    """One run of the program: the given decisions, then the first branch of each further one."""

    def __init__(self, prefix: Sequence[int], loops: frozenset[CodeType]) -> None:
        self._prefix, self._loops = prefix, loops
        self.decisions: list[int] = []
        self.weights: list[tuple[int, ...]] = []
        self.entered: dict[tuple[FrameType, int], Loop] = {}
        self.restarted: Loop | None = None

    def below(self, n: int, /) -> Any:
        check_count("n", n)
        frame = sys._getframe(1)
        if frame.f_code in self._loops:
            place = (frame, frame.f_lasti)  # holding the frame keeps its id unique
            if place in self.entered:
                self.restarted = self.entered[place]
                raise _BeginsAnewError
            self.entered[place] = (tuple(self.decisions), len(self.entered))
        return _Draw(self, [0, n], 0, 1, 0) if n > 1 else 0

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"entropy.{name}: an exact law needs draws by entropy.below(n) alone")

    def decide(self, weights: tuple[int, ...]) -> int:
        """Choose this path's branch among branches with these weights."""
        i = len(self.decisions)
        chosen = self._prefix[i] if i < len(self._prefix) else 0
        self.decisions.append(chosen)
        self.weights.append(weights)
        return chosen

    def probability(self, count: int | None = None) -> Fraction:
        """The probability of the first ``count`` decisions, or of all."""
        p = Fraction(1)
        for decision, weights in zip(self.decisions[:count], self.weights, strict=False):
            p *= Fraction(weights[decision], sum(weights))
        return p

    def following(self) -> list[int] | None:
        """The next path in order; None after the last."""
        decisions = list(self.decisions)
        while decisions and decisions[-1] == len(self.weights[len(decisions) - 1]) - 1:
            decisions.pop()
        if decisions:
            decisions[-1] += 1
        return decisions or None


class _Draw:
    """(u + add) // divide + shift for a uniform u in low … high − 1, not yet fully decided.

    All numbers computed from one draw share ``bounds`` = [low, high].
    """

    __slots__ = ("add", "bounds", "divide", "path", "shift")

    def __init__(self, path: _Path, bounds: list[int], add: int, divide: int, shift: int) -> None:
        self.path, self.bounds = path, bounds
        self.add, self.divide, self.shift = add, divide, shift

    def _value(self, u: int) -> int:
        return (u + self.add) // self.divide + self.shift

    def _is_below(self, other: Any) -> bool:
        """Decide whether the number is below an integer."""
        if other is self:  # numpy compares with other objects
            return False
        cut = (math.ceil(other) - self.shift) * self.divide - self.add
        low, high = self.bounds
        if cut <= low:
            return False
        if cut >= high:
            return True
        if self.path.decide((cut - low, high - cut)) == 0:
            self.bounds[1] = cut
            return True
        self.bounds[0] = cut
        return False

    def __lt__(self, other: Any) -> bool:
        return self._is_below(other)

    def __ge__(self, other: Any) -> bool:
        return not self._is_below(other)

    def __le__(self, other: Any) -> bool:
        return other is self or self._is_below(math.floor(other) + 1)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))

    def __bool__(self) -> bool:
        return int(self) != 0

    def __repr__(self) -> str:
        return repr(int(self))

    def __index__(self) -> int:
        """Decide the number, with one branch for each remaining value."""
        if self.decided:
            return self._value(self.bounds[0])
        parts = self.parts()
        chosen = self.path.decide(tuple(end - start for _, start, end in parts))
        value, self.bounds[0], self.bounds[1] = parts[chosen]
        return value

    @property
    def decided(self) -> bool:
        """Whether only one value remains."""
        return self._value(self.bounds[0]) == self._value(self.bounds[1] - 1)

    def parts(self) -> list[tuple[int, int, int]]:
        """Every remaining value, with its bounds of u."""
        low, high = self.bounds
        first, last = self._value(low), self._value(high - 1)
        if last - first >= _MOST_BRANCHES:
            raise InvalidArgument(
                "program",
                f"{last - first + 1} branches",
                f"a program with at most {_MOST_BRANCHES} branches at a draw",
            )
        branches = []
        for value in range(first, last + 1):
            end = min(high, (value + 1 - self.shift) * self.divide - self.add)
            branches.append((value, low, end))
            low = end
        return branches

    __int__ = __index__

    def __add__(self, other: Any) -> _Draw:
        step = operator.index(other)
        if self.divide == 1:
            return _Draw(self.path, self.bounds, self.add + step, 1, self.shift)
        return _Draw(self.path, self.bounds, self.add, self.divide, self.shift + step)

    __radd__ = __add__

    def __sub__(self, other: Any) -> _Draw:
        return self + -operator.index(other)

    def __floordiv__(self, other: Any) -> _Draw:
        by = operator.index(other)
        if self.divide != 1:
            return _Draw(self.path, [int(self), int(self) + 1], 0, by, 0)
        return _Draw(self.path, self.bounds, self.add + self.shift, by, 0)

    def __divmod__(self, other: Any) -> tuple[int, _Draw]:
        by = operator.index(other)
        quotient = int(self // by)
        return quotient, self - quotient * by

    def __mod__(self, other: Any) -> _Draw:
        return self.__divmod__(other)[1]


def exact_law(
    program: Callable[[Entropy], Outcome],
    *,
    loops: Sequence[Callable[..., object]] = (),
    most_paths: int = 1_000_000,
    advance: Callable[[int], object] = abs,
) -> dict[Outcome, Fraction]:
    """Exact probability of each outcome of a program that draws by ``entropy.below(n)``.

    ``loops`` names functions that repeat draws until one is accepted. Their loop must begin with a
    draw, and attempts must be independent. When it returns to that draw the path ends, and the
    outcomes of the first attempt are scaled up. ``advance`` is called for each path with its number
    of leaves: outcomes and returns to a loop's start.

    Proof: docs/proofs/sampling.md, D8.

    >>> exact_law(lambda entropy: entropy.below(2) + entropy.below(2))
    {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    >>> exact_law(lambda entropy: entropy.below(10**18) < 250)
    {True: Fraction(1, 4000000000000000), False: Fraction(3999999999999999, 4000000000000000)}
    """
    codes = frozenset(loop.__code__ for loop in loops if isinstance(loop, FunctionType))
    finished: list[_Finished] = []
    restarts: dict[Loop, list[tuple[Fraction, list[Loop]]]] = {}
    whole: dict[Loop, Fraction] = {}
    prefix: list[int] | None = []
    for _ in range(check_count("most_paths", most_paths)):
        path = _Path(prefix or (), codes)
        try:
            outcomes = list(_decided(program(path)))
        except _BeginsAnewError:
            outcomes = []
        passed = list(path.entered.values())
        for loop in passed:
            if loop not in whole:
                whole[loop] = path.probability(len(loop[0]))
        if path.restarted is None:
            p = path.probability()
            part, whole_path = p.numerator, p.denominator
            leaves = [(part * n, whole_path * m, outcome) for n, m, outcome in outcomes]
            finished.append((passed, leaves))
        else:
            restarts.setdefault(path.restarted, []).append((path.probability(), passed))
        advance(max(1, len(outcomes)))
        prefix = path.following()
        if prefix is None:
            return _assembled(finished, restarts, whole)
    raise InvalidArgument("most_paths", most_paths, "larger: the program has more paths")


def _decided(outcome: Any) -> Iterator[tuple[int, int, Any]]:
    """The values of an outcome, with integers in place of draws, without running the program again.

    Each comes with its probability share/of, not reduced.
    """
    draws: list[_Draw] = []
    read = _reader(outcome, draws)
    for share, of in _branches(draws, 1, 1):
        yield share, of, outcome if read is None else read()


def _reader(outcome: Any, draws: list[_Draw]) -> Callable[[], Any] | None:
    """Return a function that reads an outcome once its draws are decided; None without draws.

    Draws are added to the list. The rest of an outcome is traversed once, not for each leaf.
    """
    if isinstance(outcome, _Draw):
        draws.append(outcome)
        return outcome.__index__
    if not isinstance(outcome, tuple):
        return None
    parts = [(part, _reader(part, draws)) for part in outcome]
    if all(read is None for _, read in parts):
        return None
    return lambda: tuple(part if read is None else read() for part, read in parts)


def _branches(draws: Sequence[_Draw], share: int, of: int) -> Iterator[tuple[int, int]]:
    """Decide draws, one after another, in every way; yield the probability of each way."""
    undecided = next((number for number, draw in enumerate(draws) if not draw.decided), None)
    if undecided is None:
        yield share, of
        return
    bounds = draws[undecided].bounds
    before, after = bounds
    for _, low, high in draws[undecided].parts():
        bounds[:] = low, high
        # Later numbers may stem from the same draw.
        yield from _branches(draws[undecided + 1 :], share * (high - low), of * (after - before))
    bounds[:] = before, after


def _assembled(
    finished: Sequence[_Finished],
    restarts: dict[Loop, list[tuple[Fraction, list[Loop]]]],
    whole: dict[Loop, Fraction],
) -> dict[Outcome, Fraction]:
    """Scale the outcomes of each loop's first attempt to the whole loop, inner loops first."""
    factor: dict[Loop, Fraction] = {}

    def scaled(p: Fraction, passed: Sequence[Loop]) -> Fraction:
        return math.prod((factor[loop] for loop in passed if loop in factor), start=p)

    for loop in sorted(restarts, key=lambda loop: (len(loop[0]), loop[1]), reverse=True):
        lost = sum((scaled(p, passed) for p, passed in restarts[loop]), Fraction(0))
        factor[loop] = whole[loop] / (whole[loop] - lost)
    law: dict[Any, Fraction] = {}
    for passed, leaves in finished:
        share = scaled(Fraction(1), passed)
        # One fraction for each leaf: they take most of the time.
        for n, m, outcome in leaves:
            p = Fraction(n * share.numerator, m * share.denominator)
            law[outcome] = law[outcome] + p if outcome in law else p
    return law
