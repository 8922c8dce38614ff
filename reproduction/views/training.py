"""Views of figures 2f–i and 3a–c: accuracy against ε, μ and batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedsel.pages import Table, Verdict, legend_below, palette
from reproduction import figures
from reproduction.paper import SELECTIONS
from reproduction.results import (
    Gap,
    Rows,
    accuracies,
    accuracy,
    choose,
    deviation,
    gap,
    values_of,
)
from reproduction.views.base import (
    FAILS,
    HOLDS,
    Picture,
    View,
    command,
    counted,
    judge,
    plain,
)

TWO_STAGE = tuple(f"{s}-PM" for s in SELECTIONS)


def two_stage(rows: Rows, name: str) -> View:
    """Figures 2f and 2g."""
    data = rows[0]["dataset"].upper()
    epsilons = sorted(e for e in values_of(rows, "epsilon") if e is not None)
    over_flat = _gaps(rows, TWO_STAGE, "PM", epsilons)
    claim = f"The two-stage solutions are more accurate than PM on {data}, both models"
    verdicts = [judge(name, claim, "Section 5.3", over_flat)]
    if name == "fig2f":
        over_plain = _gaps(rows, TWO_STAGE, "NP", epsilons[-1:])
        claim = f"Given enough budget they even outperform NP on {data}"
        verdicts.append(judge(name, claim, "Section 5.3", over_plain))
    else:
        lead = {e: np.mean([g.mean for k, g in over_flat.items() if _ends(k, e)]) for e in epsilons}
        numbers = "mean lead over PM: " + ", ".join(f"{lead[e]:+.2f} at ε = {e:g}" for e in lead)
        claim = "Over two epochs accumulation helps most where ε is small"
        verdict = HOLDS if max(lead, key=lambda e: lead[e]) == epsilons[0] else FAILS
        verdicts.append(Verdict(claim, "Section 5.3", verdict, numbers, command(name)))
    return line_view(rows, name, verdicts)


def perturbations(rows: Rows, name: str) -> View:
    """Figure 2h."""
    epsilons = sorted(values_of(rows, "epsilon"))
    lower = {
        **_gaps(rows, ("PS-HM",), "HM", epsilons),
        **_gaps(rows, ("PS-Duchi",), "Duchi", epsilons),
    }
    steadier: list[bool] = []
    ratios = []
    for where in settings_of(rows):
        for value in ("HM", "Duchi"):
            for e in epsilons:
                part = choose(rows, **where, epsilon=e)
                two, flat = (deviation(choose(part, solution=s)) for s in (f"PS-{value}", value))
                steadier.append(two < flat)
                ratios.append(two / flat if flat else 1.0)
    claim = "PS-HM and PS-Duchi misclassify less than HM and Duchi"
    count = f"lower in {sum(steadier)} of {len(steadier)}"
    numbers = f"{count}; between {min(ratios):.2f} and {max(ratios):.2f} times that of flat"
    verdict = counted(steadier)
    claim_too = "... and with a lower standard deviation over the tests"
    return line_view(
        rows,
        name,
        [
            judge(name, claim, "Section 5.3", lower),
            Verdict(claim_too, "Section 5.3", verdict, numbers, command(name)),
        ],
        error=True,
    )


def projection(rows: Rows, name: str) -> View:
    """Figure 2i."""
    epsilons = sorted(values_of(rows, "epsilon"))
    gaps = _gaps(rows, TWO_STAGE, "PM-RP", epsilons)
    claim = "Random projection's recovery error ruins the accuracy; dimension selection works"
    return line_view(rows, name, [judge(name, claim, "Section 5.3", gaps)])


def accumulation(rows: Rows, name: str) -> View:
    """Figure 3a."""
    epsilons = sorted(values_of(rows, "epsilon"))
    adapted = {
        f"{s}, {_epochs(where)}, ε = {e:g}": gap(
            at_epsilon(choose(rows, **where), s, e), at_epsilon(choose(rows, **where), f"{s}-O", e)
        )
        for where in settings_of(rows, "epochs")
        for s in TWO_STAGE
        for e in epsilons
    }
    plain = {
        f"{s}-O, {_epochs(where)}, ε = {e:g}": gap(
            at_epsilon(choose(rows, **where), "PM", e),
            at_epsilon(choose(rows, **where), f"{s}-O", e),
        )
        for where in settings_of(rows, "epochs")
        for s in TWO_STAGE
        for e in epsilons
    }
    verdicts = [
        judge(name, "The adapted accumulation beats accumulating α·g", "Section 5.3", adapted),
        judge(
            name,
            "Accumulating α·g does not improve on PM: noise offsets what selection gains",
            "Section 5.3",
            plain,
            ties=True,
        ),
    ]
    split = ("dataset", "model", "epochs")
    return line_view(rows, name, verdicts, split=split)


def shares(rows: Rows, name: str) -> View:
    """Figure 3b."""
    epsilons = sorted(values_of(rows, "epsilon"))
    two, flat = choose(rows, solution="PS-PM"), choose(rows, solution="PM")
    mus = sorted(values_of(two, "mu"))
    safe, best, last, steadier = {}, {}, {}, []
    for where in settings_of(rows):
        for e in epsilons:
            at = {m: accuracies(choose(two, **where, epsilon=e, mu=m)) for m in mus}
            label = f"{where['model']}, ε = {e:g}"
            safe[label] = gap(at[mus[0]], accuracies(choose(flat, **where, epsilon=e)))
            others = max(mus[1:], key=lambda m: float(at[m].mean()))
            best[f"{label}, against μ = {others:g}"] = gap(at[mus[0]], at[others])
            last[label] = gap(at[mus[0]], at[mus[-1]])
            steadier.append(float(at[mus[0]].std()) < float(at[mus[-1]].std()))
    less, most = f"μ = {mus[0]:g}", f"μ = {mus[-1]:g}"
    numbers = f"the deviation is greater at {most} in {sum(steadier)} of {len(steadier)}"
    wider = counted(steadier)
    verdicts = [
        judge(
            name,
            f"With {less} no worse than PM, even where ε is small",
            "Section 5.3",
            safe,
            ties=True,
        ),
        judge(name, f"{less} gives the optimal accuracy", "Section 5.3", best, ties=True),
        judge(name, f"{most} misclassifies more than {less}", "Section 5.3", last),
        Verdict(f"{most} deviates more than {less}", "Section 5.3", wider, numbers, command(name)),
    ]
    figure, all_axes = figures.panels([f"{w['dataset']}, {w['model']}" for w in settings_of(rows)])
    for axes, where in zip(all_axes, settings_of(rows), strict=True):
        for place, e in enumerate(epsilons):
            part = choose(two, **where, epsilon=e)
            errors = [100 - accuracies(choose(part, mu=m)) for m in mus]
            means = np.array([r.mean() for r in errors])
            spread = np.array([r.std(ddof=1) if len(r) > 1 else 0.0 for r in errors])
            # One colour a solution; the lines tell its ε.
            line = palette.LINES[place % len(palette.LINES)]
            style = palette.style("PS-PM", linestyle=line)
            axes.plot(mus, means, **style, label=f"PS-PM, ε = {e:g}")
            band = {"color": style["color"], "alpha": 0.12, "linewidth": 0}
            axes.fill_between(mus, means - spread, means + spread, **band)
            level = 100 - accuracy(choose(flat, **where, epsilon=e))
            colour = palette.look("PM").colour
            axes.axhline(level, color=colour, linestyle=line, label=f"PM, ε = {e:g}")
        axes.set_xlabel("μ")
        axes.set_ylabel("misclassification (%)")
    legend_below(figure)
    caption = "Misclassification against μ; level lines are flat PM at the ε of their dashes."
    picture = Picture(figure, caption, "Misclassification against μ by ε, one panel a model")
    return View((_table(rows, ("mu",)),), (picture,), tuple(verdicts))


def batches(rows: Rows, name: str) -> View:
    """Figure 3c."""
    sizes = sorted(values_of(rows, "batch"))
    gaps, steadier, flat = {}, [], 0
    for where in settings_of(rows):
        for size in sizes:
            part = choose(rows, **where, batch=size)
            plain = choose(part, solution="PM")
            for s in TWO_STAGE:
                mine = choose(part, solution=s)
                if mine[0]["used"] == "PM":
                    flat += 1
                    continue
                gaps[f"{s}, {where['dataset']}, m = {size:g}·N"] = gap(
                    accuracies(mine), accuracies(plain)
                )
                steadier.append(deviation(mine) < deviation(plain))
    numbers = f"smaller in {sum(steadier)} of {len(steadier)}"
    wider = counted(steadier)
    claim = "The hyper-parameters-free strategy improves the accuracy over PM at every batch size"
    improved = judge(name, claim, "Section 5.3, contributions", gaps)
    note = f"; in {flat} of {flat + len(gaps)} settings μ is 0 and flat PM runs" if flat else ""
    verdicts = [
        Verdict(
            improved.claim,
            improved.where,
            improved.verdict,
            improved.numbers + note,
            improved.command,
        ),
        Verdict(
            "... with smaller deviations than PM", "Section 5.3", wider, numbers, command(name)
        ),
    ]
    return line_view(
        rows,
        name,
        verdicts,
        x="batch",
        label="clients of a round, as a share of N",
        extra=("batch", "used"),
    )


def line_view(
    rows: Rows,
    name: str,
    verdicts: Sequence[Verdict],
    *,
    split: Sequence[str] = ("dataset", "model"),
    error: bool = False,
    x: str = "epsilon",
    label: str = "ε of a client",
    extra: Sequence[str] = (),
) -> View:
    del name
    figure = figures.by_model(rows, split=split, error=error, x=x, label=label)
    measure = "Misclassification" if error else "Test accuracy"
    caption = f"{measure}, {runs_of(rows)} runs: mean and a band of one standard deviation."
    picture = Picture(figure, caption, f"{measure} against {label}, a line a solution")
    columns = (*(c for c in split if c == "epochs"), *extra)
    return View((_table(rows, columns),), (picture,), tuple(verdicts))


def _table(rows: Rows, extra: Sequence[str] = ()) -> Table:
    columns = ("dataset", "model", *extra, "solution", "epsilon")
    body = tuple(
        (
            *(plain(row[c]) if isinstance(row[c], float) else row[c] for c in columns),
            *(row["epsilon_total"], 100 * row["accuracy"], deviation([row])),
        )
        for row in rows
    )
    named = {"epsilon": "ε", "mu": "μ", "batch": "m/N"}
    headings = (*(named.get(c, c) for c in columns), "exact ε", "accuracy (%)", "deviation")
    note = "An exact ε of – is infinite: something leaves the client unperturbed."
    return Table("Accuracy", headings, body, note)


def settings_of(rows: Rows, *more: str) -> Iterable[dict[str, Any]]:
    columns = ("dataset", "model", *more)
    for key in dict.fromkeys(tuple(row[c] for c in columns) for row in rows):
        yield dict(zip(columns, key, strict=True))


def at_epsilon(rows: Rows, solution: str, epsilon: float | None) -> Any:
    mine = choose(rows, solution=solution)
    exact = [r for r in mine if r["epsilon"] in (epsilon, None)]
    return accuracies(exact if epsilon is not None else mine)


def _gaps(
    rows: Rows, solutions: Sequence[str], rival: str, epsilons: Sequence[float]
) -> dict[str, Gap]:
    return {
        f"{s}, {where['model']}, ε = {e:g}": gap(
            at_epsilon(choose(rows, **where), s, e), at_epsilon(choose(rows, **where), rival, e)
        )
        for where in settings_of(rows)
        for s in solutions
        for e in epsilons
    }


def _epochs(where: dict[str, Any]) -> str:
    return f"{where['epochs']} epoch{'s' if where['epochs'] > 1 else ''}"


def _ends(label: str, epsilon: float) -> bool:
    return label.endswith(f"ε = {epsilon:g}")


def runs_of(rows: Rows) -> int:
    return int(rows[0]["repeats"] * rows[0]["folds"])


VIEWS: dict[str, Callable[[Rows, str], View]] = {
    "fig2f": two_stage,
    "fig2g": two_stage,
    "fig2h": perturbations,
    "fig2i": projection,
    "fig3a": accumulation,
    "fig3b": shares,
    "fig3c": batches,
}
