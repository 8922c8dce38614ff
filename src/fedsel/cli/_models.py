"""``fedsel predict`` and ``fedsel export``: what a trained model says of a table, and its files."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from numpy.typing import NDArray

from fedsel._internal.display import printable
from fedsel._internal.progress import patience
from fedsel.cli._terminal import JsonOption, check_file, print_json
from fedsel.data._cells import TABLES, cells
from fedsel.data._tables import label_index
from fedsel.device._models import read_model
from fedsel.errors import InvalidArgument
from fedsel.wire import Model, Number, Schema
from fedsel.wire._columns import Cells, listed, numbers_of

PREDICT_EXAMPLE = (
    "Example: fedsel predict model.json new.csv --out predictions.csv   ·   "
    "fedsel predict https://example.org new.csv --label income --json"
)
EXPORT_EXAMPLE = (
    "Example: fedsel export model.json model.onnx   ·   "
    "fedsel export https://example.org model.json"
)
_ENDINGS = (".onnx", ".json")
_WORDS = {"accuracy": "accuracy", "auc": "AUC", "r2": "R²"}

_ModelArgument = Annotated[
    str, typer.Argument(help="A model file, or the address of a service.", metavar="MODEL")
]
_CaOption = Annotated[
    Path | None,
    typer.Option(help="Certificates to verify the service by (PEM).", show_default="this system's"),
]


def predict_command(
    model: _ModelArgument,
    data: Annotated[Path, typer.Argument(help="Your table: .csv or .parquet.", metavar="DATA")],
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write; without, it is printed.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="The column of true labels, name or number: says how good the model is."),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether a .csv file begins with its columns' names."
        ),
    ] = None,
    ca: _CaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict with a trained model: a class with its probabilities, or a number, for each record.

    The model's own schema reads the table, so that its cells may be as messy as those that it was
    trained on. Further columns are ignored.
    """
    check_file("--out", out)
    if data.suffix.lower() not in TABLES or not data.is_file():
        raise InvalidArgument("data", str(data), "a file that exists, .csv or .parquet")
    with patience(f"reading {model}"):
        known, schema = _predicting(model, ca)
    with patience(f"reading {data}"):
        said = _ask(known, schema, data, label, header)
    scores = {} if said.labels is None else _scores(said, said.labels, schema, str(label))
    if out is not None:
        with patience(f"writing {out}"), out.open("w", newline="", encoding="utf-8") as file:
            _write(said, file)
    elif not as_json:
        _write(said, sys.stdout)
    if as_json:
        facts = {"records": len(said.margins), "missing": said.missing, **scores}
        print_json(facts | ({} if out else said.to_dict()))
        return
    if scores:
        figures = [f"{_WORDS[n]} {x:.4f}" for n, x in scores.items() if n in _WORDS]
        line = f"{', '.join(figures)} of {scores['scored']:,} of {len(said.margins):,} records"
        typer.echo(line, err=out is None)
    for name, count in said.missing.items():
        if 2 * count > len(said.margins):  # a date in another format, perhaps
            line = f"{name}: {count:,} of {len(said.margins):,} cells are empty or cannot be read"
            typer.echo(printable(line), err=True)


def export_command(
    model: _ModelArgument,
    out: Annotated[Path, typer.Argument(help="The file to write: .onnx or .json.", metavar="OUT")],
    ca: _CaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a model as an ONNX graph for other programs, or as the file that fedsel reads.

    The graph takes the columns of records: numbers, and the texts of categories and dates.
    """
    check_file("OUT", out)
    if out.suffix.lower() not in _ENDINGS:
        raise InvalidArgument("OUT", str(out), f"a file ending in {' or '.join(_ENDINGS)}")
    with patience(f"reading {model}"):
        if out.suffix.lower() == ".json":
            known = _read(model, ca)
            known.save(out)
        else:
            known, _ = _predicting(model, ca)
            known.to_onnx(out)
    if as_json:
        columns: Any = known.schema and known.schema.columns
        if isinstance(columns, Mapping):
            columns = {n: "number" if isinstance(c, Number) else "text" for n, c in columns.items()}
        print_json({"out": str(out), "columns": columns, "classes": known.classes})
    else:
        typer.echo(printable(f"{out} is written."), err=True)


def _read(source: str, ca: Path | None) -> Model:
    """The model of a file or of an address."""
    if ca is not None and not source.lower().startswith("https://"):
        raise InvalidArgument("ca", str(ca), "omitted: the model has no address of https")
    return read_model(source, ca=ca)


def _predicting(source: str, ca: Path | None) -> tuple[Model, Schema]:
    """A model that can predict, and its schema."""
    model = _read(source, ca)
    if model.schema is None:
        allowed = "a model of records: devices brought updates of their own, so it has weights only"
        raise InvalidArgument("model", source, allowed)
    return model, model.schema


@dataclass(frozen=True, eq=False)
class _Said:
    """What a model says of n records, and the labels that they have, if these are asked for."""

    model: Model
    margins: NDArray[np.float64]
    labels: Cells | None
    missing: Mapping[str, int]
    """Of each named column, the cells that are empty or cannot be read."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes as the cells of a table have them."""
        schema = self.model.schema
        return (schema and schema.classes) or tuple(map(str, self.model.classes or ()))

    @property
    def predictions(self) -> list[Any]:
        """The class or the number of each record."""
        if self.model.regression:
            return [*self.model.targets_of(self.margins).tolist()]
        return [self.classes[code] for code in self.model.codes_of(self.margins).tolist()]

    @property
    def probabilities(self) -> list[list[float]] | None:
        """Those of all classes for each record; None where the model has none."""
        if self.model.loss != "logistic":
            return None
        return [*self.model.probabilities_of(self.margins).tolist()]

    def to_dict(self) -> dict[str, Any]:
        """The predictions for programs."""
        shares = self.probabilities
        more = {} if shares is None else {"classes": self.classes, "probabilities": shares}
        return {"predictions": self.predictions, **more}


def _ask(model: Model, schema: Schema, data: Path, label: str | None, header: bool | None) -> _Said:
    """What a model says of a file, some thousand records at a time."""
    margins, labels, missing = [], [], Counter[str]()
    for block in cells(data, lambda names: label and label_index(names, label), header=header):
        table: Any = block
        if label is not None:
            names = list(block)
            name = names[label_index(names, label)]
            labels.append(block[name] if schema.named else block.pop(name))
        if schema.named:
            missing.update({n: int(cells.sum()) for n, cells in schema.missing(block).items()})
        else:
            table = np.column_stack([*block.values()])
        margins.append(model.margins(table))
    given = np.concatenate(labels) if labels else None
    return _Said(model, np.concatenate(margins), given, missing)


def _scores(said: _Said, labels: Cells, schema: Schema, label: str) -> dict[str, float]:
    """How good the predictions are of the records whose label can be read."""
    from fedsel.simulation._validation import measures

    model = said.model
    y = numbers_of(labels) if model.regression else schema.targets(labels)
    known = np.isfinite(y)
    if not known.any():
        allowed = "a column of numbers" if model.regression else f"one of {listed(said.classes)}"
        raise InvalidArgument("label", label, f"{allowed}, in some record at least")
    y, margins = y[known], said.margins[known]
    scores: dict[str, float] = {"scored": len(y)}
    if model.regression:
        squares, spread = (y - model.targets_of(margins)) ** 2, (y - y.mean()) ** 2
        return scores | {"r2": float(1 - squares.sum() / spread.sum())} if spread.any() else scores
    scores["accuracy"] = float((model.codes_of(margins) == y).mean())
    if model.rows == 1:
        sides = {1: margins[:, 0]}
    else:  # each class against the others
        shares = model.probabilities_of(margins) if model.loss == "logistic" else margins
        sides = {c: shares[:, c] for c in range(model.rows) if (y == c).any()}
    signs = {c: np.where(y == c, 1, -1).astype(np.int8) for c in sides}
    scores["auc"] = float(np.mean([measures(sides[c], signs[c])["auc"] for c in sides]))
    return scores


def _write(said: _Said, file: TextIO) -> None:
    """A line for each record, below the names of the columns."""
    shares = said.probabilities
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["prediction", *(f"P({name})" for name in said.classes if shares)])
    for at, predicted in enumerate(said.predictions):
        writer.writerow([predicted, *(shares[at] if shares else ())])
