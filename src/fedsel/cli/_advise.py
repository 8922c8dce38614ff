"""``fedsel advise``"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fedsel._internal.settings import check_omitted
from fedsel.cli._imports import ImportOption, import_solutions
from fedsel.cli._terminal import JsonOption, output, print_json
from fedsel.errors import InvalidArgument
from fedsel.pages import Table
from fedsel.recipe import RECOMMENDED

if TYPE_CHECKING:
    from fedsel.advising import Advice, Check, Outlook, Rung

EXAMPLE = (
    "Example: fedsel advise --dim 124 --clients 39000 --batch 390 --epsilon 1   ·   "
    "fedsel advise --dim 124 --clients 29305 --central 1 --delta 1e-6   ·   "
    "fedsel advise --dim 1000000 --clients 1000 --epsilon 1 --json   ·   "
    "fedsel advise --question histogram --levels 20 --clients 5000 --epsilon 1"
)
_SHARED = ("question", "levels", "clients", "epsilon", "central", "delta", "as_json")
"""What advice on a question asks for; all other options are about training."""


def advise_command(
    ctx: typer.Context,
    clients: Annotated[int, typer.Option(help="N: clients in all.")],
    dim: Annotated[
        int | None,
        typer.Option("--dim", "-d", help="d: entries of an update.", show_default=False),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            help="Instead: a question that is asked, its kind as in fedsel ask. Says how exact the "
            "answers will be.",
            show_default=False,
        ),
    ] = None,
    levels: Annotated[
        int | None,
        typer.Option(help="How many answers --question has.", show_default="quantiles: 16"),
    ] = None,
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
    drop_out: Annotated[
        float, typer.Option(help="Relay: the share of the clients that does not report.")
    ] = 0,
    dishonest: Annotated[
        float, typer.Option(help="Relay: the share of n_min that may work for the service.")
    ] = 0.1,
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
    from fedsel.advising import advise, advise_question

    if question is not None:
        _refuse_training(ctx)
        answers = advise_question(
            question, levels=levels, clients=clients, epsilon=epsilon, central=central, delta=delta
        )
        if as_json:
            print_json(answers.as_dict())
        for sentence in () if as_json else answers.sentences:
            output().print(sentence, highlight=False)
        return
    check_omitted("omitted without --question", levels=levels)
    if dim is None:
        raise InvalidArgument("dim", None, "the entries of an update, unless --question is given")
    import_solutions(imports)
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
        drop_out=drop_out,
        dishonest=dishonest,
    )
    checks = advice.check(seed) if check else ()
    if as_json:
        content = advice.as_dict()
        if check:
            content["checks"] = [{**asdict(c), "agrees": c.agrees} for c in checks]
        print_json(content)
    else:
        _show(advice, checks)


def _refuse_training(ctx: typer.Context) -> None:
    """Refuse options that would be ignored."""
    for name, value in ctx.params.items():
        source = ctx.get_parameter_source(name)
        if name not in _SHARED and source is not None and source.name != "DEFAULT":
            raise InvalidArgument(name, value, "omitted with --question, which trains nothing")


def _needed(outlook: Outlook) -> str:
    needed = outlook.clients_needed
    if needed is None:
        return "no number"
    return f"{needed:,}" if needed < 10**9 else f"{needed:.1e}"


def _ranking(advice: Advice, title: str) -> Table:
    rows = tuple(
        (
            o.rank,
            o.name + ("" if o.takes == o.name else f" (as {o.takes})"),
            f"{o.epsilon_per_report:.4g}",
            None if o.mu is None else f"{o.mu:.2g}",
            o.k,
            o.bits,
            f"{o.noise:.3g}",
            f"{o.alignment_round:.2g}",
            f"{o.alignment_all:.2g}",
            _needed(o),
            f"{o.learning_rate:.3g}",
        )
        for o in advice.outlooks
    )
    columns = ("", "solution", "ε per report", "μ", "k", "bits", "noise/signal", "alignment")
    # With a central goal the local ε of a report is what is asked for.
    own = () if advice.central else ("ε per report",)
    return Table(
        title,
        (*columns, "over all", "clients needed", "α"),
        rows,
        optional=("μ", "k", *own, "bits", "noise/signal", "alignment", "α"),
    )


def _ladder(rungs: tuple[Rung, ...], name: str) -> Table:
    rows = tuple((r.rounds, r.reports, f"{r.local:.4g}", f"{r.alignment:.2g}") for r in rungs)
    columns = ("rounds", "reports a round", "ε per report", "over all")
    return Table(f"{name}, shuffled, by the rounds of an epoch", columns, rows)


def _compared(checks: tuple[Check, ...]) -> Table:
    rows = tuple(
        (
            c.name,
            c.reports,
            c.rounds,
            f"{c.computed:.3g}",
            f"{c.measured:.3g} ± {c.error:.1g}",
            "agrees" if c.agrees else "DIFFERS",
        )
        for c in checks
    )
    columns = ("solution", "reports", "rounds", "computed", "measured", "")
    return Table("Simulated rounds", columns, rows, optional=("rounds", "reports"))


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
    console.print(_ranking(advice, title))
    if central is not None:
        console.print(_ladder(central.ladder, advice.recommended))
    if checks:
        console.print(_compared(checks))
    console.print(f"Without privacy all updates would align {advice.without_privacy:.3g}.")
    console.print(f"Recommended: {advice.recommended}. {advice.reason}", highlight=False)
    of_goal = () if central is None else central.sentences(advice)
    for sentence in (*of_goal, *advice.relay_sentences):
        console.print(sentence, highlight=False)
    if advice.recommended == RECOMMENDED:
        console.print(advice.codebook, highlight=False)
    console.print(advice.preparation, highlight=False)
    for warning in advice.warnings:
        console.print(f"Warning: {warning}", style="yellow", highlight=False)
