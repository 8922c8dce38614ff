"""The engine: federated SGD by Algorithm 1 over simulated clients, at memory speed."""

from fedsel.simulation.history import History, Round, Test
from fedsel.simulation.linear_rounds import Population, Training, train

__all__ = ["History", "Population", "Round", "Test", "Training", "train"]
