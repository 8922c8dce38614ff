"""``fedsel serve`` and ``fedsel invite``: a service that collects reports, and its invitations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from fedsel._internal.display import counted
from fedsel._internal.extras import needed
from fedsel._internal.progress import show_progress
from fedsel.cli._terminal import JsonOption, check_file, print_json, say_error
from fedsel.errors import InvalidArgument, check_count
from fedsel.server import CheckpointError

if TYPE_CHECKING:
    from fedsel.service import Task
    from fedsel.service.inviting import Kind
    from fedsel.service.running import Serving

SERVE_EXAMPLE = (
    "Example: fedsel serve task.toml   ·   "
    "fedsel serve task.toml --store postgresql://localhost/fedsel --workers 4 --host 0.0.0.0"
    "   ·   fedsel serve tasks/*.toml --store runs   ·   fedsel serve --demo"
)
INVITE_EXAMPLE = (
    "Example: fedsel invite task.toml --count 100 --out tokens.txt   ·   "
    "fedsel invite task.toml --links https://learn.example"
)
_DEMO = "Demo"
_Option, _DemoOption = typer.Option, partial(typer.Option, rich_help_panel=_DEMO)
_Task = partial(typer.Argument, metavar="TASK")
_Store = typer.Option(
    help="A folder for SQLite, or postgresql://…", show_default="TASK without .toml, + .store"
)


def serve_command(
    ctx: typer.Context,
    task: Annotated[
        list[Path] | None,
        _Task(help="The task, a TOML file; several are served each at its own path."),
    ] = None,
    store: Annotated[str | None, _Store] = None,
    host: Annotated[str, _Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, _Option(help="Its port; 0 takes any that is free.")] = 8000,
    workers: Annotated[int, _Option(help="Processes; more than 1 needs PostgreSQL.")] = 1,
    tls_cert: Annotated[
        Path | None, _Option(help="A certificate (PEM), for https.", show_default="http")
    ] = None,
    tls_key: Annotated[
        Path | None, _Option(help="Its private key (PEM).", show_default="none")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        _Option(help="A proxy whose X-Forwarded-For is believed; repeatable.", show_default="none"),
    ] = None,
    log_level: Annotated[str, _Option(help="debug, info, warning or error.")] = "info",
    demo: Annotated[
        bool,
        _DemoOption(
            "--demo", help="Show it all: a service on this machine, and devices that report to it."
        ),
    ] = False,
    devices: Annotated[int, _DemoOption(help="Devices, at most 100.")] = 50,
    epochs: Annotated[int, _DemoOption(help="Reports of a device, one a round.")] = 8,
    epsilon: Annotated[
        float, _DemoOption("--epsilon", "-e", help="ε of a device, over all its reports.")
    ] = 8.0,
    keep: Annotated[
        Path | None,
        _DemoOption(help="A new folder for task, ledgers and store.", show_default="none is kept"),
    ] = None,
    stay: Annotated[bool, _DemoOption("--stay", help="Serve the dashboard until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Collect reports over HTTP, close rounds, and serve the model, until interrupted.

    A report is durable before it is answered. Started again, the service goes on where it was.
    Several tasks have a page each, at /runs/NAME.
    """
    _check_meant(ctx, demo)
    if demo:
        with needed("service", "fedsel serve --demo"):
            from fedsel.cli._serve_demo import show_demo

        show_demo(devices, epochs, epsilon, keep, stay, as_json)
        return
    if not task:
        raise InvalidArgument("TASK", None, "a TOML file, unless you use --demo")
    with needed("service", "fedsel serve"):
        from fedsel.service import Task
        from fedsel.service.running import Serving, serve

    if log_level not in ("debug", "info", "warning", "error"):
        raise InvalidArgument("--log-level", log_level, "debug, info, warning or error")
    chosen = [Task.load(path) for path in task]
    places = tuple(_place(path, store) for path in task)
    serving = Serving(places, host, port, workers, tls_cert, tls_key, tuple(proxy or ()), log_level)
    show_progress(False)  # the log of a service is for programs
    with _plain_failures():
        serve(chosen, serving, lambda address: _say(chosen, address, serving, as_json))


def invite_command(
    task: Annotated[Path, _Task(help="The task, a TOML file.")],
    store: Annotated[str | None, _Store] = None,
    count: Annotated[int, _Option(help="How many invitations.")] = 1,
    gateway: Annotated[
        bool, _Option("--gateway", help="For gateways, which send many reports at a time.")
    ] = False,
    days: Annotated[
        float | None, _Option(help="Valid for so many days.", show_default="no end")
    ] = None,
    links: Annotated[
        str | None,
        _Option(
            metavar="ADDRESS",
            help="Write links to the page of the service at this address, for people's browsers.",
            show_default="tokens",
        ),
    ] = None,
    out: Annotated[
        Path | None, _Option(help="A file to write them to.", show_default="print them")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write invitations: signed tokens, one a line, each good for one report a round.

    They are secrets: give each to one device. The service may be running meanwhile.
    """
    with needed("service", "fedsel invite"):
        from fedsel.service import Task
        from fedsel.service.inviting import invitations

    check_count("count", count, most=10_000_000)
    check_file("--out", out)
    page = None if links is None else _page(links, gateway)
    chosen = Task.load(task)
    with _plain_failures():
        kind: Kind = "gateway" if gateway else "device"
        tokens = invitations(chosen, _place(task, store), count, kind, days)
    if page is not None:  # in the fragment: browsers never send it, so that no log holds it
        tokens = (f"{page}#token={token}" for token in tokens)
    if out is not None:
        out.touch(mode=0o600)
        with out.open("w", encoding="ascii") as file:
            file.writelines(f"{token}\n" for token in tokens)
    if as_json:
        where = {"tokens": list(tokens)} if out is None else {"file": str(out)}
        print_json({"task": chosen.name, "count": count, **where}, indent=None)
    elif out is None:
        for token in tokens:
            typer.echo(token)
    else:
        typer.echo(f"{count} invitations to {chosen.name!r} in {out}")


def _page(address: str, gateway: bool) -> str:
    """The page where people take part, of the service at an address."""
    if gateway:
        raise InvalidArgument("--links", address, "omitted with --gateway")
    parts = urlsplit(address)
    whole = parts.scheme in ("http", "https") and parts.netloc
    if not whole or parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", address):
        raise InvalidArgument(
            "--links", address, "the address of the service, such as https://learn.example"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/join"


def _check_meant(ctx: typer.Context, demo: bool) -> None:
    """Refuse an option that would be ignored: of the demo without it, all others with it."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        of_demo = getattr(parameter, "rich_help_panel", None) == _DEMO
        if given and name != "as_json" and of_demo != demo:
            allowed = "omitted with --demo" if demo else "omitted without --demo"
            value = "…" if name == "store" else ctx.params[name]  # it may hold a password
            if name == "task":
                value = " ".join(map(str, value))
            raise InvalidArgument(name, str(value) if isinstance(value, Path) else value, allowed)


def _place(task: Path, store: str | None) -> str:
    return str(task.with_suffix(".store")) if store is None else store


@contextmanager
def _plain_failures() -> Iterator[None]:
    """Print what is wrong with the store in one sentence."""
    from fedsel.service._store import StoreUnavailable

    try:
        yield
    except (CheckpointError, StoreUnavailable) as error:
        say_error(f"the store cannot be used: {error}")
        raise typer.Exit(1) from None


def _say(tasks: list[Task], address: str, serving: Serving, as_json: bool) -> None:
    """Print what is served, where: for people, or as one line for programs."""
    from fedsel.service._runs import slug_of
    from fedsel.service._store import shown

    runs = [
        {
            "address": address if len(tasks) == 1 else f"{address}/runs/{slug_of(task.name)}",
            "task": task.name,
            "store": shown(place),
            "rounds": task.begin.recipe.epochs * task.rounds_per_epoch,
            "epsilon_per_report": float(task.begin.recipe.build().privacy.per_report),
        }
        for task, place in zip(tasks, serving.store, strict=True)
    ]
    if as_json:
        print_json(runs[0] if len(runs) == 1 else {"address": address, "runs": runs}, indent=None)
        return
    if len(runs) > 1:
        typer.echo(f"{address} lists {len(runs)} runs, each with a page of its own:")
    for task, run in zip(tasks, runs, strict=True):
        for line in _described(task, run):
            typer.echo(line)
    typer.echo(
        f"to watch: {address}/, the API: {run['address']}/v1/openapi.json, figures: "
        f"{address}/metrics, {counted(serving.workers, 'worker')}"
    )
    typer.echo("Ctrl-C ends it.")


def _described(task: Task, run: dict[str, Any]) -> Iterator[str]:
    """One run for people."""
    recipe, rule, address = task.begin.recipe, task.close_after, run["address"]
    yield (
        f"{address} collects reports for {task.name!r}: {recipe.solution}, d = {recipe.dim}, "
        f"ε = {run['epsilon_per_report']:g} a report"
    )
    ends = [counted(rule.reports, "report")] if rule.reports is not None else []
    if rule.seconds is not None:
        ends.append(f"{rule.seconds:g} seconds and {counted(rule.least, 'report')}")
    rounds = counted(run["rounds"], "round")
    yield f"  {rounds}, each closed after {' or '.join(ends)}; store: {run['store']}"
    open_to_all = task.invitations == "open"
    invite = f"devices need invitations: fedsel invite {task.file} --store {run['store']}"
    yield "  anyone may take part" if open_to_all else f"  {invite}"
    if task.schema is not None:
        yield f"  in a browser: {address}/join"
    yield f"  the model: {address}/v1/model.json, which fedsel predict reads"
