"""The dashboard of one process: what it answers, and what it computes once for all who look."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, final
from urllib.parse import parse_qs

from fedsel.service._collector import Collector
from fedsel.service._http import Answer, Application, Receive, Refusal, Scope, cached_answer
from fedsel.service.dashboard import parts
from fedsel.service.dashboard.live import Live, Told
from fedsel.service.dashboard.page import POLICY, render
from fedsel.service.dashboard.privacy import guarantees
from fedsel.service.dashboard.progress import rows
from fedsel.service.dashboard.proving import Proofs
from fedsel.service.task import Task
from fedsel.service.view import CachedBytes, RunSnapshot

ROUNDS_SHOWN = 50
_NUMBER = re.compile(r"[1-9][0-9]{0,9}")


@final
class Dashboard:
    """Handlers of the page, its files and its events; ``now`` is what programs are told."""

    def __init__(
        self,
        task: Task,
        collector: Callable[[], Collector],
        now: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._of, self._now = collector, now
        self._proofs = Proofs(task.begin.recipe, task.close_after)
        self._live = Live(self._look, task.limits.listeners)
        self._of_round: tuple[RunSnapshot, dict[str, str]] | None = None

    def stop(self) -> None:
        """End what is still being computed."""
        self._proofs.stop()

    @property
    def _collector(self) -> Collector:
        """There once the application has started."""
        return self._of()

    async def get_page(self, scope: Scope, receive: Receive) -> Answer:
        """The page, with the latest rounds or those before one."""
        del receive
        self._proofs.begin()
        view = self._collector.view
        html = render(view, self._fragments(view), self._older(view, scope), time.time())
        answer = await cached_answer(CachedBytes(html.encode()), scope, b"text/html; charset=utf-8")
        return answer._replace(headers=(*answer.headers, POLICY))

    async def get_style(self, scope: Scope, receive: Receive) -> Answer:
        """Its style sheet."""
        del receive
        return await cached_answer(_style(), scope, b"text/css; charset=utf-8")

    async def get_script(self, scope: Scope, receive: Receive) -> Answer:
        """Its script, which only replaces what the events send anew."""
        del receive
        return await cached_answer(_script(), scope, b"text/javascript; charset=utf-8")

    async def get_events(self, scope: Scope, receive: Receive) -> Application:
        """What changes, as it changes."""
        del scope, receive
        self._proofs.begin()
        return self._live.listener()

    def _look(self) -> Told:
        return self._now(), self._fragments(self._collector.view)

    def _fragments(self, view: RunSnapshot) -> dict[str, str]:
        """All live parts of the page; those of past rounds are made once a round."""
        if self._of_round is None or self._of_round[0] is not view:
            self._of_round = view, _of_past(view)
        collector = self._collector
        return {
            "state": parts.state(view, collector.place, time.time(), collector.available),
            "counts": parts.counts_rows(view, collector.place),
            "said": parts.said(view, collector.available),
            "privacy": guarantees(view, self._proofs),
            **self._of_round[1],
        }

    def _older(self, view: RunSnapshot, scope: Scope) -> tuple[str, str] | None:
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if "before" not in query:
            return None
        (number, *more) = query["before"]
        if more or not _NUMBER.fullmatch(number):
            raise Refusal("not_found")
        return _listed(view, min(int(number), view.round))


def _of_past(view: RunSnapshot) -> dict[str, str]:
    listed, pager = _listed(view, view.round)
    return {
        "figures": parts.figures(view),
        "rounds": listed,
        "pager": pager,
    }


def _listed(view: RunSnapshot, beyond: int) -> tuple[str, str]:
    """Rows of the rounds before one, and the way to others."""
    first = max(0, beyond - ROUNDS_SHOWN)
    found = parts.round_rows(rows(view, first, beyond), view.task.evaluation is not None)
    return found, parts.pager(first, beyond, view.round, ROUNDS_SHOWN)


@cache
def _style() -> CachedBytes:
    shared = files("fedsel.pages").joinpath("page.css").read_bytes()
    return CachedBytes(shared + files(__package__).joinpath("dashboard.css").read_bytes())


@cache
def _script() -> CachedBytes:
    return CachedBytes(files(__package__).joinpath("dashboard.js").read_bytes())
