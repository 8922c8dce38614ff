"""The aggregator: reports in, weights out. It trusts no client."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.paths import make_folder
from fedsel.errors import InvalidArgument, check_count
from fedsel.preparation import Plan, Preparation
from fedsel.preparation.plan import Stage
from fedsel.recipe import Recipe
from fedsel.server._admission import A_NAME, Counts, Outcome, check_names, is_name
from fedsel.server._checkpoint import (
    SEAL_BYTES,
    Checkpoint,
    CheckpointError,
    RoundRecord,
    read_seal,
    remove_scratch,
    replace_file,
)
from fedsel.server._folder import FolderLock
from fedsel.server._keys import ServerKey
from fedsel.server.step import ServerState
from fedsel.solutions import Influence
from fedsel.wire import Intent, Request

FILE_NAME = "checkpoint.bin"
_MOST_WAITING = 1 << 16
"""Bytes of accepted reports that are not added up yet."""


@final
class Aggregator:
    """Collects the reports of a round, averages them, steps, and keeps a checkpoint in ``folder``.

    ``recipe`` is a private one in which nothing is automatic any more (`fedsel.auto.resolved`).
    Devices work on ``weights``; ``model`` is their average over the rounds, if the recipe has one.

    It begins with ``weights``, or zeros. Opened again on the same folder it goes on from its
    checkpoint, at the round that was not finished: devices that are asked again send the same
    bytes. Every epoch has ``rounds_per_epoch`` rounds. ``limit`` bounds the reports of a round,
    the only bound there is for clients without a name. Memory is O(d), and one name for each
    client of the round. With a ``plan`` (`fedsel.auto.plan_for`) the devices of the first rounds
    report on their records; ``preparation`` is what has been learnt, for all later ones.
    Requests tell devices the ``purpose`` of the run and the ``recipient`` of what is learnt, where
    they are given: policies may ask for them, and ledgers keep them (`fedsel.wire.Intent`).

    The folder belongs to one aggregator at a time: another one is refused (`FolderInUse`) until
    this one is closed, by `close`, at the end of a ``with`` block, by the garbage collector or with
    its process. A process that is forked off must open the folder itself.

    Sums are integers, so that the weights do not depend on the order in which reports arrive.

    >>> import tempfile
    >>> from fedsel import Recipe, Setting, resolved
    >>> recipe = resolved(Recipe(epsilon=1.0), Setting(dim=8, clients=100, rounds=1))
    >>> with Aggregator(recipe, tempfile.mkdtemp()) as server:
    ...     server.receive("a client", b"nonsense")
    ...     server.step()
    <Outcome.REJECTED: 'rejected'>
    RoundRecord(round=0, epoch=0, accepted=0, rejected=1, duplicate=0, late=0)
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: str | Path,
        *,
        weights: ArrayLike | None = None,
        rounds_per_epoch: int = 1,
        limit: int | None = None,
        plan: Plan | None = None,
        purpose: str = "",
        recipient: str = "",
    ) -> None:
        begun = Checkpoint.begin(
            recipe,
            weights=weights,
            rounds_per_epoch=rounds_per_epoch,
            plan=plan,
            intent=Intent(purpose, recipient),
        )
        self.recipe, self.solution = begun.recipe, begun.recipe.build()
        self.limit = None if limit is None else check_count("limit", limit)
        self._invited: frozenset[Hashable] | None = None
        self._file = Path(folder) / FILE_NAME
        make_folder(self._file.parent)
        self._lock = FolderLock(self._file.parent)
        try:
            remove_scratch(self._file)
            if self._file.exists():
                saved = self._file.read_bytes()
                self._state = Checkpoint.decode(saved)
                self._state.check_same(begun)
                self._seal = saved[:SEAL_BYTES]
            else:
                self._seal = b""
                # Before the first request leaves: the run's name must survive a crash.
                self._save(begun)
        except BaseException:
            self._lock.release()  # whoever catches the error may keep its traceback, and us
            raise
        self._format = Request(self.run, 0, 0, recipe).format
        self._waiting = bytearray()  # accepted reports that are not added up yet
        self._open_round()

    def close(self) -> None:
        """Let others have the folder. What was learnt can still be read; nothing more is taken."""
        self._lock.release()

    @property
    def closed(self) -> bool:
        """Whether the folder is no longer this aggregator's."""
        return not self._lock.held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def run(self) -> bytes:
        """The random name of the run."""
        return self._state.run

    @property
    def intent(self) -> Intent:
        """What requests say of the run: its purpose, and who gets what is learnt."""
        return self._state.intent

    @property
    def plan(self) -> Plan | None:
        """The rounds that prepare; None if there are none."""
        return self._state.plan

    @property
    def rounds_per_epoch(self) -> int:
        """How many rounds an epoch has."""
        return self._state.rounds_per_epoch

    @property
    def state(self) -> ServerState:
        """The weights, their average, and how many rounds are over."""
        return self._state.state

    @property
    def records(self) -> list[RoundRecord]:
        """What became of the reports of the rounds that are over."""
        return list(self._state.records)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights that the devices of this round work on."""
        return self.state.weights

    @property
    def model(self) -> NDArray[np.float64]:
        """What has been learnt: the average of the weights over the rounds, or the weights."""
        return self.state.average

    @property
    def stage(self) -> Stage:
        """What this round is for: "training", or to learn a "spread", an "origin" or a "centre"."""
        return self._state.stage

    @property
    def preparation(self) -> Preparation | None:
        """What devices do with their records, as far as it is learnt; None without a plan."""
        return self._state.preparation

    @property
    def round(self) -> int:
        """The round that reports are collected for."""
        return self._state.round

    @property
    def epoch(self) -> int:
        """The epoch of this round."""
        return self._state.epoch

    @property
    def finished(self) -> bool:
        """Whether all rounds of all epochs are over."""
        return self._state.finished

    @property
    def counts(self) -> Counts:
        """What became of the reports of this round so far."""
        return Counts(*self._counts.values())

    @property
    def influence(self) -> Influence:
        """How far one report can move the sum of the round; the mean of m moves by 1/m of that.

        From where an honest report of the same client would have moved it, at most twice as far.
        """
        return self.solution.influence

    def request(self) -> bytes:
        """What to send to the devices of this round, beside `weights`."""
        self._lock.check()  # a device would pay for a report that nobody takes
        return self._state.request().encode()

    def invite(self, clients: Iterable[Hashable] | None) -> None:
        """Let only these clients report in this round (None: anyone)."""
        names = None if clients is None else list(clients)
        if names is not None:
            check_names(names)
        self._invited = None if names is None else frozenset(names)

    def receive(self, client: Hashable | None, report: object) -> Outcome:
        """Take the report of a client (None: one without a name); never raises for its content."""
        outcome = self._judge(client, report)
        self._counts[outcome] += 1
        return outcome

    def _judge(self, client: Hashable | None, report: object) -> Outcome:
        if self.closed:
            self._lock.check()
        number = self._format.round_of(report)
        if number is None:
            return Outcome.REJECTED
        if number != self.round or self.finished:
            return Outcome.LATE if number < self.round else Outcome.REJECTED
        if not is_name(client):
            raise InvalidArgument("client", client, A_NAME)
        if client is not None and client in self._seen:
            return Outcome.DUPLICATE
        if not self._welcome(client):
            return Outcome.REJECTED
        if client is not None:
            self._seen.add(client)
        # Added up many at a time: one by one would take ten times as long.
        self._waiting += cast(bytes, report)
        if len(self._waiting) >= _MOST_WAITING:
            self._add_waiting()
        return Outcome.ACCEPTED

    def _add_waiting(self) -> None:
        self._totals.add(self._format.decode_many(bytes(self._waiting)).reports)
        self._waiting.clear()

    def _welcome(self, client: Hashable | None) -> bool:
        if self.limit is not None and self._counts[Outcome.ACCEPTED] >= self.limit:
            return False
        return self._invited is None or client in self._invited

    def receive_many(
        self, reports: bytes | bytearray | memoryview, clients: Sequence[Hashable] | None = None
    ) -> Counts:
        """Take many reports at once: the fast twin of `receive`.

        ``reports`` is one report after another; an incomplete one at the end is rejected.
        ``clients`` names the sender of each, None one without a name; None if none has a name.
        If it raises, no report of them was taken.
        """
        self._lock.check()
        data = memoryview(reports).cast("B")
        size = self._format.size
        whole, rest = divmod(len(data), size)
        batch = self._format.decode_many(data[: whole * size])
        names = list(clients) if clients is not None else None
        if names is not None and len(names) != whole:
            raise InvalidArgument("clients", len(names), f"one for each of the {whole} reports")
        check_names(names or ())
        now = batch.valid & (batch.round == self.round) & (not self.finished)
        here = np.flatnonzero(now)
        late = int(np.count_nonzero(batch.valid & (batch.round < self.round)))
        duplicate, taken, new = self._admit(here, names)
        counts = Counts(
            accepted=len(taken),
            rejected=whole + (rest > 0) - len(taken) - duplicate - late,
            duplicate=duplicate,
            late=late,
        )
        self._totals.add(batch.reports.rows(taken))
        self._seen |= new
        for outcome, count in zip(Outcome, counts, strict=True):
            self._counts[outcome] += count
        return counts

    def receive_sealed(self, batch: bytes, key: ServerKey) -> Counts:
        """Take what a `Shuffler` has released; the same batch again are duplicates."""
        return self.receive_many(*key.opened(self.request(), batch))

    def _admit(
        self, rows: NDArray[np.intp], names: list[Hashable] | None
    ) -> tuple[int, NDArray[np.intp], set[Hashable]]:
        """How many rows come from clients already heard, which are accepted, and their names."""
        room = len(rows)
        if self.limit is not None:
            room = min(room, self.limit - self._counts[Outcome.ACCEPTED])
        if names is None:
            return 0, rows[: room if self._invited is None else 0], set()
        seen, invited, duplicate = self._seen, self._invited, 0
        new = {names[row] for row in rows.tolist()}
        welcome = len(rows) <= room and (invited is None or new <= invited)
        if welcome and len(new) == len(rows) and None not in new and new.isdisjoint(seen):
            return 0, rows, new  # as it should be; the loop below is slower
        taken: list[int] = []
        new = set()
        for row in rows.tolist():
            name = names[row]
            if name is not None and (name in new or name in seen):
                duplicate += 1
            elif len(taken) < room and (invited is None or name in invited):
                new.add(name)
                taken.append(row)
        return duplicate, np.array(taken, dtype=np.intp), new - {None}

    def mean(self) -> NDArray[np.float64]:
        """The estimate of the mean update from the reports of this round so far."""
        self._add_waiting()
        return self.solution.in_round(self.round).expand(self._totals.mean())

    def step(self) -> RoundRecord:
        """End the round (`Checkpoint.advanced`), durable before it is returned; begin the next.

        A round without reports changes no weight, nor does one that prepares. If the checkpoint
        cannot be written, the round is not over: it can be tried again.
        """
        self._lock.check()
        self._add_waiting()
        after = self._state.advanced(self._totals, self.counts)
        self._save(after)
        self._open_round()
        return after.records[-1]

    def _open_round(self) -> None:
        self._totals = self.solution.in_round(self.round).totals()
        self._waiting.clear()
        self._seen: set[Hashable] = set()
        self._invited = None
        self._counts = dict.fromkeys(Outcome, 0)

    def _save(self, state: Checkpoint) -> None:
        self._lock.check()
        # The lock keeps other servers away; this notices a file that was put there by hand.
        if read_seal(self._file) != self._seal:
            raise CheckpointError("another process has written the checkpoint")
        saved = state.encode()
        replace_file(self._file, saved)
        self._seal = saved[:SEAL_BYTES]
        self._state = state
