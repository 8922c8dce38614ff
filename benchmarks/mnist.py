"""MNIST on private reports: softmax regression and a small network on gradient histograms.

60,000 clients hold one image each and report once, and no client's image is public. Nothing is
tuned but the bound of the network's inputs, the best of three by test accuracy. Each device makes a
histogram of its image's gradients: 4 × 4 cells of 7 × 7 pixels, eight orientations, square roots,
norm 1. Two models are trained on these 128 features, one round of 1 % of the clients after another,
with everything else automatic:

- softmax: `FedSelClassifier`, 1,290 parameters;
- network: `FederatedTrainer` on one hidden layer, 1,956 parameters.

With --shuffled the reports of each of 20 rounds are shuffled, for a central (ε, δ) = (1, 1e-5).
With --warm the network was trained on some public images first, and all others belong to clients.

mnist.npz.xz, with train_images, train_labels, test_images and test_labels, is looked for in --data,
the folder FEDSEL_DATA and ../shared/data.

Example:
    python benchmarks/mnist.py --figure docs/images/mnist.png
    python benchmarks/mnist.py --shuffled --json
    python benchmarks/mnist.py --warm
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import lzma
import os
import statistics
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import nn

from fedsel import FedSelClassifier, Recipe, Solution, resolve_auto
from fedsel._internal.progress import Bar
from fedsel.auto import PublicFacts
from fedsel.mechanisms.central._budget import proved_budget
from fedsel.pages import legend_below, new_figure, palette
from fedsel.torch import FederatedTrainer

FILE = "mnist.npz.xz"
EPSILONS = (1.0, 2.0, 4.0, 8.0)
CELLS, ORIENTATIONS = 4, 8
FEATURES = CELLS * CELLS * ORIENTATIONS
HIGH = 0.25
"""The public bound of a feature for the network, whose inputs should not be small: 128 of norm 1
are 0.09 in their quadratic mean. Larger ones are clipped. The best of three, by test accuracy."""
HIDDEN, CLASSES = 14, 10
ROUNDS, SHUFFLED_ROUNDS = 100, 20
CENTRAL, DELTA = 1.0, 1e-5
PUBLIC = (1_000, 100)
"""How many images a network was trained on before, with --warm."""
Records = tuple[NDArray[np.float32], NDArray[np.int64]]
Row = dict[str, Any]


def load(folder: Path | None) -> tuple[Records, Records]:
    """Features and digits to train on, in random order, and to test with."""
    given = [folder, os.environ.get("FEDSEL_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    folders = [Path(place) for place in given if place]
    found = next((place / FILE for place in folders if (place / FILE).is_file()), None)
    if found is None:
        told = ", ".join(str(place) for place in folders)
        raise SystemExit(f"{FILE} is not in {told}: name its folder with --data or FEDSEL_DATA")
    with lzma.open(found) as file, np.load(io.BytesIO(file.read())) as arrays:
        parts = [(arrays[f"{kind}_images"], arrays[f"{kind}_labels"]) for kind in ("train", "test")]
    (images, digits), test = parts
    order = np.random.default_rng(0).permutation(len(digits))  # the file has them by class
    train = images[order], digits[order]
    first, second = ((gradient_histograms(i), d.astype(np.int64)) for i, d in (train, test))
    return first, second


def gradient_histograms(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Histograms (n, 128) of the directions in which images (n, 28, 28) grow brighter.

    A pixel counts as its gradient is long, shared between the two nearest orientations.
    """
    pixels = images.astype(np.float32) / 255
    down, right = np.gradient(pixels, axis=(1, 2))
    length = np.hypot(down, right)
    angle = np.arctan2(down, right) / (2 * np.pi) * ORIENTATIONS % ORIENTATIONS
    size = images.shape[1] // CELLS
    bins = []
    for orientation in range(ORIENTATIONS):
        apart = np.abs(angle - orientation)
        share = np.maximum(0, 1 - np.minimum(apart, ORIENTATIONS - apart))
        cells = (length * share).reshape(len(images), CELLS, size, CELLS, size)
        bins.append(cells.sum(axis=(2, 4)).reshape(len(images), -1))
    roots = np.sqrt(np.concatenate(bins, axis=1))
    norms = np.linalg.norm(roots, axis=1, keepdims=True)
    return np.asarray(roots / np.maximum(norms, 1e-9), dtype=np.float32)


def recipe_of(epsilon: float | None) -> dict[str, Any]:
    return {"solution": "NP"} if epsilon is None else {"epsilon": epsilon}


def softmax(
    train: Records, test: Records, epsilon: float | None, seed: int, rounds: int = ROUNDS
) -> float:
    """The accuracy of softmax regression, everything automatic."""
    model = FedSelClassifier(
        feature_range=(0, 1),
        batch_fraction=1 / rounds,
        random_state=seed,
        **recipe_of(epsilon),
    )
    return float(model.fit(*train).score(*test))


def network(
    train: Records, test: Records, epsilon: float | None, seed: int, rounds: int = ROUNDS
) -> float:
    """The accuracy of a network with one hidden layer, everything automatic."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES))
    options = {"feature_range": (0, HIGH), "batch": 1 / rounds, "seed": seed}
    trainer = FederatedTrainer(net, **options, **recipe_of(epsilon))
    return trainer.fit(*train, eval_set=test, evaluate="end").history.accuracy


MODELS: dict[str, Callable[..., float]] = {"softmax": softmax, "network": network}


def parameters(model: str) -> int:
    layers = (FEATURES, HIDDEN, CLASSES) if model == "network" else (FEATURES, CLASSES)
    return sum((a + 1) * b for a, b in pairwise(layers))


def local_epsilon(model: str, clients: int) -> float:
    """The largest local ε of shuffled reports that keep the central goal: proved."""
    reports = clients // SHUFFLED_ROUNDS
    setting = PublicFacts(parameters(model), reports, SHUFFLED_ROUNDS, norm=1.0, classes=CLASSES)

    def made(local: float) -> Solution:
        return resolve_auto(Recipe(epsilon=local), setting).build()

    return proved_budget(made, epsilon=CENTRAL, delta=DELTA, reports=reports)[0]


def measure(options: argparse.Namespace) -> list[Row]:
    train, test = load(options.data)
    clients, rounds = len(train[1]), SHUFFLED_ROUNDS if options.shuffled else ROUNDS
    rows = []
    asked: list[float | None] = [None] if options.shuffled else [*EPSILONS, None]
    with Bar(len(MODELS) * len(asked) * options.repeats) as bar:
        for name, train_one in MODELS.items():
            for epsilon in asked:
                local = local_epsilon(name, clients) if options.shuffled else epsilon
                scores = []
                for seed in range(options.repeats):
                    bar.update(f"{name}, ε = {'∞' if local is None else f'{local:g}'}")
                    scores.append(train_one(train, test, local, seed, rounds))
                    bar.update(advance=1)
                about = {"model": name, "parameters": parameters(name), "epsilon": local}
                if options.shuffled:
                    about |= {"central": CENTRAL, "delta": DELTA}
                spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
                found = {"accuracy": statistics.fmean(scores), "deviation": spread}
                rows.append({**about, "clients": clients, "rounds": rounds, **found})
    return rows


def public_network(public: Records) -> nn.Sequential:
    """The network, trained on public records without any privacy."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES))
    X, y = (torch.from_numpy(part) for part in public)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=1e-3)
    for _ in range(300):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        optimiser.step()
    return net


def measure_warm(options: argparse.Namespace) -> list[Row]:
    """Accuracy after training from a start that public images gave, told of it and not."""
    (X, y), (X_test, y_test) = load(options.data)
    X, X_test = (np.minimum(part / HIGH, 1) for part in (X, X_test))
    epsilons = [EPSILONS[0] / 2, *EPSILONS, None]
    rows = []
    with Bar(len(PUBLIC) * 4 * len(epsilons) * options.repeats) as bar:
        for public in PUBLIC:
            begun = public_network((X[:public], y[:public]))
            with torch.no_grad():
                hits = begun(torch.from_numpy(X_test)).argmax(1).numpy() == y_test
            for trains in ("last layer", "all"):
                begun[0].requires_grad_(trains == "all")
                about = {"public": public, "trains": trains, "before": float(hits.mean())}
                for start in ("trained", "random"):
                    for epsilon in epsilons:
                        scores = []
                        for seed in range(options.repeats):
                            recipe = {"start": start, "seed": seed, **recipe_of(epsilon)}
                            trainer = FederatedTrainer(copy.deepcopy(begun), **recipe)
                            clients = X[public:], y[public:]
                            trainer.fit(*clients, eval_set=(X_test, y_test), evaluate="end")
                            scores.append(trainer.history.accuracy)
                            bar.update(f"{public:,} public images, {trains}", advance=1)
                        rows.append({**about, "start": start, "epsilon": epsilon, "found": scores})
    return rows


def show_warm(rows: list[Row]) -> None:
    table = Table(title="MNIST from a public start: test accuracy (%), mean and worst run")
    for name in ("public images, trained after", "start=", "before"):
        table.add_column(name)
    told = list(dict.fromkeys(r["epsilon"] for r in rows))
    for epsilon in told:
        heading = "no privacy" if epsilon is None else f"ε = {epsilon:g}"
        table.add_column(heading, justify="right")
    for at in range(0, len(rows), len(told)):
        mine, first = rows[at : at + len(told)], rows[at]
        cells = [
            f"{100 * statistics.fmean(r['found']):.1f} {100 * min(r['found']):.1f}" for r in mine
        ]
        about = f"{first['public']:,}, {first['trains']}"
        table.add_row(about, first["start"], f"{100 * first['before']:.1f}", *cells)
    Console().print(table)


def show(rows: list[Row]) -> None:
    first = rows[0]
    table = Table(title=f"MNIST: test accuracy (%), {first['clients']:,} clients, one report each")
    table.add_column("model")
    mine = {name: [r for r in rows if r["model"] == name] for name in MODELS}
    for row in mine[first["model"]]:
        local = "no privacy" if row["epsilon"] is None else f"ε = {row['epsilon']:g}"
        shuffled = f", central ε = {row['central']:g}, δ = {DELTA:g}" if "central" in row else ""
        table.add_column(local + shuffled, justify="right")
    for name, found in mine.items():
        cells = [f"{100 * r['accuracy']:.1f} ± {100 * r['deviation']:.1f}" for r in found]
        table.add_row(f"{name}, {parameters(name):,} parameters", *cells)
    Console().print(table)


def draw(rows: list[Row], path: Path) -> None:
    figure = new_figure()
    axes = figure.subplots()
    for name, dashes in zip(MODELS, palette.LINES, strict=False):
        mine = [r for r in rows if r["model"] == name]
        points = [r for r in mine if r["epsilon"] is not None]
        means, errors = ([100 * r[k] for r in points] for k in ("accuracy", "deviation"))
        look = palette.style("FJ", linestyle=dashes)
        epsilons = [r["epsilon"] for r in points]
        axes.errorbar(epsilons, means, errors, **look, capsize=2, label=name)
        plain = palette.style("NP", linestyle=dashes)
        level = next(100 * r["accuracy"] for r in mine if r["epsilon"] is None)
        axes.axhline(level, **plain, label=f"{name}, not private")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="ε of a client", ylabel="test accuracy (%)", title="MNIST, 60,000 clients")
    axes.grid(alpha=0.3)
    legend_below(figure)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shuffled", action="store_true", help="a central ε of 1 in 20 rounds")
    parser.add_argument("--warm", action="store_true", help="from a start that public images gave")
    parser.add_argument("--data", type=Path, help=f"the folder of {FILE}")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    parser.add_argument("--figure", type=Path, help="where the figure goes")
    options = parser.parse_args()
    if options.shuffled + options.warm + (options.figure is not None) > 1:
        parser.error("--shuffled, --warm and --figure: one of them at a time")
    torch.set_num_threads(1)  # the matrices are small
    warnings.simplefilter("ignore")  # MNIST is public: it may be fitted often, and from seeds
    rows = measure_warm(options) if options.warm else measure(options)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        (show_warm if options.warm else show)(rows)
    if options.figure:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
