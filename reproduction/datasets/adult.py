"""ADULT: the census records as LIBSVM encodes them (a9a and a9a.t), 123 binary features.

The raw files are LIBSVM's own, or the census files adult.data and adult.test, from which the
same bytes are rebuilt: numbers fall into bins by fixed cuts, texts are one-hot in the order of the
data set's description, and an unknown value ("?") sets no feature.

Reference: Platt, "Fast training of support vector machines using sequential minimal
optimization", 1999 (the binning); Chang & Lin, LIBSVM (the files).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from fedsel.data import Dataset

TRAIN_ROWS, TEST_ROWS = 32_561, 16_281
TEST_FIRST_LINE = "|1x3 Cross validator\n"

_CUTS_OR_LEVELS: dict[str, tuple[int, ...] | str] = {
    "age": (25, 32, 40, 49),
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov "
    "Without-pay Never-worked",
    "fnlwgt": (106_647, 158_661, 196_337, 259_872),
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th "
    "7th-8th 12th Masters 1st-4th 10th Doctorate 5th-6th Preschool",
    "education-num": (8, 9, 10, 12),
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed "
    "Married-spouse-absent Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
    "Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "capital-gain": (0,),
    "capital-loss": (0,),
    "hours-per-week": (34, 39, 40, 47),
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany "
    "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras Philippines "
    "Italy Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador "
    "Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
    "Trinadad&Tobago Peru Hong Holand-Netherlands",
}


def _feature_names() -> tuple[str, ...]:
    names: list[str] = []
    for attribute, how in _CUTS_OR_LEVELS.items():
        if isinstance(how, str):
            names += [f"{attribute}={level}" for level in how.split()]
            continue
        between = [f"{low}<{attribute}<={high}" for low, high in pairwise(how)]
        names += [f"{attribute}<={how[0]}", *between, f"{attribute}>{how[-1]}"]
    return tuple(names)


FEATURE_NAMES = _feature_names()


def parse(train: bytes, test: bytes) -> Dataset:
    """Parse a9a and a9a.t, stacked: 48,842 records as CSR, +1 for an income above 50K."""
    from scipy.sparse import csr_array

    labels, indices, starts = [], [], [0]
    for line in (train + test).splitlines():
        sign, *features = line.split()
        labels.append(int(sign))
        indices += [int(feature.partition(b":")[0]) - 1 for feature in features]
        starts.append(len(indices))
    ones = np.ones(len(indices), np.float32)
    columns, rows = np.array(indices, np.int32), np.array(starts, np.int32)
    d = len(FEATURE_NAMES)
    return Dataset(
        "adult",
        csr_array((ones, columns, rows), shape=(len(labels), d)),
        np.array(labels, np.int8),
        FEATURE_NAMES,
        np.tile([0.0, 1.0], (d, 1)),
        ("<=50K", ">50K"),
    )


def libsvm_text(census: bytes) -> bytes:
    """The LIBSVM file of a census file (adult.data or adult.test), byte for byte.

    >>> row = b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, "
    >>> libsvm_text(row + b"White, Male, 2174, 0, 40, United-States, <=50K\\n")
    b'-1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1 \\n'
    """
    encoders = _encoders()
    lines = []
    for line in census.decode("ascii").splitlines():
        *cells, label = line.split(", ")
        if len(cells) != len(encoders):
            continue  # the comment line of adult.test and the empty line at the end
        features = (encode(cell) for encode, cell in zip(encoders, cells, strict=True))
        sign = "+1" if label.startswith(">50K") else "-1"
        lines.append(" ".join([sign, *(f"{j}:1" for j in features if j), "\n"]))
    return "".join(lines).encode("ascii")


def _encoders() -> list[Callable[[str], int]]:
    """For each attribute, a map from a cell's text to its feature, counted from 1; 0 for none."""
    encoders: list[Callable[[str], int]] = []
    first = 1
    for how in _CUTS_OR_LEVELS.values():
        if isinstance(how, str):
            levels = {level: first + i for i, level in enumerate(how.split())}
            encoders.append(partial(_level, levels))
            first += len(levels)
        else:
            encoders.append(partial(_bin, first, how))
            first += len(how) + 1
    return encoders


def _level(levels: dict[str, int], cell: str) -> int:
    return levels.get(cell, 0)


def _bin(first: int, cuts: tuple[int, ...], cell: str) -> int:
    return first + bisect_left(cuts, int(cell))  # as many cuts as lie below the value


def census_texts(rows: Sequence[Sequence[str]]) -> tuple[bytes, bytes]:
    """adult.data and adult.test of all records in one table, the test records last."""
    train = "".join(", ".join(row) + "\n" for row in rows[:TRAIN_ROWS])
    test = "".join(", ".join(row) + ".\n" for row in rows[TRAIN_ROWS:])
    return (train + "\n").encode("ascii"), (TEST_FIRST_LINE + test + "\n").encode("ascii")
