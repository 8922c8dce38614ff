"""The solutions worth considering, each with what it would give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from fedsel.advising.asked import Asked
from fedsel.advising.moments import moments
from fedsel.advising.outlook import Outlook
from fedsel.advising.sufficiency import prospect, too_large
from fedsel.auto import learning_rate
from fedsel.errors import Epsilon
from fedsel.mechanisms import OneSymbol, TwoStage
from fedsel.recipe import solution
from fedsel.solutions import Solution
from fedsel.solutions._budget import Budget, hyper_parameters_free
from fedsel.solutions._registry import entry

NAMES = ("FJ", "RC", "J", "UJ", "PM", "HM", "PS-PM", "PE-PM", "EXP-PM", "PM-RP")
"""Where two align alike, in two digits, the first of them ranks first: FJ and RC assume nothing of
the shape of updates and FJ costs less, and what takes another's place comes after it. RJ, which
bends the mean of many updates, is left out."""
ASSUMING, HANDICAP = ("J", "UJ"), 0.95
"""Those whose alignment holds for the assumed shape of updates alone: they rank by so much less."""
TWO_STAGE = ("EXP-PM", "PE-PM", "PS-PM")


def left_out(dim: int) -> dict[str, str]:
    """Solutions that are not considered at this dimension, and why."""
    return {name: why for name in NAMES if (why := too_large(name, dim))}


def candidate(name: str, epsilon: Epsilon, asked: Asked) -> Solution:
    """A solution with ε in total over all epochs, or the one that takes its place."""
    return solution(
        name,
        epsilon=epsilon,
        dim=asked.dim,
        epochs=asked.epochs,
        mu="auto",
        clip=asked.clip,
        batch=asked.batch,
        rho=asked.updates.length if entry(name).directions else None,
    )


def outlooks(asked: Asked, epsilon_of: Callable[[str], Epsilon]) -> tuple[Outlook, ...]:
    """One outlook a solution, by rank; ``epsilon_of`` is its ε in total."""
    skipped = left_out(asked.dim)
    found = [_outlook(name, epsilon_of(name), asked) for name in NAMES if name not in skipped]
    found.sort(key=lambda o: (-float(f"{_safely(o):.2g}"), NAMES.index(o.name)))
    return tuple(replace(o, rank=i) for i, o in enumerate(found, 1))


def _safely(outlook: Outlook) -> float:
    return outlook.alignment_all * (HANDICAP if outlook.name in ASSUMING else 1.0)


def _outlook(name: str, epsilon: Epsilon, asked: Asked) -> Outlook:
    built, updates, batch = candidate(name, epsilon, asked), asked.updates, asked.batch
    estimate = moments(built, updates)
    reports, rounds = asked.clients * asked.epochs, asked.epochs * asked.rounds
    whole = prospect(built, updates, reports=reports, rounds=rounds)
    needed = whole.reports_needed
    per_epoch = Budget(epsilon, asked.epochs, 0.0).per_epoch
    mu = hyper_parameters_free(asked.dim, batch, per_epoch) if name in TWO_STAGE else None
    return Outlook(
        rank=0,
        name=name,
        takes=built.name,
        epsilon_per_report=built.privacy.per_report,
        epsilon_total=built.privacy.total,
        mu=mu,
        k=_top(built),
        bits=built.bits,
        noise=estimate.noise(batch),
        alignment_round=estimate.alignment(batch),
        alignment_all=whole.alignment,
        clients_needed=None if needed is None else math.ceil(needed / asked.epochs),
        learning_rate=learning_rate(built, asked.setting),
        note=f"μ = 0: {built.name} takes its place" if built.name != name else "",
        solution=built,
        moments=estimate,
    )


def _top(built: Solution) -> int | None:
    mechanism = built.mechanism
    if isinstance(mechanism, OneSymbol):
        return mechanism.top(built.transform.size)
    if isinstance(mechanism, TwoStage) and mechanism.selection.name in ("PE", "PS"):
        return mechanism.selection.top(built.dim)
    return None
