"""A trainer says where its clients are too few, as estimators do, before anything is spent."""

import warnings

import pytest
import torch
from torch import nn

from fedsel.errors import TooFewClientsWarning
from fedsel.simulation import _account
from fedsel.torch import FederatedTrainer, Local

pytestmark = pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
X = torch.randn(400, 8)
LABELS = (X[:, 0] > 0).long()


def trainer(loss=nn.functional.cross_entropy, outputs=2, **given):
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, outputs))
    return FederatedTrainer(net, loss, **{"epsilon": 1.0, **given})


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.CrossEntropyLoss()])
def test_too_few_are_told_before_anything_is_spent(loss):
    with pytest.warns(TooFewClientsWarning, match=r"^400 clients .* d = 178: .* for 50%") as caught:
        trainer(loss).fit(X, LABELS)
    assert caught[0].filename == __file__
    _account.RECORDS = _account.RecordAccount()
    with warnings.catch_warnings():
        warnings.simplefilter("error", TooFewClientsWarning)
        with pytest.raises(TooFewClientsWarning):
            trainer(loss).fit(X, LABELS)
    assert len(_account.RECORDS.digests) == 0


def test_numbers_and_many_classes():
    with pytest.warns(TooFewClientsWarning, match="little better than a constant"):
        trainer(nn.functional.mse_loss, 1).fit(X, X[:, :1])
    with pytest.warns(TooFewClientsWarning, match="a guess does for 10%"):
        trainer(outputs=10).fit(X, LABELS)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::fedsel.errors.TooFewClientsWarning")
def test_nobody_is_warned_without_need():
    """Where it is enough, not private or not to be told; nor when a trainer goes on."""
    many = X.repeat(100, 1), LABELS.repeat(100)
    made = trainer(epsilon=4.0)
    made.fit(*many)
    made.fit(X, LABELS)
    trainer(epsilon=None, solution="NP").fit(X, LABELS)
    trainer(local=Local(rate=0.1)).fit(X, LABELS)
    trainer(epsilon=4.0).fit(X, LABELS, groups=[i % 200 for i in range(400)])
