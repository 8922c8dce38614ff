"""A trained model as a file, and what a prediction is: the one definition in Python.

A record becomes features (`Schema.encode`), these become what clients train on (`RecordPipeline`),
and the weights give its margins. The same file comes from an estimator and from a service, and
``clients/js`` computes the same from it. docs/models.md has the formula in terms of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel import __version__
from fedsel._internal.models import CLASSIFYING, REGRESSING, Loss, softmax
from fedsel._internal.settings import naming_file
from fedsel.errors import InvalidArgument, InvalidData, check_vectors
from fedsel.wire._columns import matcher
from fedsel.wire._pipeline import RecordPipeline
from fedsel.wire._schema import Schema

Label = bool | int | float | str
Doubles = NDArray[np.float64]

FORMAT: Final = "fedsel-model"
VERSION: Final = 1
MOST_MODEL_BYTES: Final = 256 << 20
"""Ten million weights and more; nothing larger is read."""
_PARTS = ("schema", "loss", "classes", "pipeline", "log_prior")
_KEYS = ("format", "version", *_PARTS, "weights", "linear", "about")
_AT_A_TIME = 4096


@final
@dataclass(frozen=True, eq=False)
class Model:
    """A linear model of records that a public ``schema`` describes.

    ``weights`` (rows·size,) lie row after row; there is a row for each of more than two
    ``classes``, else one. ``pipeline`` makes records of ``size`` entries from encoded ones.
    ``log_prior`` (C,): logarithms of public shares of the classes, which are taken out of the
    margins. ``about`` are public facts for people. Where devices brought updates of their own there
    are weights alone, and nothing to predict.

    >>> from fedsel.preparation import Preparation
    >>> schema = Schema({"age": (0, 100)}, classes=["no", "yes"])
    >>> pipeline = RecordPipeline(schema.scale, Preparation.plain(1, unit=False))
    >>> model = Model(np.array([4.0, -2.0]), schema, "logistic", ("no", "yes"), pipeline)
    >>> model.margins({"age": [75, None, 20]}).tolist()
    [[1.0], [0.0], [-1.199999988079071]]
    >>> model.predict([{"age": 75}]).tolist(), model.predict_proba([{"age": None}]).tolist()
    (['yes'], [[0.5, 0.5]])
    """

    weights: Doubles
    schema: Schema | None = None
    loss: Loss | None = None
    classes: tuple[Label, ...] | None = None
    pipeline: RecordPipeline | None = None
    log_prior: Doubles | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("weights", "log_prior"):
            if getattr(self, name) is not None:
                vector = check_vectors(name, getattr(self, name), ndim=1).astype(np.float64)
                vector.flags.writeable = False
                object.__setattr__(self, name, vector)
        try:
            compact_json({**self.about})
        except (TypeError, ValueError):
            raise InvalidArgument("about", self.about, "a table of JSON values") from None
        if self.schema is None:
            _check_alone({name: getattr(self, name) for name in _PARTS})
            return
        if self.pipeline is None:
            raise InvalidArgument("pipeline", None, "given beside a schema")
        object.__setattr__(self, "pipeline", replace(self.pipeline, plan=None))
        self._check_labels(self.schema)
        known, asked = self.pipeline.preparation.features, self.schema.feature_count
        if known != asked:
            raise InvalidArgument("pipeline.features", known, f"{asked}, as the schema has them")
        wanted = f"{self.rows} × {self.pipeline.preparation.size} numbers"
        if len(self.weights) != self.rows * self.pipeline.preparation.size:
            raise InvalidArgument("weights", f"{len(self.weights)} numbers", wanted)
        if self.log_prior is not None and len(self.log_prior) != len(self.classes or ()):
            wanted = f"{len(self.classes or ())} numbers, one for each class"
            raise InvalidArgument("log_prior", f"{len(self.log_prior)} numbers", wanted)

    def _check_labels(self, schema: Schema) -> None:
        if self.loss not in (*CLASSIFYING, *REGRESSING):
            raise InvalidArgument("loss", self.loss, f"one of {(*CLASSIFYING, *REGRESSING)}")
        if self.regression:
            if self.classes is not None or schema.classes is not None:
                raise InvalidArgument("classes", self.classes, f"null with {self.loss}")
            if schema.target_range is None:
                raise InvalidArgument("target_range", None, f"in the schema with {self.loss}")
            return
        labels = self.classes or ()
        kinds = {type(label) for label in labels}
        if len(labels) < 2 or len(kinds) != 1 or not kinds <= {bool, int, float, str}:
            wanted = "two or more texts, whole numbers, numbers or truth values, all of one type"
            raise InvalidArgument("classes", self.classes, wanted)
        if len(set(labels)) < len(labels) or any(x != x for x in labels):  # noqa: PLR0124 - NaN
            raise InvalidArgument("classes", self.classes, "different from each other")
        if schema.target_range is not None:
            wanted = f"omitted in the schema with {self.loss}"
            raise InvalidArgument("target_range", schema.target_range, wanted)
        if schema.classes is not None:
            codes = [*map(matcher(schema.classes), labels)]
            if codes != [*range(len(schema.classes))]:
                wanted = f"{list(schema.classes)}, as the schema has them"
                raise InvalidArgument("classes", list(labels), wanted)

    @property
    def regression(self) -> bool:
        """Whether the model predicts a number."""
        return self.loss in REGRESSING

    @property
    def rows(self) -> int:
        """The margins of a record: as many as there are classes if they are more than two."""
        return len(self.classes) if self.classes is not None and len(self.classes) > 2 else 1

    @property
    def target_range(self) -> tuple[float, float]:
        """The bounds of the numbers that a regression predicts."""
        return (self.schema and self.schema.target_range) or (-1.0, 1.0)

    # --- prediction -----------------------------------------------------------------------------

    def margins(self, table: Any, names: Sequence[str] | None = None) -> Doubles:
        """Margins (n, rows) of the records of a table (`Schema.encode`).

        With two classes a margin ≥ 0 speaks for the second; else the largest one decides.
        """
        return self.margins_of((self.schema or self._no_schema()).encode(table, names))

    def margins_of(self, X: Any) -> Doubles:
        """Margins (n, rows) of encoded records X (n, d), dense or CSR."""
        pipeline = self.pipeline or self._no_schema()
        scaled, prepared = pipeline.scale.apply(X), pipeline.preparation
        rows = self.weights.reshape(self.rows, -1)
        margins = np.asarray(prepared.records(scaled) @ rows.T, dtype=np.float64)
        if self.log_prior is not None:
            # Proportional to the record's norm, so that the decision stays linear in x.
            margins -= self._offsets * (prepared.typical_norm / prepared.norms(scaled))[:, None]
        return margins

    @property
    def _offsets(self) -> Doubles:
        """What the prior subtracts from the margins of a typical record: (rows,)."""
        if self.log_prior is None:
            return np.zeros(self.rows)
        logs = self.log_prior
        return logs[1:] - logs[:1] if len(logs) == 2 else logs - logs.mean()

    def codes_of(self, margins: Doubles) -> NDArray[np.int64]:
        """The number (n,) of the class that each record's margins (n, rows) decide for."""
        codes = margins[:, 0] >= 0 if margins.shape[1] == 1 else margins.argmax(axis=1)
        return np.asarray(codes, dtype=np.int64)

    def targets_of(self, margins: Doubles) -> Doubles:
        """The number (n,) that a regression predicts, within the target's range."""
        low, high = self.target_range
        return (low + high) / 2 + (high - low) / 2 * np.clip(margins[:, 0], -1.0, 1.0)

    def probabilities_of(self, margins: Doubles) -> Doubles:
        """Probabilities (n, C) of the classes."""
        if self.loss != "logistic":
            raise InvalidArgument("loss", self.loss, '"logistic": others have no probabilities')
        if margins.shape[1] == 1:
            margins = np.column_stack([np.zeros(len(margins)), margins[:, 0]])
        return softmax(margins)

    def predict(self, table: Any, names: Sequence[str] | None = None) -> NDArray[Any]:
        """The class or the number (n,) of each record of a table."""
        margins = self.margins(table, names)
        if self.regression:
            return self.targets_of(margins)
        predicted: NDArray[Any] = np.array(self.classes)[self.codes_of(margins)]
        return predicted

    def predict_proba(self, table: Any, names: Sequence[str] | None = None) -> Doubles:
        """Probabilities (n, C) of the classes, of a logistic model."""
        return self.probabilities_of(self.margins(table, names))

    @property
    def linear(self) -> tuple[Doubles, Doubles]:
        """Coefficients (rows, d) and constants (rows,) of encoded features, within their bounds.

        They give the margins, or multiples of them by a positive number where records are divided
        by their norm.
        """
        pipeline = self.pipeline or self._no_schema()
        slopes, constants = pipeline.linear(self.weights.reshape(self.rows, -1))
        if self.log_prior is not None:
            constants = constants - self._offsets * pipeline.preparation.typical_norm
        return slopes, constants

    def _no_schema(self) -> NoReturn:
        wanted = "a model of records: devices brought updates of their own, so it holds weights"
        raise InvalidArgument("model", "no schema", wanted)

    # --- as a file ------------------------------------------------------------------------------

    def parts(self) -> Iterator[bytes]:
        """The file in pieces, so that other threads get their turn."""
        schema, pipeline, linear = self.schema, self.pipeline, None
        if pipeline is not None:
            slopes, constants = self.linear
            linear = {"coefficients": list(slopes), "constants": constants}
        return _json_parts(
            {
                "format": FORMAT,
                "version": VERSION,
                "schema": None if schema is None else schema.to_dict(),
                "loss": self.loss,
                "classes": None if self.classes is None else list(self.classes),
                "pipeline": None if pipeline is None else pipeline.to_dict(),
                "weights": self.weights,
                "log_prior": self.log_prior,
                "linear": linear,
                "about": {"fedsel": __version__} | dict(self.about),
            }
        )

    def encode(self) -> bytes:
        """The model as JSON."""
        return b"".join(self.parts())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The model of a file; anything else is refused by one sentence."""
        if len(data) > MOST_MODEL_BYTES:
            raise InvalidArgument("model", f"{len(data)} bytes", f"at most {MOST_MODEL_BYTES}")
        wanted = f'a model file of fedsel: JSON with "format": "{FORMAT}"'
        try:
            values = json.loads(data, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise InvalidArgument("model", "no JSON", wanted) from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InvalidArgument("model", "other JSON", wanted)
        if values.get("version") != VERSION:
            wanted = f"{VERSION}; another fedsel wrote this model, which this one cannot read"
            raise InvalidArgument("version", values.get("version"), wanted)
        odd = sorted({*_KEYS} ^ {*values})
        if odd:
            allowed = "omitted" if odd[0] in values else "given"
            raise InvalidArgument(odd[0], values.get(odd[0]), f"{allowed} in a model")
        try:
            return cls._read(values)
        except InvalidArgument:
            raise
        except InvalidData as error:
            raise InvalidArgument("model", "its numbers", f"such that {error}") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise InvalidArgument("model", "its parts", "as fedsel writes them") from None

    @classmethod
    def _read(cls, values: Mapping[str, Any]) -> Self:
        weights, about = _numbers("weights", values["weights"]), values["about"]
        if values["schema"] is None:
            _check_alone(values)
            return cls(weights, about=about)
        schema, pipeline = Schema.of_dict(values["schema"]), values["pipeline"]
        classes, logs = values["classes"], values["log_prior"]
        return cls(
            weights,
            schema,
            values["loss"],
            None if classes is None else tuple(classes),
            None if pipeline is None else RecordPipeline.of_dict(pipeline, schema.feature_count),
            None if logs is None else _numbers("log_prior", logs),
            about,
        )

    def save(self, path: str | Path) -> None:
        """Write the model to a file."""
        Path(path).write_bytes(self.encode())

    def to_onnx(self, path: str | Path) -> None:
        """Write the model as an ONNX graph, which predicts from the columns of records.

        Each column is an input (n, 1) by its name: float64 for numbers, NaN where missing; texts
        for categories and dates, "" where missing. Columns without names are one input "X" (n, d).
        The outputs are "prediction" (n,), "margins" (n, rows) and, of a logistic model,
        "probabilities" (n, C). It needs ``fedsel[onnx]``; the graph needs opset 20.
        """
        from fedsel.wire._onnx import graph_of

        if self.schema is None or self.pipeline is None:
            self._no_schema()
        Path(path).write_bytes(graph_of(self, self.schema, self.pipeline, self._offsets))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model of a file."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(MOST_MODEL_BYTES + 1)
        except OSError as error:
            raise InvalidArgument("model", str(path), f"a file ({error.strerror})") from None
        with naming_file(path):
            return cls.decode(data)


def _check_alone(values: Mapping[str, Any]) -> None:
    for name in _PARTS:
        if values[name] is not None:
            raise InvalidArgument(name, values[name], "null without a schema")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _numbers(name: str, values: Any) -> Doubles:
    if not isinstance(values, list) or not all(type(x) in (int, float) for x in values):
        raise InvalidArgument(name, type(values).__name__, "a list of numbers")
    return np.array(values, dtype=np.float64)


def _json_parts(value: Any) -> Iterator[bytes]:
    """JSON in pieces: long lists and arrays some numbers at a time."""
    if isinstance(value, Mapping):
        for at, (key, inner) in enumerate(value.items()):
            yield (b"," if at else b"{") + compact_json(key) + b":"
            yield from _json_parts(inner)
        yield b"}" if value else b"{}"
    elif isinstance(value, list | np.ndarray) and len(value) and not np.isscalar(value[0]):
        for at, inner in enumerate(value):
            yield b"," if at else b"["
            yield from _json_parts(inner)
        yield b"]"
    elif isinstance(value, list | np.ndarray):
        yield b"["
        for start in range(0, len(value), _AT_A_TIME):
            part = value[start : start + _AT_A_TIME]
            numbers = part.tolist() if isinstance(part, np.ndarray) else part
            yield (b"," if start else b"") + compact_json(numbers)[1:-1]
        yield b"]"
    else:
        yield compact_json(value)


def compact_json(value: Any) -> bytes:
    """A value as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
