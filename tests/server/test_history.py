"""What a history says of shuffled rounds."""

import numpy as np
import pytest

from fedsel import InvalidArgument, solution
from fedsel.mechanisms.central import compose
from fedsel.server._step import History, Round
from fedsel.simulation import Population, Training, train

PM = solution("PM", epsilon=2.0, dim=3, epochs=2)


@pytest.mark.parametrize(("evaluate", "listed"), [("epochs", 2), ("end", 1)])
def test_the_smallest_round_and_all_epochs_count_whether_they_are_listed_or_not(evaluate, listed):
    """Ten clients in rounds of at most four: 3, 3 and 4 of them; the last ones are listed."""
    rng = np.random.default_rng(0)
    people = Population(rng.normal(size=(10, 3)), np.where(rng.random(10) < 0.5, 1, -1))
    training = Training(PM, 0.1, 4, seed=1)
    history = train(training, people, evaluate=evaluate)
    assert [r.reports for r in history.rounds] == [4] * listed
    assert (history.fewest_reports, history.epochs_heard) == (3, 2)
    found = history.central(delta=0.05)
    assert found == compose(PM, reports=3, epochs=2, delta=0.05)
    assert 1 < found.epsilon < 2


def test_rounds_without_reports_hide_nobody_and_cost_nothing():
    rounds = [Round(1, 0, 1.0, 8, 5), Round(2, 1, 1.0, 0, 0)]
    heard = History(rounds, fewest_reports=5, epochs_heard=1, privacy=PM.privacy)
    assert heard.central(delta=0.05).epochs == 1
    for silent in (History(), History(rounds, privacy=PM.privacy)):
        with pytest.raises(InvalidArgument, match="at least one report"):
            silent.central()
