"""Experiments as data: a spec, a store of results, and tables of them."""

from fedsel.experiments._running import (
    Finished,
    Row,
    Store,
    Task,
    cache_key,
    code_version,
    sources_of,
    sweep,
    tidy,
    total_cost,
    write_csv,
)
from fedsel.experiments._sources import CatalogueSource, InMemorySource, Means, Source, with_public
from fedsel.experiments._spec import (
    PARAMETERS,
    SPEC_NAMES,
    PaperSettings,
    Spec,
    expand,
    override,
    paper_settings,
)
from fedsel.experiments._trial import Cell

__all__ = [
    "PARAMETERS",
    "SPEC_NAMES",
    "CatalogueSource",
    "Cell",
    "Finished",
    "InMemorySource",
    "Means",
    "PaperSettings",
    "Row",
    "Source",
    "Spec",
    "Store",
    "Task",
    "cache_key",
    "code_version",
    "expand",
    "override",
    "paper_settings",
    "sources_of",
    "sweep",
    "tidy",
    "total_cost",
    "with_public",
    "write_csv",
]
