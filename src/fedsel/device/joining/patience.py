"""How long a device waits: between two tries, and until it gives up."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import final

from fedsel.device.joining.outcome import Ended, Ending

_RANDOM = secrets.SystemRandom()
_FIRST, _MOST = 0.25, 30.0
Sleep = Callable[[float], object]


def around(seconds: float) -> float:
    """About so long, at random: devices that were started together do not stay together."""
    return seconds * _RANDOM.uniform(0.5, 1.5)


def one_of(first: int, last: int) -> int:
    """A round among these, at random."""
    return _RANDOM.randint(first, last)


@final
class Deadline:
    """The end of an exchange, however many steps it takes."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float) -> float:
        """Seconds that the next step may take; after the end, a `TimeoutError`."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, most)


@final
class Patience:
    """Waits longer from failure to failure, at random, and ends when nothing has worked for long.

    >>> slept = []
    >>> patience = Patience(100.0, sleep=slept.append)
    >>> for _ in range(9):
    ...     patience.wait("busy")
    >>> slept[0] <= 0.25, max(slept) <= 30.0
    (True, True)
    """

    def __init__(self, most: float, *, sleep: Sleep | None = None) -> None:
        self._most, self._sleep = most, time.sleep if sleep is None else sleep
        self.renew()

    def renew(self) -> None:
        """Begin anew: nothing has failed yet."""
        self._failures, self._since = 0, time.monotonic()

    @property
    def left(self) -> float:
        """Seconds until it ends."""
        return self._most - (time.monotonic() - self._since)

    @property
    def tried(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def wait(self, why: str, asked: float = 0.0) -> None:
        """After a failure: wait, for as long as the service asks at least.

        Gives up where that would leave no time for another try.
        """
        # "Full jitter": devices that failed together come back spread over the whole time.
        longest = min(_MOST, _FIRST * 2.0 ** min(self._failures, 16))
        pause = asked + _RANDOM.uniform(0.0, longest)
        if pause >= self.left:
            raise Ended(Ending.UNREACHABLE, why)
        self._failures += 1
        self._sleep(pause)
