"""Experiments as data: a spec, a store of results, figures that are functions of a table."""

from fedsel.experiments.datasets import Given, Named, Source, with_public
from fedsel.experiments.runner import Finished, Task, perform, total_cost
from fedsel.experiments.spec import Setting, Spec, expand, override, setting_of
from fedsel.experiments.store import Store, code_version, key_of
from fedsel.experiments.sweep import sweep, tidy, write_csv
from fedsel.experiments.trial import Cell

__all__ = [
    "Cell",
    "Finished",
    "Given",
    "Named",
    "Setting",
    "Source",
    "Spec",
    "Store",
    "Task",
    "code_version",
    "expand",
    "key_of",
    "override",
    "perform",
    "setting_of",
    "sweep",
    "tidy",
    "total_cost",
    "with_public",
    "write_csv",
]
