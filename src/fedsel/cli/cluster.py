"""Work on a Dask cluster, for the commands that can be spread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument

ClusterOption = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler to run on, such as tcp://host:8786."),
]


@contextmanager
def on_cluster(cluster: str | None) -> Iterator[None]:
    """Send what joblib runs to a Dask cluster, if its address is given."""
    if cluster is None:
        yield
        return
    with needed("simulation", "a cluster"):
        import joblib

    try:
        with needed("cluster", "a cluster"):
            from distributed import Client
    except ImportError:
        wanted = 'left out, or pip install "fedsel[cluster]" first'
        raise InvalidArgument("--cluster", cluster, wanted) from None
    try:
        client = Client(cluster, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        wanted = "the address of a Dask scheduler that answers"
        raise InvalidArgument("--cluster", cluster, wanted) from None
    with client, joblib.parallel_config(backend="dask"):
        yield
