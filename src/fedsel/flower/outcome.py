"""What came of rounds: the ε that was released, and why no report came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from fedsel.device import Reason
from fedsel.flower.messages import (
    NO_BOUNDS,
    NO_RECORDS,
    NO_SETTINGS,
    WRONG_POLICY,
    WRONG_SETTINGS,
)
from fedsel.server import RoundRecord

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
