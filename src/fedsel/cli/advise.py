"""``fedsel advise``"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedsel.cli.common import JsonOption, output
from fedsel.cli.waiting import patience
from fedsel.recipe import RECOMMENDED

if TYPE_CHECKING:
    from fedsel.advising import Advice, Check, Outlook

EXAMPLE = (
    "Example: fedsel advise --dim 124 --clients 39000 --batch 390 --epsilon 1   ·   "
    "fedsel advise --dim 1000000 --clients 1000 --epsilon 1 --json"
)


def advise_command(
    dim: Annotated[int, typer.Option("--dim", "-d", help="d: entries of an update.")],
    clients: Annotated[int, typer.Option(help="N: clients in all.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε of a client, in total.")],
    batch: Annotated[
        int | None, typer.Option(help="Clients of a round. [default: one in a hundred]")
    ] = None,
    epochs: Annotated[int, typer.Option(help="E: reports of a client.")] = 1,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Updates have few entries that are not zero.")
    ] = False,
    agreement: Annotated[
        float, typer.Option(help="The norm of the mean update over that of one, in (0, 1].")
    ] = 0.2,
    norm: Annotated[float, typer.Option(help="The norm of a record; updates have 0.4 of it.")] = 1,
    clip: Annotated[float, typer.Option(help="The bound of one entry of an update.")] = 1,
    regression: Annotated[
        bool, typer.Option("--regression", help="Numbers are learnt, not classes.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Simulate clients and compare; some seconds.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of --check.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Tell beforehand which solution to take and whether training can work.

    From public quantities alone: alignment is the cosine of the mean of the reports with the true
    mean update; 0.5 over all reports is called usable. docs/advise.md explains the model.
    """
    from fedsel.advising import advise

    advice = advise(
        dim=dim,
        clients=clients,
        epsilon=epsilon,
        batch=batch,
        epochs=epochs,
        sparse=sparse,
        agreement=agreement,
        norm=norm,
        clip=clip,
        regression=regression,
    )
    checks = _check(advice, seed) if check else ()
    if as_json:
        content = advice.as_dict()
        if check:
            content["checks"] = [{**asdict(c), "agrees": c.agrees} for c in checks]
        typer.echo(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False))
        return
    _show(advice, checks)


def _check(advice: Advice, seed: int) -> tuple[Check, ...]:
    """Simulate; progress appears where it takes more than two seconds."""
    with patience("simulating") as notify:
        return advice.check(seed, lambda name: notify(f"simulating {name}"))


def _show(advice: Advice, checks: tuple[Check, ...]) -> None:
    kind = "sparse" if advice.sparse else "dense"
    table = Table(
        title=f"d = {advice.dim:,}, {advice.clients:,} clients, {advice.batch:,} a round, "
        f"ε = {advice.epsilon:g} over {advice.epochs} epoch{'s' if advice.epochs > 1 else ''}, "
        f"{kind} updates, agreement {advice.agreement:g}"
    )
    columns = ["", "solution", "ε a report", "μ", "k", "bits", "noise/signal", "alignment"]
    columns += ["over all", "clients needed", "α"]
    for name in columns:
        table.add_column(name, justify="left" if name == "solution" else "right")
    for outlook in advice.outlooks:
        table.add_row(*_row(outlook))
    console = output()
    console.print(table)
    if checks:
        console.print(_compared(checks))
    console.print(f"Without privacy all updates would align {advice.without_privacy:.3g}.")
    console.print(f"Recommended: {advice.recommended}. {advice.reason}", highlight=False)
    if advice.recommended == RECOMMENDED:
        console.print(advice.codebook, highlight=False)
    console.print(advice.preparation, highlight=False)
    for warning in advice.warnings:
        console.print(f"Warning: {warning}", style="yellow", highlight=False)


def _row(outlook: Outlook) -> list[str]:
    needed = outlook.clients_needed
    taken = "" if outlook.takes == outlook.name else f" (as {outlook.takes})"
    return [
        str(outlook.rank),
        outlook.name + taken,
        f"{outlook.epsilon_per_report:.4g}",
        "" if outlook.mu is None else f"{outlook.mu:.2g}",
        "" if outlook.k is None else str(outlook.k),
        str(outlook.bits),
        f"{outlook.noise:.3g}",
        f"{outlook.alignment_round:.2g}",
        f"{outlook.alignment_all:.2g}",
        "no number" if needed is None else f"{needed:,}" if needed < 10**9 else f"{needed:.1e}",
        f"{outlook.learning_rate:.3g}",
    ]


def _compared(checks: tuple[Check, ...]) -> Table:
    table = Table(title="Simulated rounds")
    for name in ("solution", "reports", "rounds", "computed", "measured", ""):
        table.add_column(name, justify="left" if name in ("solution", "") else "right")
    for check in checks:
        table.add_row(
            check.name,
            f"{check.reports:,}",
            f"{check.rounds}",
            f"{check.computed:.3g}",
            f"{check.measured:.3g} ± {check.error:.1g}",
            "agrees" if check.agrees else "DIFFERS",
        )
    return table
