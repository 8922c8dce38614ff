"""What a trainer says of its fit: the page that estimators have, too."""

import numpy as np
import pytest
import torch

from fedsel.torch import FederatedTrainer
from tests.statements.support import Text

pytestmark = pytest.mark.xdist_group("torch")


def trainer(**changes):
    return FederatedTrainer(torch.nn.Linear(3, 2), **{"epsilon": 2.0, "batch": 5, **changes})


def test_a_trainer_has_a_statement_with_a_page():
    made = trainer()
    assert made.statement.total == made.privacy.total
    assert made.statement.client == "one record"
    assert made.statement.shuffled is None  # nobody has reported yet
    made.fit(torch.zeros(20, 3), torch.zeros(20, dtype=torch.long), groups=np.arange(20) // 2)
    told = made.statement
    assert (told.client, told.seeded, told.bits) == (
        "a group of records",
        False,
        made.solution.bits,
    )
    assert told.shuffled.reports == 5  # ten groups, in rounds of five
    assert told.central(delta=0.1) == made.privacy.central(reports=5, delta=0.1)
    assert made.history.central(delta=0.1) == told.central(delta=0.1)
    text = Text(told.to_html()).text
    assert "The parameters of the module" in text
    assert "at most 88 % certain" in text
    assert told.shuffled.sentence in text
    assert "The parameters of the module" in Text(told._repr_html_()).text


def test_a_seed_is_said():
    told = trainer(seed=1).statement
    assert "NOT FOR RELEASE" in str(told)
    assert "NOT FOR RELEASE" in Text(told.to_html()).text


def test_without_privacy_there_is_none():
    told = trainer(solution="NP", epsilon=None).statement
    assert not told.private
    assert "NOT PRIVATE" in Text(told.to_html()).text
