"""Reports at rest: files of them are added up part by part, on every core or on a cluster.

Sums are integers and sums of sums are the same: it does not matter how the parts are spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.extras import needed
from fedsel.parallel import in_parallel
from fedsel.recipe import Recipe
from fedsel.reports import Totals
from fedsel.wire.report import ReportFormat

COLUMN = "report"
"""The column of a Parquet file that holds reports."""
PART_REPORTS = 1 << 22
"""Reports of one part: what a worker is given at a time."""
_AT_ONCE = 1 << 14
"""Reports that are decoded at a time: as many as a cache holds."""


class Part(NamedTuple):
    """Some of the reports of a file: rows of a .bin, or a row group of a .parquet."""

    path: str
    start: int
    reports: int


@final
@dataclass
class Sums:
    """The totals of each round, and how many reports were none of this run."""

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
        """How many reports were added up."""
        return sum(totals.count for totals in self.by_round.values())

    def mean(self, recipe: Recipe, number: int) -> NDArray[np.float64]:
        """The mean update that the reports of a round tell of (d,)."""
        return recipe.build().in_round(number).expand(self.by_round[number].mean())


def parts_of(paths: Sequence[str | Path], size: int) -> list[Part]:
    """The files in parts; what cannot be read is named before anything is added up."""
    parts: list[Part] = []
    for path in map(Path, paths):
        if not path.is_file():
            raise InvalidArgument("reports", str(path), "files that exist, .bin or .parquet")
        if path.suffix.lower() == ".parquet":
            groups = _parquet(path).metadata.num_row_groups
            parts += [Part(str(path), group, 1) for group in range(groups)]
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


def added(part: Part, form: ReportFormat, recipe: Recipe) -> Sums:
    """The sums of one part: what a worker does."""
    sums, solution = Sums(), recipe.build()
    for data in _chunks(part, form.size, sums):
        batch = form.decode_many(data)
        sums.rejected += int(np.count_nonzero(~batch.valid))
        for number in np.unique(batch.round[batch.valid]).tolist():
            if number not in sums.by_round:
                sums.by_round[number] = solution.in_round(number).totals()
            totals = sums.by_round[number]
            which = np.flatnonzero(batch.valid & (batch.round == number))
            everything = len(which) == len(batch.valid)
            totals.add(batch.reports if everything else batch.reports.rows(which))
    return sums


def aggregated(
    paths: Sequence[str | Path],
    form: ReportFormat,
    recipe: Recipe,
    *,
    jobs: int = 1,
    advance: Callable[[int], object] = abs,
) -> Sums:
    """The sums of all files; ``advance`` is told the parts that are done, one by one.

    Work is done by `fedsel.parallel`: threads on this machine, or whatever backend is chosen.
    """
    parts, sums = parts_of(paths, form.size), Sums()
    for done in in_parallel(added, ((part, form, recipe) for part in parts), jobs):
        sums.merge(done)
        advance(1)
    return sums


def _chunks(part: Part, size: int, sums: Sums) -> Iterator[bytes | memoryview]:
    path = Path(part.path)
    if path.suffix.lower() == ".parquet":
        yield from _group(path, part.start, size, sums)
        return
    with path.open("rb") as file:
        file.seek(part.start * size)
        left = part.reports
        while left:
            data = file.read(min(left, _AT_ONCE) * size)
            if not data or len(data) % size:
                raise InvalidArgument("reports", part.path, "left alone while it is read")
            left -= len(data) // size
            yield data


def _parquet(path: Path) -> Any:
    with needed("parquet", "reports in Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidArgument("reports", str(path), f"a Parquet file ({error})") from None
    if COLUMN not in file.schema_arrow.names:
        raise InvalidArgument("reports", str(path), f"with a column {COLUMN!r} of bytes")
    return file


def _group(path: Path, group: int, size: int, sums: Sums) -> Iterator[bytes]:
    """The reports of a row group; those of another length are none."""
    with needed("parquet", "reports in Parquet"):
        import pyarrow as pa
        import pyarrow.compute as pc

    for chunk in _parquet(path).read_row_group(group, [COLUMN]).column(COLUMN).chunks:
        plain = chunk.cast(pa.binary())
        whole = pc.fill_null(pc.equal(pc.binary_length(plain), size), False)
        kept = plain.filter(whole)
        sums.rejected += len(plain) - len(kept)
        for start in range(0, len(kept), _AT_ONCE):
            yield b"".join(kept.slice(start, _AT_ONCE).to_pylist())
