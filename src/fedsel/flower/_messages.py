"""The messages between strategy and mod, in both directions.

A server's message holds the model (an ArrayRecord), the app's own ConfigRecords, and under
``fedsel`` the bytes of the request, the public scale of each array and, if the strategy knows
bounds of the records, their preparation. A reply holds only the bytes of the report under
``fedsel``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.typing import DTypeLike, NDArray

from fedsel.errors import InvalidArgument
from fedsel.wire import ModelQuestion, RecordPipeline
from fedsel.wire._pipeline import rows_of

ARRAYS, CONFIG = "arrays", "config"
"""The names of the model and of the app's configuration."""
RECORD, PREPARING = "fedsel", "preparing"
"""The name of our own record in a message, and its key of the preparation."""
_REQUEST, _SCALES, _REPORT, _MEASURE = "request", "scales", "report", "measure"


class NodeRefusal(StrEnum):
    """Why a node does not answer, before its device is asked: a server learns no more than this.

    The node's own log names key and value of wrong settings.
    """

    NO_ANSWER = "this node answers requests for training alone"
    NO_RECORDS = "this node knows of no records to prepare: FedSelMod(records=…)"
    NO_BOUNDS = (
        "this node prepares its records, but the server has no FedSelStrategy(feature_range=…)"
    )
    NO_SCORES = "this node does not measure models: FedSelMod(scores=…)"
    NO_SETTINGS = "this node has no settings of fedsel: its node_config must name fedsel-store"
    WRONG_SETTINGS = "a setting of fedsel in the node_config of this node is unknown or wrong"
    WRONG_POLICY = "the policy of this node cannot be read, or a value in it is missing or wrong"


@final
@dataclass(frozen=True)
class Question:
    """The server's question in a round: the bytes of a `Request`, one scale for each array, and the
    preparation of records if the server knows their bounds; in a round that measures the model,
    which answers there are.
    """

    request: bytes
    scales: tuple[float, ...]
    preparing: RecordPipeline | None = None
    measure: ModelQuestion | None = None

    def record(self) -> ConfigRecord:
        """Encode the question for a message."""
        asked = ConfigRecord({_REQUEST: self.request, _SCALES: list(self.scales)})
        if self.preparing is not None:
            asked[PREPARING] = self.preparing.encode()
        if self.measure is not None:
            asked[_MEASURE] = json.dumps(self.measure.to_dict())
        return asked

    @classmethod
    def of(cls, content: RecordDict, arrays: ArrayRecord) -> Question | None:
        """Read the question of a message with these arrays; None if there is no valid one."""
        record = content.get(RECORD)
        known = {PREPARING, _MEASURE}
        if not isinstance(record, ConfigRecord) or set(record) - known != {_REQUEST, _SCALES}:
            return None
        request, scales = record[_REQUEST], record[_SCALES]
        if not isinstance(request, bytes) or not isinstance(scales, list):
            return None
        if len(scales) != len(arrays) or not all(_is_scale(scale) for scale in scales):
            return None
        try:
            measure = None
            if _MEASURE in record:
                measure = ModelQuestion.of_dict(json.loads(str(record[_MEASURE])))
            if PREPARING not in record:
                return cls(request, tuple(scales), None, measure)
            dim = Layout.of(arrays).dim
            preparing = RecordPipeline.decode(str(record[PREPARING]), dim - 1)
            return cls(request, tuple(scales), preparing, measure) if preparing.fits(dim) else None
        except Exception:  # whatever a server makes up
            return None


def _is_scale(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def answer_of(report: bytes) -> RecordDict:
    """Return the whole content of a reply."""
    return RecordDict({RECORD: ConfigRecord({_REPORT: report})})


def report_of(content: RecordDict) -> object:
    """Return the report in a reply; None if the reply has another shape."""
    if set(content) != {RECORD}:
        return None
    record = content[RECORD]
    if not isinstance(record, ConfigRecord) or set(record) != {_REPORT}:
        return None
    return record[_REPORT]


def content_bytes(message: Message) -> int:
    """Return the size of a message's content on the wire, without Flower's metadata and HTTP."""
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    objects = get_all_nested_objects(message)
    return sum(len(part.deflate()) for part in objects.values() if part is not message)


@final
@dataclass(frozen=True)
class Layout:
    """A model's arrays side by side in one vector (d,), in the order of their record.

    >>> arrays = ArrayRecord([np.ones((2, 2), np.float32), np.zeros(1, np.float32)])
    >>> layout = Layout.of(arrays)
    >>> layout.dim, layout.vector(arrays)
    (5, array([1., 1., 1., 1., 0.], dtype=float32))
    >>> layout.record(np.arange(5.0))["0"].numpy()
    array([[0., 1.],
           [2., 3.]], dtype=float32)
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> Layout:
        """Read the layout of a model, which must have arrays of floats and nothing else."""
        arrays = [(name, array.numpy()) for name, array in record.items()]
        for name, array in arrays:
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
                actual = f"{getattr(array, 'dtype', type(array).__name__)} at {name!r}"
                raise InvalidArgument(
                    "arrays",
                    actual,
                    "non-empty arrays of floats: omit counters and other buffers",
                )
        if not arrays:
            raise InvalidArgument("arrays", "an empty record", "at least one array")
        names = tuple(name for name, _ in arrays)
        return cls(names, tuple(a.shape for _, a in arrays), tuple(a.dtype for _, a in arrays))

    @property
    def sizes(self) -> list[int]:
        """The number of entries of each array."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dim(self) -> int:
        """d, the number of entries of all arrays."""
        return sum(self.sizes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, or float64 if an array needs it to be exact."""
        wide = any(dtype.itemsize > 4 for dtype in self.dtypes)
        return np.dtype(np.float64 if wide else np.float32)

    def vector(self, record: ArrayRecord, dtype: DTypeLike | None = None) -> NDArray[np.floating]:
        """Join arrays of these names and shapes, of any real dtype, to one vector."""
        if set(record) != set(self.names):
            raise InvalidArgument("arrays", "other names", "named as in the model")
        parts = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            array = record[name].numpy()
            if not isinstance(array, np.ndarray) or array.shape != shape:
                raise InvalidArgument(
                    "arrays", "another shape", "of the same shapes as in the model"
                )
            if array.dtype.kind not in "fiub":
                raise InvalidArgument("arrays", "another type", "real numbers")
            parts.append(array.reshape(-1))
        joined: NDArray[np.floating] = np.concatenate(parts).astype(dtype or self.dtype, copy=False)
        return joined

    def record(self, vector: NDArray[np.floating]) -> ArrayRecord:
        """Split a vector into arrays of the model's names, shapes and dtypes."""
        ends = np.cumsum(self.sizes)[:-1]
        parts = zip(self.names, np.split(vector, ends), self.shapes, self.dtypes, strict=True)
        arrays = {n: Array(p.reshape(shape).astype(dtype)) for n, p, shape, dtype in parts}
        return ArrayRecord(arrays)

    def per_entry(self, scales: Sequence[float]) -> NDArray[np.float64]:
        """Turn one scale for each array into one for each entry (d,)."""
        return np.repeat(np.asarray(scales, dtype=np.float64), self.sizes)


def only_arrays(content: RecordDict) -> ArrayRecord:
    """Return the model of a message: the record called ``arrays``, or the only one."""
    records = content.array_records
    if ARRAYS in records:
        return records[ARRAYS]
    values: Iterable[ArrayRecord] = records.values()
    (record,) = values
    return record


def prepared(message: Message, X: Any) -> NDArray[np.float32]:
    """Prepare a node's raw records X (n, d) for training in this round: (n, size), float32.

    Records are clipped to the strategy's ``feature_range`` and centred if a centre is known. For a
    linear model they get the intercept's entry and norm 1. Call it in ``@app.train()`` of an app
    with ``FedSelMod(records=…)``.
    """
    record = message.content.get(RECORD)
    if not isinstance(record, ConfigRecord) or PREPARING not in record:
        allowed = "one of a FedSelStrategy(feature_range=…), behind FedSelMod(records=…)"
        raise InvalidArgument("message", "a message without preparation", allowed)
    rows = rows_of(X)
    return RecordPipeline.decode(str(record[PREPARING]), rows.shape[1]).records(rows)
