"""Data sets that differ in one client: what is public is the same, and all before its report."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from fedsel import solution
from fedsel.simulation import Training, _account
from fedsel.torch import FederatedTrainer, Local

SEED, N, D = 3, 200, 4
FROM_REPORTS = {"module", "history", "loss", "layout", "_progress"}
"""What is computed from all reports, or was given; everything else a trainer holds is public."""
TRAINING = Training(solution("NP", dim=1), batch=8, seed=SEED)
LAST = int(TRAINING.schedule(np.arange(N), N, 0)[0][-1])
"""The client that reports last: in the last of 25 rounds."""
SETTINGS = {
    "RJ": {},
    "PS-PM": {"solution": "PS-PM", "epsilon": 8.0},
    "NP": {"solution": "NP", "learning_rate": 0.1},
    "local epochs": {"local": Local(rate=0.1, epochs=2, batch=1)},
    "a regulariser": {"solution": "PS-PM", "epsilon": 8.0, "reg": 0.01},
    "a centre": {"feature_range": (-3, 9), "centre": 0.2, "epsilon": 8.0},
}


def network(outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, outputs))


class Lazy(Dataset):
    """Records that are made when they are asked for."""

    def __init__(self, *parts):
        self.parts = [part for part in parts if part is not None]

    def __len__(self):
        return len(self.parts[0])

    def __getitem__(self, number):
        return tuple(part[number] for part in self.parts)


def fitted(given, outputs, loss, data, *, lazy=False):
    _account.RECORDS = _account.RecordAccount()  # nobody has been fitted before
    y = data[1]
    generator = torch.Generator().manual_seed(1)
    judges = torch.randn(50, D, generator=generator), torch.zeros(50, dtype=y.dtype)
    judges = judges[0], judges[1].reshape(50, *y.shape[1:])
    trainer = FederatedTrainer(network(outputs), loss, seed=SEED, batch=8, **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = (Lazy(*data),) if lazy else data
        trainer.fit(*records, eval_set=judges, evaluate="rounds")
    known = {k: pickle.dumps(v) for k, v in vars(trainer).items() if k not in FROM_REPORTS}
    known["warnings"] = [(w.category, str(w.message)) for w in caught]
    known["statement"] = str(trainer.statement), repr(trainer.privacy), trainer.communication
    rounds = trainer.history.rounds
    known["history"] = [(r.round, r.epoch, r.epsilon, r.bits, r.reports) for r in rounds]
    state = trainer.state_dict()
    known["state"] = (
        state["settings"],
        state["decided"],
        state["run"]["facts"],
        state["run"]["order"],
    )
    known["structure"] = repr(trainer.module), set(vars(trainer.module))
    return known, [(r.loss, r.accuracy) for r in rounds]


def neighbours(X, y, label, *, grouped):
    """The last client's record or label is another, or, with groups, it holds more of them."""
    other_X, other_y, zero = X.clone(), y.clone(), X.clone()
    other_X[LAST], other_y[LAST], zero[LAST] = 50.0, label, 0.0
    found = []
    for number, (X_, y_) in enumerate(((X, y), (other_X, y), (X, other_y), (zero, y))):
        owners = np.r_[np.arange(N), np.full(number, LAST)]
        found.append((X_[owners], y_[owners], owners) if grouped else (X_, y_, None))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", ["two classes", "five classes", "numbers"])
@pytest.mark.parametrize("name", SETTINGS)
def test_trainers(name, kind, grouped):
    X = torch.randn(N, D)
    scores = torch.stack([X.roll(c, 1) @ torch.arange(1.0, 1 + D) for c in range(5)])
    y, loss, outputs, label = scores.argmax(0), nn.functional.cross_entropy, 5, 4
    y[LAST] = 0
    if kind == "two classes":
        y, outputs, label = (y > 1).long(), 2, 1
    elif kind == "numbers":
        y, loss, outputs, label = X[:, :1].clone(), nn.functional.mse_loss, 1, -1.0
    if kind != "numbers" and grouped:
        label = -100  # a record that torch leaves out
    given = {"epsilon": 4.0, **SETTINGS[name]}
    if given.get("solution") == "NP":
        del given["epsilon"]
    data = neighbours(X, y, label, grouped=grouped)
    first, *others = [fitted(given, outputs, loss, one) for one in data]
    if name in ("RJ", "a centre", "local epochs"):  # what a Dataset is read for is the same
        assert [first, *others] == [fitted(given, outputs, loss, one, lazy=True) for one in data]
    for known, learnt in others:
        assert known == first[0]
        assert learnt[:-1] == first[1][:-1]
        if given.get("solution") == "NP":  # the last report tells of the change: it is one
            assert learnt != first[1]
