"""Data sets: the paper's own, a user's files and arrays, and who holds which records."""

from fedsel.data import partition
from fedsel.data.arrays import from_arrays
from fedsel.data.catalogue import NAMES
from fedsel.data.dataset import SCALINGS, Dataset
from fedsel.data.files import read, read_rows
from fedsel.data.generate import synthetic
from fedsel.data.loaders import fetch, find, load
from fedsel.data.partition import Clients
from fedsel.data.raw import DataUnavailable, WrongContent

__all__ = [
    "NAMES",
    "SCALINGS",
    "Clients",
    "DataUnavailable",
    "Dataset",
    "WrongContent",
    "fetch",
    "find",
    "from_arrays",
    "load",
    "partition",
    "read",
    "read_rows",
    "synthetic",
]
