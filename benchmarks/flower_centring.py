"""What it gains over Flower where the first rounds learn spread and centre of the nodes' records.

ADULT, KDD and BANK in the hands of nodes that report once each: their recipe and plan are those of
a `FedSelStrategy` that knows the public bounds of the features, with preparation and without
(centre = spread = 0). The rounds are run by the simulator, to which strategy and mods are equal to
the bit (tests/flower/test_preparing.py). The test fifth is the same in all runs.

Example:
    FEDSEL_DATA=… python benchmarks/flower_centring.py
    python benchmarks/flower_centring.py --datasets adult --records 1 10 --epsilon 2 --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel._internal.progress import Bar
from fedsel.flower import FedSelStrategy
from fedsel.simulation import EvaluationSet, Population, Training, train
from fedsel.simulation._validation import measures
from reproduction import datasets

TESTED = 5
"""One record in so many judges the model, and belongs to nobody."""
KINDS: dict[str, dict[str, Any]] = {
    "as they are": {"centre": 0.0, "spread": 0.0},
    "prepared": {},
}


def run(data: Any, strategy: FedSelStrategy, records: int, number: int) -> tuple[float, float]:
    """Accuracy and AUC of one run on records that no node holds."""
    (X, y), (X_test, y_test) = data
    planned = strategy.planned
    recipe = planned.recipe_of(X.shape[1] + 1)
    begun = planned.preparing_of(recipe)
    if begun is None:
        raise SystemExit("the strategy has no bounds")
    order = np.random.default_rng(number).permutation(len(y))[: records * planned.nodes]
    own, test = begun.scale.apply(X), begun.scale.apply(X_test)
    if begun.plan is None:
        own = begun.preparation.records(own)
    starts = np.arange(0, len(order) + 1, records)
    training = Training(
        recipe.build(),
        float(recipe.learning_rate),
        planned.batch,
        reg=0.0,
        seed=number,
        averaging=float(recipe.averaging),
        plan=begun.plan,
    )
    people = Population(own[order], y[order], np.arange(len(order)), starts)
    history = train(training, people, evaluate="end")
    learnt = history.preparation or begun.preparation
    margins = EvaluationSet(learnt.records(test), y_test).margins(history.weights)
    return float(np.mean((margins >= 0) == (y_test > 0))), measures(margins, y_test)["auc"]


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each data set, number of records, ε and kind of preparation."""
    rows = []
    cases = len(options.datasets) * len(options.records) * len(options.epsilon) * len(KINDS)
    with Bar(cases * options.repeats) as bar:
        for name in options.datasets:
            loaded = datasets.load(name, options.data)
            X = np.asarray(loaded.X.toarray() if loaded.sparse else loaded.X, np.float32)
            bounds, test = loaded.bounds, np.arange(len(X)) % TESTED == 0
            data = (X[~test], loaded.y[~test]), (X[test], loaded.y[test])
            for records in options.records:
                for epsilon in options.epsilon:
                    for kind, shares in KINDS.items():
                        strategy = FedSelStrategy(
                            epsilon=epsilon,
                            nodes=int(np.sum(~test)) // records,
                            rounds_per_epoch=options.rounds,
                            norm=1.0,
                            records_per_node=records,
                            feature_range=(bounds[:, 0], bounds[:, 1]),
                            **shares,
                        )
                        found = []
                        for number in range(options.repeats):
                            found.append(run(data, strategy, records, number))
                            bar.update(f"{name}, ε = {epsilon:g}, {kind}", advance=1)
                        about: dict[str, Any] = {"dataset": name, "records_per_node": records}
                        about |= {"nodes": strategy.nodes, "epsilon": epsilon, "kind": kind}
                        accuracies, areas = zip(*found, strict=True)
                        about["accuracy"] = statistics.fmean(accuracies)
                        about["deviation"] = statistics.pstdev(accuracies)
                        rows.append({**about, "auc": statistics.fmean(areas)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=["adult", "kdd", "bank"])
    parser.add_argument("--records", type=int, nargs="+", default=[1, 10], help="of a node")
    parser.add_argument("--rounds", type=int, default=50, help="that share the nodes")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--data", type=Path, help="a folder with the data files")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    rows = measure(options)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        about = f"{row['dataset']}, {row['nodes']} nodes of {row['records_per_node']}"
        told = f"{100 * row['accuracy']:.1f} ± {100 * row['deviation']:.1f} %, AUC {row['auc']:.3f}"
        print(f"{about}, ε = {row['epsilon']:g}, records {row['kind']}: {told}")


if __name__ == "__main__":
    main()
