"""Run the cells of a spec, keep each result, and tabulate them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsel._internal.display import in_cell
from fedsel.experiments.datasets import Source
from fedsel.experiments.runner import Finished, perform
from fedsel.experiments.spec import Spec
from fedsel.experiments.store import Store
from fedsel.experiments.trial import Row


def sweep(
    spec: Spec,
    source: Source,
    store: Store,
    *,
    jobs: int = 1,
    finished: Callable[[Finished], object] = id,
    advance: Callable[[float], object] = abs,
) -> list[Row]:
    """Run what the store does not hold yet; ``finished`` sees each row, ``advance`` each run."""
    cells = list(spec.cells())
    return perform(cells, store, source, jobs=jobs, finished=finished, advance=advance)


def tidy(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows for a CSV file: without the single runs, and what was chosen in columns of its own."""
    flat = [
        {**row, **{f"chosen_{name}": value for name, value in row.get("chosen", {}).items()}}
        for row in rows
    ]
    return [{k: v for k, v in row.items() if not isinstance(v, list | dict)} for row in flat]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table with one header; rows may lack columns. No cell is a formula (`in_cell`)."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(in_cell(name) for name in columns)
        writer.writerows([in_cell(row.get(name, "")) for name in columns] for row in rows)
