"""What front ends that hand over a model say of its seed and of clients who come again."""

from __future__ import annotations

import math
import sys
import warnings
from types import FrameType
from typing import Any

from fedsel.errors import RepeatedFitWarning, SeededNoiseWarning
from fedsel.simulation import account
from fedsel.solutions import Privacy

SEED_UNDOES = (
    "whoever knows or guesses the seed: the draws can be repeated and the noise undone. This model"
    " is not for release"
)
"""Against whom the guarantee of a seeded model does not hold."""


_WARNINGS_SHOWN: set[tuple[str, type[Warning], str, int]] = set()


def tell(message: str, category: type[Warning]) -> None:
    """Warn whoever called fedsel, once for each line unless a filter asks for more or for nothing.

    That is Python's own default, but Python forgets what it has told whenever anybody enters
    `warnings.catch_warnings`, as scikit-learn does in each fit: a loop of a thousand fits would
    tell a thousand times.
    """
    frame, stacklevel = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame):
        frame, stacklevel = frame.f_back, stacklevel + 1
    place = (message, category, frame.f_code.co_filename, frame.f_lineno)
    if _action(message, category) in ("default", "module", "once"):
        if place in _WARNINGS_SHOWN:
            return
        _WARNINGS_SHOWN.add(place)
    warnings.warn(message, category, stacklevel=stacklevel)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).split(".")[0] == "fedsel"


def _action(message: str, category: type[Warning]) -> str:
    """What the filters say about a warning, wherever it comes from."""
    for action, text, kind, module, line in warnings.filters:
        everywhere = module is None and line == 0
        if everywhere and issubclass(category, kind) and (text is None or text.match(message)):
            return action
    return "default"


def warn_about_seed(parameter: str, privacy: Privacy) -> None:
    """Warn that a private model was drawn from a seed."""
    if math.isinf(privacy.per_report):
        return  # nothing was drawn to protect anybody
    tell(
        f"{parameter} is fixed: whoever knows or guesses it can repeat the draws and undo the noise"
        f" of every client. Do not release this model; {parameter}=None draws from the operating"
        " system. In simulations, ignore fedsel.errors.SeededNoiseWarning.",
        SeededNoiseWarning,
    )


def spend(X: Any, privacy: Privacy) -> float:
    """Write down a fit on the records X; what each of them has spent at most in this process.

    Warns where records come again: at their second, fourth, eighth … fit, so that a search of a
    hundred fits is not as many warnings.
    """
    seen = account.ACCOUNT.charge(account.digests_of(X), privacy.total)
    is_power_of_two = seen.fits & (seen.fits - 1) == 0
    if seen.fits > 1 and is_power_of_two and not math.isinf(privacy.total):
        tell(
            f"{seen.again:,} of {seen.records:,} different records took part in fits of this"
            f" process before, one of them in {seen.fits} with this one: if they are the same"
            f" clients, they have spent ε = {seen.total:.4g} by now, not {privacy.total:.4g}. Each"
            " fit of a search, a cross-validation or an ensemble costs its ε. For simulated"
            " clients, ignore fedsel.errors.RepeatedFitWarning.",
            RepeatedFitWarning,
        )
    return seen.total
