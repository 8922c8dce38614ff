"""How many reports every round of a run will have, where each client picks its round at random.

A device draws one of the R rounds of its epoch (`fedsel.device`), from public numbers alone. If
each of N clients reports in an epoch with probability s, a round has Bin(N, s/R) reports of clients
whose turn it is. A round that closes before all of them have reported leaves some to the next one,
and takes none from a later one. A round that has too few waits for clients of later rounds, which
then lack them; and of those that come at once, many come too late and have paid for nothing. So
what is computed is whether any round of the run has to wait: the tail of one binomial law, times
the number of rounds, which bounds the probability for all of them together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedsel.errors import InvalidArgument, check_count, check_float

FAILURE = 1e-3
"""The probability with which `reachable_n_min` is not reached in some round of a run."""
MOST_CLIENTS = (1 << 32) - 1
_ROUNDING = 1 + 1e-4
"""More than floats lose: the logarithm of a probability is a difference of up to 1e11."""
_DEVIATIONS = 20
"""Terms of a tail beyond so many standard deviations are below the precision of floats."""


def reachable_n_min(
    clients: int,
    rounds_per_epoch: int,
    *,
    epochs: int = 1,
    drop_out: float = 0.0,
    failure: float = FAILURE,
) -> int:
    """The largest n_min that all rounds of a run reach, but with probability ``failure``.

    Each client reports in an epoch with probability 1 − ``drop_out``; those whose reports come too
    late count as dropped out. 0 if not even one report a round is as certain as that.

    >>> reachable_n_min(29_305, 20), reachable_n_min(29_305, 20, drop_out=0.1)
    (1322, 1183)
    """
    if not 0 < check_float("failure", failure) < 1:
        raise InvalidArgument("failure", failure, "in (0, 1)")
    known: dict[str, Any] = {"epochs": epochs, "drop_out": drop_out}
    reached, short = 0, check_count("clients", clients, most=MOST_CLIENTS) + 1
    while short - reached > 1:
        middle = (reached + short) // 2
        if waiting_probability(middle, clients, rounds_per_epoch, **known) <= failure:
            reached = middle
        else:
            short = middle
    return reached


def waiting_probability(
    n_min: int, clients: int, rounds_per_epoch: int, *, epochs: int = 1, drop_out: float = 0.0
) -> float:
    """At least the probability that some round of a run has to wait for n_min reports.

    >>> waiting_probability(1322, 29_305, 20) < 1e-3 < waiting_probability(1323, 29_305, 20)
    True
    """
    n, count = check_count("n_min", n_min), check_count("clients", clients, most=MOST_CLIENTS)
    rounds = check_count("rounds_per_epoch", rounds_per_epoch) * check_count("epochs", epochs)
    if not 0 <= check_float("drop_out", drop_out) < 1:
        raise InvalidArgument("drop_out", drop_out, "a share in [0, 1)")
    share = (1 - drop_out) / rounds_per_epoch
    if share == 1:
        return float(n > count)
    return 1.0 if n > share * count else min(1.0, rounds * _below(n, count, share))


def _below(n: int, count: int, share: float) -> float:
    """P[Bin(count, share) < n] for n up to the mean, or a little more."""
    top = n - 1
    first = math.lgamma(count + 1) - math.lgamma(n) - math.lgamma(count - top + 1)
    first += top * math.log(share) + (count - top) * math.log1p(-share)
    deviation = math.sqrt(count * share * (1 - share))
    k = top - np.arange(min(top, math.ceil(_DEVIATIONS * (deviation + 1))))
    falling = np.cumprod(k * (1 - share) / ((count - k + 1) * share))
    return math.exp(first) * (1 + float(falling.sum())) * _ROUNDING
