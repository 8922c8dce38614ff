"""The data sets of the paper by name, from a folder, the cache or a checked download."""

from reproduction.datasets.catalogue import NAMES
from reproduction.datasets.loaders import Published, fetch, find, load
from reproduction.datasets.raw import DataUnavailable, WrongContent

__all__ = [
    "NAMES",
    "DataUnavailable",
    "Published",
    "WrongContent",
    "fetch",
    "find",
    "load",
]
