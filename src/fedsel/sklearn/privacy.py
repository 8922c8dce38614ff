"""What a fit of an estimator costs its clients (`fedsel.statements.fits`), and a search."""

from __future__ import annotations

from functools import partial

from fedsel.errors import Epsilon, check_count, check_epsilon
from fedsel.statements.fits import PrivacyStatement, fit_statement

__all__ = ["PrivacyStatement", "search_cost", "statement"]

statement = partial(
    fit_statement, released="coef_, intercept_, history_ without eval_set, and predictions"
)
"""What a fit with a solution costs a client."""


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
