"""Ask a question of many clients, each of which answers under local differential privacy."""

from fedsel.asking._answer import Answer
from fedsel.asking._ask import ask

__all__ = ["Answer", "ask"]
