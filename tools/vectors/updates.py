"""Updates: from records and weights to the d finite numbers that a device reports on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, Loss
from fedsel.device import LinearRecords
from fedsel.device._client import evaluated, saturated
from fedsel.preparation import FeatureScale, Plan, Preparation
from fedsel.preparation._plan import Pass
from tools.vectors.encoding import Case, f32, f64, quiet

ABOUT = (
    "Saturation of updates, gradients of linear models, and records on their public scale, "
    "prepared and reported on in rounds that prepare."
)
EXACT_GRADIENT, CLOSE = 1e-12, 2e-7
"""Gradients may differ by the order of sums and the last bits of an exponential; numbers that end
in binary32 by one of its roundings."""

Rows = NDArray[np.float64]
_X: Rows = np.array([[0.5, -1.0, 0.0], [0.25, 0.125, -0.75], [1.0, 0.0, 1.0], [-0.3, 0.7, 0.2]])
_Y = np.array([1, -1, 1, -1])
_TURNS: tuple[Pass, ...] = ("spread", "origin", "spread", "spread")
_W = np.array([0.5, -0.25, 1.0, 0.125])


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _saturations()
    yield from _scales()
    yield from _preparations()
    yield from _gradients()
    yield from _plans()


def _saturations() -> Iterator[Case]:
    largest = float(np.finfo(np.float32).max)
    half = 2.0**103  # half of the last place of the largest
    odd = [np.nan, np.inf, -np.inf, 1e300, -1e300, largest, largest + half / 2, -0.0, 0.0]
    small = [1e-45, 7e-46, 7.1e-46, -1e-310, 5e-324, 1.1754943508222875e-38, 0.1, 1 / 3]
    for factor in (1.0, 0.3, 1e30, 1e-30, 1e300):
        values = np.array(odd + small)
        with np.errstate(all="ignore"):
            result = saturated(values, factor)
        yield {
            "kind": "saturated",
            "values_f64": f64(values),
            "factor": factor,
            "result_f32": f32(result),
        }
    for shows, update in (
        ("as many as there should be", [1.0, 2.0, 3.0]),
        ("too few numbers", [1.0, 2.0]),
        ("too many numbers", [1.0, 2.0, 3.0, 4.0]),
        ("none", []),
    ):
        given = np.array(update)
        with quiet():
            result = evaluated(given, np.zeros(3), 3, {})
        yield {
            "kind": "evaluated",
            "shows": shows,
            "dim": 3,
            "update_f64": f64(given),
            "result_f32": f32(result),
        }
    for answer in (0, 5, 6, -1, 1 << 32, (1 << 53) + 1, -(1 << 63), 10**30):
        with quiet():
            result = evaluated(answer, np.zeros(3), 6, {}, answers=True)
        yield {"kind": "answered", "dim": 6, "answer": str(answer), "result_f32": f32(result)}


def _scales() -> Iterator[Case]:
    records = np.array([[1.0, 9.0, -3.0, 0.1], [0.0, -1e9, 12.0, np.pi], [2.5, 4.0, 6.0, 1e-9]])
    for low, high in (
        ([0, 0, 0, 0], [4, 4, 4, 4]),
        ([-8, -1, 5, 3], [8, 1, 15, 3.5]),
        ([-10, -2, -12, 0], [-2, 6, 3, 1]),
    ):
        scale = FeatureScale.of((low, high), 4)
        yield {
            "kind": "scale",
            "low": scale.low.tolist(),
            "high": scale.high.tolist(),
            "centre": scale.centre.tolist(),
            "factor": scale.factor.tolist(),
            "records_f64": [f64(row) for row in records],
            "rows_f32": [f32(row) for row in scale.apply(records)],
            "tolerance": CLOSE,
        }


def preparations() -> list[Preparation]:
    """As servers publish them."""
    spread, centre = np.array([0.5, 1.0, 0.03125]), np.array([0.25, -0.5, 0.0])
    mixing = np.array(
        [[1.0, 0.5, 0.0, 0.0], [0.0, 1.0, 0.25, 0.0], [0.0] * 4, [0.0, 0.0, 0.0, 2.0]]
    )
    return [
        Preparation.plain(3, unit=False),
        Preparation.plain(3),
        Preparation(spread, centre, 0.3, True, 1.5),
        Preparation(spread, centre, 0.3, False, 1.5),
        Preparation(spread, centre, 0.0, True),
        Preparation(np.ones(3), np.zeros(3), 1.0, True, 1.0, mixing),
        Preparation(spread, centre, 0.3, True, 1.5, origin=np.array([0.375, -0.0625, 1.0])),
        Preparation(spread, centre, 0.3, True, 1.5).widened(2.0),
    ]


def _preparations() -> Iterator[Case]:
    for preparation in preparations():
        records = np.vstack([_X, np.zeros(3)])
        yield {
            "kind": "prepared",
            "preparation": preparation.to_dict(),
            "records_f64": [f64(row) for row in records],
            "rows_f32": [f32(row) for row in preparation.records(records)],
            "tolerance": CLOSE,
        }


def _gradients() -> Iterator[Case]:
    plain = Preparation.plain(3, unit=False)
    targets: dict[Loss, list[Any]] = {
        "logistic": [_Y],
        "svm": [_Y],
        "squared": [np.array([0.5, -1.0, 3.0, 0.1])],
        "huber": [np.array([0.5, -1.0, 3.0, 0.1])],
    }
    for loss, (y,) in targets.items():
        for reg, weights in ((0.0, np.zeros(4)), (0.01, _W), (0.0, 100 * _W), (0.0, -800 * _W)):
            for rows in (slice(0, 1), slice(0, 4)):
                yield _told(loss, reg, weights, _X[rows], y[rows], plain)
    for preparation in preparations()[1:]:
        weights = _W[: preparation.size]
        yield _told("logistic", 0.0, weights, _X, _Y, preparation)
    outside = np.array([[5.0, -3.0, 0.5]])
    yield _told("svm", 0.0, np.zeros(4), outside, np.array([1]), plain)
    margin_of_one = np.array([[1.0, 0.0, 0.0]])
    exactly = np.array([1.0, 0.0, 0.0, 0.0])
    yield _told("svm", 0.0, exactly, margin_of_one, np.array([1]), plain)


def _told(loss: Loss, reg: float, weights: Rows, X: Rows, y: Any, preparation: Preparation) -> Case:
    update = LinearRecords(X, y, LinearModel(loss, reg)).update(0, preparation)
    return {
        "kind": "gradient",
        "loss": loss,
        "reg": reg,
        "preparation": preparation.to_dict(),
        "records_f64": [f64(row) for row in X],
        "y": [float(one) for one in y],
        "weights_f64": f64(weights),
        "gradient": update(weights).tolist(),
        "tolerance": CLOSE if preparation.unit else EXACT_GRADIENT,
    }


def plans() -> list[Plan]:
    """Of rounds that prepare: spreads first, then the centre."""
    loose = (True, False, True)
    return [
        Plan(3, 4, 2, 1, loose, radius=1.0, noise=8.0),
        Plan(3, 4, 3, 2, loose, radius=0.4, noise=8.0, octaves=40),
        Plan(3, 9, 0, 1, loose, radius=2.0, noise=8.0, intercept=False, scattered=True),
        Plan(3, 9, 5, 1, loose, 0.4, noise=8.0, octaves=64, scattered=True, passes=_TURNS),
        Plan(3, 4, 1, 1, loose, radius=1.0, noise=8.0, reach=2.0, entry=0.4),
    ]


def plan_fields(fields: dict[str, Any]) -> Case:
    """The fields of a plan as JSON has them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}


def _plans() -> Iterator[Case]:
    plain = Preparation(np.array([0.5, 1.0, 0.25]), np.zeros(3), 0.3, True, 1.5)
    moved = replace(plain, origin=np.array([0.375, 0.0, -0.75]))
    for plan in plans():
        learnt = moved if plan.passes else plain
        for number in range(plan.rounds):
            records = LinearRecords(_X, _Y, plan=plan)
            told = records.update(number, learnt)(np.zeros(plan.dim))
            yield {
                "kind": "place",
                "plan": plan_fields(plan.for_devices),
                "round": number,
                "stage": plan.stage(number),
                "preparation": learnt.to_dict(),
                "records_f64": [f64(row) for row in _X],
                "update_f32": f32(told),
                "tolerance": CLOSE,
            }
