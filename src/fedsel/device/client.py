"""The client: answers a server's requests as far as the owner's policy and the ledger allow."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.device.ledger import Entry, History, Ledger, LedgerTransaction
from fedsel.device.policy import Policy
from fedsel.device.refusal import LedgerError, Reason, Refused
from fedsel.errors import check_kind
from fedsel.random import SYSTEM, Entropy
from fedsel.wire import InvalidMessage, Request, UnknownVersion, check_sendable, encode_recipe

Update = Callable[[NDArray[np.floating]], ArrayLike] | ArrayLike
"""A client's update (its gradient): a function of the weights, or the vector itself."""

_LOG = logging.getLogger("fedsel.device")
_DAY = 86_400
_LARGEST = float(np.finfo(np.float32).max)
_DENOMINATOR_BITS = 512
"""The ledger's sum stays small whatever fractions a server thinks of."""


@final
class Client:
    """One device: its owner's policy and the ledger in the folder ``store``.

    ``create=True`` creates the ledger where the folder is missing or empty; without it a missing
    ledger is refused, so that a wiped one does not begin anew unnoticed. ``witness`` names a second
    file, best on another disk, that tells whether the store was put back from an older copy.

    Randomness comes from the operating system; there is no seed.
    """

    def __init__(
        self,
        policy: Policy,
        store: str | Path,
        *,
        witness: str | Path | None = None,
        create: bool = False,
    ) -> None:
        check_kind("policy", policy, Policy)
        self.policy = policy
        self.ledger = Ledger(store, witness)
        self._entropy: Entropy = SYSTEM  # replaced by tests alone
        self._now: Callable[[], float] = time.time
        lifetime = Fraction(policy.lifetime)
        if create and not self.ledger.exists:
            try:
                self.ledger.create(lifetime)
            except LedgerError:
                if not self.ledger.exists:  # else another process was faster
                    raise
        if self.ledger.read().lifetime != lifetime:
            with self.ledger.transaction(write=True) as books:
                books.set_lifetime(lifetime)

    def history(self) -> History:
        """What this device has reported and spent; the whole ledger is checked."""
        return self.ledger.read()

    def answer(self, request: bytes, weights: Any, update: Update) -> bytes:
        """The report that answers a request, charged and durable before it is returned.

        ``weights`` is a float32 or float64 array (d,), or its little-endian bytes; ``update`` is
        called with it, once, and only when nothing speaks against the request. A request that was
        answered before gets the same bytes again, and costs nothing.

        Raises `Refused` with a fixed reason, and nothing else; then nothing has left the device.
        An update that fails or is not finite counts as zero there: whether a device answers must
        not depend on its data.
        """
        begin = time.monotonic()
        outcome = self._outcome(request, weights, update)
        # What an error collector could read from the frame of an error is gone.
        del request, weights, update
        rest = self.policy.least_seconds - (time.monotonic() - begin)
        if rest > 0:
            time.sleep(rest)
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    def _outcome(self, request: bytes, weights: Any, update: Update) -> bytes | Refused:
        """The report or the refusal; what else may have been raised is dropped with its context."""
        try:
            return self._answer(request, weights, update)
        except Refused as refused:
            return refused.afresh()
        except Exception:
            return Refused(Reason.INTERNAL)

    def _answer(self, message: bytes, weights: Any, update: Update) -> bytes:
        request = self._understood(message)
        recipe = request.recipe
        solution = recipe.build()
        model = _checked_weights(weights, solution.dim, self.policy.weight_bound)
        digest = hashlib.sha256(request.encode() + model.dtype.str.encode() + model.tobytes())
        with self.ledger.transaction() as books:
            earlier = self._earlier(books, request, digest.digest())
        if earlier is not None:
            return earlier
        model.flags.writeable = False
        gradient = _evaluated(update, model, solution.dim)
        if solution.rate_inside:
            gradient = _saturated(gradient, float(recipe.learning_rate))
        with self.ledger.transaction(write=True) as books:
            # Asked again: another process may have answered in the meantime.
            earlier = self._earlier(books, request, digest.digest())
            if earlier is not None:
                return earlier
            return self._report(books, request, digest.digest(), gradient)

    def _understood(self, message: bytes) -> Request:
        """The request, if it is one and the policy allows its recipe."""
        try:
            request = Request.decode(message)
        except UnknownVersion:
            raise Refused(Reason.VERSION) from None
        except InvalidMessage:
            raise Refused(Reason.MALFORMED) from None
        objection = self.policy.objection(request.recipe)
        if objection is not None:
            raise Refused(objection)
        try:
            charge = check_sendable(request.recipe).charge
        except (ValueError, OverflowError):  # parameters that do not go together
            raise Refused(Reason.MALFORMED) from None
        if charge > self.policy.per_report:
            raise Refused(Reason.TOO_MUCH)
        return request

    def _earlier(self, books: LedgerTransaction, request: Request, digest: bytes) -> bytes | None:
        """The bytes that answered this request before; None if it may be answered now."""
        policy = self.policy
        known = books.recipe_of(request.run)
        if known is not None and known[0] != encode_recipe(request.recipe):
            raise Refused(Reason.CONFLICT)
        answered = books.answered(request.run, request.round)
        if answered is not None:
            if answered.digest != digest:
                raise Refused(Reason.CONFLICT)
            return answered.report
        latest_round, latest_epoch = books.latest(request.run)
        if request.round < latest_round or request.epoch < latest_epoch:
            raise Refused(Reason.OUT_OF_ORDER)
        if known is not None and not known[1]:
            raise Refused(Reason.OUT_OF_ORDER)  # a later run has closed this one
        if books.reports_in(request.run, request.epoch) >= policy.reports_per_epoch:
            raise Refused(Reason.TOO_OFTEN)
        per_day = policy.reports_per_day
        if per_day is not None and books.reports_since(int(self._now()) - _DAY) >= per_day:
            raise Refused(Reason.TOO_OFTEN)
        spent = books.spent + request.recipe.charge
        if spent > policy.lifetime:
            raise Refused(Reason.EXHAUSTED)
        if spent.denominator.bit_length() > _DENOMINATOR_BITS:
            raise Refused(Reason.NOT_ALLOWED)
        return None

    def _report(
        self,
        books: LedgerTransaction,
        request: Request,
        digest: bytes,
        gradient: NDArray[np.float32],
    ) -> bytes:
        """Draw the report and write it down; it may leave once the transaction has ended."""
        recipe, solution = request.recipe, request.recipe.build()
        if books.recipe_of(request.run) is None:
            books.open_run(request.run, encode_recipe(recipe), self.policy.runs)
        before = books.residual(request.run, solution.dim)
        said, kept = solution.in_round(request.round).encode(gradient, before, self._entropy)
        report = request.format.encode(request.round, said)
        entry = Entry(
            number=books.reports + 1,
            run=request.run,
            epoch=request.epoch,
            round=request.round,
            time=int(self._now()),
            charge=recipe.charge,
            digest=digest,
            report=report,
        )
        made = books.reports_in(request.run, request.epoch) + 1
        last = request.epoch == recipe.epochs - 1 and made >= self.policy.reports_per_epoch
        needed = solution.accumulates and not last
        books.record(entry, kept.astype(np.float32) if needed else None)
        return report


def _checked_weights(weights: Any, dim: int, bound: float) -> NDArray[np.floating]:
    """A copy of the server's weights: d finite numbers within ±bound, or a refusal."""
    if isinstance(weights, bytes | bytearray | memoryview):
        kinds = {4 * dim: "<f4", 8 * dim: "<f8"}
        size = memoryview(weights).nbytes
        array = np.frombuffer(weights, dtype=kinds[size]) if size in kinds else None
    else:
        # Only a true array: the server's objects get no say in how they are read.
        array = weights if type(weights) is np.ndarray else None
    if array is None or array.shape != (dim,) or array.dtype.newbyteorder("=") not in _FLOATS:
        raise Refused(Reason.WEIGHTS)
    model = array.astype(array.dtype.newbyteorder("="), copy=True)
    with np.errstate(all="ignore"):
        if not (np.abs(model) <= bound).all():  # NaN is not
            raise Refused(Reason.WEIGHTS)
    return model


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def _evaluated(update: Update, weights: NDArray[np.floating], dim: int) -> NDArray[np.float32]:
    """The update as d finite float32; zeros where there is none, because silence would tell."""
    try:
        value: Any = update(weights) if callable(update) else update
        array = None if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        fits = array is not None and array.shape == (dim,) and array.dtype.kind in "fiub"
        finite = _saturated(np.asarray(array)) if fits else None
    except Exception:
        finite = None
    if finite is None:
        # No exception and no detail: they may hold what the update was computed from.
        _LOG.warning("the update failed or is no vector of d real numbers: zeros were used")
        return _saturated(np.zeros(dim))  # in the same time
    return finite


def _saturated(values: NDArray[Any], factor: float = 1.0) -> NDArray[np.float32]:
    """Finite float32 of any numbers times a factor: NaN becomes 0, what is too large the largest.

    Without a warning, which a program may have turned into an error: that would tell.
    """
    with np.errstate(all="ignore"):
        scaled = values.astype(np.float64) * factor
        finite = np.nan_to_num(scaled, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
        return np.clip(finite, -_LARGEST, _LARGEST).astype(np.float32)
