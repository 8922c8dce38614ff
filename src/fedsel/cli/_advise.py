"""``fedsel advise``"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from fedsel._internal.progress import patience
from fedsel.cli._imports import ImportOption, import_solutions
from fedsel.cli._terminal import Column, JsonOption, fitted, output, print_json
from fedsel.recipe import RECOMMENDED

if TYPE_CHECKING:
    from fedsel.advising import Advice, Check, Outlook

EXAMPLE = (
    "Example: fedsel advise --dim 124 --clients 39000 --batch 390 --epsilon 1   ·   "
    "fedsel advise --dim 124 --clients 29305 --central 1 --delta 1e-6   ·   "
    "fedsel advise --dim 1000000 --clients 1000 --epsilon 1 --json"
)


def advise_command(
    dim: Annotated[int, typer.Option("--dim", "-d", help="d: entries of an update.")],
    clients: Annotated[int, typer.Option(help="N: clients in all.")],
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="Local ε of a client, in total.", show_default=False),
    ] = None,
    central: Annotated[
        float | None,
        typer.Option(
            help="Instead: the central ε that shuffled reports shall have. Computes the local ε "
            "that it allows, with a shuffler and without.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ of --central.", show_default="1e-6")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Clients of a round.", show_default="one in 100; --central: one in 20"),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help="Instead: rounds of an epoch.", show_default="100; --central: 20"),
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of --check.")] = 0,
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say beforehand which solution to take and whether training can work.

    The answer needs public quantities alone. Alignment is the cosine between the mean of the
    reports and the true mean update; 0.5 over all reports counts as usable (docs/advise.md).

    With --central the reports of a round are shuffled: fewer, larger rounds hide a report better
    and allow a larger local ε, but a model needs some rounds (docs/shuffling.md).
    """
    from fedsel.advising import advise

    import_solutions(imports)
    with patience("searching the local ε that a central one allows"):
        advice = advise(
            dim=dim,
            clients=clients,
            epsilon=epsilon,
            central=central,
            delta=delta,
            batch=batch,
            rounds=rounds,
            epochs=epochs,
            sparse=sparse,
            agreement=agreement,
            norm=norm,
            clip=clip,
            regression=regression,
        )
    checks: tuple[Check, ...] = ()
    if check:
        with patience("simulating") as notify:
            checks = advice.check(seed, lambda name: notify(f"simulating {name}"))
    if as_json:
        content = advice.as_dict()
        if check:
            content["checks"] = [{**asdict(c), "agrees": c.agrees} for c in checks]
        print_json(content)
    else:
        _show(advice, checks)


def _needed(outlook: Outlook) -> str:
    needed = outlook.clients_needed
    if needed is None:
        return "no number"
    return f"{needed:,}" if needed < 10**9 else f"{needed:.1e}"


def _name(outlook: Outlook) -> str:
    return outlook.name + ("" if outlook.takes == outlook.name else f" (as {outlook.takes})")


_COLUMNS = (
    Column("", lambda o: str(o.rank)),
    Column("solution", _name, text=True),
    Column("ε per report", lambda o: f"{o.epsilon_per_report:.4g}", weight=1),
    Column("μ", lambda o: "" if o.mu is None else f"{o.mu:.2g}", weight=0),
    Column("k", lambda o: "" if o.k is None else str(o.k), weight=0),
    Column("bits", lambda o: str(o.bits), weight=2),
    Column("noise/signal", lambda o: f"{o.noise:.3g}", weight=3),
    Column("alignment", lambda o: f"{o.alignment_round:.2g}", weight=4),
    Column("over all", lambda o: f"{o.alignment_all:.2g}"),
    Column("clients needed", _needed),
    Column("α", lambda o: f"{o.learning_rate:.3g}", weight=5),
)
"""The lightest are left out first on a narrow terminal."""

_CENTRALLY = tuple(replace(c, weight=None) if c.heading == "ε per report" else c for c in _COLUMNS)
"""Columns for a central goal, where the local ε of a report is the answer."""

_RUNGS = (
    Column("rounds", lambda r: f"{r.rounds:,}"),
    Column("reports a round", lambda r: f"{r.reports:,}"),
    Column("ε per report", lambda r: f"{r.local:.4g}"),
    Column("over all", lambda r: f"{r.alignment:.2g}"),
)

_COMPARED = (
    Column("solution", lambda c: c.name, text=True),
    Column("reports", lambda c: f"{c.reports:,}", weight=1),
    Column("rounds", lambda c: f"{c.rounds}", weight=0),
    Column("computed", lambda c: f"{c.computed:.3g}"),
    Column("measured", lambda c: f"{c.measured:.3g} ± {c.error:.1g}"),
    Column("", lambda c: "agrees" if c.agrees else "DIFFERS", text=True),
)


def _show(advice: Advice, checks: tuple[Check, ...]) -> None:
    console = output()
    kind = "sparse" if advice.sparse else "dense"
    central = advice.central
    goal = f"ε = {advice.epsilon:g}"
    if central is not None:
        goal = f"central ε = {central.epsilon:g} at δ = {central.delta:g} if shuffled,"
    title = (
        f"d = {advice.dim:,}, {advice.clients:,} clients, {advice.batch:,} a round, "
        f"{goal} over {advice.epochs} epoch{'s' if advice.epochs > 1 else ''}, "
        f"{kind} updates, agreement {advice.agreement:g}"
    )
    columns = _COLUMNS if central is None else _CENTRALLY
    console.print(fitted(console, columns, advice.outlooks, title=title))
    if central is not None:
        rungs = f"{advice.recommended}, shuffled, by the rounds of an epoch"
        console.print(fitted(console, _RUNGS, central.ladder, title=rungs))
    if checks:
        console.print(fitted(console, _COMPARED, checks, title="Simulated rounds"))
    console.print(f"Without privacy all updates would align {advice.without_privacy:.3g}.")
    console.print(f"Recommended: {advice.recommended}. {advice.reason}", highlight=False)
    for sentence in () if central is None else central.sentences(advice):
        console.print(sentence, highlight=False)
    if advice.recommended == RECOMMENDED:
        console.print(advice.codebook, highlight=False)
    console.print(advice.preparation, highlight=False)
    for warning in advice.warnings:
        console.print(f"Warning: {warning}", style="yellow", highlight=False)
