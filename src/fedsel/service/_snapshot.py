"""A snapshot of a run: the bytes that the service makes once a round and sends to everybody."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel.asking._answer import Answer
from fedsel.errors import InvalidArgument
from fedsel.server import Counts, RoundRecord
from fedsel.server._checkpoint import Checkpoint, Purpose
from fedsel.server._keys import RunKeys
from fedsel.service._store import RoundRow
from fedsel.service._task import Task
from fedsel.statements._runs import said_of_rows
from fedsel.wire import Announcement, Model
from fedsel.wire._contract import Shuffled
from fedsel.wire._model import compact_json
from fedsel.wire._pipeline import preparing_text

T = TypeVar("T")


@final
class Made(Generic[T]):
    """A value that a thread computes once, at the first request for it.

    The event loop runs on meanwhile, so ``make`` must not hold the interpreter for long.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._making = make, threading.Lock()
        self._value: list[T] = []

    async def get(self) -> T:
        return self._value[0] if self._value else await asyncio.to_thread(self._first)

    def _first(self) -> T:
        with self._making:
            if not self._value:
                self._value.append(self._make())
                del self._make  # it may refer to the owner of this object
        return self._value[0]


@final
class CachedBytes:
    """Bytes with their ETag, and by gzip, the same for the same bytes."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self.etag = f'"{hashlib.sha256(plain).hexdigest()[:32]}"'
        self.compressed = Made(lambda: gzip.compress(plain, compresslevel=6, mtime=0))


class PastRound(NamedTuple):
    """A round that is over: its reports, what it was for, and when it began and ended.

    ``measured`` has accuracy and loss on the test set after it; None where there is none.
    """

    record: RoundRecord
    stage: Purpose
    opened: float
    closed: float | None
    measured: dict[str, float] | None

    @property
    def round(self) -> int:
        """Its number."""
        return self.record.round

    @property
    def counts(self) -> Counts:
        """Its reports by their outcome."""
        return self.record.counts

    @property
    def seconds(self) -> float:
        """How long it was open, by a clock that may have been set back."""
        return max(0.0, (self.closed or self.opened) - self.opened)

    @property
    def per_second(self) -> float | None:
        """Accepted reports a second; None where the clock did not move."""
        return self.record.accepted / self.seconds if self.seconds > 0 else None

    def of_model(self, name: str) -> float | None:
        """One of the measures of the model after it."""
        return (self.measured or {}).get(name)


@final
class RunSnapshot:
    """A run as it is now: its checkpoint, and the bytes that clients fetch.

    ``rounds``: what the store has of each. ``past``: the rounds that are over; ``ended``: the
    counts of all of them.
    """

    def __init__(
        self,
        task: Task,
        state: Checkpoint,
        rounds: Sequence[RoundRow],
        keys: RunKeys | None = None,
    ) -> None:
        self.task, self.state, self.keys = task, state, keys
        self.opened = rounds[-1][0]  # when the open round began
        self.past = [
            PastRound(
                record,
                state.stage_of(record.round),
                opened,
                closed,
                None if measured is None else json.loads(measured),
            )
            for record, (opened, closed, measured) in zip(state.records, rounds, strict=False)
        ]
        self.ended = reduce(Counts.plus, (one.counts for one in self.past), Counts())
        self.form = state.format_of(state.round)
        self.request = None if state.finished else CachedBytes(state.request().encode())
        self.weights = CachedBytes(_doubles(state.sent))  # the devices work on these
        self.model = CachedBytes(_doubles(state.state.average))
        self.preparing = task.preparing(state)
        self.preparing_text = CachedBytes(preparing_text(self.preparing, state.question))

    @property
    def round(self) -> int:
        """The number of the open round."""
        return self.state.round

    @property
    def turn(self) -> int:
        """The number of the open round in the store."""
        return self.state.round

    @property
    def finished(self) -> bool:
        """Whether all rounds are over."""
        return self.state.finished

    @property
    def run(self) -> bytes:
        """The run's own name."""
        return self.state.run

    @property
    def rounds(self) -> int:
        """The number of rounds of the whole run."""
        return self.state.rounds_per_epoch * self.state.recipe.epochs

    @property
    def measured(self) -> dict[str, float]:
        """Accuracy and loss of the model on the test set; empty where there is none."""
        return (self.past[-1].measured if self.past else None) or {}

    @cached_property
    def answers(self) -> dict[int, Answer]:
        """What people have answered in each epoch; empty for a task that trains."""
        question, state = self.task.question, self.state
        if question is None:
            return {}
        found = ((one.epoch, one.totals(state.recipe)) for one in state.answered)
        return {
            epoch: Answer.of(question, state.recipe, totals)
            for epoch, totals in found
            if totals.count
        }

    @cached_property
    def said(self) -> list[dict[str, Any]]:
        """What was measured or answered in each epoch, for JSON."""
        found = self.state.measurements or self.answers
        return [{"epoch": epoch, **one.as_dict()} for epoch, one in found.items()]

    def part(self, name: str) -> CachedBytes | None:
        """What devices need of the open round."""
        match name:
            case "request":
                return self.request
            case "weights":
                return self.weights
            case "preparing":
                return self.preparing_text
        return None

    @property
    def said_of_rows(self) -> str:
        """What public rows are used for; nothing without them."""
        given = self.state.given
        return said_of_rows(given.rows) if given is not None and given.rows else ""

    @cached_property
    def task_text(self) -> CachedBytes:
        """The task for people and programs, as JSON."""
        task, state, recipe = self.task, self.state, self.state.recipe
        solution = recipe.build()
        announced = Announcement(
            name=task.name,
            run=self.state.run,
            purpose=task.purpose,
            recipient=task.recipient,
            invitations=task.invitations,
            solution=recipe.solution,
            dim=solution.dim,
            epsilon_per_report=float(solution.privacy.per_report),
            epsilon=float(recipe.epsilon or 0),
            charge=str(recipe.charge),
            bits=solution.bits,
            report_bytes=state.format_of(0).size,
            epochs=recipe.epochs,
            rounds_per_epoch=self.state.rounds_per_epoch,
            rounds=self.rounds,
            clients=task.clients,
            close_after=task.close_after,
            schema=task.schema,
            loss=None if task.schema is None else task.loss,
            learning_rate=float(recipe.learning_rate),
            averaging=float(recipe.averaging),
            public_rows=self.said_of_rows,
            shuffle=self.shuffled,
            measure=None if state.measuring is None else state.measuring.announced,
            question=task.question,
        )
        return CachedBytes(announced.encode())

    @property
    def shuffled(self) -> Shuffled | None:
        """How a relay shuffles the reports, and what that guarantees; None without one."""
        return self.state.shuffled

    def signature(self, now: int) -> bytes:
        """What the service signs of the open round."""
        if self.keys is None or self.request is None:
            raise InvalidArgument("round", self.round, "an open round of a shuffled run")
        return self.keys.signing.sign(
            now,
            task=self.task_text.plain,
            request=self.request.plain,
            weights=self.weights.plain,
            preparing=self.preparing_text.plain,
        )

    @cached_property
    def model_text(self) -> Made[CachedBytes]:
        """The model so far as a file (`fedsel.wire.Model`)."""
        return Made(lambda: CachedBytes(b"".join(self._trained().parts())))

    def _trained(self) -> Model:
        task, state = self.task, self.state
        about = {
            "name": task.name,
            "solution": state.recipe.solution,
            "epsilon": None if state.recipe.epsilon is None else float(state.recipe.epsilon),
            "rounds": self.round,
            "finished": state.finished,
            "clients": task.clients,
        }
        if task.schema is None or self.preparing is None:
            return Model(state.state.average, about=about)
        labels = None if task.schema.target_range else task.schema.classes or (-1, 1)
        known = (task.schema, task.loss, labels, self.preparing)
        return Model(state.state.average, *known, about=about)

    @cached_property
    def rounds_text(self) -> Made[bytes]:
        """The past rounds as JSON: the counts of their reports, and when they began and ended."""
        return Made(self._rounds)

    def _rounds(self) -> bytes:
        def line(past: PastRound) -> bytes:
            known = past._asdict()
            del known["record"], known["stage"]
            return compact_json(vars(past.record) | known)

        # One by one: a single call would hold the interpreter for long.
        return b"[" + b",".join(map(line, self.past)) + b"]"


def _doubles(vector: NDArray[np.float64]) -> bytes:
    return vector.astype("<f8").tobytes()
