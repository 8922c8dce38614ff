"""What selection and perturbation add to per-client gradients, and what memory a round needs.

Ratios within one run, in one thread: a round of 500 clients of a module with d ≈ 10⁴ over the
time of its per-client gradients by vmap alone, as torch leaves them (one tensor a parameter) and as
the vectors (n, d) that a selection needs. Modules have a forward pass of their own, which fedsel
cannot see into; rounds are cut into chunks as fedsel does by itself. Times are the processor's, and
the repeats of all are interleaved, for the machine may be busy. Memory is the peak of the process
beyond what it held before the round, in a process of its own for each number of clients.

Example: python benchmarks/torch_overhead.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedsel import solution
from fedsel.recipe import RECOMMENDED
from fedsel.simulation._stages import VectorReports
from fedsel.torch import ClientUpdates

CLIENTS, REPEATS = 500, 60
SOLUTIONS = (RECOMMENDED, "PM", "PS-PM", "EXP-PM", "PE-PM")


class Layers(nn.Module):
    """Two linear layers on 64 features."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(64, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.out(torch.relu(self.hidden(x)))
        return outputs


class Images(nn.Module):
    """Two convolutions and two linear layers on 8 × 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.edges, self.shapes = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.hidden, self.out = nn.Linear(128, 36), nn.Linear(36, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(torch.relu(self.edges(x.reshape(-1, 1, 8, 8))), 2)
        x = functional.max_pool2d(torch.relu(self.shapes(x)), 2)
        outputs: torch.Tensor = self.out(torch.relu(self.hidden(x.flatten(1))))
        return outputs


class Words(nn.Module):
    """The mean of the embeddings of 64 words out of 200, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, 32)
        self.hidden, self.out = nn.Linear(32, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words((200 * torch.sigmoid(x)).long()).mean(1)
        outputs: torch.Tensor = self.out(torch.relu(self.hidden(x)))
        return outputs


class Attention(nn.Module):
    """A transformer's layer on 16 tokens of 4 features, and a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Linear(4, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 80, dropout=0.0, batch_first=True)
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.out(self.layer(self.tokens(x.reshape(-1, 16, 4))).mean(1))
        return outputs


NETWORKS: dict[str, type[nn.Module]] = {
    "MLP": Layers,
    "CNN": Images,
    "embedding": Words,
    "attention": Attention,
}


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    return NETWORKS[name]()


def records(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(n, 64), torch.randint(0, 10, (n,))


def measure(name: str, clients: int, chunk: int | None) -> dict[str, object]:
    """Seconds of the processor for one round: the least and the median over interleaved repeats."""
    torch.set_num_threads(1)
    net, (X, y) = network(name), records(clients)
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        outputs = functional_call(net, weights, (x.unsqueeze(0),))
        return functional.cross_entropy(outputs, t.unsqueeze(0))

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))

    def tensors() -> object:
        return gradients(weights, X, y)

    def vectors() -> object:
        parts = [g.reshape(clients, -1) for g in gradients(weights, X, y).values()]
        return torch.cat(parts, dim=1)

    jobs: dict[str, Callable[[], object]] = {"vmap, tensors": tensors, "vmap, vectors": vectors}
    updates = ClientUpdates(net, functional.cross_entropy, X, y, chunk=chunk)
    start, dim = updates.layout.read(net), updates.layout.dim
    for kind in SOLUTIONS:
        rounds = VectorReports(solution(kind, epsilon=2.0, dim=dim), clients, seed=0)
        jobs[f"private round, {kind}"] = partial(private_round, rounds, updates, clients, start)
    taken: dict[str, list[float]] = {job: [] for job in jobs}
    for repeat in range(REPEATS + 3):
        for done, job in jobs.items():
            job()  # in a training it follows on its like, and finds memory as that has left it
            began = time.process_time()
            job()
            if repeat >= 3:  # warm
                taken[done].append(time.process_time() - began)
    return {
        "d": dim,
        "chunk": min(clients, updates.chunk),
        "least": {job: min(times) for job, times in taken.items()},
        "median": {job: statistics.median(times) for job, times in taken.items()},
    }


def private_round(
    rounds: VectorReports,
    updates: ClientUpdates,
    clients: int,
    weights: NDArray[np.float64],
) -> object:
    rounds.begin(0)
    updates.receive(weights)
    for at in range(0, clients, updates.chunk):
        some = np.arange(at, min(at + updates.chunk, clients))
        rounds.report(0, some, updates.vectors(some))
    return rounds.solution.expand(rounds.totals.mean())


def highest_memory(*, reset: bool = False) -> float:
    """The most resident memory that this process has had, or has now if reset, in MiB (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM line in status")


def peak(name: str, clients: int, chunk: int) -> dict[str, float]:
    """Peak of resident memory beyond that before the round, in MiB."""
    torch.set_num_threads(1)
    net, (X, y) = network(name), records(clients)
    updates = ClientUpdates(net, functional.cross_entropy, X, y, chunk=chunk)
    made = solution("PS-PM", epsilon=2.0, dim=updates.layout.dim)
    rounds = VectorReports(made, clients, seed=0)
    start = updates.layout.read(net)
    private_round(rounds, updates, 1, start)  # warm
    before = highest_memory(reset=True)
    private_round(rounds, updates, clients, start)
    return {
        "peak": highest_memory() - before,
        "chunk": 4 * chunk * updates.layout.dim / 2**20,
        "all": 4 * clients * updates.layout.dim / 2**20,
    }


def show(name: str, clients: int, chunk: int | None) -> None:
    result = measure(name, clients, chunk)
    print(
        f"{name}: one round of {clients} clients in chunks of {result['chunk']},"
        f" d = {result['d']}, one thread"
    )
    for kind in ("least", "median"):
        times = result[kind]
        assert isinstance(times, dict)  # noqa: S101
        for job, seconds in times.items():
            ratios = [seconds / times[f"vmap, {base}"] for base in ("tensors", "vectors")]
            print(
                f"{kind:7} {job:22} {1e3 * seconds:7.2f} ms"
                f"  {ratios[0]:5.2f} × tensors  {ratios[1]:5.2f} × vectors"
            )
    for many in (500, 2_000, 8_000):
        command = [sys.executable, __file__, "--peak", name, str(many), "100"]
        told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        print(
            f"memory of a round of {many} clients in chunks of 100:"
            f" {told['peak']:.0f} MiB (a chunk of updates is {told['chunk']:.1f},"
            f" all of them would be {told['all']:.0f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="of a round")
    parser.add_argument("--chunk", type=int, help="clients at a time, in place of fedsel's choice")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "There is a performance drop")  # of vmap, on attention
    if options.peak:
        name, clients, chunk = options.peak
        print(json.dumps(peak(name, int(clients), int(chunk))))
        return
    for name in options.names or NETWORKS:
        show(name, options.clients, options.chunk)


if __name__ == "__main__":
    main()
