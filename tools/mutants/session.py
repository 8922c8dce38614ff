"""What became of every mutant, in cosmic-ray's own session file."""

from __future__ import annotations

import json
from pathlib import Path

from tools.mutants.generating import Mutant

KILLED, SURVIVED, NOT_EXECUTED, TIMEOUT = "killed", "survived", "not executed", "timed out"
OUTCOMES = (KILLED, SURVIVED, NOT_EXECUTED, TIMEOUT)
UNNOTICED = (SURVIVED, NOT_EXECUTED)


class Session:
    """A mutant's outcome, and the digests of the files of the tests that it had."""

    def __init__(self, file: Path) -> None:
        from cosmic_ray.work_db import WorkDB

        self._base = WorkDB(str(file), WorkDB.Mode.create)
        self._known = {item.job_id for item in self._base.work_items}
        self._results = {job: json.loads(result.output) for job, result in self._base.results}

    def add(self, mutants: list[Mutant]) -> None:
        from cosmic_ray.work_item import WorkItem

        new = [mutant for mutant in mutants if mutant.id not in self._known]
        self._base.add_work_items(WorkItem.single(m.id, m.spec) for m in new)
        self._known.update(mutant.id for mutant in new)

    def outcome(self, mutant: Mutant) -> str | None:
        """What became of a mutant; None if it was never tried."""
        outcome: str | None = self._results.get(mutant.id, (None,))[0]
        return outcome

    def had(self, mutant: Mutant) -> dict[str, str]:
        """The files whose tests a mutant has had, with their digests."""
        files: dict[str, str] = self._results.get(mutant.id, (None, {}))[1]
        return files

    def set(self, mutant: Mutant, outcome: str, files: dict[str, str]) -> None:
        from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

        unnoticed = outcome in UNNOTICED
        # Whoever is noticed is never tried again.
        result = WorkResult(
            worker_outcome=WorkerOutcome.NORMAL,
            output=json.dumps([outcome, files if unnoticed else {}]),
            test_outcome=TestOutcome.SURVIVED if unnoticed else TestOutcome.KILLED,
            diff=mutant.diff,
        )
        self._base.set_result(mutant.id, result)
        self._results[mutant.id] = [outcome, files if unnoticed else {}]
