"""What the page says about privacy: exact for one report, proved if shuffled, bounded influence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsel.pages.markup import Markup, element, joined
from fedsel.service.dashboard.parts import tile
from fedsel.service.dashboard.proving import Proofs, promised
from fedsel.service.dashboard.words import central, counted, epsilon
from fedsel.service.view import RunSnapshot
from fedsel.wire import CloseRule

_WAIT = "being computed"


def guarantees(view: RunSnapshot, proofs: Proofs) -> Markup:
    """All that is known by now."""
    recipe, rule = view.state.recipe, view.task.close_after
    privacy = recipe.build().privacy
    total = privacy.charge * recipe.epochs if privacy.charge is not None else None
    entries = [
        tile(
            "Local ε of a report",
            epsilon(privacy.per_report),
            f"Exact, and proved for the integers that devices draw by. A ledger is charged "
            f"{privacy.charge}. It holds against everybody, this service included.",
        ),
        tile(
            "Local ε in total",
            epsilon(float(total) if total is not None else privacy.total),
            f"Of a device, which reports once{_each(recipe.epochs)}. Its own ledger sees to it.",
        ),
        _shuffled(rule, recipe.epochs, proofs),
        _influence(view, rule, proofs),
    ]
    return element("dl", *entries, class_="tiles guarantees")


def _each(epochs: int) -> str:
    return "" if epochs == 1 else f" in each of {epochs} epochs"


def _shuffled(rule: CloseRule, epochs: int, proofs: Proofs) -> Markup:
    name, reports = "Central, only if shuffled", promised(rule)
    condition = (
        "It holds only if a shuffler stands between the devices and this service, forwards no "
        "names, order or times, and mixes that many honest reports of a round. This service is no "
        "shuffler: who sends a report to it directly has the local ε."
    )
    if reports is None:
        nothing = "The rule by which rounds end promises no number of reports to hide among."
        return tile(name, "–", nothing)
    found = proofs.found.get("central")
    if found is None:
        return tile(name, "–" if proofs.over else _WAIT, condition)
    texts = [f"Among {counted(reports, 'report')} of one round. "]
    if epochs > 1:
        composed = proofs.found.get("composed")
        if composed is not None:
            texts = [f"Among {counted(reports, 'report')}, for one round. "]
            texts.append(f"For a report{_each(epochs)} {central(composed)}. ")
        elif proofs.over:
            texts.append(f"For all {epochs} epochs fedsel[accounting] is needed here. ")
    if rule.seconds is not None and rule.reports is not None:
        texts.append("A round that ends by time has fewer reports, and hides less. ")
    return tile(name, central(found), joined([*texts, condition]))


def _influence(view: RunSnapshot, rule: CloseRule, proofs: Proofs) -> Markup:
    name = "Influence of one report"
    found: Mapping[str, Any] | None = proofs.found.get("influence")
    if found is None:
        return tile(name, "–" if proofs.over else _WAIT, "On the mean of a round.")
    past = view.state.records[-1].accepted if view.round else 0
    reports = rule.reports or past or max(1, rule.least)
    length, entry = found["norm"] / reports, found["largest"] / reports
    return tile(
        name,
        f"at most {epsilon(length)}",
        f"So far can one report move the mean of a round of {reports:,}, in length; any one entry "
        f"by at most {epsilon(entry)}. This holds whatever its sender does; from where an honest "
        "report would have moved it, at most twice as far.",
    )
