"""Who reports when: the clients of each epoch in their order, and the rounds they form."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import key_of

SHUFFLE, DROP = 1, 2
"""Purposes of random streams beside the clients' own."""


def schedule(
    members: NDArray[np.int64],
    *,
    clients: int,
    batch: int,
    seed: int | None,
    epoch: int,
    dropout: float = 0.0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The members in the order of an epoch, and where each round of at most ``batch`` ends.

    Shuffled anew in each epoch; those that drop out are missing from their round. ``clients`` is
    the number of all, members or not. Without a seed both are drawn anew in every call, from bits
    that no report is drawn from.

    >>> order, ends = schedule(np.arange(5), clients=5, batch=2, seed=0, epoch=0)
    >>> sorted(order.tolist()), ends.tolist()
    ([0, 1, 2, 3, 4], [1, 3, 5])
    """
    from fedsel.sampling._kernels import native

    if seed is None:
        seed = secrets.randbits(256)
    order = members.copy()
    native.shuffle(order, key_of(seed, SHUFFLE), epoch)
    # Even rounds of at most ``batch``: the mean of a few left over would be mostly noise.
    count = -(-len(order) // batch)
    ends: NDArray[np.int64] = np.arange(1, count + 1, dtype=np.int64) * len(order) // count
    if dropout == 0:
        return order, ends
    stays = np.ones(clients, dtype=np.bool_)
    native.drop(stays, dropout, key_of(seed, DROP), epoch)
    answers = stays[order]
    return order[answers], np.cumsum(answers, dtype=np.int64)[ends - 1]
