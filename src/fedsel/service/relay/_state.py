"""What a relay keeps of a run, beside its sealed reports.

Its store counts turns: in an odd one, 2r + 1, the relay collects for round r; in the even one after
it, what was collected is on its way to the service, and the relay waits for the next round.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self, final

from fedsel.errors import InvalidArgument
from fedsel.server._checkpoint import Counts
from fedsel.server._folder import CheckpointError
from fedsel.service._snapshot import CachedBytes
from fedsel.service._store import RoundRow, Store
from fedsel.service.relay._config import RelayConfig
from fedsel.wire import CloseRule
from fedsel.wire._contract import Shuffled

_KIND = "fedsel relay 1"
_NONE = Counts()


@final
@dataclass(frozen=True)
class Terms:
    """What the service has announced: it may not change while the run goes on.

    ``local``: the ε of all reports of a client, against everybody.
    """

    purpose: str
    recipient: str
    rounds: int
    close_after: CloseRule
    shuffle: Shuffled
    sealed_bytes: int
    local: float

    @property
    def release(self) -> CloseRule:
        """When a round is released."""
        return self.close_after.relayed(self.shuffle.rule.n_min)


@final
@dataclass(frozen=True)
class RelayState:
    """A relay's checkpoint: the run, what was announced of it, and the open round's tag."""

    run: str
    server_key: str
    signing_key: str
    terms: Terms | None = None
    tag: str = ""
    finished: bool = False

    @classmethod
    def begin(cls, config: RelayConfig) -> Self:
        """The state before the service was ever reached."""
        return cls(config.run, config.server_key, config.signing_key)

    def check_same(self, config: RelayConfig) -> None:
        """Refuse to go on with another run or other keys."""
        for name in ("run", "server_key", "signing_key"):
            was, now = getattr(self, name), getattr(config, name)
            if was != now:
                allowed = f"{was}, as in the store; or another name or --store"
                raise InvalidArgument(f"{name} of {config}", now, allowed)

    def opened(self, terms: Terms, tag: bytes) -> Self:
        """The state with a round open."""
        return replace(self, terms=terms, tag=tag.hex())

    @property
    def waiting(self) -> Self:
        """The state with no round open."""
        return replace(self, tag="")

    @property
    def over(self) -> Self:
        """The state after the last round."""
        return replace(self, tag="", finished=True)

    def encode(self) -> bytes:
        """The state as JSON."""
        terms = self.terms
        known: dict[str, Any] = {**vars(self), "kind": _KIND}
        if terms is not None:
            shuffle = {"close_after": asdict(terms.close_after), "shuffle": terms.shuffle.to_dict()}
            known["terms"] = {**vars(terms), **shuffle}
        return json.dumps(known).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The state of these bytes; anything else is refused."""
        try:
            known = json.loads(data)
        except ValueError:
            known = {}
        if known.pop("kind", None) != _KIND:
            raise CheckpointError("the run of this name in the store is no relay's")
        terms = known.pop("terms")
        if terms is not None:
            terms["close_after"] = CloseRule(**terms["close_after"])
            terms["shuffle"] = Shuffled.of_dict(terms["shuffle"])
            terms = Terms(**terms)
        return cls(**known, terms=terms)


def begun(config: RelayConfig, store: Store, now: float | None = None) -> RelayState:
    """The state of a relay's run, which begins if it is new; another run is refused."""
    begin = RelayState.begin(config).encode()
    kept = store.begin(config.name, begin, time.time() if now is None else now)
    state = RelayState.decode(kept)
    state.check_same(config)
    return state


class Passed(NamedTuple):
    """What a relay passes on of a round, as the service gave it; the model is not signed.

    Without a request the run is over.
    """

    number: int
    terms: Terms
    tag: bytes
    task: CachedBytes
    model: CachedBytes | None
    request: CachedBytes | None = None
    weights: CachedBytes | None = None
    preparing: CachedBytes | None = None
    signature: CachedBytes | None = None


class ReleasedRound(NamedTuple):
    """A round that was released: its turn and tag, the counts of its messages, and its time."""

    round: int
    turn: int
    tag: bytes
    counts: Counts
    opened: float
    closed: float | None

    @property
    def seconds(self) -> float:
        """How long it was open, by a clock that may have been set back."""
        return max(0.0, (self.closed or self.opened) - self.opened)

    @property
    def per_second(self) -> float | None:
        """Accepted reports a second; None where the clock did not move."""
        return self.counts.accepted / self.seconds if self.seconds > 0 else None

    def encode(self) -> str:
        """What the store keeps of it, beside its times."""
        return json.dumps([self.round, self.turn, self.tag.hex(), *self.counts])

    @classmethod
    def of_row(cls, row: RoundRow) -> Self | None:
        """The round of a row; None where nothing was released."""
        opened, closed, text = row
        if text is None:
            return None
        number, turn, tag, *counts = json.loads(text)
        return cls(number, turn, bytes.fromhex(tag), Counts(*counts), opened, closed)


@final
class RelaySnapshot:
    """A run as its relay knows it now.

    ``turn``: as the store has it; ``past``: the released rounds; ``ended``: the counts of all
    turns before this one; ``opened``: since when the relay collects, or waits.
    """

    measured: dict[str, float] = {}  # noqa: RUF012 - nothing is measured here

    def __init__(
        self,
        config: RelayConfig,
        state: RelayState,
        turn: int,
        rows: list[RoundRow],
        passed: Passed | None,
        ended: Counts = _NONE,
    ) -> None:
        self.config, self.state, self.turn = config, state, turn
        self.opened = rows[-1][0]
        found = map(ReleasedRound.of_row, rows)
        self.past = [one for one in found if one is not None]
        self.ended = ended
        self.turns = {one.tag: one.turn for one in self.past}
        if state.tag:
            self.turns[bytes.fromhex(state.tag)] = turn
        known = passed is not None and (self.finished or passed.number == self.round)
        self.passed = passed if known else None

    @property
    def run(self) -> bytes:
        """The run's own name."""
        return bytes.fromhex(self.state.run)

    @property
    def finished(self) -> bool:
        """Whether all rounds are over."""
        return self.state.finished

    @property
    def collecting(self) -> bool:
        """Whether reports are taken."""
        return bool(self.state.tag)

    @property
    def round(self) -> int:
        """The open round, or the one that is on its way to the service."""
        return self.rounds if self.finished else max(0, self.turn - 1) // 2

    @property
    def rounds(self) -> int:
        """The number of rounds of the whole run; 0 before the service has said it."""
        return 0 if self.state.terms is None else self.state.terms.rounds

    def part(self, name: str) -> CachedBytes | None:
        """What devices need of the open round."""
        known = ("request", "weights", "preparing", "signature")
        if self.passed is None or name not in known:
            return None
        part: CachedBytes | None = getattr(self.passed, name)
        return part
