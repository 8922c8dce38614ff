"""Automatic choices, and everything else that is fixed before a run."""

from fedsel.auto._numbers import (
    AGREEMENT,
    AVERAGING,
    FEWEST_ROUNDS,
    Model,
    PublicFacts,
    learning_rate,
    model_of,
    radius,
    resolve_auto,
    resolve_rate,
    with_share,
)
from fedsel.auto._rounds import FAILURE, reachable_n_min, waiting_probability
from fedsel.auto._run_plan import PublicRecords, RunPlan, check_trains, plan_run

__all__ = [
    "AGREEMENT",
    "AVERAGING",
    "FAILURE",
    "FEWEST_ROUNDS",
    "Model",
    "PublicFacts",
    "PublicRecords",
    "RunPlan",
    "check_trains",
    "learning_rate",
    "model_of",
    "plan_run",
    "radius",
    "reachable_n_min",
    "resolve_auto",
    "resolve_rate",
    "waiting_probability",
    "with_share",
]
