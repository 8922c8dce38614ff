"""The data sets by name: their sizes, their raw files and how these are parsed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedsel import InvalidArgument
from fedsel.data import SIZES, Dataset
from reproduction.datasets import adult, bank, kdd
from reproduction.datasets.raw import RawFile

BANK = RawFile("bank-full.csv", "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d")
A9A = RawFile("a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906")
A9A_TEST = RawFile("a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9")
ADULT_DATA = RawFile(
    "adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
)
ADULT_TEST = RawFile(
    "adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
)
KDD = RawFile(
    "kddcup.data_10_percent",
    "f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a",
    gz_sha256="8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561",
)


@dataclass(frozen=True)
class RealData:
    """A published data set, which can be built from any of ``variants``, sets of files."""

    name: str
    n: int
    d: int
    variants: tuple[tuple[RawFile, ...], ...]
    parse: Callable[[Sequence[RawFile], Sequence[bytes]], Dataset]

    @property
    def wanted(self) -> str:
        """Describe the files that a user has to provide."""
        return ", or ".join(" and ".join(file.name for file in files) for files in self.variants)


def _parse_bank(_: Sequence[RawFile], contents: Sequence[bytes]) -> Dataset:
    return bank.parse(contents[0])


def _parse_adult(files: Sequence[RawFile], contents: Sequence[bytes]) -> Dataset:
    train, test = contents
    if files[0] is not A9A:
        train, test = adult.libsvm_text(train), adult.libsvm_text(test)
        A9A.check_content(train)
        A9A_TEST.check_content(test)
    return adult.parse(train, test)


def _parse_kdd(_: Sequence[RawFile], contents: Sequence[bytes]) -> Dataset:
    return kdd.parse(contents[0])


REAL = {
    entry.name: entry
    for entry in (
        RealData("bank", 45_211, 32, ((BANK,),), _parse_bank),
        RealData("adult", 48_842, 123, ((A9A, A9A_TEST), (ADULT_DATA, ADULT_TEST)), _parse_adult),
        RealData("kdd", kdd.DRAWN, 114, ((KDD,),), _parse_kdd),
    )
}
ALIASES = {"kdd99": "kdd", "kddcup99": "kdd", "bank-marketing": "bank", "a9a": "adult"}
NAMES = (*SIZES, *REAL)


def resolve(name: object) -> RealData | None:
    """A published data set by its case-insensitive name; None for a synthetic one.

    >>> resolve("KDD99").n, resolve("SYN-h-0.1-0.6")
    (70000, None)
    >>> resolve("adlut")
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: name = 'adlut': must be a known data set; close to it: adult
    """
    text = str(name).strip().lower()
    text = ALIASES.get(text, text)
    if text in REAL or text.startswith(("syn-l", "syn-h")):
        return REAL.get(text)
    known = {known.lower(): known for known in (*NAMES, *ALIASES)}
    close = difflib.get_close_matches(text, known, n=3, cutoff=0.4)
    listed = ", ".join(known[c] for c in close) or ", ".join(NAMES)
    raise InvalidArgument("name", name, f"a known data set; close to it: {listed}")
