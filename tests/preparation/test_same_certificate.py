"""Rounds that prepare cost what rounds that train cost: the law of a report on any vector."""

import numpy as np
import pytest

from fedsel import certify_by_enumeration, solution
from fedsel.preparation import Plan

CORNERS = np.array([[1, 1], [-1, 1], [1e-9, -1], [0, 0]], dtype=np.float32)


@pytest.mark.parametrize("name", ["RJ", "RC", "PS-Duchi"])
def test_reports_on_records_are_within_the_certificate_of_reports_on_gradients(name):
    """Every transcript of two such rounds, on records at the corners of their public scale."""
    made = solution(name, epsilon=2.0, dim=3, epochs=2, rho=0.4, words=4, k=1)
    plan = Plan(2, 3, 1, 1, (True, True), 0.4, made.noise)
    for number in range(plan.rounds):
        vectors = plan.vectors(number, CORNERS, plan.begin.preparation)
        found = certify_by_enumeration(made, [tuple(v) for v in vectors.tolist()])
        assert found.holds
        assert 1 < found.ratio <= made.privacy.ratio**2
