"""What the records of this process have spent: a client that is fitted again pays again.

A fit is not told what was fitted before. Records are therefore recognised by their features: a
search, a cross-validation or an ensemble shows itself by the records that come again, whoever calls
`fit`. Nothing of this is kept on a disk, and other processes are not seen.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import check_count

Digests = NDArray[np.uint64]

LIMIT = 1 << 22
"""Records that are remembered, of 20 bytes each: 80 MiB."""
_BYTES_AT_A_TIME = 1 << 18  # what stays in the processor's cache


@dataclass(frozen=True)
class Spending:
    """What the records of one fit have spent, this fit included.

    ``total`` is the largest ε of one record and ``fits`` the most fits of one, of those that are
    remembered; ``again`` of the ``records`` that were told apart were fitted before.
    """

    total: float
    fits: int
    again: int
    records: int


class FitAccount:
    """The ε that each record has spent in the fits of this process.

    Records that are equal count once in a fit: they may be different clients. Fits on equal records
    add up, even if their clients are different: that cannot be seen.

    Up to ``limit`` records the account is exact. Beyond, half of them are forgotten, chosen by
    their digests, and so are new ones of that half: a random sample of all records remains, in
    which a fit on many records shows itself as before, and ``total`` is a lower bound.

    >>> account, rows = FitAccount(), digests_of(np.eye(3))
    >>> account.charge(rows, 2.0)
    Spending(total=2.0, fits=1, again=0, records=3)
    >>> account.charge(rows[1:], 0.5)
    Spending(total=2.5, fits=2, again=2, records=2)
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = check_count("limit", limit)
        self._below = 1 << 64
        self._lock = threading.Lock()
        self._digests: Digests = np.empty(0, np.uint64)  # ascending
        self._spent: NDArray[np.float64] = np.empty(0)
        self._fits: NDArray[np.uint32] = np.empty(0, np.uint32)

    def __len__(self) -> int:
        return len(self._digests)

    @property
    def nbytes(self) -> int:
        """The memory that the records take."""
        return self._digests.nbytes + self._spent.nbytes + self._fits.nbytes

    def charge(self, digests: Digests, epsilon: float) -> Spending:
        """Write down a fit on these records, and tell what they have spent."""
        with self._lock:
            mine = self._sampled(_distinct(digests))
            place = np.searchsorted(self._digests, mine)
            known = np.zeros(len(mine), dtype=np.bool_)
            inside = place < len(self)
            known[inside] = self._digests[place[inside]] == mine[inside]
            self._add(mine[~known])
            place = np.searchsorted(self._digests, mine)
            self._spent[place] += epsilon
            self._fits[place] += np.uint32(1)
            total = float(self._spent[place].max(initial=epsilon))
            fits = int(self._fits[place].max(initial=1))
            self._forget()
            return Spending(total, fits, int(known.sum()), len(mine))

    def _sampled(self, digests: Digests) -> Digests:
        return digests if self._below >> 64 else digests[digests < np.uint64(self._below)]

    def _add(self, digests: Digests) -> None:
        if not len(digests):
            return
        every = np.concatenate([self._digests, digests])
        order = np.argsort(every, kind="stable")
        self._digests = every[order]
        self._spent = np.concatenate([self._spent, np.zeros(len(digests))])[order]
        self._fits = np.concatenate([self._fits, np.zeros(len(digests), np.uint32)])[order]

    def _forget(self) -> None:
        while len(self) > self.limit:
            self._below >>= 1
            kept = slice(0, int(np.searchsorted(self._digests, np.uint64(self._below))))
            self._digests = self._digests[kept].copy()
            self._spent, self._fits = self._spent[kept].copy(), self._fits[kept].copy()


ACCOUNT = FitAccount()
"""That of this process."""


def digests_of(X: Any) -> Digests:
    """64 bits for each record of X (n, …), dense or CSR; equal for equal features.

    By the hash of Python for bytes, which has a random key in each process: digests mean nothing
    outside of it.
    """
    if hasattr(X, "indptr"):
        return _digests_of_sparse(X)
    rows = np.asarray(X)
    rows = rows.reshape(len(rows), -1)
    step = max(1, _BYTES_AT_A_TIME // (8 * max(1, rows.shape[1])))
    digests = np.empty(len(rows), np.int64)
    for at in range(0, len(rows), step):
        # Added 0.0 turns −0.0 into 0.0, the same number of other bits.
        part = np.ascontiguousarray(rows[at : at + step], dtype=np.float64) + 0.0
        whole = part.view(np.dtype((np.void, part.itemsize * part.shape[1]))).ravel()
        digests[at : at + step] = [hash(row) for row in whole.tolist()]
    return digests.view(np.uint64)


def _distinct(digests: Digests) -> Digests:
    """Each once, ascending: much faster than `numpy.unique`, which hashes."""
    ordered = np.sort(digests)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    distinct: Digests = ordered[is_first]
    return distinct


def _digests_of_sparse(X: Any) -> Digests:
    rows = X.tocsr(copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    ends = rows.indptr.tolist()
    indices, data = rows.indices.astype(np.int64), rows.data.astype(np.float64)
    hashes = [hash(indices[a:b].tobytes() + data[a:b].tobytes()) for a, b in pairwise(ends)]
    return np.array(hashes, np.int64).view(np.uint64)
