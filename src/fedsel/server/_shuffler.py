"""The shuffler: between devices and server, it knows who, and not what."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Self, final

from fedsel._internal.paths import make_folder
from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.mechanisms.central import CentralGuarantee, compose
from fedsel.server._admission import Counts, Outcome
from fedsel.server._folder import FolderLock
from fedsel.server._round_store import RoundStore, StoredRound
from fedsel.wire import Request, Sealing
from fedsel.wire._sealing import ADDED_BYTES

_SECRET_BYTES = 32


@final
class Shuffler:
    """Takes sealed reports of named clients, and hands a round's over without names or order.

    For each round: the server has it begun (`begin`), devices send what `Client.answer` has sealed
    (`receive`), and the server fetches the batch (`release`), which it can have as soon as
    ``n_min`` different clients have reported. Until the server has said that its step is durable
    (`confirm`, or the next `begin`) it gets the same batch again.

    A batch is the sealed reports of the round, each as long as the others, sorted by their own
    bytes. It is a function of their multiset alone: of nothing else that the shuffler knows.

    What was accepted is in ``folder`` before it is acknowledged. Names are there as hashes under a
    secret of the round, and both are erased by its release. The folder belongs to one shuffler at a
    time (`FolderInUse`), and ``n_min`` to the folder. Threads may share a shuffler; processes talk
    to it by whatever carries bytes, which must also say who a client is.

    Proof: docs/proofs/shuffler.md, H1, H2, H3.

    >>> import tempfile
    >>> with Shuffler(tempfile.mkdtemp(), n_min=100) as shuffler:
    ...     shuffler.receive("a client", b"nonsense")
    <Outcome.REJECTED: 'rejected'>
    """

    def __init__(self, folder: str | Path, *, n_min: int) -> None:
        self.n_min = check_count("n_min", n_min, least=2, most=1 << 32)  # one alone is not hidden
        place = Path(folder)
        make_folder(place)
        self._mutex = threading.Lock()
        self._counts = dict.fromkeys(Outcome, 0)
        self._lock = FolderLock(place)
        try:
            self._store = RoundStore(place, self.n_min)
            if self._store.n_min != self.n_min:
                begun_with = self._store.n_min
                self._store.close()
                raise InvalidArgument("n_min", n_min, f"that of the folder: {begun_with}")
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Let others have the folder."""
        with self._mutex:
            if self._lock.held:  # else the file is another process's
                self._store.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._lock.check()
        with self._store.transaction():
            yield

    @property
    def counts(self) -> Counts:
        """What became of the messages since the shuffler was opened."""
        return Counts(*self._counts.values())

    def begin(self, request: bytes, server_key: str) -> None:
        """Begin the round of a request, for devices that seal for this key; again: nothing happens.

        Who asks for a round has finished those before: they are forgotten, as `confirm` does. A
        round that is over is never begun again: of two batches of one round the server could see
        who is in one alone.
        """
        asked = Request.decode(request)
        tag = Sealing(bytes(request), server_key).tag
        size = asked.format.size + ADDED_BYTES
        with self._mutex, self._transaction():
            known = self._store.at(asked.run, asked.round)
            if known is None:
                secret = secrets.token_bytes(_SECRET_BYTES)
                begun = StoredRound(tag, asked.run, asked.round, size, secret, released=False)
                self._store.begin(begun)
            elif known.number > asked.round or known.over:
                raise InvalidArgument("round", asked.round, "one that is not over")
            elif known.tag != tag:
                allowed = "what the round has begun with, as must the request"
                raise InvalidArgument("server_key", server_key, allowed)
            self._store.forget(asked.run, asked.round)

    def receive(self, client: object, message: object) -> Outcome:
        """Take the message of a client, durable on return; never raises for what they are.

        ``client`` is a text, a number or bytes that the transport vouches for. A client counts once
        in a round, whatever it sends; what comes after the release is late.
        """
        return self.receive_many([(client, message)])[0]

    def receive_many(self, messages: Iterable[tuple[object, object]]) -> list[Outcome]:
        """Take pairs of a client and its message, all in one flush of the disk: as `receive`."""
        pairs = list(messages)
        with self._mutex:
            with self._transaction():
                outcomes = [self._judge(client, message) for client, message in pairs]
            for outcome in outcomes:  # once they are durable
                self._counts[outcome] += 1
        return outcomes

    def _judge(self, client: object, message: object) -> Outcome:
        name, sealed = _name_bytes(client), Sealing.split(message)
        if name is None or sealed is None:
            return Outcome.REJECTED
        known = self._store.round(sealed.tag)
        if known is None or len(sealed.content) != known.size:
            return Outcome.REJECTED
        if known.secret is None:
            return Outcome.LATE
        hashed = hmac.digest(known.secret, name, "sha256")
        new = self._store.add(sealed.tag, hashed, sealed.content)
        return Outcome.ACCEPTED if new else Outcome.DUPLICATE

    def waiting(self, request: bytes) -> int:
        """How many clients have reported in an open round."""
        with self._mutex, self._transaction():
            return self._store.count(self._known(request).tag)

    def release(self, request: bytes) -> bytes | None:
        """The batch of a round, which ends with it; None while fewer than ``n_min`` are there.

        It is the same batch however often it is fetched, until the round is confirmed.
        """
        with self._mutex, self._transaction():
            known = self._known(request)
            if known.secret is not None:
                if self._store.count(known.tag) < self.n_min:
                    return None
                self._store.release(known.tag)
            return self._store.batch(known.tag)

    def _known(self, request: bytes) -> StoredRound:
        asked = Request.decode(request)
        known = self._store.at(asked.run, asked.round)
        if known is None or known.number != asked.round or known.over:
            raise InvalidArgument("round", asked.round, "begun, and not over")
        return known

    def confirm(self, run: bytes, rounds: int) -> None:
        """Forget the first ``rounds`` rounds of a run: the server's steps of them are durable.

        ``confirm(server.run, server.round)`` is right at any time, after a restart of the server,
        too. What stays is that these rounds were: their tags, by which late reports are known.
        """
        check_kind("run", run, bytes)
        number = check_count("rounds", rounds, least=0, most=1 << 32)
        with self._mutex, self._transaction():
            self._store.forget(run, number)

    def guarantee(
        self, request: bytes, *, delta: float = 1e-6, epochs: int = 1
    ) -> CentralGuarantee:
        """What ``n_min`` reports of this round guarantee, if all of them are honest.

        Of a client that reports in so many ``epochs``; `fedsel.amplify` has it for other numbers.
        """
        solution = Request.decode(request).recipe.build()
        return compose(solution, reports=self.n_min, epochs=epochs, delta=delta)


def _name_bytes(client: object) -> bytes | None:
    """A name in bytes, one way for each; None if it is none."""
    if isinstance(client, str) and client:
        return b"s" + client.encode("utf-8", "surrogatepass")
    if isinstance(client, bytes) and client:
        return b"b" + client
    if isinstance(client, Integral) and not isinstance(client, bool):
        number = int(client)
        return b"i" + number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return None
