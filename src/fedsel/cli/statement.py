"""``fedsel statement``: what a run of ``fedsel serve`` has asked, and what that means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsel._internal.extras import needed
from fedsel.cli._terminal import JsonOption, check_file, print_json
from fedsel.cli.serve import STORE_OPTION, is_new, place_of, plain_failures
from fedsel.errors import InvalidArgument
from fedsel.pages import write_page

EXAMPLE = (
    "Example: fedsel statement task.toml   ·   fedsel statement task.toml --html statement.html"
)


def statement_command(
    task: Annotated[Path, typer.Argument(metavar="TASK", help="The task, a TOML file.")],
    store: Annotated[str | None, STORE_OPTION] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page, to print.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """State what a run has asked of its clients, what that costs, and whom they have to trust.

    The service may be running meanwhile. A run behind a relay has both numbers.
    """
    with needed("service", "fedsel statement"):
        from fedsel.service import Task
        from fedsel.service._store import open_store
        from fedsel.service._training import opened
    from fedsel.statements import RunStatement

    check_file("--html", html)
    chosen, place = Task.load(task), place_of(task, store)
    if is_new(place):
        raise InvalidArgument("--store", place, "the store of a service")
    with plain_failures():
        kept = open_store(place, alone=False)
        try:
            if not kept.choose(chosen.name):
                known = ", ".join(map(repr, kept.names())) or "no run"
                raise InvalidArgument("TASK", chosen.name, f"in the store, which has {known}")
            made = RunStatement.of(opened(chosen, kept))
        finally:
            kept.close()
    if html is not None:
        write_page(html, made.to_html())
    if as_json:
        print_json(made.to_dict())
    else:
        typer.echo(str(made))
        if html is not None:
            typer.echo(f"written: {html}")
