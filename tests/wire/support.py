"""What the tests of wire, device and server ask for: a recipe in which all is decided."""

from fedsel import Recipe

NUMBERS = {"mu": 0.1, "rho": None, "learning_rate": 1.0, "averaging": 0.0, "bases": None}
NUMBERS |= {"spread": 0.0, "centre": 0.0}


def complete(solution, **changes):
    """A recipe with a number for everything, but for what the test is about."""
    return Recipe(solution, **{**NUMBERS, **changes})
