"""The demo: a SuperLink and SuperNodes on this machine run the example app; then a summary."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from fedsel.cli.flower.processes import Federation
from fedsel.cli.processes import Process, ProcessError
from fedsel.device import Ledger
from fedsel.errors import InvalidArgument, check_count, check_epsilon
from fedsel.flower.messages import content_bytes
from fedsel.flower.outcome import NoReports
from fedsel.flower.strategy import FedSelStrategy
from fedsel.recipe import RECOMMENDED

PACKAGE = "flower_adult"
_START, _ROUND = 90.0, 120.0
"""Seconds for the start, and for each round, before the demo gives up."""
_PLAIN_RATE = 5.0
"""The learning rate of plain FedAvg; that of private reports may be on directions alone."""
_RECORDS = 40_000
"""About so many records the nodes have together, of syn and of adult."""
Tell = Callable[[str, int], object]
"""tell(what is going on, rounds that are over)."""


def app_folder() -> Path:
    """The example app: within the installed package, or in the checkout that it was built from."""
    installed = Path(__file__).with_name("app")
    checkout = Path(__file__).parents[4] / "examples" / PACKAGE
    for folder in (installed, checkout):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise ProcessError("the example app is not installed")


@final
@dataclass(frozen=True)
class Spent:
    """What the ledger of a node says at the end."""

    node: int
    reports: int
    spent: str
    left: str


@final
@dataclass(frozen=True)
class Summary:
    """What the demo found: the private run, and plain FedAvg on the same data."""

    solution: str
    dim: int
    epsilon_per_report: str
    learning_rate: float
    averaging: float
    accuracy: list[float]
    fedavg_accuracy: list[float]
    nodes: list[Spent]
    reply_bytes: float
    fedavg_reply_bytes: int
    report_bytes: int
    refusals: dict[str, int]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


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
        check_epsilon("epsilon", self.epsilon)
        if self.model not in ("logistic", "mlp"):
            raise InvalidArgument("model", self.model, "logistic or mlp")
        if self.model == "mlp" and importlib.util.find_spec("torch") is None:
            raise InvalidArgument("model", self.model, "logistic, or torch installed beside fedsel")
        if self.dataset != "syn" and not Path(self.dataset).is_absolute():
            raise InvalidArgument("dataset", self.dataset, "syn, or the absolute path of a file")
        self.strategy()  # checks solution and ε

    def strategy(self) -> FedSelStrategy:
        """A strategy that asks for what the app's will."""
        return FedSelStrategy(
            epsilon=self.epsilon, nodes=self.nodes, solution=self.solution, epochs=self.epochs
        )

    def config(self) -> dict[str, Any]:
        """The run_config of the app."""
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

    def run(self, tell: Tell, folder: Path | None = None) -> Summary:
        """Start everything, run, stop everything; ``folder`` keeps logs and ledgers."""
        if folder is not None:
            return self._run(tell, folder)
        with tempfile.TemporaryDirectory(prefix="fedsel-flower-") as name:
            return self._run(tell, Path(name))

    def _run(self, tell: Tell, folder: Path) -> Summary:
        begin = time.monotonic()
        task, config = task_of_the_app(), self.config()
        tell("loading records", 0)
        records = task.load(config)
        first = task.start(records[0].shape[1], config)
        dim = sum(array.size for array in first.values())
        results = folder / "results.json"
        with Federation(folder) as federation:
            for number in range(self.nodes):
                federation.add_node(f"node-{number}", self._node(folder, number, dim))
            run = federation.submit(app_folder(), {**config, "results": str(results)})
            self._watch(federation, run, tell)
            if not results.exists():
                raise ProcessError(f"the run failed{_why(run.text())}")
        outcome = json.loads(results.read_text())
        tell("plain FedAvg on the same data", self.epochs)
        accuracy, plain = self._fedavg(task, records, first)
        sizes = {int(size): count for size, count in outcome["reply_bytes"].items()}
        ledgers = [Ledger(folder / f"ledger-{n}").read() for n in range(self.nodes)]
        return Summary(
            solution=outcome["solution"],
            dim=outcome["dim"],
            epsilon_per_report=outcome["epsilon_per_report"],
            learning_rate=outcome["learning_rate"],
            averaging=outcome["averaging"],
            accuracy=[r["accuracy"] for r in outcome["rounds"]],
            fedavg_accuracy=accuracy,
            nodes=[
                Spent(n, len(h.entries), str(h.spent), str(h.left)) for n, h in enumerate(ledgers)
            ],
            reply_bytes=sum(s * c for s, c in sizes.items()) / max(1, sum(sizes.values())),
            fedavg_reply_bytes=plain,
            report_bytes=max((len(e.report) for h in ledgers for e in h.entries), default=0),
            refusals=outcome["refusals"],
            seconds=time.monotonic() - begin,
        )

    def _node(self, folder: Path, number: int, dim: int) -> dict[str, Any]:
        """The node_config that the owner of a node would write."""
        share = math.ceil(1e6 * float(self.epsilon) / self.epochs) / 1e6
        recipe = self.strategy().recipe_of(dim)  # μ = 0 makes a flat one of two stages
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

    def _watch(self, federation: Federation, run: Process, tell: Tell) -> None:
        """Follow the log of the run until it ends."""
        seen = -1

        def over() -> bool:
            nonlocal seen
            rounds = re.findall(r"\[ROUND (\d+)/\d+\]", run.text())
            if len(rounds) != seen:
                seen = len(rounds)
                tell(f"round {seen}" if seen else "nodes are joining", max(0, seen - 1))
            return not run.running

        federation.wait(over, _START + self.epochs * _ROUND, "the run", federation.processes[0])

    def _fedavg(
        self, task: ModuleType, records: Any, first: dict[str, Any]
    ) -> tuple[list[float], int]:
        """Accuracy by round and the bytes of one reply, by Flower's own FedAvg, in this process."""
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


def _why(log: str) -> str:
    """The strategy's own reason, or the end of the log."""
    reasons = re.findall(rf"^\S*\b{NoReports.__name__}: (.+)$", log, re.MULTILINE)
    return f": {reasons[-1]}" if reasons else f"\n{log[-3000:]}"


def _plain_reply(arrays: dict[str, Any], part: Any) -> Message:
    """What a client without privacy sends."""
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in arrays.items()}),
        "metrics": MetricRecord({"num-examples": len(part[1])}),
    }
    asked = Message(RecordDict(), dst_node_id=1, message_type="train")
    return Message(RecordDict(content), reply_to=asked)


def task_of_the_app() -> ModuleType:
    """The module of the app that knows its data and model."""
    file = app_folder() / PACKAGE / "task.py"
    spec = importlib.util.spec_from_file_location("fedsel_flower_demo_task", file)
    if spec is None or spec.loader is None:
        raise ProcessError("the example app cannot be read")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
