"""The server: asks for private reports, averages them, and judges the model on its own records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedsel.flower import FedSelStrategy
from flower_adult import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds, and write and draw the history where files are named."""
    config = context.run_config
    records = task.load(config)
    test = task.held_out(records)

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        del number
        accuracy, loss = task.judge({n: a.numpy() for n, a in arrays.items()}, test)
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    first = task.start(records[0].shape[1], config)
    strategy = strategy_of(config)
    strategy.start(
        grid,
        ArrayRecord({name: Array(array) for name, array in first.items()}),
        timeout=float(config["timeout"]),
        evaluate_fn=evaluate,
    )
    if config["results"]:
        write(strategy, Path(str(config["results"])))
    if config["figure"]:
        strategy.plot_history().figure.savefig(str(config["figure"]), dpi=150)


def strategy_of(config: dict[str, Any]) -> FedSelStrategy:
    """The strategy of a run's config; what is 0 there is automatic."""
    rate, rho = float(config["learning-rate"]), float(config["rho"])
    linear = config["model"] == "logistic"
    return FedSelStrategy(
        solution=str(config["solution"]),
        epsilon=float(config["epsilon"]),
        nodes=int(config["nodes"]),
        epochs=int(config["epochs"]),
        rounds_per_epoch=int(config["rounds-per-epoch"]),
        learning_rate=rate if rate > 0 else "auto",
        rho=rho if rho > 0 else "auto",
        scale=float(config["local-rate"]),  # an update over η is the gradient
        norm=1.0 if linear else None,  # of a record, for a linear model
        records_per_node=int(config["records-per-node"]) if linear else None,
        folder=str(config["folder"]) or None,
        patience=float(config["patience"]),
    )


def write(strategy: FedSelStrategy, file: Path) -> None:
    """History, what was asked for, and what replies weighed."""
    recipe = strategy.recipe
    results = {
        "solution": recipe.solution,
        "dim": recipe.dim,
        "epsilon_per_report": str(recipe.charge),
        "learning_rate": recipe.learning_rate,
        "averaging": recipe.averaging,
        "rounds": [
            {name: x if math.isfinite(x) else None for name, x in row.items()}  # JSON has no NaN
            for row in strategy.history.table()
        ],
        "refusals": dict(strategy.refusals),
        "reply_bytes": dict(strategy.reply_bytes),
    }
    file.write_text(json.dumps(results, indent=1))
