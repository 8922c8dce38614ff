"""The work of ``fedsel run``: records are read, cells are trained, results are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsel.cli.run.options import Files
from fedsel.cli.waiting import Bar, patience, progress_console
from fedsel.display import printable
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.experiments import Spec
    from fedsel.experiments.datasets import Source

Row = dict[str, Any]


def announce(spec: Spec) -> None:
    """The first word, before data are read and libraries loaded."""
    number = len(list(spec.cells()))
    results = "one result" if number == 1 else f"{number} results"
    line = f"{spec.dataset}: {results}, each from {spec.repeats} × {spec.folds} folds"
    progress_console().print(printable(line), highlight=False, markup=False)


def source_of(spec: Spec, files: Files) -> tuple[Spec, Source]:
    """The records, and the experiment on the scale that befits them."""
    from fedsel.data import read, read_rows
    from fedsel.experiments import Given, Named, with_public

    if files.data is None:
        with (
            patience(f"{spec.dataset}: looking for its files") as notify,
            _reading("--dataset"),
        ):
            # What is missing is told before anything runs.
            Named(files.directory, notify).data(spec.dataset, spec.draw)
        return spec, Named(files.directory)
    with patience(f"reading {files.data}"), _reading("--data"):
        dataset = read(files.data, files.label, header=files.header)
    if files.public is None:
        if spec.scale is None and dataset.bounded:
            spec = replace(spec, scale="unit")  # nothing need be read from the records
        return spec, Given(dataset)
    with patience(f"reading {files.public}"), _reading("--public"):
        rows = read_rows(files.public, dataset, "--public", header=files.header)
    return spec, with_public(dataset, rows)


@contextmanager
def _reading(option: str) -> Iterator[None]:
    """What is wrong in a file is said of the option that named it."""
    names = {"column": f"column of {option}", "y": f"the labels of {option}"}
    names |= {"path": option, "name": option}
    try:
        yield
    except InvalidArgument as error:
        error.name = names.get(error.name, error.name)
        raise


def _check(spec: Spec, source: Source) -> None:
    """Refuse what does not fit the records before the work, not in the midst of it."""
    for cell in {cell.recipe.solution: cell for cell in spec.cells()}.values():
        cell.setup(source)


def perform(
    spec: Spec, source: Source, out: Path, jobs: int, line_of: Callable[[Row], str]
) -> tuple[list[Row], bool]:
    """The results, and whether they are all; each is kept at once."""
    from fedsel.experiments import Store, sweep
    from fedsel.experiments.runner import Finished, total_cost
    from fedsel.experiments.store import key_of

    _check(spec, source)
    out.mkdir(exist_ok=True)
    store = Store(out / "results.sqlite")
    rows: list[Row] = []
    with Bar(total_cost(list(spec.cells()))) as bar:

        def finished(done: Finished) -> None:
            rows.append(done.row)
            bar.keep(line_of(done.row))

        try:
            sweep(
                spec,
                source,
                store,
                jobs=jobs,
                finished=finished,
                advance=lambda cost: bar.update("training", advance=cost),
            )
        except KeyboardInterrupt:
            # All that is kept, also what was written a moment before it would have been shown.
            keys = [key_of(c, source.identity) for c in spec.cells()]
            kept = [store.get(key) for key in dict.fromkeys(keys)]
            return [row for row in kept if row is not None], False
    return rows, True
