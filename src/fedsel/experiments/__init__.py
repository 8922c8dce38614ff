"""Experiments as data: a spec, a store of results, figures that are functions of a table."""

from fedsel.experiments.datasets import Given, Named, with_public
from fedsel.experiments.spec import Spec
from fedsel.experiments.store import Store
from fedsel.experiments.sweep import sweep
from fedsel.experiments.trial import Cell

__all__ = ["Cell", "Given", "Named", "Spec", "Store", "sweep", "with_public"]
