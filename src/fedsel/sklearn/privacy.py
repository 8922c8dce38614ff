"""What a fit costs its clients, in words and numbers, and what it does not protect."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass

from fedsel.errors import Epsilon, PrivacyLeakWarning, check_count, check_epsilon
from fedsel.solutions import Solution
from fedsel.solutions.registry import PLAIN

COVERED = (
    "every report: no report is more than e^ε times as likely under one content of the client as"
    " under any other. This is pure ε-local differential privacy (no δ), against everyone, the"
    " server included",
    "coef_, intercept_, history_ without eval_set, and predictions: they are computed from the"
    " reports alone",
)
NOT_COVERED = (
    "that a client takes part, when, and in which round; the number of clients",
    "the number and names of the features, and the set of classes: they are taken to be public",
    "what was fitted to the same records before (a scaler, a feature selection) or is computed"
    " from them beside the reports (score, eval_set)",
    "further fits on the same clients, a search for hyper-parameters among them: each costs its ε",
    "people who are several clients: they lose the sum; give groups",
    "real devices: this is a simulation, which draws from a seed and holds all records itself",
)


@dataclass(frozen=True)
class PrivacyStatement:
    """The exact ε of one report and of all reports of a client, and what that means.

    ``per_report`` and ``total`` are infinite where a solution is not private; ``total`` counts the
    ``reports`` of one client in one fit or wave.
    """

    per_report: float
    total: float
    reports: int
    within_budget: bool
    client: str
    note: str
    bits: int
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]

    def __str__(self) -> str:
        if math.isinf(self.per_report):
            lines = [f"NOT PRIVATE ({self.note})."]
        else:
            lines = [
                f"ε = {self.per_report:.6g} a report, {self.total:.6g} in total"
                f" ({self.reports} report{'s' * (self.reports > 1)} of {self.bits} bits;"
                f" a client is {self.client}).",
                f"{self.note}.",
            ]
        if not self.within_budget and not math.isinf(self.per_report):
            lines.append("THIS IS MORE THAN THE EPSILON THAT WAS ASKED FOR.")
        for title, facts in (("Covered", self.covered), ("Not covered", self.not_covered)):
            if facts:
                lines += [f"{title}:", *(f"- {fact}" for fact in facts)]
        return "\n".join(lines)


def statement(solution: Solution, *, grouped: bool, bounds_read: bool) -> PrivacyStatement:
    """What a fit with this solution costs a client."""
    privacy = solution.privacy
    private = not math.isinf(privacy.per_report)
    leaks = ("the bounds of the features, which were read from the records",) * bounds_read
    return PrivacyStatement(
        per_report=privacy.per_report,
        total=privacy.total,
        reports=privacy.epochs,
        within_budget=privacy.within_budget,
        client="a group of records" if grouped else "one record",
        note=privacy.note,
        bits=solution.bits,
        covered=COVERED if private else (),
        not_covered=(*leaks, *NOT_COVERED) if private else ("everything",),
    )


def warn_about_solution(solution: Solution) -> None:
    """Warn of a solution that is less private than its parameters suggest."""
    privacy = solution.privacy
    if solution.name in PLAIN or privacy.within_budget:
        return
    cost = f"loses ε = {privacy.per_report:.3g} a report" if privacy.ratio else "is not private"
    if not privacy.certified:
        cost = "has no certificate"
    warnings.warn(
        f"solution = {solution.name!r} {cost}, whatever epsilon says: {privacy.note}",
        PrivacyLeakWarning,
        stacklevel=4,
    )


def warn_about_bounds() -> None:
    """Warn that feature bounds were read from the records."""
    warnings.warn(
        "feature_range is None: the bounds of the features were read from the records, which is"
        " not private. Give feature_range=(low, high), known without the records.",
        PrivacyLeakWarning,
        stacklevel=5,
    )


def search_cost(
    epsilon: Epsilon, *, candidates: int = 1, splits: int = 5, refit: bool = True
) -> float:
    """The ε that a search with k-fold cross-validation costs a client, if all fits are private.

    A client is in all but one training split of each candidate, and in the refit; its reports
    compose. (Scoring on its held-out records is not covered at all.)

    >>> search_cost(2.0, candidates=3, splits=5)
    26.0
    """
    fits = check_count("candidates", candidates) * (check_count("splits", splits, least=2) - 1)
    return float(check_epsilon("epsilon", epsilon)) * (fits + bool(refit))


def warn_about_search(total: float) -> None:
    """Warn where this fit is one of many on the same clients, as scikit-learn's searches do.

    An estimator is not told why it is fitted. But every search and cross-validation of scikit-learn
    fits inside one function, here or in a worker process, and that one knows how many fits there
    are.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and "model_selection" in str(
            frame.f_globals.get("__name__")
        ):
            break
        frame = frame.f_back  # type: ignore[assignment]
    else:
        return
    (_, splits), (_, candidates) = (
        frame.f_locals.get(name) or (0, 1) for name in ("split_progress", "candidate_progress")
    )
    times = "several times" if splits * candidates == 1 else f"up to {splits * candidates} times"
    bound = "" if splits * candidates == 1 else f" up to ε = {total * splits * candidates:.4g}"
    warnings.warn(
        f"a search or cross-validation fits the same clients {times}: together this costs"
        f" them{bound} (not {total:.4g}), and scores on their records in the clear. Search on"
        " public or simulated data, or pay: fedsel.sklearn.search_cost(…).",
        PrivacyLeakWarning,
        stacklevel=4,
    )
