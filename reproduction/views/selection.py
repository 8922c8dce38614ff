"""Views of figures 2a–d: private selection alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from fedsel.pages import Table, Verdict
from reproduction import figures
from reproduction.paper import SELECTIONS
from reproduction.results import Gap, Row, Rows, choose, gap, values_of
from reproduction.views.base import FAILS, HOLDS, Picture, View, command, judge
from reproduction.views.training import at_epsilon, line_view, runs_of, settings_of

_CLOSE = 1.0
"""Points within which one accuracy approaches another."""


def convergence(rows: Rows, name: str) -> View:
    """Figures 2a and 2b."""
    by_name = {row["solution"]: row for row in rows}
    body = []
    for solution, row in by_name.items():
        mean, spread = 100 * np.array(row["mean"]), 100 * np.array(row["spread"])
        half = len(mean) // 2
        body.append(
            (solution, float(mean[:half].mean()), float(mean[-1]), float(spread[half:].mean()))
        )
    headings = ("solution", "error, first half", "error at the end", "deviation, second half")
    return View(
        tables=(Table("Misclassification (%)", headings, tuple(body)),),
        pictures=(
            Picture(
                figures.curves(rows),
                f"Misclassification after each round, {runs_of(rows)} runs: mean and a band of one "
                "standard deviation.",
                "Convergence of misclassification by solution",
            ),
        ),
        verdicts=tuple(_convergence_verdicts(by_name, name)),
    )


def _convergence_verdicts(by_name: dict[str, Row], name: str) -> Iterable[Verdict]:
    def lower(a: str, b: str, part: slice) -> Gap:
        """How much lower the error of a is than the error of b; the runs are not paired here."""
        means = [100 * np.mean(by_name[x]["mean"][part]) for x in (b, a)]
        spreads = [100 * np.mean(by_name[x]["spread"][part]) for x in (b, a)]
        n = by_name[a]["repeats"] * by_name[a]["folds"]
        return Gap(float(means[0] - means[1]), math.hypot(*spreads) / math.sqrt(n))

    data = next(iter(by_name.values()))["dataset"]
    end, whole = slice(-1, None), slice(None)
    yield judge(
        name,
        f"Top-1 (NP-K) is more accurate than a random dimension (NP-RS), {data}",
        "Section 5.2",
        {"at the end": lower("NP-K", "NP-RS", end), "on the way": lower("NP-K", "NP-RS", whole)},
    )
    if data == "syn-L":
        near = lower("NP", "NP-K", end)
        verdict = HOLDS if near.mean <= _CLOSE else FAILS
        numbers = f"NP is better by {near} points at the end"
        claim = "On the data set of 100 dimensions NP-K approaches NP"
        yield Verdict(claim, "Section 5.2", verdict, numbers, command(name))
    faster = {f"{s}, error": lower(s, "NP-RS", whole) for s in SELECTIONS}
    claim = f"EXP, PE and PS converge faster than NP-RS at ε₁ = 4, {data}"
    yield judge(name, claim, "Section 5.2", faster)
    half = slice(len(by_name["NP-RS"]["spread"]) // 2, None)
    spread = {x: 100 * float(np.mean(by_name[x]["spread"][half])) for x in by_name}
    good = [spread[s] < spread["NP-RS"] for s in SELECTIONS]
    numbers = "deviation over runs in the second half: " + ", ".join(
        f"{x} {spread[x]:.2f}" for x in (*SELECTIONS, "NP-RS")
    )
    claim = f"EXP, PE and PS converge more stably than NP-RS at ε₁ = 4, {data}"
    verdict = HOLDS if all(good) else FAILS
    yield Verdict(claim, "Section 5.2", verdict, numbers, command(name))


def selection(rows: Rows, name: str) -> View:
    """Figures 2c and 2d."""
    epsilons = sorted(e for e in values_of(rows, "epsilon") if e is not None)
    settings = list(settings_of(rows))

    def gaps(a: str, b: str, at: Sequence[float] = ()) -> dict[str, Gap]:
        by_label = {}
        for where in settings:
            for e in at or (None,):
                better = at_epsilon(choose(rows, **where), a, e)
                worse = at_epsilon(choose(rows, **where), b, e)
                by_label[f"{a}, {where['model']}" + (f", ε₁ = {e:g}" if e else "")] = gap(
                    better, worse
                )
        return by_label

    def merged(pairs: Iterable[tuple[str, str]], at: Sequence[float]) -> dict[str, Gap]:
        return {label: g for a, b in pairs for label, g in gaps(a, b, at).items()}

    data, low, high = rows[0]["dataset"], epsilons[:1], epsilons[-1:]
    approach = merged(((s, "NP-K") for s in SELECTIONS), high)
    start = merged(((s, "NP-K") for s in SELECTIONS), low)
    near = [abs(g.mean) <= _CLOSE for g in approach.values()]
    shrinks = [
        abs(a.mean) <= abs(b.mean) for a, b in zip(approach.values(), start.values(), strict=True)
    ]
    worst = max(approach.values(), key=lambda g: abs(g.mean))
    verdicts = [
        judge(
            name, f"NP-K is more accurate than NP-RS, {data}", "Section 5.2", gaps("NP-K", "NP-RS")
        ),
        Verdict(
            f"With a larger budget EXP, PE and PS approach NP-K, {data}",
            "Section 5.2",
            HOLDS if all(near) and all(shrinks) else FAILS,
            f"the gap to NP-K at ε₁ = {high[0]:g} is at most {worst} points "
            f"(at {low[0]:g}: {max(start.values(), key=lambda g: abs(g.mean))})",
            command(name),
        ),
        judge(
            name,
            f"Even a small selection budget raises the accuracy above NP-RS, {data}",
            "Section 5.2",
            merged(((s, "NP-RS") for s in SELECTIONS), low),
        ),
        judge(
            name,
            f"The same, above a random dimension that is not multiplied by d (RS), {data}",
            "Section 5.2, as it should be asked",
            merged(((s, "RS") for s in SELECTIONS), low),
        ),
        judge(
            name,
            f"PE and PS, which choose from the top k, are more accurate than EXP, {data}",
            "Section 5.2, contributions",
            merged((("PE", "EXP"), ("PS", "EXP")), epsilons),
        ),
    ]
    return line_view(rows, name, verdicts, label="ε₁ of the selection")
