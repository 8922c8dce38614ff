"""The work of ``fedsel run``: records are read, cells are trained, results are kept."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsel._internal.display import printable
from fedsel.cli.run.options import Files
from fedsel.cli.waiting import Bar, patience, progress_console
from fedsel.errors import InvalidArgument, check_float

if TYPE_CHECKING:
    from fedsel.data import Dataset
    from fedsel.experiments import Spec
    from fedsel.experiments.datasets import Means, Source

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

    means = () if files.public_mean is None else means_of(files.public_mean)
    if files.data is None:
        source = Named(means)
        with patience(f"drawing {spec.dataset}"), _reading("--dataset"):
            # A wrong name is told before anything runs.
            dataset = source.data(spec.dataset, spec.draw)
        return _on_public_scale(spec, dataset, means), source
    with patience(f"reading {files.data}"), _reading("--data"):
        dataset = read(files.data, files.label, header=files.header)
    if means:
        return _on_public_scale(spec, dataset, means), Given(dataset, means=means)
    if files.public is None:
        if spec.scale is None and dataset.bounded:
            spec = replace(spec, scale="unit")  # nothing need be read from the records
        return spec, Given(dataset)
    with patience(f"reading {files.public}"), _reading("--public"):
        rows = read_rows(files.public, dataset, "--public", header=files.header)
    return spec, with_public(dataset, rows)


def _on_public_scale(spec: Spec, dataset: Dataset, means: Means) -> Spec:
    """With public means, the scale is one that needs no record to know, unless it was given."""
    if not means or spec.scale is not None:
        return spec
    return replace(spec, scale="unit" if dataset.bounded else "private")


def means_of(path: Path) -> Means:
    """The public means of a .toml or .csv file, each with the name of its feature.

    In a .toml file a table holds the shares of the levels of one column: job.clerk is job=clerk.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        told = _of_toml(text) if path.suffix.lower() == ".toml" else _of_csv(text)
    except OSError as error:
        raise InvalidArgument("public_mean", str(path), f"a file ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidArgument):
            raise
        allowed = f"a .toml file of name = mean, or a .csv file of name,mean ({error})"
        raise InvalidArgument("public_mean", str(path), allowed) from None
    names = [name for name, _ in told]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or not names:
        allowed = "a file that has each feature once" if twice else "a file that has a mean"
        raise InvalidArgument("public_mean", f"{twice or 'nothing'} in {path}", allowed)
    return tuple((name, check_float(f"public_mean[{name!r}]", mean)) for name, mean in told)


def _of_toml(text: str) -> list[tuple[str, Any]]:
    found = []
    for name, value in tomllib.loads(text).items():
        levels = value.items() if isinstance(value, dict) else None
        found += [(name, value)] if levels is None else [(f"{name}={k}", v) for k, v in levels]
    return found


def _of_csv(text: str) -> list[tuple[str, Any]]:
    lines = [[cell.strip() for cell in line] for line in csv.reader(text.splitlines()) if line]
    if lines and len(lines[0]) == 2 and not _is_number(lines[0][1]):
        lines = lines[1:]  # names of the two columns
    for line in lines:
        if len(line) != 2 or not _is_number(line[1]):
            raise ValueError(f"one line is {','.join(line)[:80]!r}")
    return [(name, float(mean)) for name, mean in lines]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
