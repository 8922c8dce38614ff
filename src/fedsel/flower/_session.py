"""The state of a run on Flower: layout, server, asked nodes, rounds without a report."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from numpy.typing import NDArray

from fedsel._internal.paths import make_folder
from fedsel.device import Reason
from fedsel.errors import InvalidArgument
from fedsel.flower._messages import (
    Layout,
    NodeRefusal,
    Question,
)
from fedsel.server import Aggregator, RoundRecord
from fedsel.server._folder import FolderLock, remove_scratch, replace_file
from fedsel.server._plan import ServerPlan
from fedsel.server._step import History
from fedsel.wire import Intent, RecordPipeline

_MODEL = "model.json"
_CHANCE = secrets.SystemRandom()


@final
@dataclass
class Session:
    """One run of a strategy, from its start or from the checkpoint in ``folder``."""

    layout: Layout
    scales: tuple[float, ...]
    server: Aggregator
    asked: set[int] = field(default_factory=set)
    """Nodes that were asked in this epoch."""
    epoch: int = 0
    invited: int = 0
    begun: RecordPipeline | None = None
    """How nodes prepared their records before the first round."""

    @classmethod
    def open(
        cls,
        arrays: ArrayRecord,
        scale: float | Mapping[str, float],
        planned: ServerPlan,
        folder: Path,
        intent: Intent,
        classes: int | None = None,
    ) -> Self:
        """Start with these arrays, or resume a checkpoint of the same model and scales."""
        layout = Layout.of(arrays)
        scales = _scales(layout, scale)
        spread = layout.per_entry(scales)
        recipe = planned.recipe_of(layout.dim, spread)
        begun = planned.preparing_of(recipe)
        description: dict[str, Any] = {"names": layout.names, "shapes": layout.shapes}
        description["scales"] = scales
        if begun is not None:
            ends = (begun.scale.low, begun.scale.high)
            description["feature_range"] = [end.tolist() for end in ends]
        make_folder(folder)
        with FolderLock(folder):
            _remember(folder / _MODEL, json.dumps(description))
        # The server works in units of the scale, in which reports are on w/scale.
        server = Aggregator(
            recipe,
            folder,
            weights=layout.vector(arrays, np.float64) / spread,
            rounds_per_epoch=planned.rounds_per_epoch,
            plan=None if begun is None else begun.plan,
            purpose=intent.purpose,
            recipient=intent.recipient,
            given=planned.given(begun),
            measuring=planned.measuring_of(recipe, classes),
        )
        return cls(layout, scales, server, epoch=server.epoch, begun=begun)

    @property
    def arrays(self) -> ArrayRecord:
        """The weights that the nodes of this round work on."""
        return self.layout.record(self.server.weights * self.layout.per_entry(self.scales))

    @property
    def model_vector(self) -> NDArray[np.float64]:
        """The model as a vector."""
        return self.server.model * self.layout.per_entry(self.scales)

    @property
    def model(self) -> ArrayRecord:
        """The average of the weights over the rounds if there is one, else the weights."""
        return self.layout.record(self.model_vector)

    @property
    def preparing(self) -> RecordPipeline | None:
        """How nodes prepare their records in this round."""
        if self.begun is None or self.server.preparation is None:
            return self.begun
        return replace(self.begun, preparation=self.server.preparation)

    def history(self, judged: Mapping[int, tuple[float, float]]) -> History:
        """Return all rounds so far, with the accuracy and loss of evaluated rounds."""
        server, solution = self.server, self.server.solution
        charge = server.recipe.charge
        found = History.of_records(server.records, charge, solution.bits, judged)
        return replace(found, weights=self.model_vector, privacy=solution.privacy)

    def question(self) -> ConfigRecord:
        """Return the encoded question to the nodes of this round."""
        server = self.server
        return Question(server.request(), self.scales, self.preparing, server.question).record()

    def cohort(self, nodes: Sequence[int]) -> list[int]:
        """Choose this round's share of the nodes not yet asked in this epoch."""
        server = self.server
        if self.epoch != server.epoch:
            self.asked, self.epoch = set(), server.epoch
        place, measuring = server.round % server.rounds_per_epoch, server.measuring
        rounds_left, role = server.rounds_per_epoch - place, None
        if measuring is not None and server.question is None:
            rounds_left -= measuring.rounds
        elif measuring is not None:
            role = server.epoch
        candidates = [n for n in nodes if n not in self.asked and self._role(n) == role]
        chosen = _CHANCE.sample(candidates, -(-len(candidates) // rounds_left))
        self.asked.update(chosen)
        self.invited = len(chosen)
        server.invite(chosen)
        return chosen

    def _role(self, node: int) -> int | None:
        """The epoch in which a node measures the model; None for one that trains.

        It follows from the run and the node, so that it is the same after a restart.
        """
        server, measuring = self.server, self.server.measuring
        if measuring is None:
            return None
        digest = hashlib.sha256(server.run + node.to_bytes(16, "little", signed=True)).digest()
        place = int.from_bytes(digest[:6], "little") * server.rounds_per_epoch >> 48
        epoch = place // measuring.rounds
        return epoch if epoch < server.recipe.epochs else None


def _scales(layout: Layout, scale: float | Mapping[str, float]) -> tuple[float, ...]:
    if not isinstance(scale, Mapping):
        return (float(scale),) * len(layout.names)
    for name in scale:
        if name not in layout.names:
            raise InvalidArgument("scale", name, f"names of arrays: {', '.join(layout.names)}")
    return tuple(float(scale.get(name, 1.0)) for name in layout.names)


def _remember(file: Path, model: str) -> None:
    """Write the model's layout beside its checkpoint, and refuse another layout."""
    remove_scratch(file)
    if not file.exists():
        replace_file(file, model.encode())
    elif file.read_text(encoding="utf-8") != model:
        raise InvalidArgument(
            "arrays", model, "the same as in the checkpoint, with the same scales"
        )


OTHER = "OTHER"
_SENTENCES = {one.name: one.value for kind in (Reason, NodeRefusal) for one in kind}
_NAMES = {sentence: name for name, sentence in _SENTENCES.items()}


class NoReports(RuntimeError):
    """No node sends a report, so the run cannot succeed. The message gives the nodes' reasons."""


def refusal_name(text: object) -> str:
    """Return the name of a refusal. An unknown text from a node is not repeated."""
    return _NAMES.get(str(text), OTHER)


def _fates_of(record: RoundRecord, refused: Counter[str], silent: int) -> Counter[str]:
    """Count, in words, what became of the requests that brought no report."""
    fates = Counter[str]()
    for name, count in refused.items():
        fates["another error" if name == OTHER else f'"{_SENTENCES[name]}"'] += count
    fates["no answer"] += silent
    fates["no report of the round"] += record.rejected + record.duplicate + record.late
    return fates


def _in_words(fates: Counter[str]) -> str:
    """List each fate with its count, the most frequent first.

    >>> _in_words(Counter({"no answer": 1, "another error": 2, "late": 0}))
    '2 × another error, 1 × no answer'
    """
    return ", ".join(f"{count} × {fate}" for fate, count in fates.most_common() if count)


@final
@dataclass
class EmptyRounds:
    """Rounds in a row without a report, and what became of their requests.

    >>> empty = EmptyRounds()
    >>> empty.add(RoundRecord(0, 0, 0, 0, 0, 0), 3, Counter(EXHAUSTED=2), 1)[:35]
    'No report in round 1, nothing is le'
    >>> str(empty)
    '3 requests: 2 × "the budget of this device does not suffice for the report", 1 × no answer'
    """

    rounds: int = 0
    asked: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    mentioned: set[str] = field(default_factory=set)
    """Reasons that earlier warnings have named."""

    def add(self, record: RoundRecord, asked: int, refused: Counter[str], silent: int) -> str:
        """Count a round, and return a warning if nodes do not report.

        A round with reports gets a warning if fewer than half of its nodes report, or if a node
        gives a new reason.
        """
        unheard, self.mentioned = set(refused) - self.mentioned, self.mentioned | set(refused)
        fates = _fates_of(record, refused, silent)
        if not record.accepted:
            self.rounds += 1
            self.asked += asked
            self.fates += fates
            return f"No report in round {record.round + 1}, nothing is learnt; {self}"
        self.rounds, self.asked, self.fates = 0, 0, Counter()
        if 2 * record.accepted >= asked and not unheard:
            return ""
        counts = f"{record.accepted} of {asked} nodes reported in round {record.round + 1}"
        return f"{counts}; the others: {_in_words(fates)}"

    def __str__(self) -> str:
        if not self.asked:
            return "no node was there to be asked"
        return f"{self.asked} requests: {_in_words(self.fates)}"
