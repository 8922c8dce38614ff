"""Forks: each runs some tests, quietly, within bounds of time and memory, and has a status."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tools.mutants.session import KILLED, SURVIVED, TIMEOUT

PASSED, HANGS, FAILED = 0, 1, 2  # a process that faulthandler ends has status 1
_MORE_MEMORY = 4 << 30
_COLLECTING = 40.0
_NOTE = "test"


class End(NamedTuple):
    """How a fork has ended, and in which test."""

    outcome: str
    test: str | None


def forked(work: Callable[[], int], seconds: float = float("inf"), *, quiet: bool = True) -> End:
    """Do some work in a fork, which returns a status, and say what it means."""
    # In memory where there is a folder of it: thousands of flushes that no power cut follows.
    memory = Path("/dev/shm")  # noqa: S108
    scratch = tempfile.mkdtemp(prefix="fedsel-mutants-", dir=memory if memory.is_dir() else None)
    child = os.fork()
    if not child:
        status = 3
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = scratch
            if quiet:
                _silence()
                _bound_memory()
                _bound_time(_COLLECTING)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    status = None
    try:
        while status is None and time.monotonic() < end:
            time.sleep(0.002)
            done, code = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if done else None
    finally:
        _kill_group(child)  # it hangs, or we were stopped, or it has left children
        if status is None:
            os.waitpid(child, 0)
        noted = Path(scratch, _NOTE)
        test = noted.read_text() if noted.exists() else None
        shutil.rmtree(scratch, ignore_errors=True)
    ends = {PASSED: SURVIVED, HANGS: TIMEOUT, -signal.SIGPROF: TIMEOUT, None: TIMEOUT}
    return End(ends.get(status, KILLED), test)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _silence() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _bound_memory() -> None:
    """So that a mutant that asks for 2^60 numbers fails, and nothing else does."""
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        now = int(statistics.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + _MORE_MEMORY, hard))


def _bound_time(seconds: float) -> None:
    """End this process after so many seconds of the processor (others use it as well).

    If it only waits, for something that never comes, it may do so twenty times as long.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(20 * seconds, exit=True)


class Watch:
    """A plugin of pytest that does something else than to run what was collected."""

    def __init__(self, loop: Callable[[dict[str, Any]], int]) -> None:
        self.failed: list[str] = []
        self.leave_at_failure = True
        self._loop = loop

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed:  # a file that cannot be imported
            os._exit(FAILED)
        os._exit(self._loop({item.nodeid: item for item in session.items}))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
            if self.leave_at_failure:
                os._exit(FAILED)

    def run(self, items: list[Any], seconds: Callable[[str], float]) -> int:
        """Run tests in this order, each within its time; leave the process where one fails."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            Path(os.environ["PYTEST_DEBUG_TEMPROOT"], _NOTE).write_text(item.nodeid)
            _bound_time(seconds(item.nodeid))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        return PASSED


def collect(tree: Path, paths: list[str], ignored: list[str], watch: Watch) -> int:
    """Let pytest collect the tests of a tree, in this process, and call the loop of the plugin."""
    os.chdir(tree)
    arguments = ["-q", "-s", "-m", "not slow", "--tb=no", "--no-summary"]
    arguments += [f"-pno:{name}" for name in ("cacheprovider", "randomly", "faulthandler")]
    # Plugins are imported before, not by this pytest; their own asserts are not what is tested.
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    arguments += [f"--ignore={name}" for name in ignored]
    pytest.main([*arguments, *paths], plugins=[watch])
    return FAILED  # the loop has not been called
