"""The checkpoint of a server: one file, replaced as a whole after every round."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from fedsel.preparation import Plan, PlanState, Preparation
from fedsel.recipe import Recipe
from fedsel.server.step import ServerState
from fedsel.wire import Intent, decode_recipe, encode_recipe

_MAGIC = b"FSCP"
_HEAD = struct.Struct("<4sI32s")
_VERSION = 2
_READ = (1, 2)
"""Version 1 had no average and no λ: its runs go on as they were begun. Rounds that prepare came
later, as did purpose and recipient; they are in a checkpoint only where a run has some."""
_NOTHING_STATED = Intent()
_AT_SERVER = ("averaging", "reg", "spread", "centre")
"""What of a recipe is the server's alone; files of earlier versions end before the last two."""
SEAL_BYTES = _HEAD.size
"""The head of a checkpoint: it holds the SHA-256 of the rest, and so stands for all of it."""


class CheckpointError(ValueError):
    """A checkpoint that is damaged, of another version, or was changed by another process."""


@final
@dataclass(frozen=True)
class RoundRecord:
    """What became of the reports of a round.

    ``late`` ones were for a round that was over; ``rejected`` ones were malformed, for no round
    of this run, not invited, or too many.
    """

    round: int
    epoch: int
    accepted: int
    rejected: int
    duplicate: int
    late: int


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a server needs to go on: recipe, run, rounds in an epoch, state, and the record.

    And, where the first rounds prepare, their plan and what was learnt in them; and the intent that
    requests state, where they do.
    """

    recipe: Recipe
    run: bytes
    rounds_per_epoch: int
    state: ServerState
    records: Sequence[RoundRecord]
    plan: Plan | None = None
    learnt: PlanState | None = None
    intent: Intent = _NOTHING_STATED

    def encode(self) -> bytes:
        """The checkpoint in bytes, with its SHA-256 in front."""
        body = io.BytesIO()
        fields = [astuple(r) for r in self.records]
        average: dict[str, Any] = {"average": self.state.average} if self.recipe.averaging else {}
        np.savez(
            body,
            recipe=np.frombuffer(encode_recipe(self.recipe), dtype=np.uint8),
            server=np.array([getattr(self.recipe, name) for name in _AT_SERVER]),
            run=np.frombuffer(self.run, dtype=np.uint8),
            rounds_per_epoch=np.array(self.rounds_per_epoch, dtype=np.int64),
            weights=self.state.weights,
            **average,
            **self._preparing(),
            **self._stated(),
            records=np.array(fields, dtype=np.int64).reshape(-1, 6),
        )
        content = body.getvalue()
        return _HEAD.pack(_MAGIC, _VERSION, hashlib.sha256(content).digest()) + content

    def _preparing(self) -> dict[str, Any]:
        if self.plan is None or self.learnt is None:
            return {}
        known = {"plan": vars(self.plan), "preparation": self.learnt.preparation.to_dict()}
        text = json.dumps(known).encode()
        return {
            "preparing": np.frombuffer(text, dtype=np.uint8),
            "prepared_total": self.learnt.total,
            "prepared_reports": np.array(self.learnt.reports, dtype=np.int64),
        }

    def _stated(self) -> dict[str, Any]:
        if not self.intent:
            return {}
        return {"intent": np.frombuffer(self.intent.encode(), dtype=np.uint8)}

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """The checkpoint of these bytes; anything else is refused."""
        content = data[_HEAD.size :]
        head = _HEAD.unpack(data[: _HEAD.size]) if len(data) >= _HEAD.size else None
        if head is None or head[0] != _MAGIC or head[2] != hashlib.sha256(content).digest():
            raise CheckpointError("the checkpoint is damaged: put back a whole copy, or begin anew")
        if head[1] not in _READ:
            raise CheckpointError(f"the checkpoint is of version {head[1]}, not {_VERSION}")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            recipe = decode_recipe(arrays["task" if head[1] == 1 else "recipe"].tobytes())
            known = [] if head[1] == 1 else arrays["server"].tolist()
            own = dict(zip(_AT_SERVER, [*known, *[0.0] * len(_AT_SERVER)], strict=False))
            records = [RoundRecord(*row) for row in arrays["records"].tolist()]
            weights = arrays["weights"]
            average = arrays["average"] if own["averaging"] else weights
            plan, learnt = _prepared(arrays)
            stated = arrays["intent"].tobytes() if "intent" in arrays else _NOTHING_STATED.encode()
            return cls(
                recipe=replace(recipe, **own),
                run=arrays["run"].tobytes(),
                rounds_per_epoch=int(arrays["rounds_per_epoch"]),
                state=ServerState(weights, average, len(records)),
                records=records,
                plan=plan,
                learnt=learnt,
                intent=Intent.decode(stated),
            )


def _prepared(arrays: Mapping[str, Any]) -> tuple[Plan | None, PlanState | None]:
    if "preparing" not in arrays:
        return None, None
    known = json.loads(arrays["preparing"].tobytes())
    plan = Plan(**{**known["plan"], "loose": tuple(known["plan"]["loose"])})
    preparation = Preparation.of_dict(known["preparation"])
    reports = int(arrays["prepared_reports"])
    return plan, PlanState(preparation, arrays["prepared_total"], reports)


def read_seal(path: Path) -> bytes:
    """The head of a checkpoint; nothing if there is none."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        return file.read(SEAL_BYTES)


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in place of another at once and durably: a crash leaves the one or the other."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")  # see remove_scratch
    try:
        with scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_scratch(path: Path) -> None:
    """Remove what killed processes left of `replace_file`; only while the folder is locked."""
    for file in path.parent.glob(f".{path.name}.*"):
        if file.suffix[1:].isdecimal():
            file.unlink(missing_ok=True)
