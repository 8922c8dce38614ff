"""Data sets: a user's files and arrays, synthetic ones, and who holds which records."""

from fedsel.data import partition
from fedsel.data.arrays import from_arrays
from fedsel.data.dataset import SCALINGS, Dataset
from fedsel.data.files import read, read_rows
from fedsel.data.generate import SIZES, load, synthetic
from fedsel.data.partition import Clients

__all__ = [
    "SCALINGS",
    "SIZES",
    "Clients",
    "Dataset",
    "from_arrays",
    "load",
    "partition",
    "read",
    "read_rows",
    "synthetic",
]
