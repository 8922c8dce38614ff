"""What a service says of its task: public, and believed as far as it makes sense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from fedsel.device.joining.outcome import Ended, Ending
from fedsel.errors import check_count, check_positive
from fedsel.mechanisms._base import MAX_DIMENSION
from fedsel.models import REGRESSING, LinearModel
from fedsel.wire.report import RUN_BYTES

MOST_BYTES = 64 << 20
"""Of a task as text: the names of its features may be many."""


@final
@dataclass(frozen=True)
class Announcement:
    """The part of a task that a device needs beside its requests.

    ``features``: names of the columns, or their number, None where devices bring updates of their
    own; ``seconds``: after which a round ends by the clock, if it does.
    """

    name: str
    run: bytes
    signed: bool
    rounds_per_epoch: int
    seconds: float | None
    features: tuple[str, ...] | int | None
    loss: str
    labels: tuple[str, str] | None
    target_range: tuple[float, float] | None

    @property
    def feature_count(self) -> int | None:
        """The entries of a record."""
        return len(self.features) if isinstance(self.features, tuple) else self.features

    @property
    def dim(self) -> int | None:
        """The entries of an update of a linear model, which has an intercept; None: any number."""
        return None if self.feature_count is None else self.feature_count + 1

    @property
    def regression(self) -> bool:
        """Whether the label is a number."""
        return self.loss in REGRESSING

    @classmethod
    def of(cls, values: Any) -> Self:
        """From the service's JSON; anything else ends the visit."""
        try:
            return cls._of(values)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            detail = "this is not the description of a task"
            raise Ended(Ending.NOT_UNDERSTOOD, detail) from None

    @classmethod
    def _of(cls, values: Any) -> Self:
        run, closing = bytes.fromhex(values["run"]), values["close_after"]
        loss, labels, target = values["loss"], values["labels"], values["target_range"]
        if len(run) != RUN_BYTES or values["invitations"] not in ("signed", "open"):
            raise ValueError
        LinearModel(loss or "logistic", reg=0.0)
        if labels is not None:
            first, second = labels
            labels = (_text(first), _text(second))
        if target is not None:
            low, high = (float(bound) for bound in target)
            if not (np.isfinite([low, high]).all() and low < high):
                raise ValueError
            target = (low, high)
        if loss in REGRESSING and target is None:
            raise ValueError
        seconds = closing.get("seconds")
        return cls(
            _text(values["name"]),
            run,
            values["invitations"] == "signed",
            check_count("rounds_per_epoch", values["rounds_per_epoch"], most=(1 << 32) - 1),
            None if seconds is None else check_positive("seconds", seconds),
            _features(values["features"]),
            loss or "logistic",
            labels,
            target,
        )


def _features(value: Any) -> tuple[str, ...] | int | None:
    if value is None:
        return None
    if isinstance(value, list):
        names = tuple(_text(name) for name in value)
        if not names or len(set(names)) != len(names):
            raise ValueError
        return names
    return check_count("features", value, most=MAX_DIMENSION)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value
