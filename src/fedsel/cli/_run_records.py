"""The records of ``fedsel run``: a data set by its name, or files, with public rows or means."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, final

from fedsel._internal.progress import patience
from fedsel.cli._commands import naming_option
from fedsel.data import Dataset, read, read_rows
from fedsel.errors import InvalidArgument, check_float
from fedsel.experiments import CatalogueSource, InMemorySource, Source, Spec, with_public
from fedsel.experiments._sources import Means
from fedsel.recipe import Parameter
from fedsel.wire import Schema


@final
@dataclass(frozen=True)
class Files:
    """The options that name files of records."""

    data: Annotated[
        Path | None,
        Parameter(
            "Your own data in place of --dataset: .csv, .parquet, .npz, .svm or .libsvm.", "data"
        ),
    ] = None
    label: Annotated[
        str | None, Parameter("The label column of --data: name or number.", "data")
    ] = None
    schema: Annotated[
        Path | None,
        Parameter(
            "The public schema of --data: bounds, levels, dates and missing cells of its columns "
            "(fedsel schema drafts one).",
            "data",
        ),
    ] = None
    header: Annotated[
        bool | None,
        Parameter(
            "Whether a .csv file begins with the names of its columns; without, they are numbered "
            "from 0.",
            "data",
            unset="names; what looks like a record is refused",
        ),
    ] = None
    public: Annotated[
        Path | None,
        Parameter("Public rows with the features of --data, unlabelled: free of ε.", "data"),
    ] = None
    public_mean: Annotated[
        Path | None,
        Parameter(
            "Public means of features, free of ε: a .toml file of name = mean, or a .csv of "
            "name,mean; the mean of a level, such as job=clerk, is its share.",
            "data",
        ),
    ] = None

    def refuse_ignored(self, of_catalogue: Mapping[str, Any]) -> None:
        """Records come from a file or from a data set by its name: not from both."""
        if self.public is not None and self.public_mean is not None:
            allowed = "omitted with --public, whose rows give the centre"
            raise InvalidArgument("public_mean", str(self.public_mean), allowed)
        if self.data is None:
            ignored = {n: getattr(self, n) for n in ("label", "schema", "header", "public")}
            allowed = "omitted without --data"
        else:
            ignored = dict(of_catalogue)
            allowed = "omitted with --data"
        for name, value in ignored.items():
            if value is not None:
                shown = str(value) if isinstance(value, Path) else value
                raise InvalidArgument(name, shown, allowed)


def source_of(spec: Spec, files: Files) -> tuple[Spec, Source]:
    """The records, and the experiment on the scale that suits them."""
    means = () if files.public_mean is None else means_of(files.public_mean)
    schema = None
    if files.schema is not None:
        with naming_option("--schema"):
            schema = Schema.load(files.schema)
    source: Source
    if files.data is None:
        source = CatalogueSource(means)
        with patience(f"drawing {spec.dataset}"), naming_option("--dataset"):
            # A wrong name is reported before anything runs.
            dataset = source.data(spec.dataset, spec.draw)
    else:
        with patience(f"reading {files.data}"), naming_option("--data"):
            dataset = read(files.data, files.label, header=files.header, schema=schema)
        source = InMemorySource(dataset, means=means)
    if files.public is not None:
        with patience(f"reading {files.public}"), naming_option("--public"):
            rows = read_rows(files.public, dataset, "--public", header=files.header, schema=schema)
        source = with_public(dataset, rows)
    return replace(spec, scale=_scale_for(spec, files, dataset)), source


def _scale_for(spec: Spec, files: Files, dataset: Dataset) -> str | None:
    """A scale that no record need be read for, where there is one and none was given."""
    if spec.scale is None and dataset.bounded and (files.data or files.public_mean):
        return "unit"
    unread = files.public_mean or files.schema  # who declares bounds wants none to be read
    return "private" if spec.scale is None and unread else spec.scale


def means_of(path: Path) -> Means:
    """The public means of a .toml or .csv file, each with the name of its feature.

    In a .toml file a table holds the shares of the levels of one column: job.clerk is job=clerk.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        listed = list(_of_toml(text) if path.suffix.lower() == ".toml" else _of_csv(text))
    except OSError as error:
        raise InvalidArgument("public_mean", str(path), f"a file ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        allowed = f"a .toml file of name = mean, or a .csv file of name,mean ({error})"
        raise InvalidArgument("public_mean", str(path), allowed) from None
    names = [name for name, _ in listed]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or not names:
        allowed = "a file that has each feature once" if twice else "a file that has a mean"
        raise InvalidArgument("public_mean", f"{twice or 'nothing'} in {path}", allowed)
    return tuple((name, check_float(f"public_mean[{name!r}]", mean)) for name, mean in listed)


def _of_toml(text: str) -> Iterator[tuple[str, Any]]:
    for name, value in tomllib.loads(text).items():
        if isinstance(value, dict):
            yield from ((f"{name}={level}", share) for level, share in value.items())
        else:
            yield name, value


def _of_csv(text: str) -> Iterator[tuple[str, float]]:
    lines = (line for line in csv.reader(text.splitlines()) if line)
    for number, line in enumerate(lines):
        try:
            name, mean = line
            yield name.strip(), float(mean)
        except ValueError:
            if number or len(line) != 2:  # the first may name the two columns
                raise ValueError(f"one line is {','.join(line)[:80]!r}") from None
