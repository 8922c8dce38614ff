"""Warnings of what a fit does beside its reports, and of fits that are one of many."""

from __future__ import annotations

import math
import sys
from types import FrameType

from fedsel.errors import PrivacyLeakWarning, RepeatedFitWarning
from fedsel.simulation.leaks import tell
from fedsel.solutions import Solution
from fedsel.solutions._registry import PLAIN

_TALLY = "__fedsel_fits__"
"""Under this name a frame of scikit-learn holds how often, and at what cost, it has fitted."""
_FIT_ONCE = ("sklearn.base", "sklearn.pipeline", "sklearn.compose", "sklearn.utils")
"""Modules of scikit-learn that pass a fit on, and do not repeat it."""


def warn_about_solution(solution: Solution) -> None:
    """Warn of a solution that is less private than its parameters suggest."""
    privacy = solution.privacy
    if solution.name in PLAIN or privacy.within_budget:
        return
    cost = f"loses ε = {privacy.per_report:.3g} a report" if privacy.ratio else "is not private"
    if not privacy.certified:
        cost = "has no certificate"
    tell(
        f"solution = {solution.name!r} {cost}, whatever epsilon says: {privacy.note}",
        PrivacyLeakWarning,
    )


def warn_about_bounds(
    name: str = "feature_range", of: str = "the features", give: str = "(low, high)"
) -> None:
    """Warn that bounds were read from the records."""
    tell(
        f"{name} is None: the bounds of {of} were read from the records, which is not private. Give"
        f" {name}={give}, known without the records.",
        PrivacyLeakWarning,
    )


def warn_about_caller(total: float) -> None:
    """Warn where this fit is one of many on the same clients, before the first of them.

    `fedsel.simulation.account` counts records that come again. It cannot where a transformer in
    front of the estimator is fitted anew for each part of the data: records look different then.
    So the callers are looked at, too: all of scikit-learn but what passes a single fit on.
    """
    callers = _repeating()
    if not callers:
        return
    # A search tells each fit how many there are.
    progress = [
        callers[0].f_locals.get(name) or (0, 1) for name in ("split_progress", "candidate_progress")
    ]
    count = progress[0][1] * progress[1][1]
    if count == 1:
        cost = f"several times: each fit costs them ε = {total:.4g}"
    else:
        bound = f"up to ε = {total * count:.4g} (not {total:.4g})"
        cost = f"up to {count} times: together this costs them {bound}"
    tell(
        f"{callers[-1].f_code.co_qualname} of scikit-learn may fit the same clients {cost}, and"
        " scores on held-out records are computed in the clear. Search on public or simulated data,"
        " or pay: fedsel.sklearn.search_cost(…).",
        RepeatedFitWarning,
    )


def warn_about_changed_records(total: float, spent: float) -> None:
    """Warn of fits within one call of scikit-learn whose records the account does not recognise.

    Where features are dropped (RFE) or added (ClassifierChain), or a scaler is fitted anew, every
    record looks new, and ``spent`` is the ``total`` of this fit alone. The fits of the outermost
    call are counted then, at the second, fourth, eighth … of them. The count lives and dies with
    that call's frame.
    """
    callers = _repeating()
    if not callers:
        return
    known = callers[-1].f_locals
    fits, before = known.get(_TALLY, (0, 0.0))
    fits, sum_of_all = fits + 1, before + total
    known[_TALLY] = (fits, sum_of_all)
    is_power_of_two = fits & (fits - 1) == 0
    if fits > 1 and is_power_of_two and spent <= total < math.inf:
        tell(
            f"{callers[-1].f_code.co_qualname} of scikit-learn has fitted {fits} times by now, to"
            " records that look different each time: if they are of the same clients, those who"
            f" took part in all fits have spent ε = {sum_of_all:.4g}, not {total:.4g}, and spent_"
            " is too small.",
            RepeatedFitWarning,
        )


def warn_about_leaving() -> None:
    """Warn that an estimator is sent to where its fits cannot be counted."""
    tell(
        "an estimator that is not fitted is pickled, as n_jobs=2 does for another process: what it"
        " is fitted to there is not counted here, and its warnings stay there. Every fit costs its"
        " clients ε: fedsel.sklearn.search_cost(…).",
        RepeatedFitWarning,
    )


def _repeating() -> list[FrameType]:
    """The callers within scikit-learn that fit more than once, the innermost first."""
    return [frame for frame in _frames(sys._getframe(2)) if _repeats(frame)]


def _frames(frame: FrameType | None) -> list[FrameType]:
    """This frame and its callers, the innermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _repeats(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("sklearn.") and not module.startswith(_FIT_ONCE)
