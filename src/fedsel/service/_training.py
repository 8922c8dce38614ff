"""A run that is trained: when a round is over, and the step that follows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import final

from fedsel.errors import InvalidArgument
from fedsel.mechanisms._reports import Totals
from fedsel.server._checkpoint import Checkpoint, judge_round
from fedsel.server._folder import CheckpointError
from fedsel.server._keys import RunKeys
from fedsel.service._judging import IncomingReport, Item, Receipt, judge_batch, judge_reports
from fedsel.service._monitoring import Evaluation, log_event
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._store import (
    KEY_VARIABLE,
    GatewayBatch,
    RoundStatus,
    Store,
    Transaction,
)
from fedsel.service._task import Limits, Task
from fedsel.wire import Verdict


def opened(task: Task, store: Store, now: float | None = None) -> Checkpoint:
    """The checkpoint of a task's run, which begins if it is new; another task is refused."""
    now = time.time() if now is None else now
    kept = store.begin(task.name, lambda secret: task.begun(secret).encode(), now)
    if kept.startswith(b"{"):
        raise CheckpointError("the run of this name in the store is a relay's")
    state = Checkpoint.decode(kept)
    try:
        state.check_same(task.begin)
        _check_rule(task, state)
        if state.asks and state.run != task.begin.run:
            allowed = "the question that its run has begun with"
            raise InvalidArgument("question", str(task.question), allowed)
    except InvalidArgument as error:
        error.name += f" of {task}"
        error.allowed += (
            " (its run has begun so, and what is automatic follows from the rest of the task; undo"
            " the change, or give the task another name or another --store)"
        )
        raise
    _check_keys(state, store)
    return state


def _check_rule(task: Task, state: Checkpoint) -> None:
    """Refuse another rule than devices have agreed to."""
    was = None if state.shuffled is None else state.shuffled.rule
    if was != task.shuffle:
        raise InvalidArgument("shuffle", task.shuffle, f"{was}, as in the checkpoint")


def _check_keys(state: Checkpoint, store: Store) -> None:
    """Refuse keys that devices do not seal for."""
    known = state.shuffled
    if known is not None and RunKeys.of_secret(store.secret, state.run).public != known.keys:
        allowed = "the secret that the run has begun with: devices seal for its keys"
        raise InvalidArgument(KEY_VARIABLE, "not shown", allowed)


@final
class TrainingRun:
    """The run of a task, for a `Collector`: its round is over by the task's rule, and it steps.

    The rounds of a shuffled run are over when its relay has released them (`release`).
    """

    def __init__(self, task: Task, store: Store, now: Callable[[], float]) -> None:
        self.task, self.store, self._now = task, store, now
        self._test = Evaluation.of(task)
        state = opened(task, store, now())
        keyed = state.shuffled is not None
        self.keys = RunKeys.of_secret(store.secret, state.run) if keyed else None
        self.snapshot = RunSnapshot(task, state, store.rounds(), self.keys)

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @property
    def limits(self) -> Limits:
        """What clients may do."""
        return self.task.limits

    def judged(self, transaction: Transaction, items: Sequence[Item]) -> list[Verdict | Receipt]:
        """Add reports and batches to the open round; return what became of each."""
        rounds = self.snapshot.rounds
        verdicts: dict[int, Verdict | Receipt] = {}
        reports = [(i, item) for i, item in enumerate(items) if isinstance(item, IncomingReport)]
        judged = judge_reports(transaction, [item for _, item in reports], rounds)
        verdicts.update(zip((i for i, _ in reports), judged, strict=True))
        batches = [(i, item) for i, item in enumerate(items) if isinstance(item, GatewayBatch)]
        # In one order everywhere: processes that wait for each other's batches must not do so
        # in a circle.
        for i, batch in sorted(batches, key=lambda pair: (pair[1].gateway, pair[1].number)):
            verdicts[i] = judge_batch(transaction, batch, self.snapshot.form, rounds)
        return [verdicts[i] for i in range(len(items))]

    def read(self) -> None:
        """Follow where another process has ended a round."""
        state = Checkpoint.decode(self.store.checkpoint())
        self.snapshot = RunSnapshot(self.task, state, self.store.rounds(), self.keys)

    def due(self, status: RoundStatus) -> bool:
        """Whether the open round is over by its rule."""
        rule = self.task.close_after
        seconds = self._now() - status.opened
        waits = self.snapshot.finished or self.task.shuffle is not None
        return not waits and rule.due(status.counts.accepted, seconds)

    def close(self) -> None:
        """End the open round, if no other process was faster: add up, step, open the next one."""
        with self.store.closing() as transaction:
            status = transaction.status()
            if status.round != self.snapshot.round or not self.due(status):
                return
            self._step(transaction, status)
        self._log_closed(status)

    def release(self, number: int, count: int) -> Verdict:
        """End a round whose relay has released so many reports: once, and when all are here."""
        with self.store.closing() as transaction:
            verdict = judge_round(
                number, transaction.round, transaction.round >= self.snapshot.rounds
            )
            if verdict is Verdict.EARLY:
                return verdict
            rule, status = self.task.shuffle, transaction.status()
            if rule is None or count < rule.n_min or count != transaction.batched(number):
                return Verdict.CONFLICT
            if verdict is Verdict.LATE:
                return Verdict.DUPLICATE
            self._step(transaction, status)
        self._log_closed(status)
        return Verdict.ACCEPTED

    def _step(self, transaction: Transaction, status: RoundStatus) -> None:
        state = Checkpoint.decode(transaction.checkpoint())
        after = state.advanced(self._added(transaction, status), status.counts)
        found = None if self._test is None else json.dumps(self._test.measured(after))
        transaction.advance(after.encode(), self._now(), after.finished, found)

    def _log_closed(self, status: RoundStatus) -> None:
        counts = status.counts._asdict()
        log_event("round closed", task=self.task.name, round=status.round, **counts)

    def _added(self, transaction: Transaction, status: RoundStatus) -> Totals:
        """The sums of the round, from the database: memory does not grow with the reports."""
        state = self.snapshot.state
        form, totals = state.format_of(status.round), state.solution_of(status.round).totals()
        for chunk in transaction.reports(status.round):
            totals.add(form.decode_many(chunk).reports)
        if totals.count != status.counts.accepted:
            raise CheckpointError(
                f"round {status.round} has {totals.count} reports, not {status.counts.accepted}"
            )
        return totals
