"""The task: records, a model as named arrays, one local step, and how good a model is."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedsel.data
from fedsel.device import LinearModel

Arrays = dict[str, NDArray[np.float32]]
Records = tuple[NDArray[np.float32], NDArray[np.int8]]

TESTED = 5
"""One record in so many judges the model, and belongs to nobody."""
MODEL = LinearModel("logistic", reg=0.0)


def load(config: dict[str, Any]) -> Records:
    """All records, each divided by its own norm: the radius of an update is then known."""
    return _loaded(str(config["dataset"]), int(config["features"]))


@cache
def _loaded(name: str, features: int) -> Records:
    if name == "syn":
        # Of few features half are strong, of many a tenth, as in the paper's syn-L.
        data = fedsel.data.synthetic(d=features, n=60_000, c2=0.9 if features >= 100 else 0.5)
    else:
        data = fedsel.data.read(name).scaled("unit")
    data = data.with_intercept().with_unit_records()
    X = data.X.toarray() if data.sparse else data.X
    return np.asarray(X, np.float32), data.y


def partition(records: Records, node: int, nodes: int) -> Records:
    """What a node holds. A real node would read its own records here."""
    X, y = records
    mine = np.flatnonzero(np.arange(len(y)) % TESTED != 0)[node::nodes]
    return X[mine], y[mine]


def held_out(records: Records) -> Records:
    """What the server judges by."""
    X, y = records
    return X[::TESTED], y[::TESTED]


def start(d: int, config: dict[str, Any]) -> Arrays:
    """The first model; d counts the intercept."""
    if config["model"] == "mlp":
        import torch

        torch.manual_seed(0)
        net = _network(d, int(config["hidden"]))
        return {name: p.detach().numpy() for name, p in net.named_parameters()}
    return {"weights": np.zeros(d - 1, np.float32), "intercept": np.zeros(1, np.float32)}


def train(arrays: Arrays, records: Records, rate: float) -> Arrays:
    """One step of gradient descent on all records of a node."""
    X, y = records
    if "intercept" not in arrays:
        return _train_network(arrays, records, rate)
    w = np.concatenate([arrays["weights"], arrays["intercept"]])
    stepped = (w - rate * MODEL.gradient(w, X, y)).astype(np.float32)
    return {"weights": stepped[:-1], "intercept": stepped[-1:]}


def judge(arrays: Arrays, records: Records) -> tuple[float, float]:
    """Accuracy and loss."""
    X, y = records
    if "intercept" in arrays:
        # Not by X @ w: the simulation forks processes meanwhile, and threads of BLAS may then hang.
        w = np.concatenate([arrays["weights"], arrays["intercept"]])
        margins = np.einsum("nd,d->n", X, w)
    else:
        import torch

        with torch.no_grad():
            margins = _filled(arrays)(torch.from_numpy(X)).numpy().reshape(-1)
    accuracy = np.mean(np.where(margins >= 0, 1, -1) == y)
    return float(accuracy), float(MODEL.losses(margins.astype(np.float64), y).mean())


def _network(d: int, hidden: int) -> Any:
    from torch import nn

    # The intercept is in the records.
    first, last = nn.Linear(d, hidden, bias=False), nn.Linear(hidden, 1, bias=False)
    return nn.Sequential(first, nn.Tanh(), last)


def _filled(arrays: Arrays) -> Any:
    import torch

    hidden, d = arrays["0.weight"].shape
    net = _network(d, hidden)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return net


def _train_network(arrays: Arrays, records: Records, rate: float) -> Arrays:
    import torch

    net = _filled(arrays)
    X, y = torch.from_numpy(records[0]), torch.from_numpy(records[1].astype(np.float32))
    loss = torch.nn.functional.softplus(-y * net(X).reshape(-1)).mean()
    loss.backward()
    torch.optim.SGD(net.parameters(), lr=rate).step()
    return {name: p.detach().numpy() for name, p in net.named_parameters()}
