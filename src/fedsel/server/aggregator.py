"""The aggregator: reports in, weights out. It trusts no client."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.errors import InvalidArgument, check_count, check_kind, check_vectors
from fedsel.mechanisms.laws import BOTTOM
from fedsel.server.checkpoint import (
    SEAL_BYTES,
    Checkpoint,
    CheckpointError,
    RoundRecord,
    read_seal,
    replace_file,
)
from fedsel.wire import Request, Task
from fedsel.wire.report import RUN_BYTES

FILE_NAME = "checkpoint.bin"


class Outcome(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    LATE = "late"


class Counts(NamedTuple):
    """What became of many reports."""

    accepted: int = 0
    rejected: int = 0
    duplicate: int = 0
    late: int = 0


@final
class Aggregator:
    """Collects the reports of a round, averages them, steps, and keeps a checkpoint in ``folder``.

    It begins with ``weights``, or zeros. Opened again on the same folder it goes on from its
    checkpoint, at the round that was not finished: devices that are asked again send the same
    bytes. Every epoch has ``rounds_per_epoch`` rounds. ``limit`` bounds the reports of a round,
    the only bound there is for clients without a name. Memory is O(d), and one name for each
    client of the round.

    Sums are integers, so that the weights do not depend on the order in which reports arrive.

    >>> import tempfile
    >>> server = Aggregator(Task("PM", epsilon=1.0, dim=8), tempfile.mkdtemp())
    >>> server.receive("a client", b"nonsense")
    <Outcome.REJECTED: 'rejected'>
    >>> server.step()
    RoundRecord(round=0, epoch=0, accepted=0, rejected=1, duplicate=0, late=0)
    """

    def __init__(
        self,
        task: Task,
        folder: str | Path,
        *,
        weights: ArrayLike | None = None,
        rounds_per_epoch: int = 1,
        limit: int | None = None,
    ) -> None:
        check_kind("task", task, Task)
        self.task, self.solution = task, task.solution
        self.limit = None if limit is None else check_count("limit", limit)
        self._invited: frozenset[Hashable] | None = None
        self._file = Path(folder) / FILE_NAME
        check_count("rounds_per_epoch", rounds_per_epoch, most=(1 << 32) // task.epochs)
        if self._file.exists():
            saved = self._file.read_bytes()
            self._take(Checkpoint.decode(saved), rounds_per_epoch)
            self._seal = saved[:SEAL_BYTES]
        else:
            self._begin(weights, rounds_per_epoch)
        says = self.solution.alphabet
        assert says is not None  # noqa: S101 - a task is private
        self._alphabet = says
        self._format = Request(self.run, 0, 0, task).format
        self._sums = np.zeros((len(says.units), says.slots), dtype=np.int64)
        self._open_round()

    def _begin(self, weights: ArrayLike | None, rounds_per_epoch: int) -> None:
        dim = self.task.dim
        start = np.zeros(dim) if weights is None else check_vectors("weights", weights, ndim=1)
        if start.shape != (dim,):
            raise InvalidArgument("weights", start.shape, f"of shape ({dim},)")
        self.weights = start.astype(np.float64)
        self.run = secrets.token_bytes(RUN_BYTES)
        self.rounds_per_epoch = rounds_per_epoch
        self.records: list[RoundRecord] = []
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # Before the first request leaves: the run's name must survive a crash.
        self._seal = b""
        self._save()

    def _take(self, saved: Checkpoint, rounds_per_epoch: int) -> None:
        if saved.task != self.task or saved.rounds_per_epoch != rounds_per_epoch:
            raise InvalidArgument("task", self.task, f"that of the checkpoint: {saved.task}")
        self.weights, self.run = saved.weights, saved.run
        self.rounds_per_epoch = saved.rounds_per_epoch
        self.records = list(saved.records)

    @property
    def round(self) -> int:
        """The round that reports are collected for."""
        return len(self.records)

    @property
    def epoch(self) -> int:
        """The epoch of this round."""
        return self.round // self.rounds_per_epoch

    @property
    def finished(self) -> bool:
        """Whether all rounds of all epochs are over."""
        return self.epoch >= self.task.epochs

    @property
    def counts(self) -> Counts:
        """What became of the reports of this round so far."""
        return Counts(*self._counts.values())

    @property
    def bound(self) -> float:
        """The largest value B that one pair of a report can decode to.

        With m accepted reports, the one of a client moves the mean by at most B/m in one coordinate
        (in c of them where a report has c pairs), and by at most 2B/m from where an honest report
        of that client would have moved it. With …-RP these are coordinates of the projection, with
        RJ and RC codewords.
        """
        return self._alphabet.bound

    def request(self) -> bytes:
        """What to send to the devices of this round, beside `weights`."""
        if self.finished:
            raise InvalidArgument("round", self.round, "below the rounds of the task: it is over")
        return Request(self.run, self.epoch, self.round, self.task).encode()

    def invite(self, clients: Iterable[Hashable] | None) -> None:
        """Let only these clients report in this round (None: anyone)."""
        self._invited = None if clients is None else frozenset(clients)

    def receive(self, client: Hashable | None, report: object) -> Outcome:
        """Take the report of a client (None: one without a name); never raises for its content."""
        outcome = self._judge(client, report)
        self._counts[outcome] += 1
        return outcome

    def _judge(self, client: Hashable | None, report: object) -> Outcome:
        decoded = self._format.decode(report)
        if decoded is None:
            return Outcome.REJECTED
        number, pairs = decoded
        if number != self.round or self.finished:
            return Outcome.LATE if number < self.round else Outcome.REJECTED
        if client is not None and client in self._seen:
            return Outcome.DUPLICATE
        if not self._welcome(client):
            return Outcome.REJECTED
        if client is not None:
            self._seen.add(client)
        says = self._alphabet
        for slot, symbol in pairs:
            self._sums[says.windows[symbol], slot] += says.steps[symbol]
        return Outcome.ACCEPTED

    def _welcome(self, client: Hashable | None) -> bool:
        if self.limit is not None and self._counts[Outcome.ACCEPTED] >= self.limit:
            return False
        return self._invited is None or client in self._invited

    def receive_many(
        self, reports: bytes | bytearray | memoryview, clients: Sequence[Hashable] | None = None
    ) -> Counts:
        """Take many reports at once: the fast twin of `receive`.

        ``reports`` is one report after another; an incomplete one at the end is rejected.
        ``clients`` names the sender of each; None if they have no names.
        """
        data = memoryview(reports).cast("B")
        size = self._format.size
        whole, rest = divmod(len(data), size)
        batch = self._format.decode_many(data[: whole * size])
        names = list(clients) if clients is not None else None
        if names is not None and len(names) != whole:
            raise InvalidArgument("clients", len(names), f"one for each of the {whole} reports")
        now = batch.valid & (batch.round == self.round) & (not self.finished)
        here = np.flatnonzero(now)
        late = int(np.count_nonzero(batch.valid & (batch.round < self.round)))
        duplicate, taken = self._admit(here, names)
        counts = Counts(
            accepted=len(taken),
            rejected=whole + (rest > 0) - len(taken) - duplicate - late,
            duplicate=duplicate,
            late=late,
        )
        dimension, symbol = batch.dimension[taken].ravel(), batch.symbol[taken].ravel()
        sent = np.flatnonzero(dimension != BOTTOM)
        symbol, says = symbol[sent], self._alphabet
        np.add.at(self._sums, (says.windows[symbol], dimension[sent]), says.steps[symbol])
        for outcome, count in zip(Outcome, counts, strict=True):
            self._counts[outcome] += count
        return counts

    def _admit(
        self, rows: NDArray[np.intp], names: list[Hashable] | None
    ) -> tuple[int, NDArray[np.intp]]:
        """How many of these rows come from clients already heard, and which are accepted."""
        room = len(rows)
        if self.limit is not None:
            room = min(room, self.limit - self._counts[Outcome.ACCEPTED])
        if names is None:
            return 0, rows[: room if self._invited is None else 0]
        seen, invited, duplicate = self._seen, self._invited, 0
        taken: list[int] = []
        for row in rows.tolist():
            name = names[row]
            if name in seen:
                duplicate += 1
            elif len(taken) < room and (invited is None or name in invited):
                seen.add(name)
                taken.append(row)
        return duplicate, np.array(taken, dtype=np.intp)

    def mean(self) -> NDArray[np.float64]:
        """The estimate of the mean update from the reports of this round so far."""
        accepted = self._counts[Outcome.ACCEPTED]
        totals: NDArray[np.float64] = self._alphabet.units @ self._sums
        return self.solution.in_round(self.round).expand(totals / max(1, accepted))

    def step(self) -> RoundRecord:
        """End the round: w ← w − α·mean, durable before it is returned, and begin the next.

        A round without reports changes no weight. If the checkpoint cannot be written, the round
        is not over: it can be tried again.
        """
        if self.finished:
            raise InvalidArgument("round", self.round, "below the rounds of the task: it is over")
        record = RoundRecord(self.round, self.epoch, *self.counts)
        before = self.weights
        self.weights = before - self.task.rate * self.mean()
        self.records.append(record)
        try:
            self._save()
        except BaseException:
            self.weights = before
            self.records.pop()
            raise
        self._open_round()
        return record

    def _open_round(self) -> None:
        self._sums[:] = 0
        self._seen: set[Hashable] = set()
        self._invited = None
        self._counts = dict.fromkeys(Outcome, 0)

    def _save(self) -> None:
        if read_seal(self._file) != self._seal:
            raise CheckpointError("another process has written the checkpoint")
        saved = Checkpoint(
            self.task, self.run, self.rounds_per_epoch, self.weights, self.records
        ).encode()
        replace_file(self._file, saved)
        self._seal = saved[:SEAL_BYTES]
