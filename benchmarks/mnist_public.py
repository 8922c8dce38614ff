"""MNIST on private reports with 1,000 public images, without labels: what they are worth.

Features are the gradient histograms of benchmarks/mnist.py. The first 1,000 of the 60,000 images
are public, and belong to no client; the others are clients, with and without these rows. Everything
else is automatic: one report in 100 rounds.

- softmax: `FedSelClassifier`, with ``public_X``;
- by a task: the plan of a service's task with ``public_rows``, on the softmax's random words: it
  must give the same model;
- linear: `FederatedTrainer` on ``nn.Linear``, with ``public_rows``;
- network: the same on the hidden layer of benchmarks/mnist.py.

Example:
    python benchmarks/mnist_public.py --repeats 5       # needs mnist.npz.xz (--data, FEDSEL_DATA)
    python benchmarks/mnist_public.py --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.mnist import CLASSES, FEATURES, HIDDEN, HIGH, ROUNDS, Records, load
from fedsel import FedSelClassifier
from fedsel._internal.models import MulticlassModel
from fedsel._internal.progress import Bar
from fedsel.service import Task
from fedsel.simulation import Population, Simulation, Training
from fedsel.simulation._clients import MulticlassClients
from fedsel.torch import FederatedTrainer

EPSILONS = (0.5, 1.0, 2.0, 4.0)
PUBLIC = 1_000
REG = 1e-4
"""λ, as the estimator has it."""
Rows = Any


def softmax(clients: Records, test: Records, rows: Rows, epsilon: float, seed: int) -> float:
    given = {"feature_range": (0, 1), "batch_fraction": 1 / ROUNDS, "reg": REG}
    model = FedSelClassifier(epsilon=epsilon, random_state=seed, **given)
    return float(model.fit(*clients, public_X=rows).score(*test))


def by_a_task(clients: Records, test: Records, rows: Rows, epsilon: float, seed: int) -> float:
    """The accuracy of what devices learn from the words of a seed, by the plan of a task."""
    (X, y), count = clients, len(clients[1])
    own = {"features": FEATURES, "feature_range": [0, 1], "labels": [*map(str, range(CLASSES))]}
    rounds = {"rounds_per_epoch": ROUNDS, "close_after": {"reports": round(count / ROUNDS)}}
    task = {"name": "mnist", "epsilon": epsilon, "clients": count, "reg": REG, **own, **rounds}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        np.savez(file, X=rows)
        begun = Task.of({**task, "public_rows": str(file)})
        recipe, pipeline = begun.begin.recipe, begun.preparing(begun.begin)
    rate, averaging = float(recipe.learning_rate), float(recipe.averaging)
    batch = round(count / ROUNDS)
    training = Training(recipe.build(), rate, batch, reg=recipe.reg, averaging=averaging, seed=seed)
    people = Population(pipeline.records(X), y)
    model = MulticlassModel("logistic", reg=0.0)
    source = MulticlassClients(people, CLASSES, model)
    weights = Simulation(training, source, np.zeros(recipe.dim)).play().weights
    margins = pipeline.records(test[0]) @ weights.reshape(CLASSES, -1).T
    return float(np.mean(margins.argmax(axis=1) == test[1]))


def trained(make: Callable[[], nn.Module], high: float) -> Callable[..., float]:
    def accuracy(clients: Records, test: Records, rows: Rows, epsilon: float, seed: int) -> float:
        torch.manual_seed(seed)
        given = {"feature_range": (0, high), "batch": 1 / ROUNDS, "seed": seed}
        trainer = FederatedTrainer(make(), epsilon=epsilon, public_rows=rows, **given)
        return trainer.fit(*clients, eval_set=test, evaluate="end").history.accuracy

    return accuracy


def hidden() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES))


MODELS: dict[str, Callable[..., float]] = {
    "softmax": softmax,
    "by a task": by_a_task,
    "linear": trained(lambda: nn.Linear(FEATURES, CLASSES), 1),
    "network": trained(hidden, HIGH),
}


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    (X, y), test = load(options.data)
    clients = X[PUBLIC:], y[PUBLIC:]
    cases = [
        (m, r) for m in MODELS for r in (None, X[:PUBLIC]) if m != "by a task" or r is not None
    ]
    found = []
    with Bar(len(cases) * len(EPSILONS) * options.repeats) as bar:
        for model, rows in cases:
            for epsilon in EPSILONS:
                hits = []
                for seed in range(options.repeats):
                    hits.append(MODELS[model](clients, test, rows, epsilon, seed))
                    bar.update(model, advance=1)
                about = {"model": model, "public rows": 0 if rows is None else len(rows)}
                found.append({**about, "epsilon": epsilon, "accuracy": hits})
    return found


def show(found: list[dict[str, Any]]) -> None:
    table = Table(title="MNIST: test accuracy (%), mean ± deviation over runs")
    for name in ("model", "public rows", *(f"ε = {e:g}" for e in EPSILONS)):
        table.add_column(name)
    for at in range(0, len(found), len(EPSILONS)):
        mine = found[at : at + len(EPSILONS)]
        runs = [[100 * hit for hit in row["accuracy"]] for row in mine]
        cells = [
            f"{statistics.fmean(r):.1f} ± {statistics.stdev(r) if len(r) > 1 else 0:.1f}"
            for r in runs
        ]
        table.add_row(mine[0]["model"], f"{mine[0]['public rows']:,}", *cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, help="the folder of mnist.npz.xz")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    warnings.simplefilter("ignore")  # MNIST is public: it may be fitted often, and from seeds
    found = measure(options)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
