"""Data sets from files, arrays or synthetic laws, and their partition among clients."""

from fedsel.data import partition
from fedsel.data._dataset import SCALINGS, Dataset, from_arrays
from fedsel.data._files import read, read_rows
from fedsel.data._synthetic import SIZES, load, synthetic
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
