"""Proofs about a run's privacy that take seconds, computed once, in a process of their own.

The proofs of the central guarantee are sums of large integers: in a thread they would hold up every
report. The process reads a question from standard input and writes a line of JSON for each part of
the answer as soon as it has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, final

from fedsel._internal.extras import MissingExtra
from fedsel.mechanisms.central import DELTA, amplify, compose
from fedsel.recipe import Recipe
from fedsel.wire import CloseRule, decode_recipe, encode_recipe


def promised(rule: CloseRule) -> int | None:
    """How many reports of a round the rule lets a shuffler mix; None where it names no number.

    >>> promised(CloseRule(reports=100)), promised(CloseRule(seconds=60.0, least=50))
    (100, 50)
    >>> promised(CloseRule(seconds=60.0))
    """
    if rule.reports is not None:
        return rule.reports
    return rule.least if rule.least > 1 else None


@final
class Proofs:
    """The answers so far: ``found`` has "influence", "central" and "composed" as they come.

    Without a ``rule`` nothing central is asked for.
    """

    def __init__(self, recipe: Recipe, rule: CloseRule | None) -> None:
        reports = None if rule is None else promised(rule)
        question = {"recipe": encode_recipe(recipe).hex(), "reports": reports}
        self._question = json.dumps({**question, "epochs": recipe.epochs})
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self.found: dict[str, Any] = {}
        self.over = False

    def begin(self) -> None:
        """Start to compute, the first time that somebody wants to know."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop computing."""
        self.over = True
        if self._process is not None:
            self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        try:
            with subprocess.Popen(  # noqa: S603 (this module)
                [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C at the terminal is for the service, which ends it
            ) as process:
                self._process = process
                if self.over:
                    process.kill()
                if process.stdin is not None and process.stdout is not None:
                    with suppress(BrokenPipeError):
                        process.stdin.write(self._question)
                        process.stdin.close()
                    for line in process.stdout:
                        self.found = {**self.found, **json.loads(line)}
        except (OSError, ValueError):
            pass  # the page says what is missing
        self.over = True


def answer(question: dict[str, Any]) -> None:
    """Write the answers, part by part."""
    solution = decode_recipe(bytes.fromhex(question["recipe"])).build()
    _write(influence=vars(solution.influence))
    reports, epochs = question["reports"], question["epochs"]
    if reports is None:
        return
    _write(central=vars(amplify(solution, reports=reports, delta=DELTA)))
    if epochs > 1:
        with suppress(MissingExtra):
            composed = compose(solution, reports=reports, epochs=epochs, delta=DELTA)
            _write(composed=vars(composed))


def _write(**values: object) -> None:
    print(json.dumps(values), flush=True)  # noqa: T201 (this is the answer)


def main() -> None:
    """Answer the question on standard input."""
    if hasattr(os, "nice"):
        os.nice(10)
    answer(json.load(sys.stdin))
