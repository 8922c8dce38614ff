"""What hostile clients do to a model, and what bounding the sums by the law's own range recovers.

Logistic regression on syn-L and, where its files are there (FEDSEL_DATA, --data or the cache), on
ADULT; one epoch, every client reports once, rate and average are automatic. A share of the clients
of each round is hostile, sends valid reports and knows everything: the weights, the mean gradient
of the honest clients of the round, the best model w* and the sums of the honest reports.

An attack aims at something and has a shape:

- gradient: against the honest mean gradient; model: towards −w*;
- one: all send the report whose decoded direction has the largest inner product with the aim;
- spread: over the slots, so that their sum points along the aim;
- within: the best slots one after another, each filled up to what the server does not trim.

Codewords of FJ are not shared: each hostile client sends the best one that nobody else has sent, of
all 2^32, as if it had searched them. (Its cosine to the aim is drawn from the sphere.)

The server may trim: under the solution's law the sum of a slot over n honest reports has a largest
mean, and is beyond it by more than Bernstein's bound with a probability of 1e-6 in a round. What is
beyond is cut off; sums of honest reports stay as they are. (Counts of single symbols have bounds,
too, but PM has hundreds of symbols of nearly one value: who is counted takes the next.)

Beside the private solutions the whole gradient without noise (NP), its entries clipped to ±1 as
those of PM and PS-PM, or its norm to 1 as the records of RJ and FJ have it. Hostile clients send
the worst vector within the clip.

Example:
    python benchmarks/poisoning.py --plot docs/images/poisoning.png
    python benchmarks/poisoning.py --quick --json
    python benchmarks/poisoning.py --influence
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import beta

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel import PublicFacts, Recipe, Reports, Solution, Totals, resolve_auto, solution
from fedsel._internal.models import LinearModel
from fedsel._internal.progress import Bar
from fedsel.data import synthetic
from fedsel.mechanisms import SignedSampling, TwoStage
from fedsel.pages import palette
from fedsel.recipe import RECOMMENDED
from fedsel.server import ServerState, StepRule, step
from fedsel.simulation._stages import VectorReports
from fedsel.solutions import entry
from fedsel.solutions._fresh import ALL_SLOTS, LENGTH
from reproduction.datasets import find, load

Doubles = NDArray[np.float64]
PRIVATE = ("PM", "PS-PM", "RJ")
"""Those with slots that all reports share: a server could trim their sums."""
CLIPPED, SHORT = "NP, entries ≤ 1", "NP, norm ≤ 1"
EPSILONS, SHARES = (1.0, 4.0), (0.01, 0.05, 0.1, 0.2)
AIMS, SHAPES = ("gradient", "model"), ("one", "spread", "within")
FAILURE = 1e-6
"""The probability that any sum of a round of honest reports is trimmed."""
MODEL = LinearModel("logistic", reg=0.0)
BOUNDS = ("PM", "HM", "Duchi", "PM-RP", "PS-PM", "PE-PM", "EXP-PM", "UJ", "J", "RJ", "RC", "FJ")
"""What the table of influences has."""


class Case(NamedTuple):
    """One cell: who reports how, and who is hostile."""

    data: str
    solution: str
    epsilon: float | None
    share: float = 0.0
    aim: str = ""
    shape: str = ""
    trims: bool = False


class Records(NamedTuple):
    """Clients of one record each, a test set, and the best model w*."""

    X: NDArray[np.float32]
    y: NDArray[np.int8]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int8]
    best: Doubles


@lru_cache(maxsize=4)
def records(name: str, unit: bool, seed: int, folder: Path | None) -> Records:
    """A sixth is held out; ``unit`` records are divided by their norm, as RJ and FJ want them."""
    data = load(name, folder) if name == "adult" else synthetic(seed=seed)
    if unit:
        data = data.with_unit_records()
    order = np.random.default_rng(seed).permutation(data.n)
    dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    X, y, test = dense[order].astype(np.float32), data.y[order], data.n // 6
    some, labels = X[test:][:10_000].astype(np.float64), y[test:][:10_000]
    rate = 4 * len(some) / float(np.linalg.eigvalsh(some.T @ some)[-1])
    best = np.zeros(X.shape[1])
    for _ in range(300):
        best -= rate * MODEL.gradient(best, some, labels)
    return Records(X[test:], y[test:], X[:test], y[:test], best)


def honest_limit(made: Solution, clients: int) -> int:
    """The largest |sum| of a slot that honest reports have but by chance, in steps of its unit.

    A report adds X to it: |E X| ≤ mean and E X² ≤ power whatever the client's vector is, and
    |X| ≤ bound. So n of them exceed n·mean by more than Bernstein's bound with probability FAILURE
    at most, all slots together.
    """
    mechanism, slots, says = made.mechanism, made.transform.size, made.alphabet
    unit = mechanism.unit(slots, made.transform.codebook)
    if isinstance(mechanism, SignedSampling):
        law = mechanism.law(slots)
        mean, power = mechanism.lift(slots), min(1.0, 2 * law.maximum / law.total)
    else:  # a value in ±1, told unbiased, of a slot that is chosen at most so often
        told = mechanism.picks / slots
        if isinstance(mechanism, TwoStage):
            chosen = mechanism.selection.law(slots)
            told = chosen.maximum / (chosen.total + chosen.bottom)
        mean, power = told, told * (mechanism.value.variance(1) + 1)
    bound, odds = says.bound / unit, math.log(2 * slots / FAILURE)
    beyond = bound * odds / 3 + math.sqrt((bound * odds / 3) ** 2 + 2 * odds * clients * power)
    return math.ceil((clients * mean + beyond) * unit / float(says.units[0]))


def trimmed(totals: Totals, limit: int) -> Totals:
    """The totals with every sum within the limit."""
    kept = copy.deepcopy(totals)
    np.clip(kept.sums, -limit, limit, out=kept.sums)
    return kept


def extremes(made: Solution) -> tuple[int, int]:
    """The symbols of the largest and of the smallest value."""
    says = made.alphabet
    window, steps = says.steps(np.arange(says.symbols))
    values = says.units[window] * steps
    return int(values.argmax()), int(values.argmin())


def hostile_reports(
    made: Solution, aim: Doubles, shape: str, count: int, honest: Totals, limit: int
) -> Reports:
    """What ``count`` hostile clients send to move the mean along ``aim`` (d,)."""
    along = made.transform.values(aim)
    order = np.argsort(-np.abs(along), kind="stable")
    if shape == "one":
        slots = np.full(count, order[0])
    elif shape == "spread":
        wanted = np.cumsum(np.abs(along[order])) / np.abs(along).sum() * count
        slots = np.repeat(order, np.diff(np.rint(wanted).astype(int), prepend=0))
    else:
        largest = made.alphabet.bound / float(made.alphabet.units[0])
        room = (limit - np.sign(along) * honest.sums[0]) / largest
        filled = np.minimum(np.cumsum(np.maximum(0, np.floor(room[order]))), count).astype(int)
        slots = np.repeat(order, np.diff(filled, prepend=0))
        slots = np.append(slots, np.full(count - len(slots), order[0]))  # none is left within
    high, low = extremes(made)
    return Reports(slots[:, None], np.where(along[slots] > 0, high, low)[:, None])


def best_cosines(dim: int, count: int, searched: int = ALL_SLOTS) -> Doubles:
    """The |cos| to an aim in R^d of the ``count`` best of so many random directions."""
    shares = (np.arange(count) + 0.5) / searched
    return np.asarray(np.sqrt(beta.isf(shares, 0.5, (dim - 1) / 2)))


def hostile_codewords(made: Solution, aim: Doubles, count: int, number: int) -> Totals:
    """What ``count`` hostile clients add who have searched all codewords of FJ."""
    unit, dim = aim / np.linalg.norm(aim), len(aim)
    cosines = best_cosines(dim, count)
    rest = np.random.default_rng(number).standard_normal((count, dim))
    rest -= np.outer(rest @ unit, unit)
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    totals = made.totals()
    totals.sums[0] = np.rint(LENGTH * (cosines.sum() * unit + np.sqrt(1 - cosines**2) @ rest))
    totals.count = count
    return totals


def hostile_vectors(aim: Doubles, short: bool, count: int) -> Reports:
    """The worst vectors within the clip, where vectors are sent as they are."""
    worst = aim / np.linalg.norm(aim) if short else np.sign(aim)
    entries = np.broadcast_to(np.arange(len(aim)), (count, len(aim)))
    return Reports(entries, np.broadcast_to(worst, entries.shape))


def accuracy(case: Case, seed: int, clients: int, folder: Path | None) -> float:
    """Test accuracy (%) after one epoch with ``clients`` a round."""
    plain = case.solution in (CLIPPED, SHORT)
    name = "NP" if plain else case.solution
    unit = case.solution == SHORT or entry(name).directions
    X, y, X_test, y_test, best = records(case.data, unit, seed, folder)
    rounds, dim = len(y) // clients, X.shape[1]
    setting = PublicFacts(dim, clients, rounds, norm=1.0 if unit else None)
    # One basis a round: the attacker knows where every report counts.
    recipe = resolve_auto(Recipe(name, epsilon=case.epsilon, mu=0.1, bases=None), setting)
    made, rule = recipe.build(), StepRule.of(recipe)
    limit = honest_limit(made, clients) if name in PRIVATE else 0
    reporting = VectorReports(made, len(y), seed=seed)
    order = np.random.default_rng(seed).permutation(len(y))
    state, hostile = ServerState.begin(np.zeros(dim)), round(case.share * clients)
    for number in range(rounds):
        now, who = made.in_round(number), order[number * clients :][: clients - hostile]
        slopes = MODEL.slopes(X[who] @ state.weights, y[who])
        gradients = (X[who] * slopes[:, None]).astype(np.float32)
        if case.solution == CLIPPED:
            gradients = np.clip(gradients, -1, 1)
        reporting.begin(number)
        reporting.report(0, who, [gradients])
        totals = reporting.totals
        if hostile:
            mean = gradients.mean(axis=0, dtype=np.float64)
            aim = -mean if case.aim == "gradient" else best  # the server steps against the mean
            if plain:
                totals.add(hostile_vectors(aim, case.solution == SHORT, hostile))
            elif name == RECOMMENDED:
                totals.merge(hostile_codewords(now, aim, hostile, number))
            else:
                totals.add(hostile_reports(now, aim, case.shape, hostile, totals, limit))
        state = step(state, rule, now, trimmed(totals, limit) if case.trims else totals)
    return 100 * float(np.mean(np.where(X_test @ state.average >= 0, 1, -1) == y_test))


def cases(names: list[str], epsilons: tuple[float, ...], shares: tuple[float, ...]) -> list[Case]:
    """Every cell: each attack on each solution, trimmed and not."""
    found = []
    for data in names:
        whole = [(CLIPPED, None), (SHORT, None), *((RECOMMENDED, e) for e in epsilons)]
        for name, epsilon in whole:
            found.append(Case(data, name, epsilon))
            found += [Case(data, name, epsilon, f, aim) for f in shares for aim in AIMS]
        for name in PRIVATE:
            for epsilon in epsilons:
                for trims in (False, True):
                    found.append(Case(data, name, epsilon, trims=trims))
                    found += [
                        Case(data, name, epsilon, share, aim, shape, trims)
                        for share in shares
                        for aim in AIMS
                        for shape in SHAPES
                    ]
    return found


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All cells, as rows."""
    names = ["syn-L"]
    if options.data is not None or find("adult") is not None:
        names.append("adult")
    epsilons, shares = (EPSILONS[:1], SHARES[1:3]) if options.quick else (EPSILONS, SHARES)
    wanted = cases(names[:1] if options.quick else names, epsilons, shares)
    scores: dict[Case, list[float]] = {case: [] for case in wanted}
    # Seed after seed of one data set: its records are made once.
    runs = [
        (case, seed)
        for n in names
        for seed in range(options.seeds)
        for case in wanted
        if case.data == n
    ]
    with Bar(len(runs)) as bar:
        for case, seed in runs:
            bar.update(f"{case.data}, {case.solution}, seed {seed}")
            scores[case].append(accuracy(case, seed, options.clients, options.data))
            bar.update(advance=1)
    return [
        {**case._asdict(), "accuracy": float(np.mean(s)), "deviation": deviation(s), "runs": s}
        for case, s in scores.items()
    ]


def deviation(scores: list[float]) -> float:
    """The standard deviation of a sample; 0 for one run."""
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0


def worst(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The row of the most harmful attack among those that are wanted."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return min(found, key=lambda row: row["accuracy"])


def tables(rows: list[dict[str, Any]]) -> list[Table]:
    """Accuracy by share under the worst attack, for each data set."""
    shares = sorted({row["share"] for row in rows})
    found = []
    for data in dict.fromkeys(row["data"] for row in rows):
        title = (
            f"{data}: test accuracy (%), mean ± standard deviation, by the share of hostile clients"
        )
        table = Table("solution", "ε", "server, attack", *(f"{f:.0%}" for f in shares), title=title)
        mine = [row for row in rows if row["data"] == data]
        for name, epsilon in dict.fromkeys((row["solution"], row["epsilon"]) for row in mine):
            kinds: dict[str, dict[str, Any]] = {"mean, worst attack": {"trims": False}}
            if name in PRIVATE:
                kinds["trimmed, all send one report"] = {"trims": True, "shape": "one"}
                kinds["trimmed, worst attack"] = {"trims": True}
            for kind, which in kinds.items():
                cells = []
                for share in shares:
                    given = which if share else {"trims": which["trims"]}
                    at = {"solution": name, "epsilon": epsilon, "share": share, **given}
                    row = worst(mine, **at)
                    how = f" {row['aim'][:1]}{row['shape'][:1]}" if share else ""
                    cells.append(f"{row['accuracy']:.1f} ± {row['deviation']:.1f}{how}")
                table.add_row(name, "" if epsilon is None else f"{epsilon:g}", kind, *cells)
        found.append(table)
    return found


def draw(rows: list[dict[str, Any]], file: Path, clients: int) -> None:
    """Accuracy over the share: a row of panels for each data set, the last one with trimming."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["data"] for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"]})
    figure = Figure(figsize=(4.2 * (len(epsilons) + 1), 3.6 * len(names)), layout="constrained")
    panels = figure.subplots(
        len(names), len(epsilons) + 1, sharex=True, sharey="row", squeeze=False
    )

    def curve(axes: Any, label: str, style: dict[str, Any], **wanted: Any) -> None:
        shares = sorted({row["share"] for row in rows})
        base = {key: value for key, value in wanted.items() if key != "shape"}
        seen = [worst(rows, share=f, **(wanted if f else base)) for f in shares]
        axes.errorbar(
            [100 * f for f in shares],
            [row["accuracy"] for row in seen],
            yerr=[row["deviation"] for row in seen],
            label=label,
            capsize=2,
            markersize=4,
            **style,
        )

    for axes_row, data in zip(panels, names, strict=True):
        for axes, epsilon in zip(axes_row, epsilons, strict=False):
            for name in (*PRIVATE, RECOMMENDED):
                style = palette.style(name)
                curve(axes, name, style, data=data, solution=name, epsilon=epsilon, trims=False)
            for name, line in ((CLIPPED, ":"), (SHORT, "--")):
                curve(
                    axes, name, {"color": palette.GREY, "linestyle": line}, data=data, solution=name
                )
            axes.set_title(f"{data}, ε = {epsilon:g}: the worst attack", fontsize=10)
        for name in ("PM", "RJ"):
            at = {"data": data, "solution": name, "epsilon": epsilons[0]}
            for label, line, which in (
                ("mean, one report", "-", {"trims": False, "shape": "one"}),
                ("trimmed, one report", "--", {"trims": True, "shape": "one"}),
                ("trimmed, worst attack", ":", {"trims": True}),
            ):
                style = palette.style(name, linestyle=line)
                curve(axes_row[-1], f"{name}: {label}", style, **at, **which)
        axes_row[-1].set_title(f"{data}, ε = {epsilons[0]:g}: what trimming does", fontsize=10)
        axes_row[0].set_ylabel("test accuracy (%)")
    for axes in panels.ravel():
        axes.set_ylim(-3, 103)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-0.1, 24)
        axes.set_xticks([0, 1, 5, 10, 20], labels=["0", "1", "5", "10", "20"])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    for axes in panels[-1]:
        axes.set_xlabel(f"hostile clients (% of {clients:,} in a round)")
    first, last = (
        list(zip(*axes.get_legend_handles_labels(), strict=True))
        for axes in (panels[0][0], panels[0][-1])
    )
    # Columns are filled first: entries of both take turns, so that each has a row.
    curves = [entry for both in zip(first, last, strict=True) for entry in both]
    figure.legend(*zip(*curves, strict=True), fontsize=8, ncols=6, loc="outside lower center")
    figure.savefig(file, dpi=110)


def influences() -> str:
    """The first table of benchmarks/poisoning.md."""
    heads = [f"ε = {e:g}: {kind}" for e in EPSILONS for kind in ("one entry", "norm")]
    lines = ["| solution | " + " | ".join(heads) + " |", "|---" * (1 + len(heads)) + "|"]
    for name in BOUNDS:
        cells = []
        for epsilon in EPSILONS:
            found = solution(name, epsilon=epsilon, dim=100, rho=0.4, mu=0.1).influence
            cells += [f"{found.largest:.3g}", f"{found.norm:.3g}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="of data, split and reports")
    parser.add_argument("--clients", type=int, default=2000, help="that report in a round")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the files of ADULT are")
    parser.add_argument(
        "--quick", action="store_true", help="syn-L at ε = 1, two shares, two seeds"
    )
    parser.add_argument("--json", action="store_true", help="print all rows as JSON")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to write the figure")
    parser.add_argument("--influence", action="store_true", help="print how far one report reaches")
    options = parser.parse_args()
    if options.influence:
        print(influences())
        return
    if options.quick:
        options.seeds = min(options.seeds, 2)
    rows = measure(options)
    if options.plot:
        draw(rows, options.plot, options.clients)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for table in tables(rows):
        Console().print(table)
    print("worst attacks by their initials: aim (gradient, model), shape (one, spread, within)")


if __name__ == "__main__":
    main()
