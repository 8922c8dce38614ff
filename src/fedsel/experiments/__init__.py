"""Experiments as data: a spec, a store of results, figures that are functions of a table."""

from fedsel.experiments.spec import Cell, Spec
from fedsel.experiments.store import Store
from fedsel.experiments.sweep import sweep

__all__ = ["Cell", "Spec", "Store", "sweep"]
