"""Several runs in one service: their paths, the page that lists them, and which run answers.

Each run is a whole service below ``/runs/NAME/``. A run that is alone is at the root, too.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from fedsel import __version__
from fedsel._internal.display import rendered
from fedsel.errors import InvalidArgument
from fedsel.service._http import (
    PROBLEM,
    PROBLEMS,
    RUN,
    RUNS,
    Answer,
    Application,
    Receive,
    RouteEntry,
    Scope,
    Send,
    cached_answer,
    json_answer,
    made,
    split_path,
    text_answer,
)
from fedsel.service._monitoring import CONTENT_TYPE, Metrics
from fedsel.service._openapi import root_document
from fedsel.service._pages import POLICY, style_route
from fedsel.service._snapshot import CachedBytes
from fedsel.service._task import Limits

if TYPE_CHECKING:
    from fedsel.service._front import Front, Served


def slug_of(name: str) -> str:
    """The name of a run in addresses.

    >>> [slug_of(name) for name in ("Who leaves? 2026", "café_7", "退会")]
    ['who-leaves-2026', 'cafe_7', 'run-cc57585c']
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    found = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-")
    return found or f"run-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


@final
@dataclass(frozen=True)
class Runs:
    """What is served, and the store of each."""

    served: tuple[Served, ...]
    stores: tuple[str, ...]

    def __post_init__(self) -> None:
        seen: dict[str, Served] = {}
        for one in self.served:
            other = seen.setdefault(slug_of(one.name), one)
            if other is not one:
                place = "" if one.file is None else f" in {one.file.name}"
                allowed = f"another one: {RUNS}{slug_of(one.name)} is the path of {other}"
                raise InvalidArgument(f"name{place}", one.name, allowed)

    @classmethod
    def of(cls, served: Served | Sequence[Served], store: str | Path | Sequence[str]) -> Self:
        """One or several; one store for all of them, or one for each."""
        several = tuple(served) if isinstance(served, Sequence) else (served,)
        if not several:
            raise InvalidArgument("task", several, "one task at least")
        if isinstance(store, str | Path):
            return cls(several, (str(store),) * len(several))
        if len(store) != len(several):
            allowed = f"one, or {len(several)}: one for each task"
            raise InvalidArgument("store", len(store), allowed)
        return cls(several, tuple(store))

    @cached_property
    def by_store(self) -> dict[str, list[Served]]:
        """What lies in each store."""
        found: dict[str, list[Served]] = {}
        for one, store in zip(self.served, self.stores, strict=True):
            found.setdefault(store, []).append(one)
        return found

    @cached_property
    def limits(self) -> Limits:
        """What clients may do to the process: as much as the most generous task allows."""
        names = [f.name for f in fields(Limits)]
        return Limits(**{n: max(getattr(one.limits, n) for one in self.served) for n in names})


@final
class Lobby:
    """What is at the root: which runs there are, and where."""

    def __init__(self, services: Mapping[str, Front[Any, Any]], metrics: Metrics) -> None:
        self._services, self._metrics = services, metrics

    def listed(self) -> list[dict[str, Any]]:
        """The runs as they are now; a path is relative to the root."""
        return [
            {**front.listed(), "path": f"{RUNS}{slug}/".removeprefix("/")}
            for slug, front in self._services.items()
        ]

    def routes(self) -> list[RouteEntry]:
        """The routes of a service with several runs."""
        return [
            ("GET", "/v1/runs", made(self.get_runs)),
            ("GET", "/v1/task", made(self._several)),
            ("GET", "/v1/openapi.json", made(lambda: json_answer(root_document()))),
            ("GET", "/", self._get_page),
            style_route(),
            *watching(self._metrics, self._ready),
        ]

    def get_runs(self) -> Answer:
        """All runs, for programs."""
        return json_answer({"runs": self.listed()})

    def _several(self) -> Answer:
        """Tell a device that asks here which addresses there are."""
        status, sentence = PROBLEMS["several_runs"]
        paths = [one["path"] for one in self.listed()]
        return json_answer({"error": "several_runs", "message": sentence, "paths": paths}, status)

    async def _get_page(self, scope: Scope, _: Receive) -> Answer:
        html = rendered("service/dashboard/runs.html", runs=self.listed(), version=__version__)
        return await cached_answer(
            CachedBytes(html.encode()), scope, b"text/html; charset=utf-8", POLICY
        )

    def _ready(self) -> Answer:
        """Ready as long as one run is: a run that fails must not take the others down."""
        runs = {slug: service.collector.available for slug, service in self._services.items()}
        return (
            json_answer({"status": "ready", "runs": runs})
            if any(runs.values())
            else PROBLEM["unavailable"]
        )


def watching(metrics: Metrics, ready: Callable[[], Answer]) -> list[RouteEntry]:
    """What machines ask: the same at the root and in every run, but for ``ready``."""
    return [
        ("GET", "/healthz", made(lambda: json_answer({"status": "alive"}))),
        ("GET", "/readyz", made(ready)),
        ("GET", "/metrics", made(lambda: text_answer(metrics.text(), CONTENT_TYPE))),
    ]


@final
class Dispatcher:
    """Leads a request to the run that its path names, and all others to the root.

    A run sees the path that it would have alone, as behind a proxy that takes a path away.
    """

    def __init__(self, root: Application, runs: Mapping[str, Application]) -> None:
        self.root, self._runs = root, runs
        self._alone = next(iter(runs)) if len(runs) == 1 else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or lead the application through its life."""
        app = self.root
        if scope["type"] == "http":
            run, path = split_path(scope["path"])
            if run:
                app = self._runs.get(run, PROBLEM["not_found"])
                if not path and run in self._runs:  # links on the page are relative
                    app = Answer(308, b"", ((b"location", f"{run}/".encode()),))
                scope["path"] = path
            scope[RUN] = run if run in self._runs else "" if run else self._alone
        await app(scope, receive, send)
