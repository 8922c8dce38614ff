"""Experiments as data: a spec of many training runs, their results on disk, and tables of them.

>>> import tempfile, pathlib
>>> spec = Spec(solutions=("FJ", "PS-PM"), epsilons=(2.0,), folds=2, repeats=1, recipe={"k": 5})
>>> with tempfile.TemporaryDirectory() as folder:
...     store = Store(pathlib.Path(folder) / "results.sqlite")
...     rows = sweep(spec.cells(), CatalogueSource(), store)
>>> [(row["solution"], row["accuracy"] > 0.7) for row in rows]
[('FJ', True), ('PS-PM', True)]
"""

from fedsel.experiments._results import (
    accuracy_figure,
    accuracy_table,
    tidy,
    write_csv,
    write_figures,
    write_tables,
)
from fedsel.experiments._running import Finished, Store, Task, cache_key, code_version, sweep
from fedsel.experiments._sources import CatalogueSource, InMemorySource, Source, with_public
from fedsel.experiments._spec import (
    PARAMETERS,
    SPEC_NAMES,
    Spec,
    override,
)
from fedsel.experiments._trial import Cell

__all__ = [
    "PARAMETERS",
    "SPEC_NAMES",
    "CatalogueSource",
    "Cell",
    "Finished",
    "InMemorySource",
    "Source",
    "Spec",
    "Store",
    "Task",
    "accuracy_figure",
    "accuracy_table",
    "cache_key",
    "code_version",
    "override",
    "sweep",
    "tidy",
    "with_public",
    "write_csv",
    "write_figures",
    "write_tables",
]
