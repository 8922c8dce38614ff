"""FedSelMod against Flower's own LocalDpMod on the same task, at an equal true privacy level.

The task is that of examples/flower_adult: 100 nodes, logistic regression on syn-L. Both mods are
called as Flower calls them, on real messages, without the processes around. A node makes a few
reports; ε is that of all of them together:

- FedSelMod: pure ε, exact, the sum over the reports, as the ledger writes it down.
- LocalDpMod: Gaussian noise is (ε, δ)-private for no δ = 0: its pure ε is infinite. Its exact ε at
  δ = 1e-5 follows from the analytic formula (Balle & Wang 2018) at the distance of two clipped
  updates, 2C, over all rounds (√T times the distance), and the noise is chosen so that it is ε.

Both know the same public radius, both step by the same rule (that of `fedsel.auto` for records of
norm 1: noise moves a margin by 1.4), and of both the average over the rounds is judged.
Beside accuracy: the bytes of a reply, what LocalDpMod's own ε stands for, and what our audit of its
code proves, with and without a look at the last bits.

Example: python benchmarks/flower_localdp.py --plot docs/images/flower.png
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import statistics
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.differential_privacy import add_gaussian_noise_inplace
from flwr.supercore.task_identity import TaskIdentity
from scipy.optimize import brentq
from scipy.special import log_ndtr

import fedsel
from fedsel.auto import AVERAGING
from fedsel.auto._numbers import MARGIN
from fedsel.flower import FedSelMod, FedSelStrategy
from fedsel.flower._messages import Layout, content_bytes
from fedsel.pages import palette
from fedsel.server._step import ServerState, StepRule, averaged

DELTA, RADIUS = 1e-5, 0.1
LARGEST = 32.0
"""The most that the learning rate may be, where there is little or no noise."""
CONFIG = {"dataset": "syn", "features": 100, "model": "logistic", "hidden": 4}
sys.path.append(str(Path(__file__).parents[1] / "examples" / "flower_adult"))
task = import_module("flower_adult.task")


def delta_of(epsilon: float, ratio: float) -> float:
    """δ of Gaussian noise at ε, for a distance of ``ratio`` standard deviations, exactly."""
    a, b = ratio / 2, epsilon / ratio
    return math.exp(log_ndtr(a - b)) - math.exp(epsilon + log_ndtr(-a - b))


def epsilon_of(ratio: float) -> float:
    """The exact ε at δ = 1e-5."""
    return float(brentq(lambda e: delta_of(e, ratio) - DELTA, 1e-9, 600.0))


def sigma_for(epsilon: float, distance: float) -> float:
    """The noise whose exact ε at δ = 1e-5 is this one."""
    found = brentq(lambda r: delta_of(epsilon, r) - DELTA, 1e-4, 60.0)
    return distance / float(found)


def own_sigma(epsilon: float, sensitivity: float) -> float:
    """The noise that LocalDpMod takes for an ε of its own."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


class Nodes:
    """A grid whose nodes are here: the app of the example behind some mod."""

    def __init__(self, nodes: int, rate: float, mod: Any, config: Any) -> None:
        self.records = task.load(CONFIG)
        self.parts = [task.partition(self.records, n, nodes) for n in range(nodes)]
        self.rate, self.mod, self.config = rate, mod, config
        self.bytes = 0

    def get_node_ids(self) -> list[int]:
        return list(range(1, len(self.parts) + 1))

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        del timeout
        return [self.answer(message) for message in messages]

    def answer(self, message: Message) -> Message:
        part = self.parts[message.metadata.dst_node_id - 1]

        def app(asked: Message, _: Context) -> Message:
            arrays = {n: a.numpy() for n, a in asked.content["arrays"].items()}
            trained = task.train(arrays, part, self.rate)
            content = {
                "arrays": ArrayRecord({n: Array(a) for n, a in trained.items()}),
                "metrics": MetricRecord({"num-examples": len(part[1])}),
            }
            return Message(RecordDict(content), reply_to=asked)

        own = self.config(message.metadata.dst_node_id)
        reply = self.mod(message, Context(1, 1, own, RecordDict(), {}), app)
        self.bytes = content_bytes(reply)
        return reply

    def accuracy(self, arrays: ArrayRecord) -> float:
        told = {n: a.numpy() for n, a in arrays.items()}
        return float(task.judge(told, task.held_out(self.records))[0])


def first_model() -> ArrayRecord:
    start = task.start(101, CONFIG)
    return ArrayRecord({name: Array(array) for name, array in start.items()})


def with_fedsel(epsilon: float, nodes: int, rounds: int) -> tuple[float, int]:
    """Accuracy and bytes of a reply of FedSelMod, with a ledger for each node."""
    memory = Path("/dev/shm")  # noqa: S108 - thousands of flushes; no power cut is waited for
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:

        def config(node: int) -> dict[str, Any]:
            given = {"store": f"{folder}/{node}", "create": True, "lifetime": epsilon}
            given |= {"per-report": epsilon, "solutions": "FJ", "dimensions": 101}
            return {f"fedsel-{name}": value for name, value in given.items()}

        grid = Nodes(nodes, 1.0, FedSelMod(), config)
        strategy = FedSelStrategy(epsilon=epsilon, nodes=nodes, epochs=rounds, norm=1.0, rho=RADIUS)
        result = strategy.start(grid, first_model())
        return grid.accuracy(result.arrays), grid.bytes


def with_localdp(sigma: float | None, nodes: int, rounds: int) -> tuple[float, int]:
    """The same of LocalDpMod with this noise for clip C; None: no mod at all, and no noise."""
    # fedsel.auto's rule: a report of d noisy entries is off by σ·√d.
    rate = LARGEST if sigma is None else MARGIN * math.sqrt(nodes / rounds) / sigma
    rate = min(rate, LARGEST)
    mod: Any = lambda message, context, app: app(message, context)  # noqa: E731
    if sigma is not None:
        clip = rate * RADIUS  # of an update, which is rate · gradient
        # Whatever its ε is called: sensitivity and ε are chosen to give the noise that we want.
        mod = LocalDpMod(clip, rate * sigma / own_sigma(1.0, 1.0), 1.0, DELTA)
    grid = Nodes(nodes, rate, mod, lambda _: {})
    arrays, strategy = first_model(), FedAvg(fraction_evaluate=0.5)
    layout, rule = Layout.of(arrays), StepRule(rate, averaging=AVERAGING)
    state = ServerState.begin(layout.vector(arrays, np.float64))
    for number in range(1, rounds + 1):
        content = RecordDict({"arrays": arrays, "config": ConfigRecord()})
        asked = [Message(content, message_type="train", dst_node_id=n) for n in grid.get_node_ids()]
        aggregated, _ = strategy.aggregate_train(number, grid.send_and_receive(asked))
        state = averaged(state, rule, layout.vector(aggregated, np.float64))
        arrays = layout.record(state.weights)
    return grid.accuracy(layout.record(state.average)), grid.bytes


def audited(epsilon: float, trials: int, *, float_bits: bool) -> float:
    """What our audit proves of LocalDpMod's noise at δ = 1e-5: sensitivity = clip = 1, d = 1."""
    sigma = own_sigma(epsilon, 1.0)

    def noisy(vector: Any, rng: Any, n: int) -> Any:
        np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002 - it draws from there
        arrays = [np.full(n, vector[0], np.float32)]
        add_gaussian_noise_inplace(arrays, sigma)
        return arrays[0].astype(np.float64)

    finding = fedsel.audit(
        noisy,
        d=1,
        claimed=epsilon,
        delta=DELTA,
        vectorized=True,
        float_bits=float_bits,
        trials=trials,
    )
    return finding.lower_bound


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    nodes = options.nodes
    rows = []
    for rounds, epsilon in itertools.product(options.rounds, options.epsilon):
        sigma = sigma_for(epsilon, 2 * RADIUS * math.sqrt(rounds))
        row: dict[str, Any] = {"rounds": rounds, "epsilon": epsilon}
        for name, run in (
            ("fedsel", lambda e=epsilon, t=rounds: with_fedsel(e, nodes, t)),
            ("localdp", lambda s=sigma, t=rounds: with_localdp(s, nodes, t)),
        ):
            found = [run() for _ in range(options.repeats)]
            accuracy = [a for a, _ in found]
            row[name] = statistics.mean(accuracy)
            row[f"{name}_deviation"] = statistics.pstdev(accuracy)
            row[f"{name}_bytes"] = found[0][1]
        # Its own ε, as its parameters are read: sensitivity = clip, ε of a report.
        own = own_sigma(epsilon / rounds, RADIUS)
        row["own_report"] = epsilon_of(2 * RADIUS / own)
        row["own_run"] = epsilon_of(2 * RADIUS * math.sqrt(rounds) / own)
        rows.append(row)
        print(json.dumps(row))
    plain, size = with_localdp(None, nodes, max(options.rounds))
    audits = [
        {
            "claimed": epsilon,
            "exact": epsilon_of(2 / own_sigma(epsilon, 1.0)),
            "values": audited(epsilon, options.trials, float_bits=False),
            "bits": audited(epsilon, options.trials, float_bits=True),
        }
        for epsilon in (0.5, 1.0, 2.0)
    ]
    return {"rows": rows, "plain": plain, "plain_bytes": size, "audits": audits}


def plot(found: dict[str, Any], file: Path, nodes: int, rounds: list[int]) -> None:
    """Accuracy against the true ε, and the true ε against the one that is claimed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    shapes = {t: ("-", "--", ":")[i % 3] for i, t in enumerate(sorted(rounds, reverse=True))}
    ours, theirs = palette.style("FJ", markersize=5), palette.style("LocalDpMod", markersize=5)
    for name, label, look in (
        ("fedsel", "FedSelMod, FJ: pure ε", ours),
        ("localdp", "LocalDpMod: exact ε at δ = 1e-5", theirs),
    ):
        for t, shape in shapes.items():
            rows = [r for r in found["rows"] if r["rounds"] == t]
            left.errorbar(
                [r["epsilon"] for r in rows],
                [100 * r[name] for r in rows],
                yerr=[100 * r[f"{name}_deviation"] for r in rows],
                **look | {"linestyle": shape},
                capsize=3,
                label=f"{label}, {t} report{'s' if t > 1 else ''}",
            )
    left.axhline(100 * found["plain"], **palette.style("NP", linewidth=1), label="no privacy")
    left.set_title(f"syn-L, logistic regression, {nodes} nodes", fontsize=10)
    left.set_xlabel("true ε of a node, all its reports")
    left.set_ylabel("test accuracy (%)")
    claimed = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    right.plot(claimed, claimed, **ours, label="FedSelMod: exact")
    exact = [epsilon_of(2 / own_sigma(e, 1.0)) for e in claimed]
    right.plot(claimed, exact, **theirs, label="LocalDpMod, sensitivity = clip: exact")
    seen = found["audits"]
    right.plot(
        [a["claimed"] for a in seen],
        [a["bits"] for a in seen],
        color=theirs["color"],
        marker="*",
        markersize=9,
        linestyle="none",
        label="LocalDpMod, proved by its last bits",
    )
    right.set_title("one report", fontsize=10)
    right.set_xlabel("ε as claimed")
    right.set_ylabel("true ε (at δ = 1e-5 for LocalDpMod)")
    right.set_yscale("log", base=2)
    right.yaxis.set_major_formatter("{x:g}")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0, 16.0])
    parser.add_argument("--trials", type=int, default=1_000_000, help="of the audit")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    found = compare(options)
    print(f"without privacy: {100 * found['plain']:.1f} %, {found['plain_bytes']} bytes a reply")
    for audit in found["audits"]:
        print(json.dumps(audit))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if options.plot:
        plot(found, options.plot, options.nodes, options.rounds)


if __name__ == "__main__":
    main()
