"""Run tests against mutants: in forks of a process that has collected them, or imported afresh."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.mutants.baseline import Test, TestSet
from tools.mutants.forking import FAILED, PASSED, End, Watch, collect, forked
from tools.mutants.generating import Mutant, changed_lines
from tools.mutants.patching import LiveFunctions, RanAtImport
from tools.mutants.session import NOT_EXECUTED, SURVIVED

FRESH = "must be imported afresh"
_FIRST_TESTS, _FIRST_FILES = 50, 3
_LONGEST = 600.0
_A_FEW_SECONDS = 1.0
_LEAST = 0.005
"""Of a test, whose seconds are counted in hundredths."""
_MOST_CASES = 100


class Runner:
    """The tests of a set in a changed copy of the checkout; only forks import anything of it."""

    def __init__(
        self, tree: Path, tests: TestSet, quick: float, enough: float, say: Callable[[str], None]
    ) -> None:
        self.tests, self.say = tests, say
        self._tree, self._quick, self._enough = tree, quick, enough
        self._imported = tree.parent / "imported.json"
        source = str(tree / "src")
        os.environ["PYTHONPATH"] = source
        sys.path[:] = [source, *(path for path in sys.path if path != source)]
        self._learn()
        self.known = tests.all_known(quick)
        self._together()
        # A file that was changed twice within a second would be taken for what was compiled first.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True

    # What the tests do without a mutant.

    def _learn(self) -> None:
        new = [file for file in self.tests.files() if self.tests.known(file) is None]
        if new:
            self.say(f"{self.tests.source}: the tests of {len(new)} files without a mutant")
            forked(lambda: self._host(new, self._learn_in_host), quiet=False)
        _import(self._imports()["theirs"])

    def _learn_in_host(self, items: dict[str, Any], watch: Watch, _: LiveFunctions) -> int:
        watch.leave_at_failure = False
        by_file: dict[str, dict[str, Test]] = {
            file: {} for file in self.tests.files() if self.tests.known(file) is None
        }
        names = {kind: {*known} for kind, known in self._imports().items()}
        chosen = _some_cases(items)
        for file, tests in by_file.items():
            for name in (name for name in chosen if name.split("::")[0] == file):
                tests[name] = self._alone(items[name], watch, names)
            self.tests.note(file, tests)
            self._imported.write_text(json.dumps({kind: sorted(names[kind]) for kind in names}))
        return PASSED

    def _alone(self, item: Any, watch: Watch, names: dict[str, set[str]]) -> Test:
        """What a test does in a process of its own, so that nothing is cached for it."""
        notes = self._tree.parent / "notes.json"
        notes.write_text("{}")

        def work() -> int:
            notes.write_text(json.dumps(_watched(watch, item, self._tree)))
            return PASSED

        forked(work, _LONGEST)
        seen = json.loads(notes.read_text())
        for kind, more in seen.pop("imported", {}).items():
            names[kind] |= {*more}
        test = Test(**(seen or {"seconds": 0.0, "failed": True, "processes": False, "lines": {}}))
        if test.failed:
            self.say(f"left out, fails without a mutant: {item.nodeid[:100]}")
        return test

    def _imports(self) -> dict[str, list[str]]:
        """The modules that tests import: those of the package, and of others."""
        if not self._imported.exists():
            return {"ours": [], "theirs": []}
        names: dict[str, list[str]] = json.loads(self._imported.read_text())
        return names

    def _together(self) -> None:
        """Leave out what fails after others, in the order in which mutants get them.

        The modules are compiled on the way, or else each fork that imports afresh would do it.
        """
        failing = self._tree.parent / f"failing-{self.tests.all_digest}.json"

        def loop(items: dict[str, Any], watch: Watch, _: LiveFunctions) -> int:
            watch.leave_at_failure = False
            if not failing.exists():
                order = self._ordered(self.known, "")
                watch.run([items[name] for name in order], lambda _: _LONGEST)
                failing.write_text(json.dumps(watch.failed))
            return PASSED

        forked(lambda: self._host(self.tests.paths, loop))
        if not failing.exists():
            raise SystemExit(f"the tests of {self.tests.source} do not run without a mutant")
        for name in json.loads(failing.read_text()):
            self.say(f"left out, fails after others: {name[:100]}")
            self.known.pop(name, None)
        # A mutant that is imported afresh would be killed by whatever else is wrong with that.
        quickest = {name.split("::")[0]: name for name in reversed(self._ordered(self.known, ""))}
        if forked(lambda: self._collected([*quickest.values()])).outcome != SURVIVED:
            raise SystemExit(f"the tests of {self.tests.source} do not run if imported afresh")

    # Mutants.

    def outcomes(
        self, waiting: list[tuple[Mutant, str, dict[str, str]]], end: float
    ) -> Iterator[tuple[Mutant, str]]:
        """What becomes of mutants: with the module as it is, and the files that each has had."""
        afresh = []
        for index, outcome, test in self._in_host(waiting, end):
            if outcome == FRESH:
                afresh.append((*waiting[index], test))
            else:
                yield waiting[index][0], outcome
        for mutant, before, had, test in afresh:
            if time.monotonic() < end:
                yield mutant, self._afresh(mutant, before, had, test)

    def _in_host(self, waiting: list[Any], end: float) -> Iterator[tuple[int, str, str | None]]:
        source, sink = os.pipe()
        host = os.fork()
        if not host:
            os.close(source)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
            pipe = os.fdopen(sink, "w", buffering=1)

            def loop(items: dict[str, Any], watch: Watch, live: LiveFunctions) -> int:
                for index, (mutant, before, had) in enumerate(waiting):
                    if time.monotonic() > end:
                        break
                    ended = self._patched(mutant, before, had, items, watch, live)
                    pipe.write(json.dumps([index, *ended]) + "\n")
                return PASSED

            try:
                self._host(self.tests.paths, loop)
            finally:
                os._exit(1)
        os.close(sink)
        try:
            with os.fdopen(source) as lines:
                yield from map(json.loads, lines)
        finally:
            os.kill(host, signal.SIGTERM)
            os.waitpid(host, 0)

    def _host(
        self, paths: list[str], loop: Callable[[dict[str, Any], Watch, LiveFunctions], int]
    ) -> int:
        """Collect the tests, import what they do, and call a loop that forks to run them."""
        ran = RanAtImport(str(self._tree / "src"))

        def begin(items: dict[str, Any]) -> int:
            _import(self._imports()["ours"])
            ran.__exit__()
            live = LiveFunctions(ran.keys)
            gc.collect()
            gc.freeze()
            return loop(items, watch, live)

        watch = Watch(begin)
        _do_not_shrink()
        with ran:
            return collect(self._tree, paths, self.tests.ignored, watch)

    def _patched(
        self,
        mutant: Mutant,
        before: str,
        had: dict[str, str],
        items: dict[str, Any],
        watch: Watch,
        live: LiveFunctions,
    ) -> End:
        """In a fork of this process, if that is as good as to import everything afresh.

        If it is not, because what the old code has computed is still there, the test that fails
        is the one to begin with.
        """
        module = mutant.module
        file = self._tree / module
        replaced = live.replacements(str(file), before, mutant.code)
        if replaced is None:
            return End(FRESH, None)
        lines = changed_lines(before, mutant.code)
        tests = {name: test for name, test in self.known.items() if test.executes(module, lines)}
        if not tests:
            return End(FRESH if replaced.stale else NOT_EXECUTED, None)
        most = _A_FEW_SECONDS if replaced.stale else self._enough
        order = self._chosen(most, self._new(tests, had), module, lines)

        def work() -> int:
            replaced.make()
            return watch.run([items[name] for name in order], self._most_seconds)

        if not order:
            return End(FRESH if replaced.stale else SURVIVED, None)
        file.write_text(mutant.code)  # for the processes that tests start
        try:
            ended = forked(work)
        finally:
            file.write_text(before)
        return (
            End(FRESH, None if ended.outcome == SURVIVED else ended.test)
            if replaced.stale
            else ended
        )

    def _afresh(self, mutant: Mutant, before: str, had: dict[str, str], test: str | None) -> str:
        """With a new import of everything: for one test, for some of a few files, for the rest."""
        module = mutant.module
        lines = changed_lines(before, mutant.code)
        order = self._chosen(self._enough, self._new(self.known, had), module, lines)
        files = list(dict.fromkeys(name.split("::")[0] for name in order))[:_FIRST_FILES]
        near = [name for name in order if name.split("::")[0] in files][:_FIRST_TESTS]
        file = self._tree / module
        outcome = SURVIVED
        file.write_text(mutant.code)
        try:
            for names in ([test] if test else [], near, [n for n in order if n not in near]):
                if names and outcome == SURVIVED:
                    outcome = forked(lambda names=names: self._collected(names)).outcome  # type: ignore[misc]
        finally:
            file.write_text(before)
        return outcome

    def _collected(self, names: list[str]) -> int:
        def loop(items: dict[str, Any]) -> int:
            if not items.keys() >= {*names}:  # a parameter of theirs is not what it was
                return FAILED
            return watch.run([items[name] for name in names], self._most_seconds)

        watch = Watch(loop)
        _do_not_shrink()
        # The doctests last, as in `TestSet`.
        files = sorted({name.split("::")[0] for name in names}, key=self.tests.files().index)
        return collect(self._tree, files, [], watch)

    # Which tests, in which order, and for how long.

    def files(self) -> dict[str, str]:
        """The files of the tests, with digests: what a mutant that survives has had."""
        return {
            f: f"{self.tests.digest(f)} {self._quick:g} {self._enough:g}"
            for f in self.tests.files()
        }

    def _new(self, tests: dict[str, Test], had: dict[str, str]) -> dict[str, Test]:
        changed = {file for file, digest in self.files().items() if had.get(file) != digest}
        return {name: test for name, test in tests.items() if name.split("::")[0] in changed}

    def _ordered(self, tests: dict[str, Test], module: str, lines: Iterable[int] = ()) -> list[str]:
        """The nearest to a change first, of those the quickest; a further case counts as slower.

        Near are tests that execute the change, or at least the module, and those of the file that
        mirrors it.
        """
        cases: dict[str, int] = {}

        def rank(name: str) -> tuple[bool | int | float, ...]:
            test, function = tests[name], name.partition("[")[0]
            cases[function] = cases.get(function, 0) + 1
            farther = not test.executes(module, lines), not test.executes(module)
            elsewhere = Path(module).stem not in function
            return test.processes, *farther, elsewhere, cases[function] * (test.seconds + _LEAST)

        return sorted(sorted(tests, key=lambda name: tests[name].seconds), key=rank)

    def _chosen(self, most: float, *arguments: Any) -> list[str]:
        """The first of them, as many as take so long that it is enough."""
        chosen, seconds = [], 0.0
        for name in self._ordered(*arguments):
            seconds += self.known[name].seconds + _LEAST
            if chosen and seconds > most:
                break
            chosen.append(name)
        return chosen

    def _most_seconds(self, name: str) -> float:
        return 3 + 10 * self.known[name].seconds


def _some_cases(names: Iterable[str]) -> list[str]:
    """Of a test with many cases a few, from the first to the last."""
    cases: dict[str, list[str]] = {}
    for name in names:
        cases.setdefault(name.partition("[")[0], []).append(name)
    return [
        found[i * (len(found) - 1) // max(1, count - 1)]
        for found in cases.values()
        for count in (min(len(found), _MOST_CASES),)
        for i in range(count)
    ]


def _watched(watch: Watch, item: Any, tree: Path) -> dict[str, Any]:
    """Run one test, and note what it executes, starts and imports."""
    import coverage

    started: list[str] = []
    events = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system")
    sys.addaudithook(lambda event, _: started.append(event) if event in events else None)
    measured = coverage.Coverage(
        data_file=None, config_file=False, include=[str(tree / "src" / "*")], messages=False
    )
    measured.start()
    begin = sum(os.times()[:4])  # of the processor, by its children, too: others use it as well
    watch.run([item], lambda _: _LONGEST)
    seconds = sum(os.times()[:4]) - begin
    measured.stop()
    data = measured.get_data()
    lines = {}
    for file in data.measured_files():
        mask = 0
        for line in data.lines(file) or ():
            mask |= 1 << line
        lines[str(Path(file).relative_to(tree))] = f"{mask:x}"
    return {
        "seconds": seconds,
        "failed": bool(watch.failed),
        "processes": bool(started),
        "lines": lines,
        "imported": _imported(tree),
    }


def _do_not_shrink() -> None:
    """A mutant is killed by the first example that fails; none needs to be the smallest."""
    from hypothesis import Phase, settings

    # The profile of the tests is made from the one that is loaded.
    settings.register_profile("first", phases=(Phase.explicit, Phase.generate))
    settings.load_profile("first")


def _imported(tree: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"ours": [], "theirs": []}
    for name, module in list(sys.modules.items()):
        file = str(getattr(module, "__file__", None))
        if file.startswith(str(tree / "src")):
            found["ours"].append(name)
        elif not file.startswith(str(tree)) and name != "__main__":
            found["theirs"].append(name)
    return found


def _import(names: Iterable[str]) -> None:
    """What tests import: once, before the forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException as error:  # the tests get it again
                del error
