"""Mutation testing: change the code in one place at a time, and see whether a test notices.

    mutants.py results/mutants src/fedsel/device/spending.py src/fedsel/wire --sample 40

The mutants and the session file are cosmic-ray's, so ``cr-report`` and ``cr-html`` read what is
written here. Two things are added. A statement can be left out (a flush, a check, a refusal), for
which cosmic-ray has no operator. And the tests of a mutant run in a fork of a process that has
imported numpy, pytest and the like already: that takes most of the time otherwise.

A copy of the checkout is changed, never the checkout. What was killed stays killed until its module
changes; survivors are tried again when a test has changed. So a run that was stopped can go on.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MODULES = (
    *(f"src/fedsel/{name}" for name in ("device", "mechanisms", "solutions", "wire", "server")),
    "src/fedsel/sampling",
    *(f"src/fedsel/{name}.py" for name in ("exact", "budget", "recipe", "reports", "random")),
)
# The tests that mirror a module or folder: the longest name that fits. Its doctests come with it.
TESTS = {
    "device": "device",
    "device/spending": "device/test_spending.py device/test_client_budget.py",
    "device/policy": "device/test_policy.py device/test_client.py",
    "mechanisms": "mechanisms solutions/test_shipped_law.py test_checks.py test_golden.py",
    "solutions": "solutions test_golden.py",
    "wire": "wire test_golden.py",
    "server": "server",
    "sampling": "sampling test_golden.py test_random.py",
    "exact": "test_exact.py mechanisms/test_certificate.py",
    "budget": "test_budget.py solutions/test_registry.py",
    "recipe": "wire device/test_client.py solutions/test_registry.py",
    "reports": "wire server/test_step.py sampling/test_device.py test_golden.py",
    "random": "test_random.py sampling/test_own_bits.py test_golden.py",
}
# They start processes, or read the sources: they take too long, or are the same for every mutant.
LEFT_OUT = ("device/test_ledger_processes.py", "device/test_client_settings.py")

# Of an operator's eleven replacements the opposite one: the others are killed by the same tests.
OPERATORS = (
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in (
            *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul"),
            *("RShift_LShift", "LShift_RShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr"),
        )
    ),
    *(
        f"ReplaceComparisonOperator_{pair}"
        for pair in (
            *("Eq_NotEq", "Eq_LtE", "Eq_GtE", "NotEq_Eq", "NotEq_Lt", "NotEq_Gt", "Is_IsNot"),
            *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "IsNot_Is"),
        )
    ),
    *("ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not", "AddNot"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer"),
    *("NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
)
_KILLED, _SURVIVED, _TIMEOUT = "killed", "survived", "timed out"


def main() -> int:
    parser = argparse.ArgumentParser(description="See whether the tests notice changed code.")
    parser.add_argument("folder", type=Path, help="keeps the session and the changed copy")
    parser.add_argument("paths", nargs="*", default=MODULES, help="modules or folders in src")
    parser.add_argument("--sample", type=int, help="at most so many mutants a module, at seed 0")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--quick", type=float, help="leave out the tests that take so many seconds")
    parser.add_argument("--show", action="store_true", help="show survivors, run nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no fork outlives this process
    end = time.monotonic() + options.seconds
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(folder / "session.sqlite")
    table = []
    for module in _modules(options.paths):
        mutants = list(mutants_of(module))
        chosen = mutants
        if options.sample is not None and options.sample < len(mutants):
            kept = random.Random(0).sample(range(len(mutants)), options.sample)  # noqa: S311
            chosen = [mutants[i] for i in kept]  # in this order: a run that is stopped is a sample
        session.add(chosen)
        tests = Tests(module, options.quick)
        if not options.show:
            _try(session, module, chosen, tests, folder, end)
        outcomes = [session.outcome(mutant, tests.digest) for mutant in chosen]
        table.append((module, len(mutants), len(chosen), outcomes))
        for mutant, outcome in zip(chosen, outcomes, strict=True):
            if outcome == _SURVIVED:
                _say(f"survived {mutant.id[:8]} {mutant.description}\n{mutant.diff}")
    _print_table(table)
    return 0


class Mutant:
    """A module with one change; known by what the module then says."""

    def __init__(self, spec: Any, before: str, after: str) -> None:
        self.spec, self.code = spec, after
        self.id = hashlib.sha256(f"{spec.module_path}\0{after}".encode()).hexdigest()[:32]
        self._before = before

    @property
    def description(self) -> str:
        name = self.spec.operator_name.split("/")[1]
        return f"{self.spec.module_path}:{self.spec.start_pos[0]} {name}"

    @property
    def diff(self) -> str:
        import difflib

        lines = difflib.unified_diff(
            self._before.splitlines(), self.code.splitlines(), n=0, lineterm=""
        )
        return "\n".join(line for line in lines if line[:3] not in ("---", "+++", "@@ "))


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of a module that is Python, and not the same program as another or as before."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.work_item import MutationSpec

    before = (ROOT / module).read_text()
    seen = {_program(before)}
    for name, operator in _operators().items():
        places = [
            place
            for node in ast_nodes(get_ast(before))
            for place in operator.mutation_positions(node)
        ]
        for occurrence, (start, stop) in enumerate(places):
            after = mutate_code(before, operator, occurrence)
            try:
                program = _program(after or before)
            except SyntaxError:
                continue
            if program not in seen:
                seen.add(program)
                spec = MutationSpec(module, name, occurrence, start, stop)
                yield Mutant(spec, before, str(after))


def _program(code: str) -> str:
    """What is executed: without docstrings, annotations (never evaluated) and ``@final``."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [d for d in node.decorator_list if ast.unparse(d) != "final"]
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            node.names = []
    return ast.dump(tree)


def _operators() -> dict[str, Any]:
    from cosmic_ray import plugins
    from cosmic_ray.operators.operator import Operator
    from parso.python.tree import Keyword, PythonNode

    class LeaveOutStatement(Operator):  # type: ignore[misc]
        """A call whose value is not used, a refusal, or a sum that is added to: left out."""

        def mutation_positions(self, node: Any) -> Iterator[Any]:
            if isinstance(node, PythonNode) and node.type == "simple_stmt":
                statement = node.children[0]
                added = statement.type == "expr_stmt" and statement.children[1].type != "operator"
                if statement.type in ("atom_expr", "raise_stmt") or added:
                    yield statement.start_pos, statement.end_pos

        def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002
            leaf = node.children[0].get_first_leaf()
            node.children[0] = Keyword("pass", leaf.start_pos, leaf.prefix)
            return node

        @classmethod
        def examples(cls) -> tuple[Any, ...]:
            return ()

    class Own(dict[str, Any]):
        pass

    plugins.OPERATOR_PROVIDERS["fedsel"] = Own(LeaveOutStatement=LeaveOutStatement)
    names = [*(f"core/{name}" for name in OPERATORS), "fedsel/LeaveOutStatement"]
    return {name: plugins.get_operator(name)() for name in names}


class Session:
    """cosmic-ray's session: a mutant's outcome, and the digest of the tests that it had."""

    def __init__(self, file: Path) -> None:
        from cosmic_ray.work_db import WorkDB

        self._base = WorkDB(str(file), WorkDB.Mode.create)
        self._known = {item.job_id for item in self._base.work_items}
        self._results = {job: (r.test_outcome, r.output) for job, r in self._base.results}

    def add(self, mutants: list[Mutant]) -> None:
        from cosmic_ray.work_item import WorkItem

        new = [mutant for mutant in mutants if mutant.id not in self._known]
        self._base.add_work_items(WorkItem.single(m.id, m.spec) for m in new)
        self._known.update(mutant.id for mutant in new)

    def outcome(self, mutant: Mutant, tests: str) -> str | None:
        """What became of a mutant; None if it must be tried."""
        found, output = self._results.get(mutant.id, (None, ""))
        if found is None:
            return None
        outcome, had = output.split("\n")[:2]
        return None if outcome != _KILLED and had != tests else str(outcome)

    def set(self, mutant: Mutant, outcome: str, tests: str) -> None:
        from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

        result = WorkResult(
            worker_outcome=WorkerOutcome.NORMAL,
            output=f"{outcome}\n{tests}\n",
            test_outcome=TestOutcome.SURVIVED if outcome == _SURVIVED else TestOutcome.KILLED,
            diff=mutant.diff,
        )
        self._base.set_result(mutant.id, result)
        self._results[mutant.id] = (result.test_outcome, result.output)


class Tests:
    """The tests that mirror a module, and the doctests of what they mirror."""

    def __init__(self, module: str, quick: float | None) -> None:
        name = module.removeprefix("src/fedsel/").removesuffix(".py")
        key = max((key for key in TESTS if f"{name}/".startswith(f"{key}/")), key=len)
        source = f"src/fedsel/{key}"
        self.most_seconds = float("inf") if quick is None else quick
        self.source = source if (ROOT / source).is_dir() else f"{source}.py"
        self.paths = [self.source, *(f"tests/{test}" for test in TESTS[key].split())]
        digest = hashlib.sha256(str(self.most_seconds).encode())
        for test in self.paths[1:]:
            path = ROOT / test
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                digest.update(file.read_bytes())
        self.digest = digest.hexdigest()[:16]


def _try(
    session: Session, module: str, mutants: list[Mutant], tests: Tests, folder: Path, end: float
) -> None:
    waiting = [mutant for mutant in mutants if session.outcome(mutant, tests.digest) is None]
    if not waiting or time.monotonic() > end:
        return
    tree = _copied(folder / "tree")
    baseline = _baseline(tree, tests, folder)
    most = 10 + 3 * sum(baseline.values())
    _say(f"{module}: {len(waiting)} mutants, {len(baseline)} tests")
    file = tree / module
    original = file.read_text()
    for count, mutant in enumerate(waiting, 1):
        if time.monotonic() > end:
            break
        file.write_text(mutant.code)
        outcome = _run(tree, tests.paths, baseline, timeout=most)
        session.set(mutant, outcome, tests.digest)
        _say(f"  {count}/{len(waiting)} {outcome} {mutant.id[:8]} {mutant.description}")
    file.write_text(original)


def _baseline(tree: Path, tests: Tests, folder: Path) -> dict[str, float]:
    """How long each test takes without a mutant; what fails, or takes too long, is left out."""
    digest = hashlib.sha256(tests.digest.encode())
    for source in sorted((ROOT / "src").rglob("*.py")):
        digest.update(source.read_bytes())
    notes = folder / f"baseline-{digest.hexdigest()[:16]}.json"
    if not notes.exists():
        first, again = folder / "first.json", folder / "again.json"
        _run(tree, tests.paths, None, first)
        found = json.loads(first.read_text())
        # And as it will be for mutants, after the imports: some tests count what is imported.
        _import(found["imported"])
        _run(tree, tests.paths, None, again)
        found["failed"] = sorted({*found["failed"], *json.loads(again.read_text())["failed"]})
        if 10 * len(found["failed"]) > len(found["seconds"]):
            raise SystemExit(f"a tenth of the tests of {tests.source} fail without a mutant")
        notes.write_text(json.dumps(found))
    found = json.loads(notes.read_text())
    for test in found["failed"]:
        _say(f"left out, fails without a mutant: {test}")
    _import(found["imported"])
    return {
        test: took
        for test, took in found["seconds"].items()
        if test not in found["failed"] and took < tests.most_seconds
    }


def _copied(tree: Path) -> Path:
    """The files of the checkout as they are now, and the compiled kernels."""
    shutil.rmtree(tree, ignore_errors=True)
    git = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(git, check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
    kernels = (ROOT / "src/fedsel/sampling/kernels").glob("_native*.*")
    for name in {*names, *(str(file.relative_to(ROOT)) for file in kernels)}:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def _run(
    tree: Path,
    tests: list[str],
    chosen: dict[str, float] | None,
    notes: Path | None = None,
    timeout: float = float("inf"),
) -> str:
    """Run the chosen of the tests in a fork; or all, and write down how they did."""
    # In memory where there is a folder of it: thousands of flushes that no power cut follows.
    memory = Path("/dev/shm")  # noqa: S108
    folder = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fedsel-mutants-", dir=folder) as scratch:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = scratch
        return _forked(tree, tests, chosen, notes, timeout)


def _forked(
    tree: Path,
    tests: list[str],
    chosen: dict[str, float] | None,
    notes: Path | None,
    timeout: float,
) -> str:
    child = os.fork()
    if not child:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        status = 3
        try:
            status = _in_child(tree, tests, chosen, notes)
        finally:
            os._exit(status)
    end = time.monotonic() + timeout
    status = None
    try:
        while status is None and time.monotonic() < end:
            time.sleep(0.01)
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
    finally:
        if status is None:  # it hangs, or we were stopped
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return _TIMEOUT if status is None else _KILLED if status else _SURVIVED


def _in_child(
    tree: Path, tests: list[str], chosen: dict[str, float] | None, notes: Path | None
) -> int:
    import pytest

    source = str(tree / "src")
    os.chdir(tree)
    os.environ["PYTHONPATH"] = source
    sys.path.insert(0, source)
    # A file that was changed twice within a second would be taken for what was compiled first.
    sys.dont_write_bytecode = chosen is not None
    if chosen is not None:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    watch = _Watch(chosen)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not slow", "--tb=no"]
    # Plugins are imported before, not by this pytest; their own asserts are not what is tested.
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    arguments += [f"--ignore=tests/{name}" for name in LEFT_OUT]
    arguments += ["--no-summary"] if chosen is None else ["-x"]
    if chosen is not None:
        tests = sorted({name.split("::")[0] for name in chosen})
    status = pytest.main([*arguments, *tests], plugins=[watch])
    if notes is not None:
        ours = ("fedsel", "tests", "_pytest", "pytest", "conftest", "cosmic_ray", "__main__")
        names = [name for name in sys.modules if name.split(".")[0] not in ours]
        seen = {"seconds": watch.seconds, "failed": watch.failed, "imported": names}
        notes.write_text(json.dumps(seen))
    return int(status)


class _Watch:
    """A plugin of pytest: runs the chosen tests, the quickest first, and sees how they do."""

    def __init__(self, chosen: dict[str, float] | None) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self._chosen = chosen

    def pytest_collection_finish(self, session: Any) -> None:
        chosen = self._chosen
        if chosen is not None:
            kept = [item for item in session.items if item.nodeid in chosen]
            session.items[:] = sorted(kept, key=lambda item: chosen[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


def _import(names: list[str]) -> None:
    """What tests import besides the package: once, before the forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException as error:  # the tests get it again
                del error


def _modules(paths: list[str] | tuple[str, ...]) -> list[str]:
    found = []
    for name in paths:
        path = ROOT / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [str(f.relative_to(ROOT)) for f in files if f.name != "__init__.py"]
    return found


def _print_table(table: list[tuple[str, int, int, list[str | None]]]) -> None:
    kinds = (_KILLED, _SURVIVED, _TIMEOUT, None)
    columns = ("generated", "tried", "killed", "survived", "timed out", "waiting")
    _say(f"{'module':42}" + "".join(f"{name:>10}" for name in columns))
    rows = {m: [n, c, *(o.count(kind) for kind in kinds)] for m, n, c, o in table}
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    for name, counts in rows.items():
        _say(f"{name.removeprefix('src/fedsel/'):42}" + "".join(f"{n:>10}" for n in counts))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: a fork has one thread
    sys.exit(main())
