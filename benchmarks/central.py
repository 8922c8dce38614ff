"""What local privacy costs where only a central ε is asked for: with a shuffler, and without.

The protocol of ``python -m reproduction fair``: logistic regression, three fifths of the clients
train, each reports once, accuracy on a test fifth that no run trains on. FJ with nothing tuned:

- shuffled: 20 rounds, the largest local ε that keeps the central (ε, δ), proved;
- not shuffled: the local ε is the central one, 100 rounds;
- shuffled, by the number of rounds, at one central ε: fewer rounds hide better and step less.

Beside them two central models, whose curator sees all records, on the same splits and the same
records of norm 1, with nothing tuned either:

- Gaussian: 100 gradients of all records at the rate 8, with Gaussian noise for (ε, δ) in total;
- diffprivlib: its LogisticRegression as it is (pure ε, C = 1). It has its own environment
  (benchmarks/central_diffprivlib.py says how to make one); without --diffprivlib it is left out.

Example:
    FEDSEL_DATA=… python benchmarks/central.py --diffprivlib rival/bin/python \
        --plot docs/images/central.png
    python benchmarks/central.py --datasets syn-L --runs 3 --json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel import Solution
from fedsel._internal.progress import Bar
from fedsel.auto import AVERAGING
from fedsel.experiments import Cell
from fedsel.mechanisms.central._budget import gaussian_distance, proved_budget
from fedsel.pages import legend_below, new_figure, palette
from fedsel.recipe import RECOMMENDED
from fedsel.simulation._validation import fifths
from reproduction.datasets import Published
from reproduction.paper import paper_spec

DATASETS = ("adult", "kdd", "syn-L")
EPSILONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = (1, 3, 10, 20, 40, 100, 300)
AT = 0.25
"""The central ε at which numbers of rounds are compared."""
SHUFFLED_ROUNDS, LOCAL_ROUNDS = 20, 100
DELTA = 1e-6
SHUFFLED, LOCAL, PLAIN = "shuffled", "not shuffled", "no privacy"
GAUSSIAN, CENTRAL = "Gaussian", "diffprivlib"
STEPS, RATE = 100, 8.0
"""Of the Gaussian descent: the rate is the largest that is stable for records of norm 1."""
Row = dict[str, Any]


def cell_of(dataset: str, runs: int, members: int, rounds: int, **more: Any) -> Cell:
    """The recommended solution, or NP, on so many rounds of the clients that train."""
    bounds = {} if dataset.startswith("syn") else {"scale": "unit", "intercept": True}
    spec = {"dataset": dataset, "protocol": "holdout", "repeats": runs, "solutions": (RECOMMENDED,)}
    changes = {**spec, **bounds, "batch": -(-members // rounds), **more}
    return next(paper_spec(changes).cells())


class Comparison:
    """One data set: its records and who trains on them."""

    def __init__(self, dataset: str, runs: int, source: Published) -> None:
        self.dataset, self.runs, self.source = dataset, runs, source
        cell = cell_of(dataset, runs, 100, 1)
        people = cell._population(source, prepared=True)
        dense = people.X.toarray() if hasattr(people.X, "toarray") else people.X
        self.people = replace(people, X=dense)
        self.members, self.dim = cell._members(self.people), self.people.X.shape[1]

    @lru_cache  # noqa: B019
    def local_epsilon(self, epsilon: float, rounds: int) -> float:
        """The largest local ε that keeps the central goal in so many rounds: proved."""

        def made(local: float) -> Solution:
            cell = cell_of(self.dataset, self.runs, self.members, rounds, epsilons=(local,))
            return cell.plan(self.dim, -(-self.members // rounds), self.members).solution

        goal = {"epsilon": epsilon, "delta": DELTA, "reports": self.members // rounds}
        return proved_budget(made, **goal)[0]

    def trained(self, kind: str, epsilon: float | None, rounds: int) -> Row:
        """The accuracy of all runs at a central ε, with the local one that it allows."""
        local, more = epsilon, {}
        if kind == SHUFFLED and epsilon is not None:
            local = self.local_epsilon(epsilon, rounds)
        if kind == PLAIN:
            more = {"solutions": ("NP",), "unit_records": True, "learning_rate": "auto"}
        else:
            more = {"epsilons": (local,)}
        cell = cell_of(self.dataset, self.runs, self.members, rounds, **more)
        scores = [cell.part(run, self.source)["test"] for run in range(self.runs)]
        return self._row(kind, epsilon, scores, rounds=rounds, local=local)

    def descended(self, epsilon: float) -> Row:
        """The accuracy of noisy gradient descent by a curator, for (ε, δ) of replaced records."""
        X = self.people.X
        scores = []
        for run in range(self.runs):
            members, _, test = fifths(X.shape[0], 0, run)
            signs = self.people.y.astype(np.float32)
            signed = X[members] * signs[members][:, None]
            rng, n = np.random.default_rng(run), len(members)
            noise = 2 * math.sqrt(STEPS) / (n * gaussian_distance(epsilon, DELTA))
            weights = np.zeros(X.shape[1], np.float32)
            average, total = np.zeros(X.shape[1]), 0.0
            for step in range(1, STEPS + 1):
                gradient = -(signed.T @ expit(-(signed @ weights))) / n
                gradient += noise * rng.standard_normal(len(gradient), np.float32)
                weights = weights - np.float32(RATE) * gradient
                average, total = average + step**AVERAGING * weights, total + step**AVERAGING
            scores.append(float(np.mean(signs[test] * (X[test] @ (average / total)) > 0)))
        return self._row(GAUSSIAN, epsilon, scores, rounds=STEPS, local=None)

    def rival(self, python: Path, advance: Any) -> Iterator[Row]:
        """The central models, in an environment of their own."""
        X = self.people.X
        splits = [fifths(len(X), 0, run) for run in range(self.runs)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records.npz"
            members = np.stack([split[0] for split in splits])
            np.savez(path, X=X, y=self.people.y, members=members, test=splits[0][2])
            script = Path(__file__).with_name("central_diffprivlib.py")
            command = [str(python), str(script), str(path), *map(str, EPSILONS)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                found = []
                for line in process.stdout or ():
                    found.append(json.loads(line))
                    advance()
            if process.returncode:
                raise SystemExit(f"{' '.join(command[:2])} failed")
        for epsilon in EPSILONS:
            scores = [r["test"] for r in found if r["epsilon"] == epsilon]
            yield self._row(CENTRAL, epsilon, scores, rounds=None, local=None)

    def _row(self, kind: str, epsilon: float | None, scores: list[float], **more: Any) -> Row:
        return {
            "dataset": self.dataset,
            "kind": kind,
            "epsilon": epsilon,
            "delta": DELTA if kind in (SHUFFLED, GAUSSIAN) else 0.0,
            **more,
            "clients": self.members,
            "runs": self.runs,
            "test": statistics.fmean(scores),
            "deviation": statistics.stdev(scores) if len(scores) > 1 else 0.0,
            "majority": float(max(np.mean(self.people.y > 0), np.mean(self.people.y < 0))),
        }


def measure(datasets: list[str], runs: int, source: Published, python: Path | None) -> list[Row]:
    """One row for each data set, kind, central ε and number of rounds."""
    work = [
        (PLAIN, None, LOCAL_ROUNDS),
        *((SHUFFLED, epsilon, SHUFFLED_ROUNDS) for epsilon in EPSILONS),
        *((LOCAL, epsilon, LOCAL_ROUNDS) for epsilon in EPSILONS),
        *((SHUFFLED, AT, rounds) for rounds in ROUNDS if rounds != SHUFFLED_ROUNDS),
    ]
    rival = len(EPSILONS) * runs * (1 if python is None else 2)
    rows: list[Row] = []
    with Bar(len(datasets) * (len(work) * runs + rival)) as bar:
        for dataset in datasets:
            bar.update(f"{dataset}: reading", advance=0)
            comparison = Comparison(dataset, runs, source)
            for kind, epsilon, rounds in work:
                shown = "" if epsilon is None else f", ε = {epsilon:g}"
                bar.update(f"{dataset}: {kind}{shown}", advance=0)
                rows.append(comparison.trained(kind, epsilon, rounds))
                bar.update(f"{dataset}: {kind}{shown}", advance=runs)
            for epsilon in EPSILONS:
                rows.append(comparison.descended(epsilon))
                bar.update(f"{dataset}: {GAUSSIAN}", advance=runs)
            if python is not None:
                tell = lambda name=dataset: bar.update(f"{name}: {CENTRAL}", advance=1)  # noqa: E731
                rows += comparison.rival(python, tell)
    return rows


def show(rows: list[Row], console: Console) -> None:
    runs = rows[0]["runs"]
    for dataset in dict.fromkeys(r["dataset"] for r in rows):
        mine = [r for r in rows if r["dataset"] == dataset]
        plain = curve(mine, PLAIN)[0]
        title = f"{dataset}: test accuracy (%), δ = {DELTA:g}, {runs} runs"
        lines = {kind: curve(mine, kind) for kind in STYLES}
        table = Table("central ε", "ε₀", *(kind for kind in STYLES if lines[kind]), title=title)
        for place, shuffled in enumerate(lines[SHUFFLED]):
            cells = [_percent(line[place]) for line in lines.values() if line]
            table.add_row(f"{shuffled['epsilon']:g}", f"{shuffled['local']:.2f}", *cells)
        console.print(table)
        console.print(f"without privacy {_percent(plain)}, majority {100 * plain['majority']:.1f}")
        table = Table("rounds", "ε₀", SHUFFLED, title=f"{dataset}: by rounds, at ε = {AT:g}")
        for row in by_round(mine):
            table.add_row(str(row["rounds"]), f"{row['local']:.2f}", _percent(row))
        console.print(table)


def _percent(row: Row) -> str:
    return f"{100 * row['test']:.1f} ± {100 * row['deviation']:.1f}"


def curve(rows: list[Row], kind: str) -> list[Row]:
    """The points of a kind, by ε."""
    rounds = {SHUFFLED: SHUFFLED_ROUNDS, LOCAL: LOCAL_ROUNDS}.get(kind)
    return [r for r in rows if r["kind"] == kind and rounds in (None, r["rounds"])]


def by_round(rows: list[Row]) -> list[Row]:
    points = [r for r in rows if r["kind"] == SHUFFLED and r["epsilon"] == AT]
    return sorted(points, key=lambda r: int(r["rounds"]))


STYLES = {
    SHUFFLED: palette.style(RECOMMENDED, markersize=7),
    LOCAL: palette.style(
        RECOMMENDED, linestyle=palette.DASHED, markersize=7, markerfacecolor="white"
    ),
    GAUSSIAN: {"color": palette.BLUE, "marker": "s", "linestyle": palette.SOLID, "markersize": 5},
    CENTRAL: {"color": palette.SKY, "marker": "o", "linestyle": palette.DASH_DOT, "markersize": 5},
}
LABELS = {
    SHUFFLED: f"{RECOMMENDED}, shuffled: 20 rounds",
    LOCAL: f"{RECOMMENDED}, not shuffled: local ε = central ε",
    GAUSSIAN: "curator sees all: Gaussian noise",
    CENTRAL: "curator sees all: diffprivlib",
}


def plot(rows: list[Row], path: Path) -> None:
    datasets = list(dict.fromkeys(r["dataset"] for r in rows))
    figure = new_figure(3.7 * len(datasets), 6.4)
    panels = figure.subplots(2, len(datasets), squeeze=False)
    for column, dataset in enumerate(datasets):
        mine = [r for r in rows if r["dataset"] == dataset]
        above, below = panels[:, column]
        for kind, style in STYLES.items():
            points = curve(mine, kind)
            if points:
                _line(above, points, "epsilon", **style, label=LABELS[kind])
        _line(below, by_round(mine), "rounds", **STYLES[SHUFFLED])
        plain = 100 * curve(mine, PLAIN)[0]["test"]
        for axes in (above, below):
            axes.axhline(plain, color=palette.BLACK, linewidth=1, label=PLAIN)
            axes.axhline(
                100 * mine[0]["majority"], color=palette.GREY, linestyle=":", label="majority"
            )
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.grid(alpha=0.3)
        above.set_xticks([0.05, 0.1, 0.25, 0.5, 1, 2, 4])
        below.set_xticks(list(ROUNDS))
        above.set_title(f"{dataset}: {mine[0]['clients']:,} clients")
        above.set_xlabel(f"central ε (δ = {DELTA:g})")
        below.set_xlabel(f"rounds, shuffled, at central ε = {AT:g}")
    for axes in panels[:, 0]:
        axes.set_ylabel("test accuracy (%)")
    legend_below(figure)
    figure.savefig(path, dpi=110)


def _line(axes: Any, points: list[Row], x: str, **style: Any) -> None:
    means = [100 * r["test"] for r in points]
    errors = [100 * r["deviation"] for r in points]
    axes.errorbar([r[x] for r in points], means, errors, capsize=2, **style)


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy against central ε, by who is trusted.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--data", type=Path, help="a folder with the data files")
    parser.add_argument("--diffprivlib", type=Path, help="a Python that has diffprivlib")
    parser.add_argument("--out", type=Path, default=Path("results"), help="where central.json goes")
    parser.add_argument("--plot", type=Path, help="where the figure goes")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    rows = measure(options.datasets, options.runs, Published(options.data), options.diffprivlib)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "central.json").write_text(json.dumps(rows, indent=1))
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows, Console())
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
