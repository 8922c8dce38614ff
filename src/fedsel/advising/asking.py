"""``advise``: what a user asks, checked, and the advice for it."""

from __future__ import annotations

import math

from fedsel.advising.advice import Advice, advice_for
from fedsel.advising.asked import Asked
from fedsel.advising.central import advise_centrally
from fedsel.auto import AGREEMENT, FEWEST_ROUNDS
from fedsel.central import DELTA
from fedsel.central.amplification import check_delta
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon, check_positive

ROUNDS = 100
"""Of an epoch, where nothing is said and nobody shuffles."""


def advise(
    *,
    dim: int,
    clients: int,
    epsilon: Epsilon | None = None,
    central: float | None = None,
    delta: float | None = None,
    batch: int | None = None,
    rounds: int | None = None,
    epochs: int = 1,
    sparse: bool = False,
    agreement: float = AGREEMENT,
    norm: float = 1.0,
    clip: float = 1.0,
    regression: bool = False,
) -> Advice:
    """Which solution to take for ``clients`` of ``dim`` entries and ε in total over ``epochs``.

    Give ``epsilon``, the local ε of a client, or ``central``, the ε that the reports of a round
    shall have at ``delta`` (1e-6) if a shuffler stands between: then each solution has the largest
    local ε that keeps it, and ``advice.central`` tells what is possible without a shuffler.

    ``batch`` clients report in a round, or all of them in ``rounds`` of an epoch: 100 by default,
    20 where reports are shuffled. ``agreement`` is the norm of the mean update over that of one,
    ``sparse`` says that updates have few entries, ``norm`` is that of a record (an update has 0.4
    of it, 0.16 in a ``regression``), ``clip`` the bound of one entry.

    >>> advice = advise(dim=124, clients=39_000, batch=390, epsilon=1.0)
    >>> advice.recommended, advice.usable
    ('FJ', True)
    >>> advise(dim=10**6, clients=1000, epsilon=1.0).usable
    False
    """
    if epsilon is None and central is None:
        raise InvalidArgument("epsilon", epsilon, "given, or central in its place")
    if epsilon is not None and central is not None:
        raise InvalidArgument("central", central, "left out where epsilon is given")
    if delta is not None and central is None:
        raise InvalidArgument("delta", delta, "left out, or given with central")
    if batch is not None and rounds is not None:
        raise InvalidArgument("rounds", rounds, "left out where batch is given")
    clients = check_count("clients", clients)
    if rounds is not None:
        batch = math.ceil(clients / check_count("rounds", rounds, most=clients))
    usual = FEWEST_ROUNDS if central is not None else ROUNDS
    asked = Asked(
        dim=dim,
        clients=clients,
        batch=math.ceil(clients / usual) if batch is None else batch,
        epochs=epochs,
        sparse=sparse,
        agreement=agreement,
        norm=norm,
        clip=clip,
        regression=regression,
    )
    if central is not None:
        goal = float(check_positive("central", central))
        unshuffled = asked.in_rounds(ROUNDS) if batch is None else asked
        return advise_centrally(
            asked, unshuffled, goal, DELTA if delta is None else check_delta(delta)
        )
    told = check_epsilon("epsilon", epsilon)
    return advice_for(asked, lambda _: told)
