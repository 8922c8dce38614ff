"""A model measured by clients who do not train it, beside the truth; and what that costs and buys.

FedSelClassifier with everything automatic and one report of each client, a tenth of whom measure
(``measure=0.1``). Each run draws anew who is a client (four fifths of all records) and who tests.

- measured: accuracy, AUC and log loss as the measuring clients say, beside the truth on all
  records, and how often the intervals of 95 % hold it. Of MNIST the AUC of the lead, and no log
  loss.
- cost: accuracy on held-out records, if all clients had trained, and if a tenth measures.
- threshold: accuracy, balanced accuracy and log loss on held-out records if all clients had
  trained, with threshold=None, "private" and "auto".

ADULT, BANK and KDD are looked for as `reproduction.datasets.load` does, MNIST as
benchmarks/mnist.py does; what is missing is left out.

Example:
    FEDSEL_DATA=… python benchmarks/measuring.py             # 20 runs, about half an hour
    python benchmarks/measuring.py --datasets adult --runs 5 --json
    python benchmarks/measuring.py --figure docs/images/measuring.png
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import mnist
from fedsel import FedSelClassifier, InvalidArgument, PrivacyLeakWarning
from fedsel._internal.progress import Bar
from fedsel.measuring import Estimate, Measurement
from fedsel.pages import new_figure, palette
from fedsel.simulation._validation import fifths
from fedsel.sklearn._measuring import recalibrated, recalibration_of
from fedsel.wire import Model
from reproduction.datasets import load

DATASETS = ("adult", "bank", "kdd", "mnist")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SHARE = 0.1
SHOWN = 2.0
"""The ε whose calibration curve the figure shows."""
TOLD = ("accuracy", "balanced accuracy", "log loss")
Doubles = NDArray[np.float64]
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Data:
    """Records with their public bounds and numbers of classes."""

    name: str
    X: Doubles
    y: NDArray[np.int64]
    bounds: Any

    @property
    def two(self) -> bool:
        return int(self.y.max()) == 1


def read(name: str) -> Data | None:
    """The data set; None, and a sentence, where it is not there."""
    try:
        if name == "mnist":
            train, test = mnist.load(None)
            X, y = (np.concatenate(parts) for parts in zip(train, test, strict=True))
            return Data(name, np.asarray(X, np.float64), y, (0, 1))
        found = load(name)
    except (SystemExit, OSError, InvalidArgument) as missing:
        print(f"{name} is left out: {missing}", file=sys.stderr)
        return None
    raw: Any = found.X
    X = np.asarray(raw.toarray() if hasattr(raw, "toarray") else raw, np.float64)
    y = np.searchsorted(np.unique(found.y), found.y)
    return Data(name, X, y, tuple(np.asarray(found.bounds).T))


def fitted(data: Data, members: NDArray[np.int64], epsilon: float, run: int, measure: float) -> Any:
    told = {"threshold": "private"} if measure and data.two else {}
    rounds = {} if data.two else {"batch_fraction": 1 / mnist.ROUNDS}
    model = FedSelClassifier(
        epsilon=epsilon,
        feature_range=data.bounds,
        measure=measure,
        random_state=run,
        **told,
        **rounds,
    )
    return model.fit(data.X[members], data.y[members])


def as_trained(model: Any) -> Model:
    """The model before a threshold was set."""
    given: Model = model._model
    return replace(given, weights=model._weights, log_prior=None)


def truths(model: Model, data: Data) -> dict[str, float]:
    """The metrics on all records."""
    margins = model.margins_of(data.X)
    right = model.codes_of(margins) == data.y
    if data.two:
        said = model.probabilities_of(margins)
        area, loss = roc_auc_score(data.y, margins[:, 0]), log_loss(data.y, said)
        return {"accuracy": float(right.mean()), "AUC": float(area), "log loss": float(loss)}
    ordered = np.sort(margins, axis=1)
    area = roc_auc_score(right, ordered[:, -1] - ordered[:, -2])
    return {"accuracy": float(right.mean()), "AUC of the lead": float(area)}


def held_out(model: Model, data: Data, test: NDArray[np.int64]) -> dict[str, float]:
    margins = model.margins_of(data.X[test])
    codes, own = model.codes_of(margins), data.y[test]
    return {
        "accuracy": float((codes == own).mean()),
        "balanced accuracy": float(balanced_accuracy_score(own, codes)),
        "log loss": float(log_loss(own, model.probabilities_of(margins))),
    }


def one_run(data: Data, epsilon: float, run: int) -> Row:
    members, validation, test = fifths(len(data.y), 0, run)
    clients = np.concatenate([members, validation])
    plain, model = (fitted(data, clients, epsilon, run, share) for share in (0.0, SHARE))
    trained, found = as_trained(model), model.measurement_
    careful = recalibration_of(found, "auto")
    models = {"all train": plain._model, "None": trained}
    if data.two:
        auto = trained if careful is None else recalibrated(trained, careful)
        models |= {"private": model._model, "auto": auto}
    return {
        "truth": truths(trained, data),
        "measured": found.metrics,
        "calibration": true_curve(trained, data, found),
        "held out": {kind: held_out(one, data, test) for kind, one in models.items()},
        "acts": careful is not None,
    }


def true_curve(model: Model, data: Data, found: Measurement) -> list[Row]:
    """The curve as it was measured, and the truth on all records in the same bins."""
    if not found.calibration:  # two bins have none
        return []
    question = found.questions[-1]
    margins, labels = model.margins_of(data.X), data.y.astype(np.float64)
    table = np.bincount(question.answers(margins, labels), minlength=question.count)
    table = table.reshape(question.shape)
    truth = table[1] / np.maximum(1, table.sum(axis=0))
    parts = zip(found.calibration, truth.tolist(), strict=True)
    return [{"said": p.said, "measured": p.rate, "truth": rate} for p, rate in parts]


def measure(names: list[str], runs: int) -> list[Row]:
    """A row for each data set and ε."""
    rows = []
    sets = [data for data in map(read, names) if data is not None]
    with Bar(len(sets) * len(EPSILONS) * runs) as bar:
        for data in sets:
            for epsilon in EPSILONS:
                found = []
                for run in range(runs):
                    found.append(one_run(data, epsilon, run))
                    bar.update(f"{data.name}, ε = {epsilon:g}", advance=1)
                rows.append(summary(data.name, epsilon, found))
    return rows


def summary(name: str, epsilon: float, found: list[Row]) -> Row:
    metrics = {}
    for metric in found[0]["truth"]:
        if metric not in found[0]["measured"]:  # two bins say nothing of it
            continue
        told: list[tuple[Estimate, float]] = [
            (run["measured"][metric], run["truth"][metric]) for run in found
        ]
        metrics[metric] = {
            "truth": float(np.mean([truth for _, truth in told])),
            "measured": float(np.mean([e.value for e, _ in told])),
            "error": float(np.sqrt(np.mean([(e.value - truth) ** 2 for e, truth in told]))),
            "half width": float(np.mean([(e.high - e.low) / 2 for e, _ in told])),
            "held": float(np.mean([e.low <= truth <= e.high for e, truth in told])),
            "first": {**told[0][0].as_dict(), "truth": told[0][1]},
        }
    held = {kind: told_of(found, kind) for kind in found[0]["held out"]}
    curve = [
        {**point, "measured": point["measured"].as_dict()} for point in found[0]["calibration"]
    ]
    acts = float(np.mean([run["acts"] for run in found]))
    about = {"dataset": name, "epsilon": epsilon, "runs": len(found)}
    return about | {"metrics": metrics, "held out": held, "auto acts": acts, "calibration": curve}


def told_of(found: list[Row], kind: str) -> Row:
    """Means on held-out records, and how far they are from others, with standard errors."""

    def scores(of: str) -> Doubles:
        return np.array([[run["held out"][of][told] for told in TOLD] for run in found])

    beside = {}
    for other in ("all train", "None"):
        off = scores(kind) - scores(other)
        errors = off.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0 * off[0]
        parts = zip(TOLD, off.mean(axis=0).tolist(), errors.tolist(), strict=True)
        beside[other] = {told: {"difference": mean, "error": error} for told, mean, error in parts}
    means = dict(zip(TOLD, scores(kind).mean(axis=0).tolist(), strict=True))
    return {"means": means, "beside": beside}


def measured_table(rows: list[Row]) -> Table:
    title = "measured ± half an interval (truth; held in)"
    table = Table("data", "metric", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        for metric in own[-1]["metrics"]:
            cells = (
                f"{m['measured']:.3f} ± {m['half width']:.3f} ({m['truth']:.3f}; {m['held']:.0%})"
                if m
                else "too few"
                for m in (row["metrics"].get(metric) for row in own)
            )
            table.add_row(name, metric, *cells)
        table.add_section()
    return table


def held_out_table(rows: list[Row]) -> Table:
    title = "held out: accuracy (%), balanced accuracy (%), log loss (how often auto acts)"
    table = Table("data", "threshold", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        for kind in own[0]["held out"]:
            table.add_row(name, kind, *(_means(row, kind) for row in own))
        table.add_section()
    return table


def _means(row: Row, kind: str) -> str:
    means = row["held out"][kind]["means"]
    told = [f"{100 * means[part]:.1f}" for part in TOLD[:2]] + [f"{means[TOLD[2]]:.3f}"]
    return ", ".join(told) + (f" ({row['auto acts']:.0%})" if kind == "auto" else "")


def difference_table(rows: list[Row]) -> Table:
    title = (
        "held out: log loss and accuracy (points) less those of threshold=None, ± standard error"
    )
    table = Table("data", "threshold", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        for kind in (kind for kind in own[0]["held out"] if kind != "None"):
            table.add_row(name, kind, *(_beside(row, kind) for row in own))
        table.add_section()
    return table


def _beside(row: Row, kind: str) -> str:
    beside = row["held out"][kind]["beside"]["None"]
    loss, hits = beside["log loss"], beside["accuracy"]
    return (
        f"{loss['difference']:+.4f} ± {loss['error']:.4f},"
        f" {100 * hits['difference']:+.2f} ± {100 * hits['error']:.2f}"
    )


def draw(rows: list[Row], path: Path) -> None:
    """Each data set in a row: accuracy, AUC and the calibration curve, of the first run."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    figure = new_figure(9.0, 2.3 * len(names))
    grid = np.atleast_2d(figure.subplots(len(names), 3))
    for axes, name in zip(grid, names, strict=True):
        own = [row for row in rows if row["dataset"] == name]
        area = "AUC" if "AUC" in own[-1]["metrics"] else "AUC of the lead"
        for place, metric in zip(axes, ("accuracy", area), strict=False):
            told = [row for row in own if metric in row["metrics"]]
            _against_epsilon(place, [row["metrics"][metric]["first"] for row in told], told)
            place.set_ylabel(f"{name.upper()}\n{metric}" if metric == "accuracy" else metric)
        shown = next((row for row in own if row["epsilon"] == SHOWN), own[-1])
        _curve(axes[2], shown)
    grid[0, 0].legend(fontsize="small")
    for place in grid[-1, :2]:
        place.set_xlabel("ε of a client")
    grid[-1, 2].set_xlabel("probability that the model says")
    figure.savefig(path, dpi=110)


def _against_epsilon(axes: Any, found: list[Row], rows: list[Row]) -> None:
    epsilons = [row["epsilon"] for row in rows]
    reach = np.array([[m["value"] - m["low"], m["high"] - m["value"]] for m in found]).T
    values = [m["value"] for m in found]
    style: Any = {"fmt": "o", "color": palette.BLUE, "capsize": 3}
    axes.errorbar(epsilons, values, yerr=reach, **style, label="measured, 95 %")
    axes.plot(epsilons, [m["truth"] for m in found], "k_", markersize=14, label="truth")
    axes.set_xscale("log", base=2)
    axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    axes.set_xlim(EPSILONS[0] / 1.3, EPSILONS[-1] * 1.3)
    axes.grid(alpha=0.3)


def _curve(axes: Any, row: Row) -> None:
    curve = [p for p in row["calibration"] if p["measured"]["high"] - p["measured"]["low"] < 0.9]
    said, rates = [p["said"] for p in curve], [p["measured"] for p in curve]
    reach = np.array([[r["value"] - r["low"], r["high"] - r["value"]] for r in rates])
    axes.plot([0, 1], [0, 1], color=palette.PALE, linestyle=palette.DASHED)
    values = [r["value"] for r in rates]
    style: Any = {"fmt": "o", "color": palette.BLUE, "capsize": 3}
    axes.errorbar(said, values, yerr=reach.reshape(-1, 2).T, **style)
    axes.plot(said, [p["truth"] for p in curve], "k_", markersize=12)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_ylabel(f"rate, ε = {row['epsilon']:g}")
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=[*DATASETS], choices=DATASETS)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--figure", type=Path, help="write a figure")
    options = parser.parse_args()
    # These clients are simulated: they may be fitted often, and from seeds.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    results = measure(options.datasets, options.runs)
    if options.figure and results:
        draw(results, options.figure)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        tables = (measured_table, held_out_table, difference_table)
        Console(width=170).print(*(table(results) for table in tables))
