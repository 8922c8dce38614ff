"""The simulator: federated SGD by Algorithm 1 over simulated clients, at memory speed."""

from fedsel.history import History, Round
from fedsel.simulation._account import FitAccount
from fedsel.simulation.evaluation import EvaluationSet
from fedsel.simulation.linear_rounds import train
from fedsel.simulation.population import Population
from fedsel.simulation.rounds import Training
from fedsel.simulation.vector_rounds import train_vectors

__all__ = [
    "EvaluationSet",
    "FitAccount",
    "History",
    "Population",
    "Round",
    "Training",
    "train",
    "train_vectors",
]
