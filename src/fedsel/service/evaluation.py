"""How good the model is on a public test set, after every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel.data.files import read
from fedsel.errors import InvalidArgument
from fedsel.models import CLASSIFYING, LinearModel, predict
from fedsel.server.checkpoint import Checkpoint
from fedsel.service.task import Task


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """A public test set of a task: raw records X (n, d) in the task's order, labels y of ±1."""

    task: Task
    X: NDArray[np.float32]
    y: NDArray[np.int8]

    @classmethod
    def of(cls, task: Task) -> Self | None:
        """That of a task; None if it has none. What is wrong with the file is told."""
        if task.evaluation is None:
            return None
        if task.features is None or task.loss not in CLASSIFYING:
            allowed = "left out: it is for classifiers with features"
            raise InvalidArgument("evaluation", task.evaluation, allowed)
        path, label = task.evaluation["data"], task.evaluation["label"]
        try:
            data = read(path, label, positive=None if task.labels is None else task.labels[1])
        except InvalidArgument as error:
            raise InvalidArgument("evaluation", path, f"a test set ({error})") from None
        X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
        return cls(task, _arranged(task, X, data.feature_names), data.y)

    def measured(self, state: Checkpoint) -> dict[str, float]:
        """Accuracy and loss of the model as it is at a checkpoint."""
        preparing = self.task.preparing(state)
        if preparing is None:
            raise InvalidArgument("features", None, "given where there is a test set")
        margins = np.asarray(preparing.records(self.X) @ state.state.average, dtype=np.float64)
        losses = LinearModel(self.task.loss).losses(margins, self.y)
        return {
            "accuracy": float(np.mean(predict(margins) == self.y)),
            "loss": float(np.mean(losses)),
        }


def _arranged(task: Task, X: Any, names: tuple[str, ...]) -> NDArray[np.float32]:
    """The columns that the task names, in its order; all of them where it only counts them."""
    if not isinstance(task.features, tuple):
        if X.shape[1] != task.features:
            actual = f"{X.shape[1]} features"
            raise InvalidArgument("evaluation", actual, f"{task.features}, as the task has")
        return np.asarray(X, dtype=np.float32)
    place = {name: j for j, name in enumerate(names)}
    for name in task.features:
        if name not in place:
            raise InvalidArgument("evaluation", sorted(place), f"with a column {name!r}")
    return np.asarray(X[:, [place[name] for name in task.features]], dtype=np.float32)
