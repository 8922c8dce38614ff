"""The simulator: federated SGD by Algorithm 1 over simulated clients, at memory speed."""

from fedsel.server._step import History, Round
from fedsel.simulation._account import FitAccount
from fedsel.simulation._clients import Population
from fedsel.simulation._judges import EvaluationSet
from fedsel.simulation._rounds import Simulation, Training, train, train_vectors
from fedsel.simulation._validation import cross_validate

__all__ = [
    "EvaluationSet",
    "FitAccount",
    "History",
    "Population",
    "Round",
    "Simulation",
    "Training",
    "cross_validate",
    "train",
    "train_vectors",
]
