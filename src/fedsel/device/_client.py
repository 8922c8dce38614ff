"""The client: answers a server's requests as far as the owner's policy and the ledger allow."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.random import SYSTEM
from fedsel.device._budget import Limit, latest, longest_window, seconds_of
from fedsel.device._entries import Entry, History, KnownRun
from fedsel.device._ledger import Ledger, checked_name
from fedsel.device._policy import Policy, Reason, Refused
from fedsel.device._storage import LedgerError
from fedsel.device._transaction import LedgerTransaction
from fedsel.errors import check_kind
from fedsel.mechanisms import Entropy
from fedsel.solutions import entry
from fedsel.wire import (
    InvalidMessage,
    Request,
    Sealing,
    SignedRound,
    UnknownVersion,
    check_sendable,
)

Update = Callable[[NDArray[np.floating]], ArrayLike] | ArrayLike
"""A client's update (its gradient), or its answer: a function of the weights, or that itself."""
FloatSettings = Mapping[str, Any]
"""What `numpy.geterr` says and `numpy.errstate` takes."""
_LOG = logging.getLogger("fedsel.device")
_DAY = 86_400
_LARGEST = float(np.finfo(np.float32).max)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_MOST_MEASURED = 1 << 24
"""Entries of the weights that come with a question, at most."""


@final
class Client:
    """One device: its owner's policy and the ledger in the folder ``store``.

    ``create=True`` creates the ledger where the folder is missing or empty; without it a missing
    ledger is refused, so that a wiped one does not begin anew unnoticed. ``witness`` names a second
    file, best on another disk, that tells whether the store was put back from an older copy.

    The ledger keeps the strictest limits that a policy has had. A policy that allows more is
    refused (`Fault.LIFETIME`, `Fault.LIMITS`), unless ``raised_by`` names who allows it: every
    report shows that for ever.

    Randomness comes from the operating system; there is no seed.

    Proof: docs/proofs/composition.md, C6, C7, C9.
    """

    def __init__(
        self,
        policy: Policy,
        store: str | Path,
        *,
        witness: str | Path | None = None,
        create: bool = False,
        raised_by: str | None = None,
    ) -> None:
        check_kind("policy", policy, Policy)
        by = "" if raised_by is None else checked_name("raised_by", raised_by)
        self.policy = policy
        self.ledger = Ledger(store, witness)
        self._entropy: Entropy = SYSTEM  # replaced by tests alone
        self._now: Callable[[], float] = time.time
        if create and not self.ledger.exists:
            try:
                self.ledger.create(policy)
            except LedgerError:
                if not self.ledger.exists:  # else another process was faster
                    raise
        if set(self.ledger.read().limits) != set(policy.limits):
            with self.ledger.transaction(write=True) as books:
                books.set_limits(policy.limits, math.floor(self._now()), by)

    def history(self) -> History:
        """What this device has reported and spent; the whole ledger is checked."""
        return self.ledger.read()

    def earlier(self, request: bytes) -> bytes | None:
        """The report that answered a request before; None where it may be answered now.

        Raises `Refused` where `answer` would, whatever weights came with the request. So a device
        knows before it fetches any, and sends again what it has paid for. Nothing is spent.
        """
        try:
            asked = self._understood(request)
            self._check_price(asked)
            with self.ledger.transaction() as books:
                report = self._earlier(books, asked, None, self._now())
            return None if report is None else self._sealed(request, report)
        except Refused as refused:
            outcome = refused.afresh()
        except Exception:
            outcome = Refused(Reason.INTERNAL)
        raise outcome

    def answer(
        self,
        request: bytes,
        weights: Any,
        update: Update,
        columns: Iterable[str] | None = None,
        signed: bytes | None = None,
    ) -> bytes:
        """The report that answers a request, charged and durable before it is returned.

        ``weights`` is a float32 or float64 array (d,), or its little-endian bytes; ``update`` is
        called with it, once, and only when nothing speaks against the request. A request that was
        answered before gets the same bytes again, and costs nothing. Where the policy has a
        ``server_key`` the report is sealed for it, which gives other bytes each time.

        A request for answers (BR) comes with any weights, those of the model that it measures, in
        doubles; ``update`` is then the answer, an integer in 0 … M − 1.

        A policy may ask for two more things: ``columns``, those of the owner's table that the
        update is made of, and ``signed``, the bytes of a `SignedRound` of request and weights.

        Raises `Refused` with a fixed reason; then nothing has left the device. An update that
        fails, in whatever way (`SystemExit` too), counts as zeros, and what is not finite in it as
        zero: whether a device answers must not depend on its data, nor on floating-point settings
        and warning filters of the program. Only `KeyboardInterrupt`, by which the owner stops the
        program, gets out of an update, without its text and its frames.
        """
        begin = time.monotonic()
        outcome = self._outcome(request, weights, update, columns, signed)
        # What an error collector could read from the frame of an error is gone.
        del request, weights, update, columns, signed
        rest = self.policy.least_seconds - (time.monotonic() - begin)
        if rest > 0 and not isinstance(outcome, KeyboardInterrupt):
            time.sleep(rest)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _outcome(
        self,
        request: bytes,
        weights: Any,
        update: Update,
        columns: Iterable[str] | None,
        signed: bytes | None,
    ) -> bytes | Refused | KeyboardInterrupt:
        """The report or the refusal; what else may have been raised is dropped with its context."""
        theirs = np.geterr()
        try:
            # A setting of this thread and context alone. Where floating point raises no flag there
            # is no warning, so there is no filter to set either: those are the whole process's.
            with np.errstate(all="ignore"):
                report = self._answer(request, weights, update, columns, signed, theirs)
                return self._sealed(request, report)
        except Refused as refused:
            return refused.afresh()
        except KeyboardInterrupt:
            return KeyboardInterrupt()
        except BaseException:
            return Refused(Reason.INTERNAL)

    def _sealed(self, request: bytes, report: bytes) -> bytes:
        """The report as it leaves: sealed, where the owner wants that."""
        key = self.policy.server_key
        return report if key is None else Sealing(bytes(request), key).seal(report)

    def _answer(
        self,
        message: bytes,
        weights: Any,
        update: Update,
        columns: Iterable[str] | None,
        signed: bytes | None,
        settings: FloatSettings,
    ) -> bytes:
        request = self._understood(message)
        if self.policy.forbidden(columns) is not None:
            raise Refused(Reason.NOT_ALLOWED)
        recipe = request.recipe
        # The weights first: whoever wants something of size d to be built must have sent as much.
        answers = entry(recipe.solution).answers
        size = None if answers else int(recipe.dim or 0)
        model = _checked_weights(weights, size, self.policy.weight_bound)
        self._check_signed(signed, request.encode(), model)
        self._check_price(request)
        solution = recipe.build()
        digest = hashlib.sha256(request.encode() + model.dtype.str.encode() + model.tobytes())
        with self.ledger.transaction() as books:
            earlier = self._earlier(books, request, digest.digest(), self._now())
        if earlier is not None:
            return earlier
        model.flags.writeable = False
        gradient = evaluated(update, model, solution.dim, settings, answers=answers)
        if solution.rate_inside:
            gradient = saturated(gradient, float(recipe.learning_rate))
        with self.ledger.transaction(write=True) as books:
            # Asked again: another process may have answered in the meantime. The clock is read
            # once, because it might be set back between the check and the entry.
            now = self._now()
            earlier = self._earlier(books, request, digest.digest(), now)
            if earlier is not None:
                return earlier
            return self._report(books, request, digest.digest(), gradient, now)

    def _understood(self, message: bytes) -> Request:
        """The request, if it is one and the policy allows it; nothing of size d is built."""
        try:
            request = Request.decode(message)
        except UnknownVersion:
            raise Refused(Reason.VERSION) from None
        except InvalidMessage:
            raise Refused(Reason.MALFORMED) from None
        objection = self.policy.objection(request.recipe, request.intent)
        if objection is not None:
            raise Refused(objection)
        return request

    def _check_signed(self, signed: bytes | None, request: bytes, model: Any) -> None:
        """Refuse what was not signed, request and weights together, by the key of the policy."""
        key = self.policy.signing_key
        if key is None:
            return
        weights = np.ascontiguousarray(model, model.dtype.newbyteorder("<")).tobytes()
        try:
            if SignedRound.verify(signed, key).covers(request=request, weights=weights):
                return
        except InvalidMessage:
            pass
        raise Refused(Reason.SIGNATURE)

    def _check_price(self, request: Request) -> None:
        """Refuse a report that costs more than the policy allows for one: compared exactly."""
        try:
            charge = check_sendable(request.recipe).charge
        except (ValueError, OverflowError):  # parameters that do not go together
            raise Refused(Reason.MALFORMED) from None
        if charge > self.policy.most_per_report(request.intent):
            raise Refused(Reason.TOO_MUCH)

    def _earlier(
        self, books: LedgerTransaction, request: Request, digest: bytes | None, now: float
    ) -> bytes | None:
        """The bytes that answered this request before; None if it may be answered now.

        If the digest of request and weights differs from the answered one, it is another request;
        None asks for no such comparison.
        """
        policy = self.policy
        known = books.known_run(request.run)
        if known is not None and known != KnownRun.of(request, is_open=known.is_open):
            raise Refused(Reason.CONFLICT)
        answered = books.answered(request.run, request.round)
        if answered is not None:
            if digest not in (None, answered.digest):
                raise Refused(Reason.CONFLICT)
            return answered.report
        latest_round, latest_epoch = books.latest(request.run)
        if request.round < latest_round or request.epoch < latest_epoch:
            raise Refused(Reason.OUT_OF_ORDER)
        if known is not None and not known.is_open:
            raise Refused(Reason.OUT_OF_ORDER)  # a later run has closed this one
        if books.reports_in(request.run, request.epoch) >= policy.reports_per_epoch:
            raise Refused(Reason.TOO_OFTEN)
        per_day = policy.reports_per_day
        if per_day is not None and books.reports_since(math.floor(now) - _DAY) >= per_day:
            raise Refused(Reason.TOO_OFTEN)
        time = self._time(books, now)
        if not books.allows(self._limits(books), request.intent, request.recipe.charge, time):
            raise Refused(Reason.EXHAUSTED)
        return None

    def _limits(self, books: LedgerTransaction) -> set[Limit]:
        """All limits in force: another process may have made the ledger's stricter since."""
        return {*self.policy.limits, *books.limits}

    def _time(self, books: LedgerTransaction, now: float) -> int:
        """The whole second of a report; refused where windows rely on a clock that is far ahead."""
        longest = longest_window(self._limits(books))
        if longest is None:
            return math.floor(now)
        known, tolerance = books.known_time(), self.policy.clock_tolerance
        allowed = seconds_of("clock_tolerance", tolerance) if tolerance else 2 * longest
        if math.floor(now) - (known or 0) > allowed:
            raise Refused(Reason.CLOCK)
        return latest(now, known)

    def _report(
        self,
        books: LedgerTransaction,
        request: Request,
        digest: bytes,
        gradient: NDArray[np.float32],
        now: float,
    ) -> bytes:
        """Draw the report and write it down; it may leave once the transaction has ended."""
        recipe, solution = request.recipe, request.recipe.build()
        if books.known_run(request.run) is None:
            books.open_run(request.run, KnownRun.of(request), self.policy.runs)
        before = books.residual(request.run, solution.dim)
        drawn_report, kept = solution.in_round(request.round).encode(
            gradient, before, self._entropy
        )
        report = request.format.encode(request.round, drawn_report)
        entry_made = Entry(
            number=books.reports + 1,
            run=request.run,
            epoch=request.epoch,
            round=request.round,
            time=self._time(books, now),
            charge=recipe.charge,
            digest=digest,
            report=report,
        )
        reports_made = books.reports_in(request.run, request.epoch) + 1
        last = request.epoch == recipe.epochs - 1 and reports_made >= self.policy.reports_per_epoch
        needed = solution.accumulates and not last
        books.record(entry_made, kept.astype(np.float32) if needed else None)
        return report


def _checked_weights(weights: Any, dim: int | None, bound: float) -> NDArray[np.floating]:
    """A copy of the server's weights: d finite numbers within ±bound, or a refusal.

    With ``dim`` None there may be any number of them, or none.
    """
    if isinstance(weights, bytes | bytearray | memoryview):
        size = memoryview(weights).nbytes
        if dim is None:
            dim = min(size // 8, _MOST_MEASURED)
        kinds = {4 * dim: "<f4", 8 * dim: "<f8"}
        array = np.frombuffer(weights, dtype=kinds[size]) if size in kinds else None
    else:
        # Only a true array: the server's objects get no say in how they are read.
        array = weights if type(weights) is np.ndarray else None
        if dim is None and array is not None:
            dim = min(array.size, _MOST_MEASURED)
    if array is None or array.shape != (dim,) or array.dtype.newbyteorder("=") not in _FLOATS:
        raise Refused(Reason.WEIGHTS)
    model = array.astype(array.dtype.newbyteorder("="), copy=True)
    # NaN is not; infinity would be, where the bound is beyond the singles.
    if not (np.isfinite(model) & (np.abs(model) <= bound)).all():
        raise Refused(Reason.WEIGHTS)
    return model


def evaluated(
    update: Update,
    weights: NDArray[np.floating],
    dim: int,
    settings: FloatSettings,
    *,
    answers: bool = False,
) -> NDArray[np.float32]:
    """The update as d finite float32; zeros where there is none, because silence would tell.

    The update is the program's own code: it runs under the program's own floating-point settings.
    With ``answers`` it is an integer, of which this is the unit vector.
    """
    try:
        with np.errstate(**settings):
            value: Any = update(weights) if callable(update) else update
        if answers and isinstance(value, int | np.integer) and not isinstance(value, bool):
            value = np.arange(dim) == value
        array = None if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        fits = array is not None and array.shape == (dim,) and array.dtype.kind in "fiub"
        finite = saturated(np.asarray(array)) if fits else None
    except KeyboardInterrupt:
        raise
    except BaseException:  # also sys.exit, a cancelled task, a panic of native code
        finite = None
    if finite is None:
        # No exception and no detail: they may hold what the update was computed from.
        _LOG.warning("the update failed or is no vector of d real numbers: zeros were used")
        return saturated(np.zeros(dim))  # in the same time
    return finite


def saturated(values: NDArray[Any], factor: float = 1.0) -> NDArray[np.float32]:
    """Numbers times a factor as finite float32: NaN becomes 0, an overflow the largest number."""
    scaled = values.astype(np.float64) * factor
    finite = np.nan_to_num(scaled, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
    return np.clip(finite, -_LARGEST, _LARGEST).astype(np.float32)
