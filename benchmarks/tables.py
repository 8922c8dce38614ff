"""What to expect of a private model of a messy table, by ε, and what the choices in a schema cost.

The table is that of examples/customers.py: 30 columns, three classes, of which one has 5 %. Each
run draws other clients, and judges on 20,000 records that nobody trains on. scikit-learn's logistic
regression on the same encoded features, standardised, shows what is there without privacy.

Example:
    python benchmarks/tables.py                                # five runs, about ten minutes
    python benchmarks/tables.py --views classes --runs 2 --clients 20000 --json
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_score, recall_score, roc_auc_score
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.customers import customers
from fedsel import FedSelClassifier, PrivacyLeakWarning, Schema
from fedsel._internal.progress import Bar
from fedsel.data._draft import draft
from fedsel.errors import TooFewClientsWarning
from fedsel.wire import Number

SCHEMA = Schema.load(Path(__file__).parents[1] / "examples" / "customers.toml")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
TEST = 20_000
Scores = dict[str, float]
Row = dict[str, Any]


def plain_model() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))


def of_classes(model: Any, X: Any, y: Any) -> Scores:
    """Accuracy, AUC of each class against the others on average, and AUC of the rare class."""
    shares, labels = model.predict_proba(X), list(model.classes_)
    rare = shares[:, labels.index("leaves")]
    return {
        "accuracy": 100 * float(np.mean(np.take(labels, shares.argmax(axis=1)) == y)),
        "auc": roc_auc_score(y, shares, multi_class="ovr", labels=labels),
        "auc_leaves": roc_auc_score(y == "leaves", rare),
    }


def classes(clients: int, run: int) -> Iterator[tuple[str, str, Scores]]:
    """Three classes at each ε."""
    table, test = customers(clients, 1 + run), customers(TEST, 0)
    for epsilon in EPSILONS:
        model = FedSelClassifier(epsilon=epsilon, schema=SCHEMA, random_state=run)
        model.fit(table, table["status"])
        yield f"{clients:,}", f"ε = {epsilon:g}", of_classes(model, test, test["status"])
    model = FedSelClassifier(solution="NP", schema=SCHEMA, random_state=run)
    model.fit(table, table["status"])
    yield f"{clients:,}", "NP", of_classes(model, test, test["status"])
    plain = plain_model().fit(SCHEMA.encode(table), table["status"])
    X = SCHEMA.encode(test)
    yield f"{clients:,}", "scikit-learn", of_classes(plain, X, test["status"])


def wider(by: float) -> Schema:
    """The schema with bounds of numbers so many times as wide."""

    def of(column: Any) -> Any:
        if not isinstance(column, Number) or column.high is None or column.high == 1:
            return column
        low = by * column.low if column.low and column.low < 0 else column.low
        return replace(column, low=low, high=by * column.high)

    return replace(SCHEMA, columns={n: of(c) for n, c in SCHEMA.columns.items()})  # type: ignore[union-attr]


def unbounded() -> Schema:
    """The schema with numbers whose bounds nobody knows."""
    columns = {
        n: Number(indicator=c.indicator) if isinstance(c, Number) and c.high != 1 else c
        for n, c in SCHEMA.columns.items()  # type: ignore[union-attr]
    }
    return replace(SCHEMA, columns=columns)


def without_indicators() -> Schema:
    columns = {n: replace(c, indicator=False) for n, c in SCHEMA.columns.items()}  # type: ignore[union-attr]
    return replace(SCHEMA, columns=columns)


def few_columns() -> Schema:
    """Columns that somebody who knows customers would choose."""
    known: tuple[str, ...] = (
        "age",
        "income",
        "joined",
        "last_call",
        "plan",
        "payment",
        "paperless",
    )
    known = (*known, "complaints", "balance", "usage_03", "usage_09")
    return replace(SCHEMA, columns={n: SCHEMA.columns[n] for n in known})  # type: ignore[index]


def schemas(clients: int, run: int) -> Iterator[tuple[str, str, Scores]]:
    """The same table by other schemas."""
    table, test = customers(clients, 1 + run), customers(TEST, 0)
    drafted = draft({n: table[n].to_numpy() for n in table}, "status").schema
    others = {
        "as it is": SCHEMA,
        "bounds ten times as wide": wider(10),
        "numbers without bounds": unbounded(),
        "no indicators": without_indicators(),
        "eleven columns of them": few_columns(),
        "the draft, unedited": drafted,
    }
    for name, schema in others.items():
        for epsilon in (1.0, 2.0, 4.0):
            model = FedSelClassifier(epsilon=epsilon, schema=schema, random_state=run)
            model.fit(table, table["status"])
            yield name, f"ε = {epsilon:g}", of_classes(model, test, test["status"])


def of_decisions(model: Any, X: Any, y: Any) -> Scores:
    """How many of the rare class are found, and how many of those that are named are right."""
    named = model.predict(X)
    return {
        "accuracy": 100 * float(np.mean(named == y)),
        "recall": 100 * recall_score(y, named),
        "precision": 100 * precision_score(y, named, zero_division=0),
        "auc": roc_auc_score(y, model.predict_proba(X)[:, 1]),
    }


def rare(clients: int, run: int) -> Iterator[tuple[str, str, Scores]]:
    """One class of 5 % against all others: what is decided, by each means."""
    table, test = customers(clients, 1 + run), customers(TEST, 0)
    schema = replace(SCHEMA, label="left", classes=None)
    leaves, found = table["status"] == "leaves", test["status"] == "leaves"
    means: dict[str, Callable[[Any], Any]] = {
        "nothing": lambda model: model,
        "class_prior": lambda model: model.set_params(class_prior={False: 0.95, True: 0.05}),
        "class_weight": lambda model: model.set_params(class_weight={False: 0.05, True: 0.95}),
        "threshold 0.05": lambda model: FixedThresholdClassifier(
            model, threshold=0.05, response_method="predict_proba"
        ),
        "threshold 0.15": lambda model: FixedThresholdClassifier(
            model, threshold=0.15, response_method="predict_proba"
        ),
    }
    for name, changed in means.items():
        for solution, epsilon in (("FJ", 2.0), ("FJ", 8.0), ("NP", 1.0)):
            model = FedSelClassifier(
                epsilon=epsilon, solution=solution, schema=schema, random_state=run
            )
            fitted = changed(model).fit(table, leaves)
            at = f"ε = {epsilon:g}" if solution == "FJ" else solution
            yield name, at, of_decisions(fitted, test, found)


VIEWS = {"classes": classes, "schemas": schemas, "rare": rare}
FITS = {"classes": 7, "schemas": 18, "rare": 15}


def measure(views: list[str], runs: int, sizes: list[int]) -> list[Row]:
    """A row for each view, row and column of its table: means with standard errors."""
    scores: dict[tuple[str, str, str], list[Scores]] = {}
    several = {view: sizes if view == "classes" else sizes[:1] for view in views}
    with Bar(sum(FITS[v] * len(several[v]) for v in views) * runs) as bar:
        for view in views:
            for clients in several[view]:
                for run in range(runs):
                    for row, column, found in VIEWS[view](clients, run):
                        scores.setdefault((view, row, column), []).append(found)
                        bar.update(f"{view}: {row}, run {run + 1}", advance=1)
    return [
        {"view": view, "row": row, "column": column, **summary(pd.DataFrame(found))}
        for (view, row, column), found in scores.items()
    ]


def summary(found: pd.DataFrame) -> Row:
    errors = found.std() / np.sqrt(len(found)) if len(found) > 1 else 0 * found.mean()
    return {**found.mean(), **{f"{name}_error": x for name, x in errors.items()}}


def tabulate(view: str, rows: list[Row], runs: int) -> Table:
    columns = list(dict.fromkeys(r["column"] for r in rows))
    measured = [m for m in rows[0] if m not in ("view", "row", "column") and "_error" not in m]
    shown = ", ".join(m.replace("_", " of ") for m in measured)
    table = Table("", *columns, title=f"{view}: {shown}, {runs} runs")
    for name in dict.fromkeys(r["row"] for r in rows):
        own = {r["column"]: r for r in rows if r["row"] == name}
        for number, m in enumerate(measured):
            cells = [
                f"{own[c][m]:.{3 if 'auc' in m else 1}f} ± "
                f"{own[c][m + '_error']:.{3 if 'auc' in m else 1}f}"
                for c in columns
            ]
            table.add_row(f"{name}: {m}" if number == 0 else m, *cells)
        table.add_section()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=list(VIEWS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--clients", nargs="+", type=int, default=[20_000, 100_000])
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    for kind in (PrivacyLeakWarning, TooFewClientsWarning):  # these clients are simulated
        warnings.simplefilter("ignore", kind)
    found = measure(options.views, options.runs, options.clients)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for view in options.views:
        rows = [r for r in found if r["view"] == view]
        Console(width=170).print(tabulate(view, rows, options.runs))


if __name__ == "__main__":
    main()
