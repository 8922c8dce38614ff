"""An MLP on scikit-learn's digits, trained on private reports: at which ε is it useful?

Example: python examples/torch_digits.py --plot docs/images/torch.png
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from fedsel.torch import FederatedTrainer

BEST = "OW"  # beside PM and PS-PM, the best of the solutions at hand over this range of ε
SOLUTIONS = ("PM", "PS-PM", BEST)
EPSILONS = (4.0, 16.0, 64.0, 256.0)
MANY_EPSILON = 8.0
CLIP = 0.1  # public: few entries of a record's gradient are larger in a net of this size


def digits() -> tuple[Any, Any, Any, Any]:
    """1,437 records to train and 360 to test, in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = (X[order] / 16).astype(np.float32), y[order]
    return X[:1437], y[:1437], X[1437:], y[1437:]


def more_clients(X: Any, y: Any, n: int) -> tuple[Any, Any]:
    """n clients, each with one of the records shifted by at most a pixel: a larger population."""
    rng = np.random.default_rng(1)
    which, shifts = rng.integers(0, len(y), n), rng.integers(-1, 2, (n, 2))
    images = X[which].reshape(n, 8, 8)
    shifted = [np.roll(image, shift, (0, 1)) for image, shift in zip(images, shifts, strict=True)]
    return np.stack(shifted).reshape(n, 64), y[which]


def accuracy(
    data: tuple[Any, Any, Any, Any], name: str, epsilon: float | None, seeds: int
) -> float:
    """Test accuracy after one epoch, each client reporting once, at the public learning rate."""
    X, y, X_test, y_test = data
    reached = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
        trainer = FederatedTrainer(
            net,
            nn.functional.cross_entropy,
            solution=name,
            epsilon=epsilon,
            batch=0.02,
            clip=CLIP,
            seed=seed,
        )
        trainer.fit(X, y, eval_set=(X_test, y_test), evaluate="end")
        reached.append(trainer.history.accuracy)
    sent = trainer.communication
    print(
        f"{len(y):6,} clients  {name:6} ε = {epsilon or '–':>5}  accuracy {np.mean(reached):.3f}"
        f"  {sent.bits} of {sent.full_bits} bits a client"
    )
    return float(np.mean(reached))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="write the figure to this file")
    parser.add_argument("--quick", action="store_true", help="fewer points")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    started = time.perf_counter()
    data = digits()
    epsilons = EPSILONS[1:3] if options.quick else EPSILONS
    counts = (1437,) if options.quick else (1437, 8_000, 48_000)
    seeds = 1 if options.quick else 3
    baseline = accuracy(data, "NP", None, seeds)
    by_epsilon = {
        name: [accuracy(data, name, epsilon, seeds) for epsilon in epsilons] for name in SOLUTIONS
    }
    by_clients: dict[str, list[float]] = {name: [] for name in SOLUTIONS}
    for n in counts:
        larger = data if n == len(data[1]) else (*more_clients(*data[:2], n), *data[2:])
        for name in SOLUTIONS:
            by_clients[name].append(accuracy(larger, name, MANY_EPSILON, 1))
    print(f"{time.perf_counter() - started:.0f} s")
    if options.plot is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for marker, name in zip("osD", SOLUTIONS, strict=True):
        left.plot(epsilons, 100 * np.array(by_epsilon[name]), marker=marker, label=name)
        right.plot(counts, 100 * np.array(by_clients[name]), marker=marker, label=name)
    left.axhline(100 * baseline, color="C7", linestyle="--", label="NP (not private)")
    left.set(xlabel="ε of a client", ylabel="test accuracy (%)", title="1,437 clients")
    right.set(xlabel="clients (records shifted by a pixel)", title=f"ε = {MANY_EPSILON:g}")
    for axes in (left, right):
        axes.axhline(10, color="black", linewidth=0.8, linestyle=":", label="chance")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    left.legend(fontsize=8)
    figure.savefig(options.plot, dpi=110)


if __name__ == "__main__":
    main()
