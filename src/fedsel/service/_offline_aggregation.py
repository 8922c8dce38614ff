"""Offline aggregation: add up files of reports part by part, on every core or on a cluster.

Sums are integers, so any worker may add any part. Memory is bounded, whatever lies in the
files: where the sums of all rounds would take too much, the files are read again for the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel._internal.progress import in_parallel, workers_of
from fedsel.errors import InvalidArgument
from fedsel.mechanisms._reports import Totals
from fedsel.recipe import Recipe
from fedsel.wire import ReportFormat

COLUMN = "report"
"""The column of a Parquet file that holds reports."""
PART_REPORTS = 1 << 22
"""Reports of one part: what a worker is given at a time."""
SUM_BYTES = 1 << 30
"""Memory for the sums of several rounds; the sums of a single round are always held."""
GROUP_BYTES = 1 << 28
"""What the reports of a row group may take: a reader may have to unpack all of them at once."""
_AT_ONCE = 1 << 18
"""Bytes that are decoded at a time: as many as a cache holds."""
_AHEAD = 2
"""Parts for each worker that are handed over before the first sums are taken."""


class Part(NamedTuple):
    """Some of the reports of a file: rows of a .bin, or row groups of a .parquet."""

    path: str
    start: int
    size: int


@final
@dataclass
class Sums:
    """The totals of some rounds, and how many reports were not of this run."""

    by_round: dict[int, Totals] = field(default_factory=dict)
    rejected: int = 0

    def merge(self, other: Sums) -> None:
        """Add the sums of another part."""
        for number, totals in other.by_round.items():
            if number in self.by_round:
                self.by_round[number].merge(totals)
            else:
                self.by_round[number] = totals
        self.rejected += other.rejected

    @property
    def count(self) -> int:
        """The number of reports in all sums."""
        return sum(totals.count for totals in self.by_round.values())

    def mean(self, recipe: Recipe, number: int) -> NDArray[np.float64]:
        """The mean update (d,) that the reports of a round estimate."""
        return recipe.build().in_round(number).expand(self.by_round[number].mean())


def parts_of(paths: Sequence[str | Path], size: int) -> list[Part]:
    """The files in parts; what cannot be read is named before anything is added up."""
    parts: list[Part] = []
    for path in map(Path, paths):
        if not path.is_file():
            raise InvalidArgument("reports", str(path), "files that exist, .bin or .parquet")
        if path.suffix.lower() == ".parquet":
            about = _parquet(path).file.metadata
            sizes = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
            parts += [Part(str(path), *some) for some in _together(sizes)]
        elif path.suffix.lower() == ".bin":
            reports, rest = divmod(path.stat().st_size, size)
            if rest:
                actual = f"{path}: {path.stat().st_size} bytes"
                raise InvalidArgument("reports", actual, f"whole reports of {size} bytes")
            for start in range(0, reports, PART_REPORTS):
                parts.append(Part(str(path), start, min(PART_REPORTS, reports - start)))
        else:
            raise InvalidArgument("reports", str(path), "files named .bin or .parquet")
    return parts


def _together(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the number of row groups that make a part: to open a file takes time, too."""
    start = reports = 0
    for place, size in enumerate(sizes):
        reports += size
        if reports >= PART_REPORTS or place == len(sizes) - 1:
            yield start, place + 1 - start
            start, reports = place + 1, 0


def added(part: Part, form: ReportFormat, recipe: Recipe, rounds: range, planned: int) -> Sums:
    """The sums that one part has of these rounds: what a worker does.

    Reports of a round that is not ``planned`` are rejected.
    """
    sums, solution = Sums(), recipe.build()
    for data in _chunks(part, form.size, sums):
        batch = form.decode_many(data)
        known = batch.valid & (batch.round < planned)
        sums.rejected += int(np.count_nonzero(~known))
        which = np.flatnonzero(known & (rounds.start <= batch.round) & (batch.round < rounds.stop))
        which = which[np.argsort(batch.round[which], kind="stable")]
        numbers, starts = np.unique(batch.round[which], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(which, starts[1:]), strict=False):
            if number not in sums.by_round:
                sums.by_round[number] = solution.in_round(number).totals()
            totals = sums.by_round[number]
            everything = len(rows) == len(batch.valid)
            totals.add(batch.reports if everything else batch.reports.rows(rows))
    return sums


def rounds_in(part: Part, form: ReportFormat, planned: int) -> NDArray[np.int64]:
    """The planned rounds that one part has reports of, in order."""
    found = np.empty(0, dtype=np.int64)
    for data in _chunks(part, form.size, Sums()):
        batch = form.decode_many(data)
        found = np.union1d(found, batch.round[batch.valid & (batch.round < planned)])
    return found


def aggregated(
    paths: Sequence[str | Path],
    form: ReportFormat,
    recipe: Recipe,
    planned: int,
    *,
    jobs: int = 1,
    advance: Callable[[float], object] = abs,
) -> Iterator[Sums]:
    """The sums of all files, for some of the ``planned`` rounds at a time, in their order.

    The first has the count of all rejected reports. ``advance`` gets the number of parts done.
    Threads of this machine do the work, or whatever backend is chosen (`in_parallel`).
    """
    parts, solution = parts_of(paths, form.size), recipe.build()
    fit = SUM_BYTES // (8 * len(solution.alphabet.units) * solution.transform.places)
    held = 1 + _AHEAD * workers_of(jobs)  # the sums of all parts, and those of parts under way
    if held > fit:
        jobs, held = 1, 2
    at_once = max(1, fit // held)
    groups = [range(planned)]
    if planned > at_once:
        there = np.empty(0, dtype=np.int64)
        for some in in_parallel(rounds_in, ((part, form, planned) for part in parts), jobs):
            there = np.union1d(there, some)
        lists = [there[i : i + at_once].tolist() for i in range(0, len(there), at_once)]
        groups = [range(some[0], some[-1] + 1) for some in lists] or [range(0)]
    for place, rounds in enumerate(groups):
        sums = Sums()
        calls = ((part, form, recipe, rounds, planned) for part in parts)
        for done in in_parallel(added, calls, jobs, ahead=_AHEAD):
            sums.merge(done)
            advance(1 / len(groups))
        if place:
            sums.rejected = 0
        yield sums


def _chunks(part: Part, size: int, sums: Sums) -> Iterator[bytes]:
    path, rows = Path(part.path), max(1, _AT_ONCE // size)
    if path.suffix.lower() == ".parquet":
        column = _parquet(path)
        for group in range(part.start, part.start + part.size):
            yield from _group(path, column, group, size, rows, sums)
        return
    with path.open("rb") as file:
        file.seek(part.start * size)
        left = part.size
        while left:
            data = file.read(min(left, rows) * size)
            if not data or len(data) % size:
                raise InvalidArgument("reports", part.path, "unchanged while it is read")
            left -= len(data) // size
            yield data


class _Column(NamedTuple):
    """The reports of a Parquet file: the file, the place of their column, and their length there.

    The length is 0 where values may differ in theirs.
    """

    file: Any
    place: int
    length: int


def _parquet(path: Path) -> _Column:
    with needed("parquet", "reports in Parquet"):
        import pyarrow.parquet as pq

    with _readable(path, "a Parquet file"):
        schema = pq.read_metadata(path).schema
        leaves = {place: schema.column(place) for place in range(len(schema))}
        own = [place for place, leaf in leaves.items() if leaf.path.split(".")[0] == COLUMN]
        fits = [_holds_bytes(leaves[place]) for place in own] == [True]
    if not fits:
        wanted = f"a file with one column {COLUMN!r}, of bytes"
        raise InvalidArgument("reports", str(path), wanted)
    length = leaves[own[0]].length
    # As a dictionary: a value that is there many times is unpacked once, however long it is.
    apart = None if length else [COLUMN]
    with _readable(path, "a Parquet file"):
        file = pq.ParquetFile(path, read_dictionary=apart, buffer_size=_AT_ONCE)
    return _Column(file, own[0], length)


@contextmanager
def _readable(path: Path, wanted: str) -> Iterator[None]:
    """Name a file that cannot be read, with the reader's error."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InvalidArgument("reports", str(path), f"{wanted} ({error})") from None


def _holds_bytes(leaf: Any) -> bool:
    return (
        leaf.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
        and leaf.logical_type.type == "NONE"
        and leaf.path == COLUMN
        and leaf.max_repetition_level == 0
    )


def _group(
    path: Path, column: _Column, group: int, size: int, rows: int, sums: Sums
) -> Iterator[bytes]:
    """The reports of a row group; values of another length are rejected."""
    file, place, length = column
    about = file.metadata.row_group(group)
    if length not in (0, size):
        sums.rejected += about.num_rows
        return
    # Asked only where it matters: pyarrow ends the process where this part of a file is damaged.
    if about.total_byte_size > GROUP_BYTES:
        unpacked = about.column(place).total_uncompressed_size
        if unpacked > GROUP_BYTES:
            actual = f"{path}: {unpacked} bytes in row group {group}"
            wanted = f"row groups of at most {GROUP_BYTES} bytes: write fewer rows into each"
            raise InvalidArgument("reports", actual, wanted)
    with _readable(path, f"a Parquet file whose row group {group} can be read"):
        for batch in file.iter_batches(rows, [group], [COLUMN], use_threads=False):
            data = b"".join(_of_length(batch.column(0), size))
            sums.rejected += len(batch) - len(data) // size
            yield data


def _of_length(column: Any, size: int) -> Iterator[bytes]:
    """The values of a column that have this length, in their order."""
    if hasattr(column, "dictionary"):
        known, places = np.unique(column.indices.drop_null().to_numpy(), return_inverse=True)
        values = column.dictionary.take(known).to_pylist()
        return (values[place] for place in places.tolist() if len(values[place]) == size)
    return iter(column.drop_null().to_pylist())
