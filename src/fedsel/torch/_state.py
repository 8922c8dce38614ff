"""How far a run has come, as plain values and tensors that ``torch.load(weights_only=True)`` reads.

Without a seed a run that goes on draws new noise. With one it equals the run that was never broken
off, to the bit: every draw follows from the seed, the round and the client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedsel import __version__
from fedsel.errors import InvalidArgument
from fedsel.preparation import PlanState, Preparation
from fedsel.server._step import Course, History, Leg, Round, ServerState

if TYPE_CHECKING:
    from fedsel.torch._trainer import FederatedTrainer

VERSION = 1
_SHOWN = 100
_DECIDED = ("_grouped", "_keeps_start", "_public_means", "_public_rows", "_preparing")
"""What a trainer remembers of the decisions of its runs."""
_WANTED = "what FederatedTrainer.state_dict() returned"

PLAYED: dict[str, int] = {}
"""The rounds of each run that were played in this process."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a run has come: all that it needs to go on, beside the records.

    ``run`` is a random name. ``facts`` are what is public about the run, by which its records must
    fit; ``before`` is what was known about them when it began. ``residual`` (clients, d) is
    private: each client's own.
    """

    run: str
    facts: dict[str, str]
    order: int
    state: ServerState
    past: History
    before: Preparation | None
    residual: NDArray[np.float32]
    finished: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values and copies of arrays."""
        made = {
            "run": self.run,
            "facts": dict(self.facts),
            "order": f"{self.order:x}",
            "state": state_to_dict(self.state),
            "past": history_to_dict(self.past),
            "before": self.before and self.before.to_dict(),
            "finished": self.finished,
        }
        return {**made, "residual": _tensor(self.residual)} if len(self.residual) else made

    @classmethod
    def of_dict(cls, values: Mapping[str, Any], dim: int) -> Progress:
        residual = values.get("residual")
        return cls(
            run=str(values["run"]),
            facts=dict(values["facts"]),
            order=int(values["order"], 16),
            state=state_of_dict(values["state"]),
            past=history_of_dict(values["past"]),
            before=_preparation(values["before"]),
            residual=np.empty((0, dim), np.float32) if residual is None else _array(residual),
            finished=bool(values["finished"]),
        )


def saved(trainer: FederatedTrainer) -> dict[str, Any]:
    """The state of a trainer and of its last run."""
    reached, progress, prepared = trainer._reached, trainer._progress, trainer.preparation
    own, asked = dict(trainer.module.named_parameters()), trainer.asked
    return {
        "version": VERSION,
        "fedsel": __version__,
        "settings": trainer._described(),
        "parameters": {name: own[name].detach().cpu().clone() for name in trainer.layout.names},
        "preparation": prepared and prepared.to_dict(),
        "decided": {name: getattr(trainer, name) for name in _DECIDED},
        "recipe": {n: v for n, v in vars(trainer.recipe).items() if v != getattr(asked, n)},
        "history": history_to_dict(trainer.history),
        "reached": reached and [_tensor(reached[0]), state_to_dict(reached[1])],
        "run": progress and progress.to_dict(),
    }


def restore(trainer: FederatedTrainer, state: object) -> None:
    """Give a trainer a state of its own kind; refuse another, and leave the trainer as it was."""
    given = _checked(state)
    check_same(given["settings"], trainer._described(), "this trainer has")
    try:
        parameters = [given["parameters"][name].reshape(-1) for name in trainer.layout.names]
        weights = _array(torch.cat(parameters).double())
        history = history_of_dict(given["history"])
        prepared, run = _preparation(given["preparation"]), given["run"]
        decided = {n: type(getattr(trainer, n))(given["decided"][n]) for n in _DECIDED}
        reached = given["reached"] and (
            _array(given["reached"][0]),
            state_of_dict(given["reached"][1]),
        )
        progress = run and Progress.of_dict(run, trainer.layout.dim)
        recipe = replace(trainer.asked, **given["recipe"])
        solution = trainer._composed or recipe.build()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError):
        raise _damaged() from None
    trainer.layout.write(trainer.module, weights)
    trainer.recipe, trainer.solution, trainer.preparation = recipe, solution, prepared
    trainer.history = replace(history, privacy=solution.privacy if history.epochs_heard else None)
    vars(trainer).update(decided)
    trainer._reached, trainer._progress = reached, progress
    trainer._resumes = progress is not None and not progress.finished


def state_to_dict(state: ServerState) -> dict[str, Any]:
    """The server's state: weights, average, rounds, course and what was learnt about records."""
    course, learnt = state.course, state.learnt
    made = {"weights": _tensor(state.weights), "average": _tensor(state.average)}
    return {
        **made,
        "rounds": state.rounds,
        "course": course
        and {
            "start": _tensor(course.start),
            "in_weights": _tensor(course.in_weights),
            "in_average": _tensor(course.in_average),
            "legs": [[_tensor(np.asarray(v)) for v in vars(leg).values()] for leg in course.legs],
        },
        "learnt": learnt
        and {
            "preparation": learnt.preparation.to_dict(),
            "total": _tensor(learnt.total),
            "reports": learnt.reports,
        },
    }


def state_of_dict(values: Mapping[str, Any]) -> ServerState:
    """The inverse of `state_to_dict`."""
    course, learnt = values["course"], values["learnt"]
    weights, average = _array(values["weights"]), _array(values["average"])
    if course is not None:
        parts = [_array(course[name]) for name in ("in_weights", "in_average")]
        legs = tuple(Leg(*map(_array, leg)) for leg in course["legs"])
        course = Course(_array(course["start"]), legs, *parts)
    if learnt is not None:
        prepared = Preparation.of_dict(learnt["preparation"])
        learnt = PlanState(prepared, _array(learnt["total"]), int(learnt["reports"]))
    return ServerState(weights, average, int(values["rounds"]), course, learnt)


def history_to_dict(history: History) -> dict[str, Any]:
    """The history without the privacy of its solution, which the trainer knows."""
    prepared = history.preparation
    return {
        "rounds": [asdict(row) for row in history.rounds],
        "weights": _tensor(history.weights),
        "seeded": history.seeded,
        "preparation": prepared and prepared.to_dict(),
        "fewest_reports": history.fewest_reports,
        "epochs_heard": history.epochs_heard,
    }


def history_of_dict(values: Mapping[str, Any]) -> History:
    """The inverse of `history_to_dict`."""
    rounds = [Round(**row) for row in values["rounds"]]
    prepared = _preparation(values["preparation"])
    counts = int(values["fewest_reports"]), int(values["epochs_heard"])
    return History(rounds, _array(values["weights"]), bool(values["seeded"]), prepared, *counts)


def check_same(was: Mapping[str, str], now: Mapping[str, str], whose: str) -> None:
    """Refuse a state of something else; name the first difference."""
    for name in {**now, **was}:
        if was.get(name) != now.get(name):
            actual = f"of a run with {name} = {_shown(was.get(name))}"
            allowed = f"of one with {name} = {_shown(now.get(name))}, as {whose}"
            raise InvalidArgument("state", actual, allowed)


def _checked(state: object) -> dict[str, Any]:
    """Refuse what is no state, or one that this version cannot read."""
    if not isinstance(state, dict) or "version" not in state:
        raise InvalidArgument("state", type(state).__name__, _WANTED)
    if state["version"] != VERSION:
        actual = f"of version {state['version']}, written by fedsel {state.get('fedsel')}"
        allowed = f"of version {VERSION}, which fedsel {__version__} reads; load it with that one"
        raise InvalidArgument("state", actual, allowed)
    if not isinstance(state.get("settings"), dict):
        raise _damaged()
    return state


def _damaged() -> InvalidArgument:
    return InvalidArgument("state", "damaged", f"{_WANTED}, whole and finite")


def text_of(value: Any) -> str:
    """A public value as text, arrays entry by entry.

    >>> text_of((0, np.array([1.0, 2.0]), Fraction(4)))
    '[0, [1.0, 2.0], 4]'
    """

    def plain(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: plain(own) for key, own in part.items()}
        if isinstance(part, tuple | list):
            return [plain(own) for own in part]
        if isinstance(part, Fraction):
            return int(part) if part.denominator == 1 else str(part)
        return part.tolist() if hasattr(part, "tolist") else part

    return repr(plain(value))


def digest_of(rows: Any) -> str:
    """What tells public rows from others; nothing without any."""
    if rows is None:
        return ""
    array = np.ascontiguousarray(rows, dtype="<f8")
    return hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()[:16]


def digest_of_frozen(module: nn.Module) -> str:
    """What tells the frozen parameters and the buffers of a module from others."""
    digest = hashlib.sha256()
    frozen = ((name, p) for name, p in module.named_parameters() if not p.requires_grad)
    for name, kept in chain(frozen, module.named_buffers()):
        digest.update(f"{name} {kept.dtype} {tuple(kept.shape)}".encode())
        digest.update(kept.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def _shown(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(values))


def _array(values: torch.Tensor) -> NDArray[Any]:
    if not bool(torch.isfinite(values).all()):
        raise _damaged()
    return np.array(values.numpy())


def _preparation(values: dict[str, Any] | None) -> Preparation | None:
    return None if values is None else Preparation.of_dict(values)
