"""The ε that fits spend: by record in this process, and in every `FitAccount` that is open.

Nothing is kept on disk, and fits in other processes are not seen.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import Epsilon, LifetimeExceeded, RepeatedFitWarning, warn_user
from fedsel.recipe import decimal
from fedsel.solutions import Privacy
from fedsel.solutions._privacy import added

_LOCK = threading.Lock()
OPEN: list[FitAccount] = []  # of all threads: joblib starts threads of its own


@final
class FitAccount:
    """Adds up the ε of every fit in this process while it is open.

    It compares no records: all fits count as fits on the same clients. A fit that would spend more
    than ``lifetime`` raises `LifetimeExceeded` before it begins. An account can be opened again.

    >>> from fedsel import FedSelClassifier
    >>> X, y = [[-0.7], [0.7]] * 500, [0, 1] * 500
    >>> with FitAccount(lifetime=1.0) as account:
    ...     model = FedSelClassifier(epsilon=0.8, feature_range=(-1, 1)).fit(X, y)
    >>> account
    FitAccount(lifetime=1, fits=1, spent=0.8)
    """

    def __init__(self, lifetime: Epsilon | None = None) -> None:
        self.lifetime = None if lifetime is None else decimal("lifetime", lifetime)
        self.fits = 0
        self._spent: Fraction | None = Fraction(0)

    @property
    def spent(self) -> float:
        """What a client in all fits has lost at most; infinite after a fit with no proof."""
        return math.inf if self._spent is None else float(self._spent)

    def __enter__(self) -> Self:
        with _LOCK:
            OPEN.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            OPEN.remove(self)

    def __repr__(self) -> str:
        lifetime = None if self.lifetime is None else f"{float(self.lifetime):.6g}"
        return f"FitAccount(lifetime={lifetime}, fits={self.fits}, spent={self.spent:.6g})"

    def _after(self, privacy: Privacy) -> Fraction | None:
        spent, charge = self._spent, privacy.charge
        after = None if spent is None or charge is None else added(spent, charge, privacy.epochs)
        if self.lifetime is not None and (after is None or after > self.lifetime):
            cost = f"this fit costs ε = {privacy.total:.6g}"
            raise LifetimeExceeded(f"{cost}, more than is left of {self}")
        return after


class RecordAccount:
    """The ε that each record has spent, recognised by its digest.

    Equal records count once in a fit. Beyond ``limit`` records, of 24 bytes each, half of all
    digests are forgotten for good; the rest is a random sample, and sums are lower bounds.
    """

    def __init__(self, limit: int = 1 << 22) -> None:
        self.limit, self._largest = limit, (1 << 64) - 1
        self.digests = np.empty(0, np.uint64)  # ascending
        self._sums = np.empty((0, 2))  # ε and fits

    def charge(
        self, digests: NDArray[np.uint64], epsilon: float, *, goes_on: bool = False
    ) -> tuple[float, int, int, int]:
        """Charge a fit; return one record's most ε and fits, the records that came again, and all.

        A fit that only ``goes_on`` charges new records alone.
        """
        with _LOCK:
            mine = np.sort(digests[digests <= np.uint64(self._largest)])
            mine = mine[np.append(True, mine[1:] != mine[:-1])[: len(mine)]]
            place = np.searchsorted(self.digests, mine)
            new = np.searchsorted(self.digests, mine, side="right") == place
            self.digests = np.insert(self.digests, place[new], mine[new])
            self._sums = np.insert(self._sums, place[new], 0.0, axis=0)
            place = np.searchsorted(self.digests, mine)
            self._sums[place[new] if goes_on else place] += (epsilon, 1)
            total, fits = self._sums[place].max(axis=0) if len(mine) else (epsilon, 1)
            while len(self.digests) > self.limit:
                self._largest >>= 1
                kept = self.digests <= np.uint64(self._largest)
                self.digests, self._sums = self.digests[kept], self._sums[kept]
        return float(total), int(fits), len(mine) - int(new.sum()), len(mine)


RECORDS = RecordAccount()


def digests_of(X: Any) -> NDArray[np.uint64]:
    """64 bits for each record of X (n, …), dense or CSR: equal for equal features.

    Python's hash of bytes has a random key, so digests mean nothing in another process.
    """
    if hasattr(X, "indptr"):
        rows = X.tocsr(copy=True)
        rows.sum_duplicates()  # which sorts them, too
        rows.eliminate_zeros()
        indices, data = rows.indices.astype(np.int64), rows.data.astype(np.float64)
        ends = pairwise(rows.indptr.tolist())
        hashes = [hash(indices[a:b].tobytes() + data[a:b].tobytes()) for a, b in ends]
    else:
        rows = np.asarray(X).reshape(len(X), -1)
        parts = np.array_split(rows, 1 + rows.size // 2**15)  # which stay in the cache
        # Adding 0.0 turns −0.0 into 0.0, the same number in other bits.
        hashes = [hash(row.tobytes()) for part in parts for row in part.astype(np.float64) + 0.0]
    return np.array(hashes, np.int64).view(np.uint64)


def spend(X: Any, privacy: Privacy) -> float:
    """Charge a fit on the records X; the most that one of them has spent in this process."""
    return charge(digests_of(X), privacy)


def charge(digests: NDArray[np.uint64], privacy: Privacy, *, goes_on: bool = False) -> float:
    """Charge a fit on records by their digests, as `spend`.

    Warns at the second, fourth, eighth … fit of a record, so that a search is not flooded. The
    records of a fit that ``goes_on`` were charged for all of it when it began; accounts that are
    open now may not have been.
    """
    with _LOCK:
        after = {account: account._after(privacy) for account in OPEN}  # all agree, or none pays
        for account, spent in after.items():
            account._spent, account.fits = spent, account.fits + 1
    total, fits, again, records = RECORDS.charge(digests, privacy.total, goes_on=goes_on)
    if not goes_on and fits > 1 and fits & (fits - 1) == 0 and not math.isinf(privacy.total):
        warn_user(
            f"{again:,} of {records:,} different records were fitted in this process before, one of"
            f" them now in {fits} fits. If they are the same clients, they have spent"
            f" ε = {total:.4g} so far, not {privacy.total:.4g}. Every fit of a search, a"
            " cross-validation or an ensemble costs its ε; fedsel.FitAccount(lifetime=…) limits"
            " the sum. For simulated clients, ignore fedsel.errors.RepeatedFitWarning.",
            RepeatedFitWarning,
        )
    return total
