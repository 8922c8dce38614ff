"""What a strategy knows once it has seen the model: its layout, the server, who was asked."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from numpy.typing import NDArray

from fedsel._internal.paths import make_folder
from fedsel.device import Reason
from fedsel.errors import InvalidArgument
from fedsel.flower._messages import (
    NO_BOUNDS,
    NO_RECORDS,
    NO_SETTINGS,
    WRONG_POLICY,
    WRONG_SETTINGS,
    Layout,
    Question,
    RecordPipeline,
)
from fedsel.server import Aggregator, RoundRecord
from fedsel.server._folder import FolderLock, remove_scratch, replace_file
from fedsel.server._planned import Planned
from fedsel.wire import Intent

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
    """What nodes did with their records before the first round."""

    @classmethod
    def open(
        cls,
        arrays: ArrayRecord,
        scale: float | Mapping[str, float],
        planned: Planned,
        folder: Path,
        intent: Intent,
    ) -> Self:
        """Begin with these arrays, or go on from the checkpoint of the same model and scales."""
        layout = Layout.of(arrays)
        scales = _scales(layout, scale)
        spread = layout.spread(scales)
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
        # The server works in units of the scale: there a report is on w/scale itself.
        server = Aggregator(
            recipe,
            folder,
            weights=layout.vector(arrays, np.float64) / spread,
            rounds_per_epoch=planned.rounds_per_epoch,
            plan=None if begun is None else begun.plan,
            purpose=intent.purpose,
            recipient=intent.recipient,
        )
        return cls(layout, scales, server, epoch=server.epoch, begun=begun)

    @property
    def arrays(self) -> ArrayRecord:
        """The weights that the nodes of this round work on."""
        return self.layout.record(self.server.weights * self.layout.spread(self.scales))

    @property
    def model_vector(self) -> NDArray[np.float64]:
        """The model as a vector."""
        return self.server.model * self.layout.spread(self.scales)

    @property
    def model(self) -> ArrayRecord:
        """What has been learnt: the average of the weights over the rounds, or the weights."""
        return self.layout.record(self.model_vector)

    @property
    def preparing(self) -> RecordPipeline | None:
        """What nodes do with their records now."""
        if self.begun is None or self.server.preparation is None:
            return self.begun
        return replace(self.begun, preparation=self.server.preparation)

    def question(self) -> ConfigRecord:
        """What nodes are asked in this round."""
        return Question(self.server.request(), self.scales, self.preparing).record()

    def cohort(self, nodes: Sequence[int]) -> list[int]:
        """An even share of the nodes that were not asked in this epoch; only they may answer."""
        server = self.server
        if self.epoch != server.epoch:
            self.asked, self.epoch = set(), server.epoch
        rounds_left = server.rounds_per_epoch - server.round % server.rounds_per_epoch
        candidates = [node for node in nodes if node not in self.asked]
        chosen = _CHANCE.sample(candidates, -(-len(candidates) // rounds_left))
        self.asked.update(chosen)
        self.invited = len(chosen)
        server.invite(chosen)
        return chosen


def _scales(layout: Layout, scale: float | Mapping[str, float]) -> tuple[float, ...]:
    if not isinstance(scale, Mapping):
        return (float(scale),) * len(layout.names)
    for name in scale:
        if name not in layout.names:
            raise InvalidArgument("scale", name, f"names of arrays: {', '.join(layout.names)}")
    return tuple(float(scale.get(name, 1.0)) for name in layout.names)


def _remember(file: Path, model: str) -> None:
    """Write down what the checkpoint's vector means; another meaning is refused."""
    remove_scratch(file)
    if not file.exists():
        replace_file(file, model.encode())
    elif file.read_text(encoding="utf-8") != model:
        raise InvalidArgument("arrays", model, "those of the checkpoint, with the same scales")


OTHER = "OTHER"
_SENTENCES = {
    **{reason.name: reason.value for reason in Reason},
    "NO_RECORDS": NO_RECORDS,
    "NO_BOUNDS": NO_BOUNDS,
    "NO_SETTINGS": NO_SETTINGS,
    "WRONG_SETTINGS": WRONG_SETTINGS,
    "WRONG_POLICY": WRONG_POLICY,
}
_NAMES = {sentence: name for name, sentence in _SENTENCES.items()}


class NoReports(RuntimeError):
    """A run that cannot succeed: no node sends a report. The message tells what nodes say."""


def refusal_name(text: object) -> str:
    """The name of a refusal; a node may send any text, so an unknown one is not repeated."""
    return _NAMES.get(str(text), OTHER)


def released(records: Sequence[RoundRecord], charge: Fraction) -> list[Fraction]:
    """The most ε of a node after each round: of every epoch in which a report was accepted.

    A node reports once in an epoch. What was asked for and refused has cost nothing.

    >>> rounds = [RoundRecord(n, n // 2, accepted, 0, 0, 0) for n, accepted in enumerate([3, 0, 0])]
    >>> released(rounds, Fraction(1, 2))
    [Fraction(1, 2), Fraction(1, 2), Fraction(1, 2)]
    """
    spent, epochs = [], set[int]()
    for record in records:
        if record.accepted:
            epochs.add(record.epoch)
        spent.append(charge * len(epochs))
    return spent


def fates_of(record: RoundRecord, refused: Counter[str], silent: int) -> Counter[str]:
    """What became of the requests of a round that brought no report, in words."""
    fates = Counter[str]()
    for name, count in refused.items():
        fates["another error" if name == OTHER else f'"{_SENTENCES[name]}"'] += count
    fates["no answer"] += silent
    fates["no report of the round"] += record.rejected + record.duplicate + record.late
    return fates


def in_words(fates: Counter[str]) -> str:
    """Each fate with its count, the most frequent first.

    >>> in_words(Counter({"no answer": 1, "another error": 2, "late": 0}))
    '2 × another error, 1 × no answer'
    """
    return ", ".join(f"{count} × {fate}" for fate, count in fates.most_common() if count)


@final
@dataclass
class Silence:
    """Rounds in a row without a report, and what became of the requests in them.

    >>> silence = Silence()
    >>> silence.add(RoundRecord(0, 0, 0, 0, 0, 0), 3, Counter(EXHAUSTED=2), 1)
    >>> str(silence)
    '3 requests: 2 × "the budget of this device does not suffice for the report", 1 × no answer'
    """

    rounds: int = 0
    asked: int = 0
    fates: Counter[str] = field(default_factory=Counter)

    def add(self, record: RoundRecord, asked: int, refused: Counter[str], silent: int) -> None:
        """Count a round; one with a report ends the silence."""
        if record.accepted:
            self.rounds, self.asked, self.fates = 0, 0, Counter()
            return
        self.rounds += 1
        self.asked += asked
        self.fates += fates_of(record, refused, silent)

    def __str__(self) -> str:
        if not self.asked:
            return "no node was there to be asked"
        return f"{self.asked} requests: {in_words(self.fates)}"
