"""Run the cells of a spec by cross-validation, keep each result, and tabulate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedsel.data import Dataset, partition
from fedsel.engine import Population, Training
from fedsel.engine.validation import Scores, cross_validate
from fedsel.errors import InvalidArgument
from fedsel.experiments.spec import Cell, Spec, build
from fedsel.experiments.store import Store
from fedsel.models import LinearModel

Row = dict[str, Any]


def prepare(data: Dataset, cell: Cell) -> tuple[Dataset, Population]:
    """The data set as a cell wants it: scaled, with intercept, and dealt out to clients."""
    ready = data.scaled(cell.scale)
    if cell.intercept:
        ready = ready.with_intercept()
    if cell.clients is None:
        if cell.skew is not None:
            raise InvalidArgument("skew", cell.skew, "given together with clients")
        return ready, Population(ready.X, ready.y)
    if cell.clients > ready.n:
        raise InvalidArgument("clients", cell.clients, f"at most the {ready.n} records")
    # A large alpha is no skew: every client then has the labels of the whole.
    alpha = 1e6 if cell.skew is None else cell.skew
    dealt = partition.dirichlet(ready.y, cell.clients, alpha, cell.seed)
    return ready, Population(ready.X, ready.y, dealt.order, dealt.starts)


def training_of(cell: Cell, population: Population) -> Training:
    """The training that a cell asks for."""
    members = population.clients * (cell.folds - 1) // cell.folds
    batch = cell.batch
    count = max(1, round(batch * members)) if isinstance(batch, float) else min(batch, members)
    return Training(
        solution=build(cell, dim=population.X.shape[1], batch=count),
        model=LinearModel(cell.model, cell.reg),  # type: ignore[arg-type]
        learning_rate=cell.learning_rate,
        batch=count,
        dropout=cell.dropout,
        seed=cell.seed,
    )


def run_cell(
    cell: Cell,
    population: Population,
    *,
    jobs: int = 1,
    advance: Callable[[int], object] = abs,
) -> Row:
    """Cross-validate one cell: its parameters, its scores and what it costs a client."""
    training = training_of(cell, population)
    scores = cross_validate(
        training,
        population,
        folds=cell.folds,
        repeats=cell.repeats,
        jobs=jobs,
        advance=advance,
    )
    return {**asdict(cell), **describe(training, scores)}


def describe(training: Training, scores: Scores) -> Row:
    """What is reported of a cell; an infinite ε is null."""
    privacy = training.solution.privacy
    private = privacy.ratio is not None
    return {
        "accuracy": scores.accuracy,
        "deviation": scores.deviation,
        "misclassification": 1 - scores.accuracy,
        "epsilon_per_report": privacy.per_report if private else None,
        "epsilon_total": privacy.total if private else None,
        "private": private,
        "within_budget": privacy.within_budget,
        "privacy": privacy.note,
        "used": training.solution.name,
        "bits": training.solution.bits,
        "runs": [[s.repeat, s.fold, s.accuracy, s.loss] for s in scores.runs],
    }


def sweep(
    spec: Spec,
    data: Dataset,
    store: Store,
    *,
    jobs: int = 1,
    finished: Callable[[Row], object] = id,
    advance: Callable[[int], object] = abs,
) -> list[Row]:
    """Run what the store does not hold yet; ``finished`` sees each row, ``advance`` each run."""
    rows = []
    dealt: dict[tuple[Any, ...], Population] = {}
    for cell in spec.cells():
        row = store.get(cell.key)
        if row is None:
            shape = (cell.scale, cell.intercept, cell.clients, cell.skew, cell.seed)
            if shape not in dealt:
                dealt = {shape: prepare(data, cell)[1]}
            row = store.add(cell.key, run_cell(cell, dealt[shape], jobs=jobs, advance=advance))
        else:
            advance(cell.folds * cell.repeats)
        rows.append(row)
        finished(row)
    return rows


def tidy(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows for a CSV file: without the single runs."""
    return [{k: v for k, v in row.items() if k != "runs"} for row in rows]
