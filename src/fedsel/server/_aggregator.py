"""The aggregator: reports in, weights out. It trusts no client."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.paths import make_folder
from fedsel.errors import InvalidArgument, check_count
from fedsel.measuring import Measurement
from fedsel.preparation import GivenPreparation, Plan, Preparation
from fedsel.recipe import Recipe
from fedsel.server._checkpoint import (
    SEAL_BYTES,
    Checkpoint,
    Counts,
    Purpose,
    RoundRecord,
    judge_round,
    judge_rounds,
)
from fedsel.server._folder import CheckpointError, FolderLock, remove_scratch, replace_file
from fedsel.server._keys import ServerKey
from fedsel.server._measuring import Measuring
from fedsel.server._step import ServerState
from fedsel.solutions import Influence
from fedsel.wire import Intent, ModelQuestion, Verdict

FILE_NAME = "checkpoint.bin"
_MOST_WAITING = 1 << 16
"""Bytes of accepted reports that are not added up yet."""
_A_NAME = "hashable and equal to itself, so that the client can be recognised"


def _kept(path: str) -> Any:
    """A read-only attribute that the checkpoint holds."""
    return property(operator.attrgetter(f"_state.{path}"))


@final
class Aggregator:
    """Collects the reports of a round, averages them, steps, and keeps a checkpoint in ``folder``.

    - ``recipe``: private, with nothing automatic left (`fedsel.auto.resolve_auto`).
    - ``weights``: what the run begins with, zeros by default. Devices work on `weights`; `model` is
      their average over the rounds, if the recipe has one.
    - ``rounds_per_epoch``; ``limit``: the most reports of a round, the only bound there is for
      clients without a name. Memory is O(d), and one name for each client of the round.
    - ``plan`` (`fedsel.auto.plan_run`): devices of the first rounds report on their records;
      `preparation` is what has been learnt, for all later ones. ``given``: a preparation that is
      public beforehand, in place of a plan.
    - ``purpose``, ``recipient``: texts in every request (`fedsel.wire.Intent`). Policies may
      require them, and ledgers keep them.

    Opened again on the same folder it goes on from its checkpoint, at the round that was not
    finished: devices that are asked again send the same bytes. The folder belongs to one aggregator
    at a time: another one is refused (`FolderInUse`) until this one is closed, by `close`, at the
    end of a ``with`` block, by the garbage collector or with its process. A forked process must
    open the folder itself. Sums are integers: the order in which reports arrive does not matter.

    >>> import tempfile
    >>> from fedsel import Recipe, PublicFacts, resolve_auto
    >>> recipe = resolve_auto(Recipe(epsilon=1.0), PublicFacts(dim=8, clients=100, rounds=1))
    >>> with Aggregator(recipe, tempfile.mkdtemp()) as server:
    ...     server.receive("a client", b"nonsense")
    ...     server.step()
    <Verdict.REJECTED: 'rejected'>
    RoundRecord(round=0, epoch=0, accepted=0, rejected=1, duplicate=0, late=0)
    """

    run: bytes = _kept("run")
    """The random name of the run."""
    intent: Intent = _kept("intent")
    """The purpose of the run and the recipient of its results, as requests state them."""
    plan: Plan | None = _kept("plan")
    """The rounds that prepare; None if there are none."""
    rounds_per_epoch: int = _kept("rounds_per_epoch")
    """How many rounds an epoch has."""
    state: ServerState = _kept("state")
    """The weights, their average, and how many rounds are over."""
    weights: NDArray[np.float64] = _kept("sent")
    """The weights that the devices of this round work on, or the model that they measure."""
    model: NDArray[np.float64] = _kept("state.average")
    """What has been learnt: the average of the weights over the rounds, or the weights."""
    stage: Purpose = _kept("stage")
    """What this round is for: `Checkpoint.stage_of`."""
    question: ModelQuestion | None = _kept("question")
    """What this round asks about the model; None if it does not measure."""
    measuring: Measuring | None = _kept("measuring")
    """Which rounds measure the model; None if none does."""
    question_of: Callable[[int], int | None] = _kept("question_of")
    """The number of the question about the model that a round asks; None if it asks none."""
    measurements: dict[int, Measurement] = _kept("measurements")
    """What clients have said about the model, by epoch."""
    preparation: Preparation | None = _kept("preparation")
    """What devices do with their records, as far as it is known; None if nothing is."""
    given: GivenPreparation | None = _kept("given")
    """The preparation that public rows gave, or the model that training starts with."""
    round: int = _kept("round")
    """The open round."""
    epoch: int = _kept("epoch")
    """The epoch of the open round."""
    finished: bool = _kept("finished")
    """Whether all rounds of all epochs are over."""

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
        given: GivenPreparation | None = None,
        measuring: Measuring | None = None,
    ) -> None:
        begun = Checkpoint.begin(
            recipe,
            weights=weights,
            rounds_per_epoch=rounds_per_epoch,
            plan=plan,
            intent=Intent(purpose, recipient),
            given=given,
            measuring=measuring,
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
    def records(self) -> list[RoundRecord]:
        """What became of the reports of the rounds that are over."""
        return list(self._state.records)

    @property
    def counts(self) -> Counts:
        """What became of the reports of this round so far."""
        return Counts(*(self._counts[Verdict(name)] for name in Counts._fields))

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
        _check_names(names or ())
        self._invited = None if names is None else frozenset(names)

    def receive(self, client: Hashable | None, report: object) -> Verdict:
        """Take the report of a client (None: one without a name); never raises for its content."""
        verdict = self._judge(client, report)
        self._counts[verdict] += 1
        return verdict

    def _judge(self, client: Hashable | None, report: object) -> Verdict:
        if not self._lock.held:
            self._lock.check()
        state = self._state
        # In the format of this round first: that of others is looked for where it is none.
        number = self._format.round_of(report)
        if number is None and state.measuring is not None:
            number = state.round_of(report)
        verdict = judge_round(number, len(state.records), state.finished)
        if verdict is not Verdict.ACCEPTED:
            return Verdict.REJECTED if verdict is Verdict.EARLY else verdict
        if not _is_name(client):
            raise InvalidArgument("client", client, _A_NAME)
        if client is not None and client in self._seen:
            return Verdict.DUPLICATE
        full = self.limit is not None and self._counts[Verdict.ACCEPTED] >= self.limit
        if full or not (self._invited is None or client in self._invited):
            return Verdict.REJECTED
        if client is not None:
            self._seen.add(client)
        # Added up many at a time: one by one would take ten times as long.
        self._waiting += cast(bytes, report)
        if len(self._waiting) >= _MOST_WAITING:
            self._add_waiting()
        return Verdict.ACCEPTED

    def _add_waiting(self) -> None:
        self._totals.add(self._format.decode_many(bytes(self._waiting)).reports)
        self._waiting.clear()

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
            raise InvalidArgument("clients", len(names), f"{whole} names, one for each report")
        _check_names(names or ())
        now, late = judge_rounds(batch, self.round, self.finished)
        duplicate, taken, new = self._admit(np.flatnonzero(now), names)
        counts = Counts(
            accepted=len(taken),
            rejected=whole + (rest > 0) - len(taken) - duplicate - late,
            duplicate=duplicate,
            late=late,
        )
        self._totals.add(batch.reports.rows(taken))
        self._seen |= new
        for name, count in counts._asdict().items():
            self._counts[Verdict(name)] += count
        return counts

    def receive_sealed(self, batch: bytes, key: ServerKey) -> Counts:
        """Take what a `Shuffler` has released; the same batch again are duplicates."""
        return self.receive_many(*key.opened(self.request(), batch))

    def _admit(
        self, rows: NDArray[np.intp], names: list[Hashable] | None
    ) -> tuple[int, NDArray[np.intp], set[Hashable]]:
        """How many rows come from clients already heard, which are accepted, and their names."""
        room, seen, invited, duplicate = len(rows), self._seen, self._invited, 0
        if self.limit is not None:
            room = min(room, self.limit - self._counts[Verdict.ACCEPTED])
        if names is None:
            return 0, rows[: room if invited is None else 0], set()
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
        return self._state.solution_of(self.round).expand(self._totals.mean())

    def step(self) -> RoundRecord:
        """End the round (`Checkpoint.advanced`), durable before it is returned; begin the next.

        A round without reports changes no weight, nor does one that prepares. If the checkpoint
        cannot be written, the round is not over: the caller may try again.
        """
        self._lock.check()
        self._add_waiting()
        after = self._state.advanced(self._totals, self.counts)
        self._save(after)
        self._open_round()
        return after.records[-1]

    def _open_round(self) -> None:
        last = self.rounds_per_epoch * self.recipe.epochs - 1
        number = min(self.round, last)  # of a run that is over: late reports are told by it
        self._format = self._state.format_of(number)
        self._totals = self._state.solution_of(number).totals()
        self._waiting = bytearray()  # accepted reports that are not added up yet
        self._seen: set[Hashable] = set()
        self._invited = None
        self._counts = dict.fromkeys(Verdict, 0)

    def _save(self, state: Checkpoint) -> None:
        self._lock.check()
        # The lock keeps other servers away; this notices a file that was put there by hand.
        seal = b""
        if self._file.exists():
            with self._file.open("rb") as file:
                seal = file.read(SEAL_BYTES)
        if seal != self._seal:
            raise CheckpointError("another process has changed the checkpoint: open it again")
        saved = state.encode()
        replace_file(self._file, saved)
        self._seal = saved[:SEAL_BYTES]
        self._state = state


def _check_names(names: Sequence[Hashable | None]) -> None:
    """Refuse names by which a client could not be found again, before anything is done."""
    with suppress(Exception):  # at the speed of C, as long as nothing is wrong
        deque(map(hash, names), maxlen=0)
        if not any(map(operator.ne, names, names)):
            return
    for name in names:
        if not _is_name(name):
            raise InvalidArgument("clients", name, _A_NAME)


def _is_name(name: object) -> bool:
    """Whether a client can be found again by this name."""
    try:
        hash(name)
        return bool(name == name)  # noqa: PLR0124 - NaN is not
    except Exception:
        return False
