"""What selection and perturbation add to per-client gradients, and what memory a round needs.

Ratios within one run, in one thread: a round of n = 500 clients of an MLP with d ≈ 10⁴ over the
time of its per-client gradients by vmap alone, as torch leaves them (one tensor a parameter) and as
the vectors (n, d) that a selection needs. The MLP is a chain of linear layers, whose gradients stay
factored; "by vmap" is the same network as a module of its own, which fedsel cannot see into. Times
are the processor's, and the repeats of all are interleaved, for the machine may be busy. Memory is
the peak of the process beyond what it held before the round, in a process of its own for each
number of clients.

Example: python benchmarks/torch_overhead.py
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from fedsel import solution
from fedsel.simulation.vector_rounds import VectorReports
from fedsel.torch import ClientUpdates

CLIENTS, REPEATS = 500, 100
SOLUTIONS = ("RJ", "PM", "PS-PM", "EXP-PM", "PE-PM")


def network(hidden: int = 128) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))


class Opaque(nn.Module):
    """A network in a module of its own: nothing is known about it, so its gradients are vmap's."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.network(x)
        return outputs


def records(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(n, 64), torch.randint(0, 10, (n,))


def measure() -> dict[str, object]:
    """Seconds of the processor for one round: the least and the median over interleaved repeats."""
    torch.set_num_threads(1)
    net, (X, y) = network(), records(CLIENTS)
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        outputs = functional_call(net, weights, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(outputs, t.unsqueeze(0))

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))

    def tensors() -> object:
        return gradients(weights, X, y)

    def vectors() -> object:
        parts = [g.reshape(CLIENTS, -1) for g in gradients(weights, X, y).values()]
        return torch.cat(parts, dim=1)

    everyone = np.arange(CLIENTS)
    jobs: dict[str, Callable[[], object]] = {"vmap, tensors": tensors, "vmap, vectors": vectors}
    for kind, module in (("private round", net), ("by vmap", Opaque(net))):
        updates = ClientUpdates(module, nn.functional.cross_entropy, X, y, chunk=CLIENTS)
        start, dim = updates.layout.read(module), updates.layout.dim
        for name in SOLUTIONS:
            rounds = VectorReports(solution(name, epsilon=2.0, dim=dim), CLIENTS, seed=0)
            jobs[f"{kind}, {name}"] = partial(private_round, rounds, updates, everyone, start)
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(REPEATS + 3):
        for name, job in jobs.items():
            began = time.process_time()
            job()
            if repeat >= 3:  # warm
                taken[name].append(time.process_time() - began)
    return {
        "d": dim,
        "least": {name: min(times) for name, times in taken.items()},
        "median": {name: statistics.median(times) for name, times in taken.items()},
    }


def private_round(
    rounds: VectorReports,
    updates: ClientUpdates,
    clients: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> object:
    rounds.begin(0)
    updates.receive(weights)
    rounds.report(0, clients, updates.vectors(clients))
    return rounds.solution.expand(rounds.totals.mean())


def highest_memory(*, reset: bool = False) -> float:
    """The most resident memory that this process has had, or has now if reset, in MiB (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM line in status")


def peak(clients: int, chunk: int, opaque: int) -> dict[str, float]:
    """Peak of resident memory beyond that before the round, in MiB."""
    torch.set_num_threads(1)
    net, (X, y) = Opaque(network()) if opaque else network(), records(clients)
    updates = ClientUpdates(net, nn.functional.cross_entropy, X, y, chunk=chunk)
    made = solution("PS-PM", epsilon=2.0, dim=updates.layout.dim)
    rounds = VectorReports(made, clients, seed=0)
    updates.receive(updates.layout.read(net))
    one = np.arange(1)
    rounds.report(0, one, updates.vectors(one))  # warm
    before = highest_memory(reset=True)
    for at in range(0, clients, chunk):
        some = np.arange(at, min(at + chunk, clients))
        rounds.report(0, some, updates.vectors(some))
    return {
        "peak": highest_memory() - before,
        "chunk": 4 * chunk * updates.layout.dim / 2**20,
        "all": 4 * clients * updates.layout.dim / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peak", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(json.dumps(peak(*options.peak)))
        return
    result = measure()
    print(f"one round of {CLIENTS} clients, d = {result['d']}, one thread")
    for kind in ("least", "median"):
        times = result[kind]
        assert isinstance(times, dict)  # noqa: S101
        for name, seconds in times.items():
            ratios = [seconds / times[f"vmap, {base}"] for base in ("tensors", "vectors")]
            print(
                f"{kind:7} {name:22} {1e3 * seconds:7.2f} ms"
                f"  {ratios[0]:5.2f} × tensors  {ratios[1]:5.2f} × vectors"
            )
    for opaque, clients in itertools.product((0, 1), (500, 2_000, 8_000)):
        command = [sys.executable, __file__, "--peak", str(clients), "100", str(opaque)]
        told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        print(
            f"memory of a round of {clients} clients in chunks of 100{', by vmap' * opaque}:"
            f" {told['peak']:.0f} MiB (a chunk is {told['chunk']:.1f},"
            f" all of them would be {told['all']:.0f})"
        )


if __name__ == "__main__":
    main()
