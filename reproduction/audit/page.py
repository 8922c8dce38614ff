"""The audit of all mechanisms as an HTML page: claims, exact losses and attacks."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from fedsel import __version__
from fedsel.pages import Section, Table, render
from reproduction.audit.suite import Row, all_sound

_COLUMNS = ("mechanism", "d", "k", "claimed ε", "exact ε", "lower bound", "verdict")
_ERROR = "Each lower bound is above the true ε with a chance of at most 1e-09."


def suite_page(rows: Sequence[Row], *, trials: int, seed: int) -> str:
    """Render the rows of an audit as a self-contained HTML page."""
    local = [row for row in rows if row.reports is None]
    shuffled = [row for row in rows if row.reports is not None]
    sound = "No experiment contradicts an exact ε, and every claim of fedsel holds."
    return render(
        [
            Section(
                "local",
                "One report: against everybody",
                text=(
                    "Claimed is what a mechanism says, exact its loss over all inputs and outputs"
                    " in rational arithmetic, lower bound what an attack by experiment proves. "
                    + _ERROR,
                ),
                tables=(Table("Local ε", _COLUMNS, tuple(map(_cells, local))),),
            ),
            *((_shuffled_section(shuffled),) if shuffled else ()),
        ],
        title="Audit of the mechanisms of fedsel",
        summary=[sound if all_sound(rows) else "AN EXPERIMENT OR A CERTIFICATE REFUTES A CLAIM."],
        facts={
            "cases": str(len(rows)),
            "trials on each side": f"{trials:,}",
            "seed": str(seed),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "fedsel": __version__,
        },
    )


def _shuffled_section(rows: Sequence[Row]) -> Section:
    return Section(
        "shuffled",
        "A few shuffled reports: against an observer of the shuffled ones alone",
        text=(
            f"All ε are central ones at δ = {rows[0].delta:g}. Claimed is what fedsel.amplify"
            " proves for all inputs of all clients. Exact is the loss for the worst inputs tried,"
            " by listing every multiset of reports. Lower bound is what an attack on the multiset"
            " proves. " + _ERROR,
        ),
        tables=(Table("Central ε", _COLUMNS, tuple(map(_cells, rows))),),
    )


def _cells(row: Row) -> tuple[str | int | float | None, ...]:
    numbers = (row.claimed, row.exact, row.lower_bound)
    shown = (None if x is None else f"{x:.4f}" for x in numbers)
    return (row.name, row.d, row.k, *shown, row.verdict)
