"""The engine: federated SGD by Algorithm 1 over simulated clients, at memory speed."""

from fedsel.engine.history import History, Round, Test
from fedsel.engine.train import Population, Training, train

__all__ = ["History", "Population", "Round", "Test", "Training", "train"]
