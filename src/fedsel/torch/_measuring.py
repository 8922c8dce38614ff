"""Clients that measure the module and do not train it: what each answers about one record."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument
from fedsel.measuring import Measured, Measurement
from fedsel.simulation._measuring import measured
from fedsel.torch._inputs import width_of
from fedsel.torch._records import Records

_ONE_OF_SEVERAL = (nn.functional.cross_entropy, nn.CrossEntropyLoss)
_ONE_OF_TWO = (nn.functional.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss)
_NUMBERS = (
    *(nn.functional.mse_loss, nn.functional.l1_loss, nn.functional.huber_loss),
    *(nn.functional.smooth_l1_loss, nn.MSELoss, nn.L1Loss, nn.HuberLoss, nn.SmoothL1Loss),
)
_AT_A_TIME = 1024


def classes_told(loss: Any, outputs: int) -> int:
    """How many classes outputs with this loss tell apart; 0 for numbers. Other losses are refused.

    >>> classes_told(nn.functional.cross_entropy, 10), classes_told(nn.MSELoss(), 1)
    (10, 0)
    """
    kinds: tuple[tuple[tuple[Any, ...], bool, int], ...] = (
        (_ONE_OF_SEVERAL, outputs >= 2, outputs),
        (_ONE_OF_TWO, outputs == 1, 2),
        (_NUMBERS, outputs == 1, 0),
    )
    for known, fits, classes in kinds:
        kind = loss if callable(loss) and not isinstance(loss, nn.Module) else type(loss)
        if kind in known and fits:
            return classes
    allowed = (
        "0 unless the loss is cross_entropy, binary_cross_entropy_with_logits of one output, or"
        " mse_loss, l1_loss or huber_loss of one output with targets on [-1, 1]"
    )
    raise InvalidArgument("measure", f"a share, with {outputs} outputs", allowed)


def measured_module(
    module: nn.Module,
    loss: Any,
    records: Records,
    partition: Clients | None,
    clients: NDArray[np.int64],
    epsilon: Fraction,
    *,
    seed: int | None,
) -> Measurement | None:
    """What these clients say about the module as it is, each by one of its records."""
    classes = classes_told(loss, width_of(module, records.like[0]))
    picked = np.random.default_rng(seed)
    asked = Measured.planned(classes, len(clients), epsilon, linear=False)
    return measured(
        asked,
        _answering(module, records, partition, picked),
        clients,
        np.zeros(0),
        epsilon,
        seed=seed,
    )


def _answering(
    module: nn.Module, records: Records, partition: Clients | None, picked: np.random.Generator
) -> Callable[[NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    where = next(module.parameters()).device

    def answering(
        some: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows = some
        if partition is not None:
            rows = np.array([picked.choice(partition.records(c)) for c in some.tolist()])
        margins, labels = [], []
        with torch.no_grad():
            for at in range(0, len(rows), _AT_A_TIME):
                x, y = records.read(rows[at : at + _AT_A_TIME])
                margins.append(module(x.to(where)).double().cpu().reshape(len(x), -1).numpy())
                labels.append(y.double().reshape(len(y), -1)[:, 0].numpy())
        return np.concatenate(margins), np.concatenate(labels)

    return answering
