"""``fedsel serve`` and ``fedsel relay``: a service, and what stands between it and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsel._internal.display import counted, printable
from fedsel._internal.extras import needed
from fedsel._internal.progress import show_progress
from fedsel.cli._terminal import JsonOption, print_json, say_error
from fedsel.errors import InvalidArgument
from fedsel.server import CheckpointError

if TYPE_CHECKING:
    from fedsel.service import Task
    from fedsel.service._front import Served
    from fedsel.service.relay import RelayConfig
    from fedsel.service.running import Serving

SERVE_EXAMPLE = (
    "Example: fedsel serve task.toml   ·   "
    "fedsel serve task.toml --store postgresql://localhost/fedsel --workers 4 --host 0.0.0.0"
    "   ·   fedsel serve tasks/*.toml --store runs   ·   fedsel serve --demo --relay"
)
RELAY_EXAMPLE = (
    "Example: fedsel relay relay.toml   ·   "
    "fedsel relay relay.toml --store postgresql://localhost/fedsel --workers 2 --host 0.0.0.0"
)
_DEMO = "Demo"
_Option, _DemoOption = typer.Option, partial(typer.Option, rich_help_panel=_DEMO)
_Task = partial(typer.Argument, metavar="TASK")
STORE_OPTION = typer.Option(
    help="A folder for SQLite, or postgresql://…", show_default="TASK without .toml, + .store"
)


_Host = Annotated[str, _Option(help="The address to listen at.")]
_Port = Annotated[int, _Option(help="Its port; 0 takes any that is free.")]
_Workers = Annotated[int, _Option(help="Processes; more than 1 needs PostgreSQL.")]
_Cert = Annotated[Path | None, _Option(help="A certificate (PEM), for https.", show_default="http")]
_Key = Annotated[Path | None, _Option(help="Its private key (PEM).", show_default="none")]
_Proxy = Annotated[
    list[str] | None,
    _Option(help="A proxy whose X-Forwarded-For is believed; repeatable.", show_default="none"),
]
_LogLevel = Annotated[str, _Option(help="debug, info, warning or error.")]
_RELAY_STORE = typer.Option(
    help="A folder for SQLite, or postgresql://…", show_default="RELAY without .toml, + .store"
)


def serve_command(
    ctx: typer.Context,
    task: Annotated[
        list[Path] | None,
        _Task(help="The task, a TOML file; several are served each at its own path."),
    ] = None,
    store: Annotated[str | None, STORE_OPTION] = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    workers: _Workers = 1,
    tls_cert: _Cert = None,
    tls_key: _Key = None,
    proxy: _Proxy = None,
    log_level: _LogLevel = "info",
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
    relay: Annotated[
        bool, _DemoOption("--relay", help="Devices talk to a relay alone, and it to the service.")
    ] = False,
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

        show_demo(devices, epochs, epsilon, relay, keep, stay, as_json)
        return
    if not task:
        raise InvalidArgument("TASK", None, "a TOML file, unless you use --demo")
    with needed("service", "fedsel serve"):
        from fedsel.service import Task

    chosen = [Task.load(path) for path in task]
    about = (host, port, workers, tls_cert, tls_key, tuple(proxy or ()), log_level)
    serving = _serving(task, store, *about)
    new = [is_new(place) for place in serving.store]
    _serve(chosen, serving, lambda address: _say(chosen, address, serving, new, as_json))


def relay_command(
    relay: Annotated[
        list[Path],
        typer.Argument(metavar="RELAY", help="The settings of the relay, a TOML file; or several."),
    ],
    store: Annotated[str | None, _RELAY_STORE] = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    workers: _Workers = 1,
    tls_cert: _Cert = None,
    tls_key: _Key = None,
    proxy: _Proxy = None,
    log_level: _LogLevel = "info",
    as_json: JsonOption = False,
) -> None:
    """Stand between devices and a service: know who reports, and not what, until interrupted.

    Devices send sealed reports; a round is released whole and shuffled, with n_min reports or
    never. fedsel invite TASK --relay writes the settings. Started again, the relay goes on.
    """
    with needed("service", "fedsel relay"):
        from fedsel.service.relay import RelayConfig

    chosen = [RelayConfig.load(path) for path in relay]
    about = (host, port, workers, tls_cert, tls_key, tuple(proxy or ()), log_level)
    serving = _serving(relay, store, *about)
    new = [is_new(place) for place in serving.store]
    _serve(chosen, serving, lambda address: _say_relay(chosen, address, serving, new, as_json))


def _serving(files: list[Path], store: str | None, *about: Any) -> Serving:
    from fedsel.service.running import Serving

    if about[-1] not in ("debug", "info", "warning", "error"):
        raise InvalidArgument("--log-level", about[-1], "debug, info, warning or error")
    return Serving(tuple(place_of(path, store) for path in files), *about)


def _serve(served: Sequence[Served], serving: Serving, ready: Callable[[str], object]) -> None:
    from fedsel.service.running import serve

    show_progress(False)  # the log of a service is for programs
    with plain_failures():
        serve(served, serving, ready)


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


def place_of(task: Path, store: str | None) -> str:
    """The store of a task."""
    return str(task.with_suffix(".store")) if store is None else store


def is_new(store: str) -> bool:
    """Whether a store is a folder that is not there yet: its name may be mistyped."""
    return "://" not in store and not Path(store).exists()


@contextmanager
def plain_failures() -> Iterator[None]:
    """Print what is wrong with the store in one sentence."""
    from fedsel.service._store import StoreUnavailable

    try:
        yield
    except (CheckpointError, StoreUnavailable) as error:
        say_error(f"the store cannot be used: {error}")
        raise typer.Exit(1) from None


def _say(tasks: list[Task], address: str, serving: Serving, new: list[bool], as_json: bool) -> None:
    """Print what is served, where: for people, or as one line for programs."""
    from fedsel.service._runs import slug_of
    from fedsel.service._store import shown

    runs = [
        {
            "address": address if len(tasks) == 1 else f"{address}/runs/{slug_of(task.name)}",
            "task": task.name,
            "store": shown(place),
            "new_store": fresh,
            "rounds": task.begin.recipe.epochs * task.rounds_per_epoch,
            "epsilon_per_report": float(task.begin.recipe.build().privacy.per_report),
            "epsilon": float(task.begin.recipe.epsilon or 0),
            "central_epsilon": None if task.shuffle is None else task.shuffled_epsilon,
        }
        for task, place, fresh in zip(tasks, serving.store, new, strict=True)
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


def _say_relay(
    relays: list[RelayConfig], address: str, serving: Serving, new: list[bool], as_json: bool
) -> None:
    """Print what is relayed, where: for people, or as one line for programs."""
    from fedsel.service._runs import slug_of
    from fedsel.service._store import shown

    runs = [
        {
            "address": address if len(relays) == 1 else f"{address}/runs/{slug_of(relay.name)}",
            "relay": relay.name,
            "service": relay.service,
            "run": relay.run,
            "store": shown(place),
            "new_store": fresh,
        }
        for relay, place, fresh in zip(relays, serving.store, new, strict=True)
    ]
    if as_json:
        print_json(runs[0] if len(runs) == 1 else {"address": address, "runs": runs}, indent=None)
        return
    for relay, run in zip(relays, runs, strict=True):
        typer.echo(f"{run['address']} relays {relay.name!r} to {relay.service}")
        typer.echo(f"  devices need invitations: fedsel invite {relay.file} --store {run['store']}")
        typer.echo(f"  their policies need: server_key = {relay.server_key}")
        typer.echo(f"                       signing_key = {relay.signing_key}")
        typer.echo(f"  in a browser: {run['address']}/join; {_store_of(run)}")
    typer.echo(
        f"to watch: {address}/, the API: {runs[0]['address']}/v1/openapi.json, figures: "
        f"{address}/metrics, {counted(serving.workers, 'worker')}"
    )
    typer.echo("Ctrl-C ends it.")


def _store_of(run: dict[str, Any]) -> str:
    return f"{'a new store' if run['new_store'] else 'store'}: {run['store']}"


def _described(task: Task, run: dict[str, Any]) -> Iterator[str]:
    """One run for people."""
    from fedsel.auto import FAILURE
    from fedsel.service._task import DROP_OUT

    recipe, rule, address = task.begin.recipe, task.release, run["address"]
    what = f"collects reports for {task.name!r}: {recipe.solution}, d = {recipe.dim}"
    result = f"model: {address}/v1/model.json, which fedsel predict reads"
    if task.question is not None:
        what = f"asks in {task.name!r}: {printable(task.question)}"
        result = f"answers: {address}/v1/rounds, and drawn at {address}/"
    yield f"{address} {what}, ε = {run['epsilon_per_report']:g} a report"
    ends = [counted(rule.reports, "report")] if rule.reports is not None else []
    if rule.seconds is not None:
        ends.append(f"{rule.seconds:g} seconds and {counted(rule.least, 'report')}")
    rounds = counted(run["rounds"], "round")
    yield f"  {rounds}, each closed after {' or '.join(ends)}; {_store_of(run)}"
    measuring = task.begin.measuring
    if measuring is not None:
        yield f"  {measuring.said(task.clients, task.rounds_per_epoch)}"
    if task.shuffle is not None:
        both = task.shuffle.said(task.shuffled_epsilon, run["epsilon"])
        yield f"  reports come by a relay: {both}"
        yield f"  {task.shuffle.condition}"
        chance = "less than 1 in 1,000" if task.waiting < FAILURE else f"about {task.waiting:.2g}"
        yield (
            f"  if {100 * DROP_OUT:g} % of {task.clients:,} clients drop out, the probability that"
            f" some round has to wait for its {task.needed:,} reports is {chance}"
        )
        settings = f"fedsel invite {task.file} --store {run['store']} --relay ADDRESS"
        yield f"  settings of the relay, and both keys: {settings} --out relay.toml"
        yield f"  the {result}"
        return
    open_to_all = task.invitations == "open"
    invite = f"devices need invitations: fedsel invite {task.file} --store {run['store']}"
    yield "  anyone may take part" if open_to_all else f"  {invite}"
    if task.schema is not None or task.question is not None:
        yield f"  in a browser: {address}/join"
    yield f"  the {result}"
