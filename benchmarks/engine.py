"""How fast the simulator is, as ratios within one run: python benchmarks/engine.py [--json].

It is compared with a fused non-private loop, compiled (shuffled and prefetching, as the engine is),
with a vectorised numpy PS-PM, and with the paper's algorithms, one Python client at a time. The
machine may be busy: ratios are what counts. Takes a minute or two.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel
from fedsel.data import Dataset, synthetic
from fedsel.recipe import solution
from fedsel.sampling._kernels import native
from fedsel.server._step import ServerState
from fedsel.simulation import Population, Training, cross_validate
from fedsel.simulation._clients import LinearClients, kernel_records
from fedsel.simulation._stages import CompiledStage
from fedsel.solutions import Solution

EPSILON, MU, RATE = 2.0, 0.1, 1.0
EPSILONS = (1.0, 2.0, 4.0)
_DEVICE_REPORTS = 300
_REPEATS = 7
_RANDOM_CLIENTS = 100
"""RC compares each client with 8·d codewords, so a few clients take long enough."""
TARGETS = {
    "private_over_nonprivate_d100": ("at most", 4.0),
    "private_over_nonprivate_d1000": ("at most", 2.0),
    "J_over_nonprivate_d1000": ("at most", 1.7),
    "rj_over_nonprivate_d1000": ("at most", 3.0),
    "rj_over_pspm_d100": ("at most", 2.0),
    "fj_over_rj_d100": ("at most", 2.2),
    "fj_over_rj_d1000": ("at most", 2.2),
    "literal_over_fedsel": ("at least", 100.0),
    "numpy_over_fedsel": ("at least", 5.0),
    "two_threads": ("at least", 1.8),
}
"""Bounds of benchmarks/engine.md. A ratio without a bound is for information."""


@dataclass(frozen=True)
class Speed:
    """Seconds for one client in one round, and the ratios that matter."""

    ratios: dict[str, float]
    seconds: dict[str, float]


def measure(advance: Callable[[str], object] = id) -> Speed:
    """Measure everything in one run; ``advance`` receives the name of each part."""
    seconds: dict[str, float] = {}
    for d, n in ((100, 60_000), (1000, 20_000)):
        advance(f"epochs at d = {d}")
        data = synthetic(d=d, n=n, seed=1)
        times = _interleaved(
            {
                "private": _engine_epoch(data, "PS-PM"),
                "engine_nonprivate": _engine_epoch(data, "NP"),
                "nonprivate": _fused_epoch(data),
            }
        )
        seconds |= {f"{name}_d{d}": t / n for name, t in times.items()}
        advance(f"one symbol at d = {d}")
        seconds |= _one_symbol(data)
        advance(f"random directions at d = {d}")
        seconds |= _random_directions(data)
    data = synthetic(d=100, n=60_000, seed=1)
    advance("vectorised numpy")
    seconds["numpy_d100"] = _best(_numpy_epoch(data), 2) / data.n
    advance("one Python client at a time")
    some = 3000
    seconds["literal_d100"] = _best(_literal_round(data, some), 2) / some
    advance("two threads")
    training = Training(solution("PS-PM", epsilon=EPSILON, dim=100), batch=480, seed=0)
    population = Population(data.X, data.y)
    times = _interleaved(
        {
            f"jobs_{jobs}": partial(
                cross_validate, training, population, folds=5, repeats=10, jobs=jobs
            )
            for jobs in (1, 2)
        },
        repeats=8,
        clock=time.perf_counter,
    )
    seconds |= times
    return Speed(
        {
            "private_over_nonprivate_d100": seconds["private_d100"] / seconds["nonprivate_d100"],
            "private_over_nonprivate_d1000": seconds["private_d1000"] / seconds["nonprivate_d1000"],
            "J_over_nonprivate_d1000": max(
                seconds[f"J_eps{e:g}_d1000"] / seconds["nonprivate_beside_d1000"] for e in EPSILONS
            ),
            "rj_over_pspm_d100": seconds[f"RJ_eps{EPSILON:g}_d100"] / seconds["PS-PM_d100"],
            "rj_over_nonprivate_d1000": max(
                seconds[f"RJ_eps{e:g}_d1000"] / seconds["nonprivate_beside_d1000"] for e in EPSILONS
            ),
            **{
                f"fj_over_rj_d{d}": max(
                    seconds[f"FJ_eps{e:g}_d{d}"] / seconds[f"RJ_eps{e:g}_d{d}"] for e in EPSILONS
                )
                for d in (100, 1000)
            },
            "rc_over_rj_d100": seconds[f"RC_eps{EPSILON:g}_d100"]
            / seconds[f"RJ_eps{EPSILON:g}_d100"],
            "rc_over_rj_d1000": seconds[f"RC_eps{EPSILON:g}_d1000"]
            / seconds[f"RJ_eps{EPSILON:g}_d1000"],
            "literal_over_fedsel": seconds["literal_d100"] / seconds["private_d100"],
            "numpy_over_fedsel": seconds["numpy_d100"] / seconds["private_d100"],
            "two_threads": seconds["jobs_1"] / seconds["jobs_2"],
        },
        seconds,
    )


def _best(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.thread_time
) -> float:
    """The least of several times, of the processor: the machine may be shared."""
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def _interleaved(
    works: dict[str, Callable[[], object]],
    repeats: int = _REPEATS,
    clock: Callable[[], float] = time.thread_time,
) -> dict[str, float]:
    """Best times of several ways, taken in turns so that they meet the same machine."""
    for work in works.values():
        work()  # warm
    best = dict.fromkeys(works, math.inf)
    for _ in range(repeats):
        for name, work in works.items():
            best[name] = min(best[name], _best(work, 1, clock))
    return best


def _one_symbol(data: Dataset) -> dict[str, float]:
    """Seconds a client-round of J, RJ and FJ at each ε in the engine, and a report on a device."""
    works = {"nonprivate_beside": _fused_epoch(data), "PS-PM": _engine_epoch(data, "PS-PM")}
    devices: dict[str, Callable[[], object]] = {}
    rows = [np.array(row) for row in data.X[:_DEVICE_REPORTS]]
    for name in ("J", "RJ", "FJ"):
        for epsilon in EPSILONS:
            private_solution = solution(name, epsilon=epsilon, dim=data.d, rho=1.0)
            works[f"{name}_eps{epsilon:g}"] = _engine_epoch(data, name, epsilon)
            devices[f"device_{name}_eps{epsilon:g}"] = partial(_reports, private_solution, rows)
    engine = {name: t / data.n for name, t in _interleaved(works).items()}
    alone = {name: t / len(rows) for name, t in _interleaved(devices, 3).items()}
    return {f"{name}_d{data.d}": t for name, t in (engine | alone).items()}


def _random_directions(data: Dataset) -> dict[str, float]:
    """Seconds a client-round of RC in the engine, in one round of few clients."""
    few = replace(data, X=data.X[:_RANDOM_CLIENTS], y=data.y[:_RANDOM_CLIENTS])
    times = _interleaved({"RC": _engine_epoch(few, "RC", rounds=1)}, 3)
    return {f"RC_eps{EPSILON:g}_d{data.d}": times["RC"] / _RANDOM_CLIENTS}


def _reports(private_solution: Solution, rows: list[NDArray[np.float32]]) -> None:
    for row in rows:
        private_solution.encode(row, row)


def _engine_epoch(
    data: Dataset, name: str, epsilon: float = EPSILON, rounds: int = 100
) -> Callable[[], object]:
    """One epoch of the engine, in equal rounds."""
    private_solution = solution(name, epsilon=epsilon, mu=MU, dim=data.d, rho=1.0)
    training = Training(private_solution, RATE, data.n // rounds, seed=0)
    people, start = Population(data.X, data.y), ServerState.begin(np.zeros(data.d))
    stage = CompiledStage(training, LinearClients(people, LinearModel()))
    clients, ends = training.schedule(people.taking_part, people.clients, 0)

    def epoch() -> None:
        list(stage.run(start, 0, clients, ends, keep=False))

    return epoch


def _fused_epoch(data: Dataset) -> Callable[[], object]:
    """The non-private epoch: margin and gradient fused, nothing else."""
    training = Training(solution("NP", dim=data.d), batch=data.n // 100, seed=0)
    people = Population(data.X, data.y)
    clients, ends = training.schedule(people.taking_part, people.clients, 0)
    records, room = kernel_records(people), np.empty(data.d, dtype=np.float32)

    def epoch() -> None:
        weights = np.zeros(data.d, dtype=np.float32)
        native.nonprivate_rounds(records, clients, ends, 1e-4, RATE, weights, room)

    return epoch


def _piecewise(t: NDArray[np.float64], epsilon: float, rng: np.random.Generator) -> Any:
    """The textbook PM in floating point: fast, and not private."""
    h = math.exp(epsilon / 2)
    bound = (h + 1) / (h - 1)
    left = (bound + 1) / 2 * t - (bound - 1) / 2
    right = left + bound - 1
    u = rng.random(t.shape)
    outside = u * (bound + 1) - bound
    outside = np.where(outside > left, outside + right - left, outside)
    inside = left + (right - left) * rng.random(t.shape)
    return np.where(rng.random(t.shape) < h / (h + 1), inside, outside)


def _numpy_epoch(data: Dataset) -> Callable[[], object]:
    """PS-PM as a good numpy programmer would write it: argpartition, all clients of a round."""
    X, y, d = np.asarray(data.X), data.y, data.d
    k, e1 = max(1, d // 10), MU * EPSILON
    top_share = k * math.exp(e1) / (k * math.exp(e1) + d - k)

    def epoch() -> None:
        rng = np.random.default_rng(0)
        w = np.zeros(d)
        order = rng.permutation(data.n)
        for clients in np.array_split(order, 100):
            rows = X[clients]
            slopes = LinearModel().slopes(rows @ w, y[clients])
            g = slopes[:, None] * rows + 1e-4 * w
            n = len(clients)
            parts = np.argpartition(-np.abs(g), k - 1, axis=1)
            from_top = rng.random(n) < top_share
            place = np.where(from_top, rng.integers(0, k, n), rng.integers(k, d, n))
            j = parts[np.arange(n), place]
            t = np.clip(g[np.arange(n), j], -1, 1)
            noisy = _piecewise(t, EPSILON - e1, rng)
            w -= RATE * np.bincount(j, weights=noisy, minlength=d) / n

    return epoch


def _literal_round(data: Dataset, clients: int) -> Callable[[], object]:
    """PS-PM one client at a time, as the paper's pseudocode reads."""
    X, y, d = np.asarray(data.X), data.y, data.d
    k, e1 = max(1, d // 10), MU * EPSILON
    top_share = k * math.exp(e1) / (k * math.exp(e1) + d - k)

    def one_round() -> None:
        rng = np.random.default_rng(0)
        w, total, model = np.zeros(d), np.zeros(d), LinearModel()
        for i in range(clients):
            slope_i = model.slopes(np.array([X[i] @ w]), y[i : i + 1])[0]
            r = slope_i * X[i] + 1e-4 * w
            order = np.argsort(-np.abs(r))
            z = order[:k] if rng.random() < top_share else order[k:]
            j = z[rng.integers(len(z))]
            t = np.clip(r[j : j + 1], -1, 1)
            total[j] += _piecewise(t, EPSILON - e1, rng)[0]
        w -= RATE * total / clients

    return one_round


def main(arguments: list[str] | None = None) -> None:
    has = native.variants()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--instructions", choices=has, default=has[-1], help="the kernels to measure"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    before = native.use(options.instructions)
    try:
        speed = measure(lambda part: print(f"measuring {part}", file=sys.stderr))
    finally:
        native.use(before)
    if options.json:
        content = {"instructions": options.instructions, **asdict(speed)}
        print(json.dumps(content, indent=1, allow_nan=False))
        return
    print(f"instructions: {options.instructions}; one thread")
    for name, measured in speed.ratios.items():
        kind, bound = TARGETS.get(name, ("", math.nan))
        met = measured <= bound if kind == "at most" else measured >= bound
        verdict = f"{kind} {bound:g}: {'met' if met else 'MISSED'}" if kind else ""
        print(f"{name:30} {measured:8.2f}  {verdict}".rstrip())
    for name, seconds in speed.seconds.items():
        if not name.startswith("jobs"):
            print(f"{name:30} {1e9 * seconds:8,.0f} ns a client")


if __name__ == "__main__":
    main()
