"""An MLP on scikit-learn's digits, trained on private reports: at which ε is it useful?

Example: python examples/torch_digits.py --plot docs/images/torch.png
         python examples/torch_digits.py --centring 20
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from fedsel import PrivacyLeakWarning
from fedsel.pages import legend_below, palette
from fedsel.torch import FederatedTrainer

PREPARED = "FJ, prepared"
SOLUTIONS = ("PM", "PS-PM", "FJ", PREPARED)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
EPSILON = 4.0
CLIENTS = (1437, 8_000, 48_000)
CLIP = 0.1  # public: few entries of a record's gradient are larger in a net of this size
MU = 0.1  # the paper's; the automatic share is 0 at a small ε, and PS-PM would be PM


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


def accuracies(
    data: tuple[Any, Any, Any, Any], name: str, epsilon: float | None, seeds: int = 1
) -> Any:
    """Test accuracy (%) after each round of one epoch, in which each client reports once."""
    X, y, X_test, y_test = data
    curves = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
        trainer = FederatedTrainer(
            net,
            nn.functional.cross_entropy,
            solution=name.removesuffix(", prepared"),
            epsilon=epsilon,
            batch=0.005,
            clip=CLIP,
            mu=MU,
            # With public bounds the first rounds learn where pixels lie.
            feature_range=(0, 1) if name == PREPARED else None,
            seed=seed,
        )
        trainer.fit(X, y, eval_set=(X_test, y_test), evaluate="rounds")
        curves.append([100 * r.accuracy for r in trainer.history.rounds])
    mean, sent = np.mean(curves, axis=0), trainer.communication
    print(
        f"{len(y):6,} clients  {name:12} ε = {epsilon or '–':>4}  accuracy {mean[-1]:4.1f} %"
        f"  {sent.bits} of {sent.full_bits} bits a client"
    )
    return mean


def centring(data: tuple[Any, Any, Any, Any], epsilons: tuple[float, ...], seeds: int) -> None:
    """Test accuracy (%) of FJ on pixels in [0, 16], without a centre and with the automatic one."""
    X, y, X_test, y_test = data
    for epsilon in epsilons:
        told = []
        for name, share in (("none", 0.0), ("auto", "auto")):
            scores = []
            for seed in range(seeds):
                torch.manual_seed(seed)
                net = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
                trainer = FederatedTrainer(
                    net,
                    epsilon=epsilon,
                    batch=0.005,
                    feature_range=(0, 16),
                    centre=share,
                    spread=share,
                    seed=seed,
                )
                trainer.fit(16 * X, y, eval_set=(16 * X_test, y_test), evaluate="end")
                scores.append(100 * trainer.history.accuracy)
            error = np.std(scores, ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
            told.append(f"{name} {np.mean(scores):4.1f} ± {error:.1f} %")
        print(f"{len(y):6,} clients  ε = {epsilon:g}  centre: {', '.join(told)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="write the figure to this file")
    parser.add_argument("--centring", type=int, metavar="SEEDS", help="with and without a centre")
    parser.add_argument("--quick", action="store_true", help="fewer points")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    # The digits are public: they may be fitted often, and from seeds, so that the figure repeats.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    started = time.perf_counter()
    few = digits()
    counts = CLIENTS[:1] if options.quick else CLIENTS
    epsilons = EPSILONS[1:3] if options.quick else EPSILONS
    people = {n: few if n == 1437 else (*more_clients(*few[:2], n), *few[2:]) for n in counts}
    many = people[counts[-1]]
    if options.centring is not None:
        centring(many, epsilons, options.centring)
        return
    baseline = accuracies(many, "NP", None)
    by_epsilon = {s: {e: accuracies(many, s, e) for e in epsilons} for s in SOLUTIONS}
    by_clients = {
        s: [accuracies(people[n], s, EPSILON, 2)[-1] for n in counts[:-1]]
        + [by_epsilon[s][EPSILON][-1]]
        for s in SOLUTIONS
    }
    print(f"{time.perf_counter() - started:.0f} s")
    if options.plot is not None:
        draw(options.plot, baseline, by_epsilon, by_clients, counts)


def draw(
    file: Path,
    baseline: Any,
    by_epsilon: dict[str, dict[float, Any]],
    by_clients: dict[str, list[float]],
    counts: tuple[int, ...],
) -> None:
    """Three panels: the rounds of one epoch, accuracy against ε, and against the clients."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    rounds, left, right = figure.subplots(1, 3, sharey=True)
    for name in SOLUTIONS:
        curve, curves = by_epsilon[name][EPSILON], by_epsilon[name]
        style = palette.style(name.removesuffix(", prepared"))
        if name == "FJ":  # as the prepared one, but dashed
            style |= {"linestyle": palette.DASHED, "markerfacecolor": "white"}
        every = max(1, len(curve) // 10)
        rounds.plot(range(1, len(curve) + 1), curve, **style, markevery=every, label=name)
        left.plot(list(curves), [c[-1] for c in curves.values()], **style)
        right.plot(counts, by_clients[name], **style)
    plain = palette.style("NP")
    rounds.plot(range(1, len(baseline) + 1), baseline, **plain, label="NP (not private)")
    left.axhline(baseline[-1], **plain)
    many = f"{counts[-1]:,} clients"
    rounds.set(xlabel="round", ylabel="test accuracy (%)", title=f"{many}, ε = {EPSILON:g}")
    left.set(xlabel="ε of a client", title=many)
    right.set(xlabel="clients (records shifted by a pixel)", title=f"ε = {EPSILON:g}")
    for axes in (rounds, left, right):
        axes.axhline(10, color="black", linewidth=0.8, linestyle=":", label="chance")
        axes.grid(alpha=0.3)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    legend_below(figure)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
