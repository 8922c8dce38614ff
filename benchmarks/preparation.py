"""What the automatic recipe gains where its first rounds learn spread and centre of the records.

The protocol of ``python -m reproduction fair``: three fifths of the clients train, one epoch, each
client reports once; accuracy and AUC on a test fifth that no run trains on; 20 runs. The
recommended solution with everything automatic, nothing tuned; features scaled by their public
bounds. ADULT, KDD and BANK need their files (FEDSEL_DATA or --data); syn-L has no public bounds, so
prepares there.

Example:
    FEDSEL_DATA=… python benchmarks/preparation.py --plot docs/images/preparation.png
    python benchmarks/preparation.py --runs 4 --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel._internal.progress import Bar
from fedsel.experiments import Spec, override
from fedsel.pages import legend_below, new_figure, palette
from fedsel.recipe import RECOMMENDED
from reproduction.datasets import Published

DATASETS = ("adult", "kdd", "bank")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
KINDS = {
    "as they are": {"spread": 0.0, "centre": 0.0},
    "centred": {"spread": 0.0, "centre": "auto"},
    "prepared": {"spread": "auto", "centre": "auto"},
}
LINES = {
    "as they are": palette.DASHED,
    "centred": palette.DOTTED,
    "prepared": palette.SOLID,
}
"""All are one solution: one colour and marker, filled where everything was prepared."""


def measure(runs: int, source: Published, model: str) -> list[dict[str, Any]]:
    """One row for each data set, kind of preparation and ε."""
    shared = {"solutions": (RECOMMENDED,), "models": (model,), "scale": "unit", "intercept": True}
    cells = [
        (dataset, kind, cell)
        for dataset in DATASETS
        for kind, shares in KINDS.items()
        for cell in override(
            Spec(),
            {
                **shared,
                **shares,
                "dataset": dataset,
                "epsilons": EPSILONS,
                "protocol": "holdout",
                "repeats": runs,
            },
        ).cells()
    ]
    rows = []
    with Bar(len(cells) * runs) as bar:
        for dataset, kind, cell in cells:
            parts = []
            for number in range(runs):
                parts.append(cell.part(number, source))
                bar.update(f"{dataset}, {kind}", advance=1)
            row = cell.combine(parts)
            found = {"dataset": dataset, "kind": kind, "epsilon": row["epsilon"]}
            for name in ("test", "auc", "balanced", "log_loss"):
                found[name] = statistics.fmean(row[name])
                found[f"{name}_deviation"] = statistics.stdev(row[name]) if runs > 1 else 0.0
            rows.append({**found, "majority": row["majority"], "chosen": row["chosen"]})
    return rows


def show(rows: list[dict[str, Any]], runs: int) -> None:
    table = Table(
        title=f"{RECOMMENDED}, automatic: accuracy (%) and AUC on the test fifth, {runs} runs"
    )
    for heading in ("data set", "records", *(f"ε = {e:g}" for e in EPSILONS)):
        table.add_column(heading, justify="left" if heading in ("data set", "records") else "right")
    for dataset in DATASETS:
        for kind in KINDS:
            mine = [r for r in rows if (r["dataset"], r["kind"]) == (dataset, kind)]
            cells = [
                f"{100 * r['test']:.1f} ± {100 * r['test_deviation']:.1f}  {r['auc']:.3f}"
                for r in mine
            ]
            table.add_row(dataset, kind, *cells)
        table.add_section()
    Console().print(table)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    figure = new_figure(11, 5.6)
    panels = figure.subplots(2, len(DATASETS), sharex=True)
    for column, dataset in enumerate(DATASETS):
        mine = [r for r in rows if r["dataset"] == dataset]
        for line, (name, factor) in enumerate((("test", 100), ("auc", 1))):
            axes = panels[line, column]
            for kind, dashes in LINES.items():
                points = [r for r in mine if r["kind"] == kind]
                means = [factor * r[name] for r in points]
                errors = [factor * r[f"{name}_deviation"] for r in points]
                style = palette.style(RECOMMENDED, linestyle=dashes, markersize=7)
                style["markerfacecolor"] = style["color"] if kind == "prepared" else "white"
                axes.errorbar(
                    [r["epsilon"] for r in points],
                    means,
                    errors,
                    **style,
                    capsize=2,
                    label=f"records {kind}",
                )
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.grid(alpha=0.3)
        panels[0, column].axhline(
            100 * mine[0]["majority"], color=palette.GREY, linestyle=":", label="majority"
        )
        panels[0, column].set_title(dataset)
        panels[1, column].set_xlabel("ε of a client")
    panels[0, 0].set_ylabel("test accuracy (%)")
    panels[1, 0].set_ylabel("AUC")
    legend_below(figure)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="What preparing records is worth.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--model", default="logistic", choices=("logistic", "svm"))
    parser.add_argument("--data", type=Path, help="a folder with the data files")
    parser.add_argument("--plot", type=Path, help="where the figure goes")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    rows = measure(options.runs, Published(options.data), options.model)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows, options.runs)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
