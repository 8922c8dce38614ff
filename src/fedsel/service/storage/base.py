"""What a store can do: the one interface that the service has to a database.

A store has tables of runs (the checkpoint of each), rounds (when they began and ended), tallies
(what became of their reports), reports and batches. All of a run's writing happens in transactions
in which its open round cannot end (`Store.writing`), but for the one that ends it
(`Store.closing`). Every method may raise `StoreUnavailable`: then nothing is known to be done, and
the same may be asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

from fedsel.server.outcome import Counts

KEY_BYTES = 32


class StoreUnavailable(Exception):
    """The database does not answer: what was asked may be asked again."""


@final
@dataclass(frozen=True)
class Place:
    """Where a run is: the round that is open, since when (seconds of the epoch), its reports."""

    round: int
    opened: float
    counts: Counts


class BatchResult(NamedTuple):
    """What became of a gateway's batch."""

    digest: bytes
    counts: Counts


@final
@dataclass(frozen=True)
class Batch:
    """What is kept of a gateway's batch: the accepted reports, and what became of all."""

    gateway: bytes
    number: bytes
    reports: bytes
    result: BatchResult


class Books(Protocol):
    """One transaction on a run: durable when its block ends, undone when the block raises."""

    @property
    def round(self) -> int:
        """The round that is open; it stays open until the transaction ends."""

    def add(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        """Add reports, each with its participant; for each, what that participant had sent before.

        None: it is new, and was added. Participants of the rows differ from each other.
        """

    def report_of(self, number: int, participant: bytes) -> bytes | None:
        """What a participant has sent in a round."""

    def batch_of(self, gateway: bytes, number: bytes) -> BatchResult | None:
        """What became of a batch; None if there was none."""

    def add_batch(self, number: int, batch: Batch) -> None:
        """Add a batch that is not there yet."""

    def tally(self, number: int, counts: Counts) -> None:
        """Count what became of reports in a round."""

    def place(self) -> Place:
        """Where the run is now."""

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""

    def reports(self, number: int) -> Iterator[bytes]:
        """All accepted reports of a round, many at a time, in no particular order."""

    def advance(self, checkpoint: bytes, opened: float, last: bool, measured: str | None) -> None:
        """End the open round; begin the next one with this checkpoint, unless it was the last.

        ``measured`` is what the test set says of the model then, as JSON; kept with the round.
        """


class Store(Protocol):
    """The database of a service; used by one thread at a time."""

    several_processes: bool
    """Whether services of several processes may share it."""

    def begin(self, name: str, checkpoint: bytes, opened: float) -> bytes:
        """Choose the run of this name, begin it with this checkpoint if it is new; its checkpoint.

        Everything else is about that run.
        """

    def choose(self, name: str) -> bool:
        """Choose the run of this name, if there is one."""

    def key(self) -> bytes:
        """The run's own secret, which all its processes share."""

    def writing(self) -> AbstractContextManager[Books]:
        """A transaction in which the open round cannot end."""

    def closing(self) -> AbstractContextManager[Books]:
        """A transaction of its own, in which the open round may be ended."""

    def place(self) -> Place:
        """Where the run is now."""

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""

    def measures(self) -> list[str | None]:
        """What the test set said after each round, as it was given to `Books.advance`."""

    def times(self) -> list[tuple[float, float | None]]:
        """When each round began and ended, in seconds of the epoch."""

    def close(self) -> None:
        """Let go of the database."""
