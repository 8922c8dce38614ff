"""The exact law of a small randomised program, by running it on every possible draw."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import TypeVar

from fedsel.errors import InvalidArgument, check_count
from fedsel.random import Entropy

Outcome = TypeVar("Outcome", bound=Hashable)


class _TruncatedError(BaseException):
    """The program asked for more draws than are followed; no `except Exception` may hide it."""


class _Script:
    """Plays given draws, then zeros, and remembers how many choices each draw had."""

    def __init__(self, draws: Sequence[int], most: int) -> None:
        self._draws, self._most = draws, most
        self.choices: list[int] = []

    def below(self, n: int, /) -> int:
        check_count("n", n)
        i = len(self.choices)
        if i >= self._most:
            raise _TruncatedError
        self.choices.append(n)
        return self._draws[i] if i < len(self._draws) else 0


def exact_law(
    program: Callable[[Entropy], Outcome],
    *,
    attempt: int | None = None,
    most_draws: int = 64,
    most_paths: int = 1_000_000,
) -> dict[Outcome, Fraction]:
    """Exact probability of each outcome of a program that draws by ``entropy.below(n)``.

    A rejection loop, which may go on for ever, is exact if ``attempt`` says how many draws its
    first attempt takes: longer paths then begin anew, and what the first attempt yields is scaled
    to one. Without it every path must end within ``most_draws``.

    >>> exact_law(lambda entropy: entropy.below(2) + entropy.below(2))
    {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    """
    limit = check_count("most_draws", most_draws) if attempt is None else attempt
    law: dict[Outcome, Fraction] = {}
    draws: list[int] = []
    for _ in range(most_paths):
        script = _Script(draws, limit)
        try:
            outcome = program(script)
        except _TruncatedError:
            if attempt is None:
                raise InvalidArgument(
                    "most_draws", most_draws, "as many as the longest path draws"
                ) from None
        else:
            p = Fraction(1)
            for n in script.choices:
                p /= n
            law[outcome] = law.get(outcome, Fraction(0)) + p
        # The next path in order: raise the last draw that can be raised.
        draws = (draws + [0] * len(script.choices))[: len(script.choices)]
        while draws and draws[-1] == script.choices[len(draws) - 1] - 1:
            draws.pop()
        if not draws:
            total = sum(law.values(), Fraction(0))
            return {outcome: p / total for outcome, p in law.items()}
        draws[-1] += 1
    raise InvalidArgument("most_paths", most_paths, "at least the number of paths of the program")
