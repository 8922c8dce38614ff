"""The demo of fedsel on Flower: ``python -m tools.flower``, or ``make flower``.

It starts a SuperLink and SuperNodes as processes of this machine, which run examples/flower_adult,
ends them, and prints a summary. Each node holds thousands of records and counts as one client: ε
protects all of them together.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import math
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from fedsel.device import Ledger
from fedsel.errors import InvalidArgument, check_count
from fedsel.flower import FedSelStrategy, NoReports
from fedsel.flower._messages import content_bytes
from fedsel.recipe import RECOMMENDED
from tools.flower.federation import Federation, Process, ProcessError

APP = Path(__file__).parents[2] / "examples" / "flower_adult"
_START, _ROUND = 90.0, 120.0
"""Seconds for the start, and for each round, before the demo gives up."""
_PLAIN_RATE = 5.0
"""The learning rate of plain FedAvg. Private reports have another, on directions."""
_RECORDS = 40_000
"""About the number of records of all nodes together."""


@final
@dataclass(frozen=True)
class Demo:
    """The choices of a demo."""

    nodes: int = 3
    epochs: int = 4
    epsilon: float = 8.0
    solution: str = RECOMMENDED
    model: str = "logistic"
    dataset: str = "syn"
    features: int = 10

    def __post_init__(self) -> None:
        check_count("nodes", self.nodes, most=8)
        check_count("epochs", self.epochs, most=100)
        check_count("features", self.features, most=1000)
        self.strategy()  # checks solution and ε

    def strategy(self) -> FedSelStrategy:
        """Make a strategy that asks for what the strategy of the app will ask for."""
        return FedSelStrategy(
            epsilon=self.epsilon, nodes=self.nodes, solution=self.solution, epochs=self.epochs
        )

    def config(self) -> dict[str, Any]:
        """Return the run_config of the app."""
        return {
            "dataset": self.dataset,
            "features": self.features,
            "model": self.model,
            "hidden": 4,
            "local-rate": 1.0,
            "solution": self.solution,
            "epsilon": float(self.epsilon),
            "epochs": self.epochs,
            "nodes": self.nodes,
            "records-per-node": _RECORDS // self.nodes,
            "timeout": _ROUND,
        }

    def node_config(self, folder: Path, number: int, dim: int) -> dict[str, Any]:
        """Return the node_config that the owner of a node would write."""
        share = math.ceil(1e6 * float(self.epsilon) / self.epochs) / 1e6
        recipe = self.strategy().recipe_of(dim)  # μ = 0 replaces a two-stage solution by a flat one
        return {
            "partition-id": number,
            "num-partitions": self.nodes,
            "fedsel-store": str(folder / f"ledger-{number}"),
            "fedsel-create": True,
            "fedsel-lifetime": float(self.epsilon),
            "fedsel-per-report": share,
            "fedsel-solutions": recipe.solution,
            "fedsel-dimensions": dim,
        }

    def run(self, folder: Path) -> dict[str, Any]:
        """Start everything, run, and stop everything; the folder gets logs and ledgers."""
        begin = time.monotonic()
        task, config, results = app_task(), self.config(), folder / "results.json"
        records = task.load(config)
        first = task.start(records[0].shape[1], config)
        dim = sum(array.size for array in first.values())
        with Federation(folder) as federation:
            for number in range(self.nodes):
                federation.add_node(f"node-{number}", self.node_config(folder, number, dim))
            run = federation.submit(APP, {**config, "results": str(results)})
            self._watch(federation, run)
        if not results.exists():
            raise ProcessError(f"the run failed{_reason(run.text())}")
        outcome = json.loads(results.read_text())
        _say("plain FedAvg on the same data")
        plain_accuracy, plain_bytes = self._fedavg(task, records, first)
        sizes = {int(size): count for size, count in outcome["reply_bytes"].items()}
        ledgers = [Ledger(folder / f"ledger-{n}").read() for n in range(self.nodes)]
        told = ("solution", "dim", "epsilon_per_report", "learning_rate", "averaging", "refusals")
        return {
            **{name: outcome[name] for name in told},
            "accuracy": [row["accuracy"] for row in outcome["rounds"]],
            "fedavg_accuracy": plain_accuracy,
            "nodes": [
                {"node": n, "reports": len(h.entries), "spent": str(h.spent), "left": str(h.left)}
                for n, h in enumerate(ledgers)
            ],
            "reply_bytes": sum(s * c for s, c in sizes.items()) / max(1, sum(sizes.values())),
            "fedavg_reply_bytes": plain_bytes,
            "report_bytes": max((len(e.report) for h in ledgers for e in h.entries), default=0),
            "seconds": time.monotonic() - begin,
        }

    def _watch(self, federation: Federation, run: Process) -> None:
        """Follow the log of the run until it ends."""
        seen = -1

        def over() -> bool:
            nonlocal seen
            rounds = len(re.findall(r"\[ROUND \d+/\d+\]", run.text()))
            if rounds != seen:
                seen = rounds
                _say(f"round {seen} of {self.epochs}" if seen else "nodes are joining")
            return not run.running

        federation.wait(over, _START + self.epochs * _ROUND, "the run", federation.processes[0])

    def _fedavg(
        self, task: ModuleType, records: Any, first: dict[str, Any]
    ) -> tuple[list[float], int]:
        """Return the accuracy of Flower's FedAvg by round, and the bytes of one reply."""
        from flwr.serverapp.strategy import FedAvg
        from flwr.supercore.task_identity import TaskIdentity

        for name in ("_run_id", "_node_id", "_task_id"):  # else a Message cannot be made
            setattr(TaskIdentity, name, getattr(TaskIdentity, name) or 1)
        parts = [task.partition(records, n, self.nodes) for n in range(self.nodes)]
        test = task.held_out(records)
        arrays, accuracy, size = first, [], 0
        strategy = FedAvg(fraction_evaluate=0.5)
        for number in range(1, self.epochs + 1):
            replies = [_plain_reply(task.train(arrays, part, _PLAIN_RATE), part) for part in parts]
            size = content_bytes(replies[0])
            averaged, _ = strategy.aggregate_train(number, replies)
            arrays = {n: a.numpy().astype(np.float32) for n, a in averaged.items()}
            accuracy.append(task.judge(arrays, test)[0])
        return accuracy, size


@cache
def app_task() -> ModuleType:
    """Import the module of the app that knows its data and model."""
    sys.path.append(str(APP))
    return importlib.import_module("flower_adult.task")


def _reason(log: str) -> str:
    """Find the strategy's own reason in a log, or return the end of it."""
    reasons = re.findall(rf"^\S*\b{NoReports.__name__}: (.+)$", log, re.MULTILINE)
    return f": {reasons[-1]}" if reasons else f"\n{log[-3000:]}"


def _plain_reply(arrays: dict[str, Any], part: Any) -> Message:
    """Make the reply of a client without privacy."""
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in arrays.items()}),
        "metrics": MetricRecord({"num-examples": len(part[1])}),
    }
    asked = Message(RecordDict(), dst_node_id=1, message_type="train")
    return Message(RecordDict(content), reply_to=asked)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(summary: dict[str, Any]) -> None:
    print(
        f"{summary['solution']}, d = {summary['dim']}, ε = {summary['epsilon_per_report']} a "
        f"report, α = {summary['learning_rate']:.3g} from public quantities"
    )
    averaged = ", averaged over the rounds" if summary["averaging"] else ""
    print(f"\nround  accuracy{averaged}, and of plain FedAvg")
    pairs = zip(summary["accuracy"], summary["fedavg_accuracy"], strict=True)
    for number, (private, plain) in enumerate(pairs, 1):
        print(f"{number:5}  {private:6.1%}  {plain:6.1%}")
    print("\n node  reports  ε spent  ε left")
    for node in summary["nodes"]:
        print(f"{node['node']:5}  {node['reports']:7}  {node['spent']:>7}  {node['left']:>6}")
    ratio = summary["fedavg_reply_bytes"] / max(1.0, summary["reply_bytes"])
    print(
        f"\nA reply has {summary['reply_bytes']:.0f} bytes ({summary['report_bytes']} of report), "
        f"of plain FedAvg {summary['fedavg_reply_bytes']}: {ratio:.1f} times as many."
    )
    if summary["refusals"]:
        print(f"Refusals: {summary['refusals']}")
    print("ε protects all records of a node together, not the single record.")
    print(f"{summary['seconds']:.0f} seconds")


def _unwind(number: int, _: object) -> None:
    """End with the first signal and ignore later ones, so that no process is left behind."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    _say("interrupted: ending every process")
    sys.exit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.flower", description=__doc__)
    usual = Demo()
    parser.add_argument("--nodes", type=int, default=usual.nodes, help="SuperNodes, at most 8")
    parser.add_argument("--epochs", type=int, default=usual.epochs, help="reports of a node")
    parser.add_argument("--epsilon", type=float, default=usual.epsilon, help="ε of a node, in all")
    parser.add_argument("--solution", default=usual.solution, help="a private solution")
    parser.add_argument("--model", choices=("logistic", "mlp"), default=usual.model)
    parser.add_argument("--dataset", default=usual.dataset, help="syn, or the path of an .npz file")
    parser.add_argument("--features", type=int, default=usual.features, help="of syn")
    parser.add_argument("--keep", type=Path, help="a new folder for logs and ledgers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = vars(parser.parse_args())
    keep, as_json = options.pop("keep"), options.pop("json")
    try:
        demo = Demo(**options)
    except InvalidArgument as error:
        parser.error(str(error))
    if keep is not None:
        keep.mkdir(parents=True)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _unwind)
    with tempfile.TemporaryDirectory(prefix="fedsel-flower-") as temporary:
        try:
            summary = demo.run(keep.resolve() if keep else Path(temporary))
        except ProcessError as error:
            sys.exit(str(error))
    if as_json:
        print(json.dumps(summary, indent=1, allow_nan=False))
    else:
        _show(summary)


if __name__ == "__main__":
    main()
