"""The rounds of a simulated run: one loop for every model, over whatever runs the rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.progress import note
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.history import History, Round
from fedsel.models import LinearModel
from fedsel.preparation import Plan, Preparation
from fedsel.recipe import check_averaging
from fedsel.server.step import ServerState, StepRule
from fedsel.simulation.schedule import schedule
from fedsel.solutions import Solution

RESIDUAL_LIMIT = 2**30
"""Bytes of residuals that are kept in memory without a directory."""
_JUDGED_AT_A_TIME = 128

Doubles = NDArray[np.float64]
Evaluate = Literal["rounds", "epochs", "end"]
Judge = Callable[[Doubles], tuple[Iterable[float], Iterable[float]]]
"""Accuracy and loss of each model of weights (models, d)."""


@final
@dataclass(frozen=True)
class Training:
    """How to train: the server's public choices.

    At most ``batch`` clients report in a round, about equally many in each; ``dropout`` is the
    chance that a client does not answer; ``rounds`` is the most rounds of all epochs together.
    With ``averaging`` p > 0 the model is the average of the weights over the rounds, t^p in round
    t. Of ``model``, clients of a linear one take the loss; λ is the clients' to add, or the
    server's. The first rounds prepare if there is a ``plan``; records are then on their public
    scale, without an intercept, and each client prepares its own.

    Without a ``seed`` every report is drawn from the operating system, and nobody can repeat the
    run. With one, results depend on it alone, and who knows or guesses it can undo the noise: such
    weights are for research, not for release (`History.seeded`).
    """

    solution: Solution
    model: LinearModel = field(default_factory=LinearModel)
    learning_rate: float = 1.0
    batch: int = 600
    dropout: float = 0.0
    seed: int | None = None
    rounds: int | None = None
    averaging: float = 0.0
    plan: Plan | None = None

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_averaging(self.averaging)
        if self.rounds is not None:
            check_count("rounds", self.rounds)
        check_count("batch", self.batch)
        if self.seed is not None:
            check_count("seed", self.seed, least=0)
        if not 0 <= check_finite("dropout", self.dropout) < 1:
            raise InvalidArgument("dropout", self.dropout, "in [0, 1)")
        if self.plan is not None and self.plan.dim != self.solution.dim:
            raise InvalidArgument("plan.dim", self.plan.dim, f"{self.solution.dim}, as solution")

    @property
    def rule(self) -> StepRule:
        """How the server steps."""
        decay = self.learning_rate * self.model.reg if self.solution.decays_at_server else 0.0
        rate = 1.0 if self.solution.rate_inside else self.learning_rate
        return StepRule(rate, decay, self.averaging)

    @property
    def reg_of_clients(self) -> float:
        """λ that clients add to their gradients; 0 where the server applies it."""
        return 0.0 if self.solution.decays_at_server else self.model.reg

    @property
    def factor(self) -> float:
        """What clients multiply their update with: α where it is inside (…-O)."""
        return self.learning_rate if self.solution.rate_inside else 1.0


class RoundRunner(Protocol):
    """What lets clients report and steps: compiled for linear models, chunk by chunk for others."""

    state: ServerState

    @property
    def rounds_at_a_time(self) -> int:
        """How many rounds to ask for in one call."""
        ...

    @property
    def preparation(self) -> Preparation | None:
        """What is learnt of the records in these rounds; None where none prepares."""
        ...

    def run(
        self, epoch: int, clients: NDArray[np.int64], ends: NDArray[np.int64], keep: bool
    ) -> Iterable[ServerState]:
        """Several rounds: in round t the clients up to ends[t] report.

        The state after each round, or after the last alone unless all are to be kept.
        """
        ...


def run_rounds(
    training: Training,
    runner: RoundRunner,
    members: NDArray[np.int64],
    clients: int,
    judge: Judge | None = None,
    *,
    evaluate: Evaluate = "rounds",
    advance: Callable[[int], object] | None = None,
) -> History:
    """All rounds of all epochs. ``members`` of the ``clients`` take part, each once an epoch.

    ``advance`` is told of rounds that are done; without it a note is shown to who waits long.
    """
    if advance is not None:
        return _run_rounds(training, runner, members, clients, judge, evaluate, advance)
    planned = training.solution.epochs * -(-len(members) // training.batch)
    with note("training", training.rounds or planned) as tell:
        return _run_rounds(training, runner, members, clients, judge, evaluate, tell)


def _run_rounds(
    training: Training,
    runner: RoundRunner,
    members: NDArray[np.int64],
    clients: int,
    judge: Judge | None,
    evaluate: Evaluate,
    advance: Callable[[int], object],
) -> History:
    solution, cost = training.solution, training.solution.privacy.per_report
    keep = evaluate == "rounds" or training.averaging > 0
    seen: list[Round] = []
    waiting: list[Doubles] = []
    done, fewest, heard = 0, 0, 0
    for epoch in range(solution.epochs):
        order, ends = schedule(
            members,
            clients=clients,
            batch=training.batch,
            seed=training.seed,
            epoch=epoch,
            dropout=training.dropout,
        )
        if training.rounds is not None:
            ends = ends[: training.rounds - done]
        reports = np.diff(ends, prepend=0)
        fewest = min([int(n) for n in (fewest, *reports) if n], default=0)
        heard += bool(reports.any())
        is_final = epoch == solution.epochs - 1 or done + len(ends) == training.rounds
        stop = 0
        while stop < len(ends):
            first, stop = stop, min(stop + runner.rounds_at_a_time, len(ends))
            begun = int(ends[first - 1]) if first else 0
            part = order[begun : ends[stop - 1]]
            states = list(runner.run(epoch, part, ends[first:stop] - begun, keep))
            if evaluate != "rounds":
                closes = stop == len(ends) and (evaluate == "epochs" or is_final)
                states = states[-1:] if closes else []
            for state, t in zip(states, range(stop - len(states), stop), strict=True):
                number, bits = done + t + 1, solution.bits * int(reports[t])
                seen.append(Round(number, epoch, (epoch + 1) * cost, bits, int(reports[t])))
                waiting.append(state.model)
            if judge is not None and len(waiting) >= _JUDGED_AT_A_TIME:
                seen, waiting = _judged(seen, waiting, judge), []
            elif judge is None:
                waiting = []
            advance(stop - first)
        done += len(ends)
        if done == training.rounds:
            break
    if judge is not None:
        seen = _judged(seen, waiting, judge)
    seeded = training.seed is not None
    learnt = runner.preparation
    return History(seen, runner.state.model, seeded, learnt, fewest, heard, solution.privacy)


def _judged(seen: list[Round], models: list[Doubles], judge: Judge) -> list[Round]:
    """Fill in accuracy and loss of the last rounds, whose models these are."""
    if not models:
        return seen
    first = len(seen) - len(models)
    results = zip(seen[first:], *judge(np.stack(models)), strict=True)
    judged = [replace(r, accuracy=float(hit), loss=float(loss)) for r, hit, loss in results]
    return [*seen[:first], *judged]


def residual_for(solution: Solution, clients: int, directory: Path | None) -> NDArray[np.float32]:
    """Residuals of zeros (clients, d), in memory or in a file of the directory; (0, d) if none.

    A client that reports once keeps nothing.
    """
    d = solution.dim
    if not solution.accumulates or solution.epochs == 1:
        return np.empty((0, d), dtype=np.float32)
    if directory is None:
        if 4 * clients * d > RESIDUAL_LIMIT:
            raise InvalidArgument(
                "residual_directory",
                None,
                f"a folder with room for {4 * clients * d / 2**30:.1f} GiB, the residuals of"
                f" {clients} clients that accumulate over several epochs",
            )
        return np.zeros((clients, d), dtype=np.float32)
    # A sparse file of zeros: only the pages that are written take room.
    file = directory / "residual.f32"
    return np.asarray(np.memmap(file, dtype=np.float32, mode="w+", shape=(clients, d)))
