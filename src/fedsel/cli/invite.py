"""``fedsel invite``: invitations of devices and gateways, and the settings of a relay."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from fedsel._internal.extras import needed
from fedsel.cli._terminal import JsonOption, check_file, print_json
from fedsel.cli.serve import STORE_OPTION, is_new, place_of, plain_failures
from fedsel.device._connection import check_address
from fedsel.errors import InvalidArgument, check_count

if TYPE_CHECKING:
    from fedsel.service import Task
    from fedsel.service.inviting import Kind
    from fedsel.service.relay import RelayConfig

INVITE_EXAMPLE = (
    "Example: fedsel invite task.toml --count 100 --out tokens.txt   ·   "
    "fedsel invite task.toml --links https://learn.example   ·   "
    "fedsel invite task.toml --relay https://learn.example --out relay.toml"
)


def invite_command(
    task: Annotated[
        Path,
        typer.Argument(metavar="TASK", help="The task, a TOML file; or the settings of its relay."),
    ],
    store: Annotated[str | None, STORE_OPTION] = None,
    count: Annotated[int, typer.Option(help="How many invitations.")] = 1,
    gateway: Annotated[
        bool, typer.Option("--gateway", help="For gateways, which send many reports at a time.")
    ] = False,
    days: Annotated[
        float | None, typer.Option(help="Valid for so many days.", show_default="no end")
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Write links to the page of the service at this address, for people's browsers.",
            show_default="tokens",
        ),
    ] = None,
    relay: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Write the settings of a relay for the service at this address.",
            show_default="none",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file to write them to.", show_default="print them")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write invitations: signed tokens, one a line, each good for one report a round.

    They are secrets: give each to one device. The service may be running meanwhile. Behind a relay
    devices are invited by it: TASK is the settings of the relay.
    """
    with needed("service", "fedsel invite"):
        from fedsel.service import Task
        from fedsel.service.inviting import invitations
        from fedsel.service.relay import RelayConfig

    check_count("count", count, most=10_000_000)
    check_file("--out", out)
    page = None if links is None else _page(links, gateway)
    chosen = RelayConfig.load(task) if _is_of_relay(task) else Task.load(task)
    if relay is not None:
        if (count, gateway, days, links, as_json) != (1, False, None, None, False):
            allowed = "without --count, --gateway, --days, --links and --json"
            raise InvalidArgument("--relay", relay, allowed)
        _write_settings(chosen, place_of(task, store), relay, out)
        return
    if isinstance(chosen, Task) and chosen.shuffle is not None:
        allowed = "the settings of its relay, which invites its devices (or use --relay)"
        raise InvalidArgument("TASK", str(task), allowed)
    if isinstance(chosen, RelayConfig) and gateway:
        raise InvalidArgument("--gateway", True, "omitted: a relay takes reports one by one")
    keys = ""
    if isinstance(chosen, RelayConfig):
        keys = f"&server-key={chosen.server_key}&signing-key={chosen.signing_key}"
    place = place_of(task, store)
    if is_new(place):
        typer.echo(f"a new store begins with these: {place}", err=True)
    with plain_failures():
        kind: Kind = "gateway" if gateway else "device"
        tokens = invitations(chosen, place, count, kind, days)
    if page is not None:  # in the fragment: browsers never send it, so that no log holds it
        tokens = (f"{page}#token={token}{keys}" for token in tokens)
    if out is not None:
        _write_secret(out, (f"{token}\n" for token in tokens))
    if as_json:
        where = {"tokens": list(tokens)} if out is None else {"file": str(out)}
        print_json({"task": chosen.name, "count": count, **where}, indent=None)
    elif out is None:
        for token in tokens:
            typer.echo(token)
    else:
        typer.echo(f"{count} invitations to {chosen.name!r} in {out}")


def _is_of_relay(file: Path) -> bool:
    """Whether a file has the settings of a relay; any other is taken for a task."""
    try:
        return "service" in tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def _write_settings(chosen: Task | RelayConfig, store: str, service: str, out: Path | None) -> None:
    """Write or print the settings of a relay for a task."""
    from fedsel.service import Task
    from fedsel.service.inviting import relay_settings

    if not isinstance(chosen, Task):
        raise InvalidArgument("--relay", service, "omitted: TASK is the settings of a relay")
    if chosen.shuffle is None:
        allowed = f"omitted: {chosen} has no table [shuffle]"
        raise InvalidArgument("--relay", service, allowed)
    check_address("--relay", service)
    with plain_failures():
        settings = relay_settings(chosen, store, service)
    if out is None:
        typer.echo(settings, nl=False)
        return
    _write_secret(out, [settings])
    typer.echo(f"the relay of {chosen.name!r}: {out}, a secret, for fedsel relay {out}")


def _write_secret(file: Path, parts: Iterable[str]) -> None:
    """Write a file that its owner alone may read."""
    file.touch(mode=0o600)
    with file.open("w", encoding="utf-8") as written:
        written.writelines(parts)


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
