"""``fedsel flower``: fedsel on the Flower engine."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedsel._internal.display import printable
from fedsel._internal.extras import needed
from fedsel.cli.commands import App
from fedsel.cli.common import JsonOption, output
from fedsel.cli.processes import ProcessError, unwinding
from fedsel.cli.waiting import Bar
from fedsel.errors import InvalidArgument
from fedsel.recipe import RECOMMENDED

if TYPE_CHECKING:
    from fedsel.cli.flower.demo import Demo, Summary

flower_app = App(
    help="fedsel on the Flower engine.",
    epilog="Example: fedsel flower demo   ·   fedsel flower demo --nodes 4 --epsilon 4 --json",
)


@flower_app.callback()
def flower() -> None:
    """fedsel on the Flower engine."""


@flower_app.command(
    epilog="Example: fedsel flower demo   ·   fedsel flower demo --nodes 4 --epsilon 4 --json"
)
def demo(
    nodes: Annotated[int, typer.Option(help="SuperNodes, at most 8.")] = 3,
    epochs: Annotated[int, typer.Option(help="Reports of a node, one a round.")] = 4,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="ε of a node, over all its reports.")
    ] = 8.0,
    solution: Annotated[str, typer.Option(help="A private solution.")] = RECOMMENDED,
    model: Annotated[str, typer.Option(help="logistic, or mlp (needs torch).")] = "logistic",
    dataset: Annotated[str, typer.Option(help="syn, or an .npz file with bounds.")] = "syn",
    features: Annotated[int, typer.Option(help="Features of syn.")] = 10,
    keep: Annotated[
        Path | None,
        typer.Option(help="A new folder for logs and ledgers.", show_default="none is kept"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a SuperLink and SuperNodes here, train on private reports, stop all, and sum up.

    Real processes on loopback; about 40 seconds. Each node holds thousands of records and counts
    as one client: ε protects all of them together. Ctrl-C ends every process.
    """
    with needed("flower", "fedsel flower"):
        from fedsel.cli.flower.demo import Demo

    chosen = Demo(nodes, epochs, epsilon, solution, model, dataset, features)
    if keep is not None:
        if keep.exists():
            raise InvalidArgument("--keep", str(keep), "a folder that does not exist yet")
        keep.mkdir(parents=True)
    flower = logging.getLogger("flwr")
    level = flower.level
    flower.setLevel(logging.ERROR)
    try:
        with unwinding():
            summary = _watched(chosen, keep)
    except ProcessError as error:
        typer.echo(f"fedsel: {printable(error, lines=True)}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("fedsel: interrupted; every process was ended", err=True)
        raise typer.Exit(130) from None
    finally:
        flower.setLevel(level)
    if as_json:
        typer.echo(json.dumps(summary.as_dict(), indent=1, allow_nan=False))
    else:
        _show(chosen, summary)


def _watched(chosen: Demo, keep: Path | None) -> Summary:
    with Bar(chosen.epochs, "starting the SuperLink") as bar:
        return chosen.run(
            lambda now, done: bar.update(now, completed=done),
            None if keep is None else keep.resolve(),
        )


def _show(chosen: Demo, summary: Summary) -> None:
    console = output()
    console.print(
        f"{summary.solution}, d = {summary.dim}, ε = {summary.epsilon_per_report} a report, "
        f"{chosen.nodes} SuperNodes, α = {summary.learning_rate:.3g} from public quantities"
    )
    table = Table(title="The model" + (", averaged over the rounds" if summary.averaging else ""))
    for heading in ("round", "accuracy", "plain FedAvg"):
        table.add_column(heading, justify="right")
    for number, pair in enumerate(zip(summary.accuracy, summary.fedavg_accuracy, strict=True), 1):
        table.add_row(str(number), *(f"{100 * x:.1f} %" for x in pair))
    console.print(table)
    table = Table(title="The ledgers")
    for heading in ("node", "reports", "ε spent", "ε left"):
        table.add_column(heading, justify="right")
    for node in summary.nodes:
        table.add_row(str(node.node), str(node.reports), node.spent, node.left)
    console.print(table)
    ratio = summary.fedavg_reply_bytes / max(1.0, summary.reply_bytes)
    console.print(
        f"A reply has {summary.reply_bytes:.0f} bytes ({summary.report_bytes} of report), of plain "
        f"FedAvg {summary.fedavg_reply_bytes}: {ratio:.1f} times as many."
    )
    if summary.refusals:
        console.print(f"Refusals: {summary.refusals}")
    console.print("ε protects all records of a node together, not the single record.")
    console.print(f"{summary.seconds:.0f} seconds")
