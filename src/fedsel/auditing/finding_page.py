"""The finding of an audit as an HTML page: claim, verdict, evidence and command."""

from __future__ import annotations

import datetime
import math
import platform
from typing import TYPE_CHECKING, Any

from fedsel import __version__
from fedsel._internal import palette
from fedsel._internal.display import in_figure
from fedsel._internal.plotting import new_figure
from fedsel.auditing._experiment import Outcome
from fedsel.auditing._program import ExactLoss, ProgramAudit
from fedsel.pages import Figure, Section, Table, Verdict, render, svg_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_MOST_BARS = 16
_MOST_ROWS = 12
_MANY = 200
_COLOURS = (palette.BLUE, palette.ORANGE)
"""The colours of the two inputs, distinct for colour-blind readers and in grey print."""
LIMITS = (
    "A lower bound can prove a violation, never privacy: this audit misses a loss that shows only "
    "for other inputs, or only in a combination of many outputs.",
    "Every call is judged by itself. A function that remembers earlier calls, or whose run time or "
    "errors depend on the input, reveals more than its output.",
)


def finding_page(found: ProgramAudit, *, target: str, command: str) -> str:
    """One self-contained HTML page; ``command`` repeats the audit."""
    return render(
        [
            verdict_section(found, target),
            _evidence_section(found),
            _method_section(found, command),
        ],
        title=f"Audit of {target}",
        summary=[headline(found), meaning(found)],
        facts={
            "function": target,
            "claimed ε": f"{found.claimed:g}" + _delta(found),
            "verdict": found.verdict,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "fedsel": __version__,
            "Python": platform.python_version(),
        },
    )


def headline(found: ProgramAudit) -> str:
    """The verdict in one sentence."""
    claim = f"ε = {found.claimed:g}{_delta(found)}"
    bound = f"at least {found.finding.lower_bound:.4f} (confidence {_confidence(found)})"
    exact = None if found.exact is None else _spoken_epsilon(found.exact)
    if found.refuted:
        loss = f"{exact}, exactly" if exact is not None and found.finding.delta == 0 else bound
        return f"The claim {claim} is refuted: the privacy loss is {loss}."
    if found.verdict == "not refuted":
        return f"The claim {claim} is not refuted: the experiment shows a loss of {bound}."
    return (
        f"The claim {claim} holds for the {len(found.inputs)} inputs that were tried: "
        f"among them the loss is {exact}, exactly."
    )


def _spoken_epsilon(exact: ExactLoss) -> str:
    """Format an exact loss with six digits."""
    return "infinite" if exact.ratio is None else f"{exact.epsilon:.6g}"


def meaning(found: ProgramAudit) -> str:
    """What the finding means for a person, in one sentence."""
    low, high = found.finding.bounds
    allowed = 1 / (1 + math.exp(-found.claimed))
    if low <= high:
        return (
            "The experiment cannot tell the two inputs apart, which says little: it may have "
            f"missed the event that does. ε = {found.claimed:g} would allow an observer to be "
            f"{100 * allowed:.1f} % certain."
        )
    seen = low / (low + high)
    return (
        "An observer who considers the two inputs equally likely and then sees the event is at "
        f"least {100 * seen:.1f} % certain which of them it was; ε = {found.claimed:g} would allow "
        f"at most {100 * allowed:.1f} %."
    )


def in_words(value: Any) -> str:
    """The repr of an input or an output, shortened if it is long."""
    text = " ".join(repr(value.tolist() if hasattr(value, "tolist") else value).split())
    return text if len(text) <= _MANY else text[: _MANY - 1] + "…"


def _delta(found: ProgramAudit) -> str:
    return f", δ = {found.finding.delta:g}" if found.finding.delta else ""


def _confidence(found: ProgramAudit) -> str:
    """The confidence of the lower bound."""
    return f"1 − {found.finding.alpha:g}".replace("e-0", "e-")


def verdict_section(found: ProgramAudit, target: str) -> Section:
    """The claim, the experiment and the exact loss, in words."""
    finding, (low, high) = found.finding, found.finding.bounds
    first, second = (in_words(value) for value in finding.pair)
    allowed = f"e^{found.claimed:g} = {math.exp(found.claimed):.4g}"
    text = [
        "The claim: whatever the function returns, it is at most "
        f"{allowed} times as likely for one person's input as for another's"
        + (f", up to a chance of {finding.delta:g}." if finding.delta else "."),
        f"The two inputs that are easiest to tell apart: {first} and {second}.",
        f"The event that tells them apart: {finding.words}.",
        f"It occurred in {finding.hits[0]:,} of {finding.trials:,} runs with {first}, and in "
        f"{finding.hits[1]:,} of {finding.trials:,} runs with {second}. So with confidence "
        f"{_confidence(found)} its probability is at least {low:.4g} for the first and at most "
        f"{high:.4g} for the second: ε is at least {finding.lower_bound:.4f}.",
        _exact_in_words(found),
    ]
    shown = {"refuted": "does not hold"}.get(found.verdict, found.verdict)
    claim = f"{target} loses at most ε = {found.claimed:g}{_delta(found)}."
    return Section(
        "verdict",
        "The claim and its verdict",
        text=tuple(text),
        verdicts=(Verdict(claim, "", shown, headline(found), ""),),
    )


def _exact_in_words(found: ProgramAudit) -> str:
    exact = found.exact
    if exact is None:
        return f"There is no exact answer beside the experiment: {found.why_not_exact}."
    first, second = (in_words(value) for value in exact.pair)
    p, q = (_chance(p) for p in exact.probabilities)
    return (
        "The function was also run on every draw that matters. The output "
        f"{in_words(exact.output)} has probability {p} for {first} and {q} for {second}: among the "
        f"inputs tried the loss is {_spoken_epsilon(exact)}, exactly, provided that the function "
        "draws only by entropy.below(n)."
    )


def _chance(p: Any) -> str:
    text = str(p)
    return text if len(text) <= 24 else f"{float(p):.6g}"


def _evidence_section(found: ProgramAudit) -> Section:
    finding = found.finding
    first, second = (in_words(value) for value in finding.pair)
    ratio = finding.hits[0] / max(finding.hits[1], 1)
    rows = tuple(
        (o.label.removeprefix("output "), *o.counts, "yes" if o.in_event else "no")
        for o in _often(found, _MOST_ROWS)
    )
    left_out = len(finding.outcomes) - len(rows)
    return Section(
        "evidence",
        "What the outputs show",
        figures=(
            Figure(
                svg_of(_draw_event(found)),
                "How likely the event is for the two inputs, with bounds that hold together at "
                f"confidence {_confidence(found)}. The dashed line is the most that the claim "
                "allows for the first input if the second is at its upper bound.",
                f"The event is {ratio:.3g} times as frequent for the first input.",
            ),
            Figure(
                svg_of(_draw_outcomes(found)),
                "How often each kind of output occurred for the two inputs. A star marks the kinds "
                "in the event.",
                f"Frequencies of {len(rows)} kinds of output for two inputs.",
            ),
        ),
        tables=(
            Table(
                f"Outputs in {finding.trials:,} runs for each input, {first} and {second}",
                ("output", "first input", "second input", "in the event"),
                rows,
                note=f"The most frequent kinds; {left_out} others are not shown."
                if left_out
                else "",
            ),
        ),
    )


def _method_section(found: ProgramAudit, command: str) -> Section:
    return Section(
        "method",
        "How it was tried, and its limits",
        text=(
            "Pilot runs with every input chose the pair and the event. Fresh, independent runs, "
            "which had no part in that choice, then counted the event. The bounds are exact "
            "binomial (Clopper–Pearson) bounds.",
            *LIMITS,
        ),
        settings={
            "inputs tried": "; ".join(in_words(v) for v in found.inputs),
            "runs for each input of the pair": f"{found.finding.trials:,}",
            "chance of a false alarm": f"{found.finding.alpha:g}",
            "outputs grouped by": found.finding.event,
            "seed": str(found.seed),
        },
        command=command,
    )


def _often(found: ProgramAudit, most: int) -> list[Outcome]:
    """The most frequent kinds of output, in their own order."""
    kinds = list(found.finding.outcomes)
    ranked = sorted(range(len(kinds)), key=lambda i: -max(kinds[i].counts))[:most]
    return [kinds[i] for i in sorted(ranked)]


def _draw_event(found: ProgramAudit) -> Drawing:
    finding, (low, high) = found.finding, found.finding.bounds
    figure = new_figure(4.8, 2.6)
    axes = figure.subplots()
    shares = [hits / finding.trials for hits in finding.hits]
    for place, (value, share) in enumerate(zip(finding.pair, shares, strict=True)):
        axes.barh(place, share, color=_COLOURS[place], height=0.55)
        bound = low if place == 0 else high
        axes.plot([bound, bound], [place - 0.36, place + 0.36], color="black", linewidth=1.6)
        name = in_figure(_label(in_words(value), 44))
        axes.text(0, place - 0.42, f"input {name}", va="bottom", fontsize=9)
    most = min(1.0, math.exp(min(found.claimed, 50.0)) * high + finding.delta)
    axes.axvline(most, color=palette.WINE, linestyle="--", linewidth=1.4)
    axes.set_xlim(0, min(1.05, 1.15 * max(*shares, most, low, high)))
    axes.set_ylim(1.5, -0.75)
    axes.set_yticks([])
    axes.set_xlabel("probability of the event", fontsize=9)
    axes.set_title(f"dashed: the most that ε = {found.claimed:g} allows", fontsize=9, loc="left")
    return figure


def _draw_outcomes(found: ProgramAudit) -> Drawing:
    kinds = _often(found, _MOST_BARS)
    figure = new_figure(4.8, 1.0 + 0.34 * len(kinds))
    axes = figure.subplots()
    for side, value in enumerate(found.finding.pair):
        axes.barh(
            [place + (0.2 if side else -0.2) for place in range(len(kinds))],
            [kind.counts[side] / found.finding.trials for kind in kinds],
            height=0.38,
            color=_COLOURS[side],
            label=in_figure(_label(f"input {in_words(value)}", 40)),
        )
    labels = [
        ("★ " if k.in_event else "") + _label(k.label.removeprefix("output "), 40) for k in kinds
    ]
    axes.set_yticks(range(len(kinds)), [in_figure(text) for text in labels], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("share of runs", fontsize=9)
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def _label(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
