"""Shares of answers by multi-freq-ldpy and pure-ldp, for benchmarks/frequencies.py.

It runs in an environment of its own, which that script makes. Reports are those of the libraries'
clients, counted by their servers. multi-freq-ldpy then cuts off what is below zero; here the
unbiased estimate from its counts is taken instead, as what is cut off is biased.

The argument is a JSON list of [M, ε, clients, runs]; clients hold the answers 0 … M − 1 in turn. A
JSON row is written for each method of each: n times the mean squared error of a share and its
standard error over the runs, and seconds per million reports of client and server, the best of all
runs.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE
from numba import jit
from pure_ldp.frequency_oracles.hadamard_response import (
    HadamardResponseClient,
    HadamardResponseServer,
)

FREQ = f"multi-freq-ldpy {version('multi-freq-ldpy')}"
PURE = f"pure-ldp {version('pure-ldp')}"
Client = Callable[[int], Any]
Server = Callable[[list[Any]], Any]


@jit(nopython=True)
def seed_numba(seed: int) -> None:
    """Seed what the compiled clients draw from, which is not numpy's own state."""
    np.random.seed(seed)  # noqa: NPY002


def unbiased(counts: Any, n: int, own: float, other: float) -> Any:
    return (np.asarray(counts) / n - other) / (own - other)


def methods(answers: int, epsilon: float) -> Iterator[tuple[str, str, Client, Server]]:
    """Library, method, client and server of each method."""
    for name, module in {"GRR": GRR, "OUE": UE, "OLH": LH, "SS": SS}.items():
        module.MI = unbiased
        prefix = module.__name__.rpartition(".")[2]
        client = getattr(module, f"{prefix}_Client")
        server = getattr(module, f"{prefix}_Aggregator_MI")
        known = (epsilon,) if module is UE else (answers, epsilon)
        yield (
            FREQ,
            name,
            lambda x, client=client: client(x, answers, epsilon),
            lambda reports, server=server, known=known: server(reports, *known),
        )
    settings = HadamardResponseServer(epsilon, answers).get_hash_funcs()
    client = HadamardResponseClient(epsilon, answers, settings)

    def counted(reports: list[Any]) -> Any:
        server = HadamardResponseServer(epsilon, answers)
        if settings is not None:
            server.hr.permute, server.hr.reverse = client.hr.permute, np.argsort(client.hr.permute)
        for report in reports:
            server.aggregate(report)
        shares = [server.estimate(x + 1, suppress_warnings=True) for x in range(answers)]
        return np.array(shares) / len(reports)

    yield PURE, "HR", lambda x: client.privatise(x + 1), counted


def measure(answers: int, epsilon: float, clients: int, runs: int) -> Iterator[dict[str, Any]]:
    held = (np.arange(clients) % answers).tolist()
    truth = np.bincount(held, minlength=answers) / clients
    for library, method, client, server in methods(answers, epsilon):
        client(0)  # compiles
        errors, times = [], []
        for run in range(runs):
            for seed in (np.random.seed, random.seed, seed_numba):
                seed(run)
            began = time.perf_counter()
            reports = [client(x) for x in held]
            sent = time.perf_counter()
            shares = server(reports)
            times.append((sent - began, time.perf_counter() - sent))
            errors.append(clients * float(np.mean((shares - truth) ** 2)))
        yield {
            "library": library,
            "method": method,
            "answers": answers,
            "epsilon": epsilon,
            "error": statistics.fmean(errors),
            "deviation": statistics.stdev(errors) / runs**0.5 if runs > 1 else 0.0,
            "draw": 1e6 * min(t for t, _ in times) / clients,
            "count": 1e6 * min(t for _, t in times) / clients,
        }


def main() -> None:
    for cell in json.loads(sys.argv[1]):
        for row in measure(*cell):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
