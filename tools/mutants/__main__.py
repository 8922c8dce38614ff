"""The command line: ``python -m tools.mutants results/mutants src/fedsel/wire --sample 40``."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from itertools import groupby
from pathlib import Path

from tools.mutants.baseline import MODULES, ROOT, copied, set_of, tests_of
from tools.mutants.generating import Mutant, mutants_of
from tools.mutants.session import OUTCOMES, UNNOTICED, Session


def main() -> int:
    parser = argparse.ArgumentParser(description="See whether the tests notice changed code.")
    parser.add_argument("folder", type=Path, help="keeps the session and the changed copy")
    parser.add_argument("paths", nargs="*", default=MODULES, help="modules or folders in src")
    parser.add_argument("--sample", type=int, help="at most so many mutants a module, at seed 0")
    for name, meaning in (
        ("--seconds", "stop after so many seconds"),
        ("--quick", "leave out the tests that take more seconds"),
        ("--enough", "a mutant survives if no test notices it within so many seconds of tests"),
    ):
        parser.add_argument(name, type=float, default=float("inf"), help=meaning)
    parser.add_argument("--again", action="store_true", help="try survivors alone, no new mutants")
    parser.add_argument("--only", nargs="+", help="try those again whose names begin so")
    parser.add_argument("--show", action="store_true", help="show survivors, run nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no fork outlives this process
    end = time.monotonic() + options.seconds
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(folder / "session.sqlite")
    # Tests may be written while mutants run: what is tried is the checkout as it is now.
    root = ROOT if options.show else copied(folder / "tree")
    table = []
    for key, modules in groupby(_modules(options.paths), set_of):
        chosen: dict[str, list[Mutant]] = {}
        for module in modules:
            mutants = mutants_of(root, module, folder / "generated")
            chosen[module] = _sample(mutants, options.sample)
            session.add(chosen[module])
            table.append((module, len(mutants), chosen[module]))
        if not options.show and time.monotonic() < end:
            _try(session, key, chosen, root, options, end)
        for mutant in (mutant for mutants in chosen.values() for mutant in mutants):
            if session.outcome(mutant) in UNNOTICED:
                _say(f"{session.outcome(mutant)} {mutant.id[:8]} {mutant.description}")
                _say(mutant.diff)
    _print_table(session, table)
    return 0


def _sample(mutants: list[Mutant], size: int | None) -> list[Mutant]:
    if size is None or size >= len(mutants):
        return mutants
    kept = random.Random(0).sample(range(len(mutants)), size)  # noqa: S311
    return [mutants[i] for i in kept]  # in this order: a run that is stopped is a sample


def _try(
    session: Session,
    key: str,
    chosen: dict[str, list[Mutant]],
    tree: Path,
    options: argparse.Namespace,
    end: float,
) -> None:
    from tools.mutants.running import Runner

    tests = tests_of(tree, key, tree.parent / "tests")
    runner = Runner(tree, tests, options.quick, options.enough, _say)
    files = runner.files()
    waiting = []
    for module, mutants in chosen.items():
        for mutant in mutants:
            outcome, had = session.outcome(mutant), session.had(mutant)
            if options.only:
                wanted, had = mutant.id.startswith(tuple(options.only)), {}
            elif outcome is None:
                wanted = not options.again
            else:
                wanted = outcome in UNNOTICED and had != files
            if wanted:
                waiting.append((mutant, (tree / module).read_text(), had))
    waiting.sort(key=lambda task: session.outcome(task[0]) is not None)  # the new ones first
    _say(f"{key}: {len(waiting)} mutants, {len(runner.known)} tests")
    for count, (mutant, outcome) in enumerate(runner.outcomes(waiting, end), 1):
        session.set(mutant, outcome, files)
        _say(f"  {count}/{len(waiting)} {outcome} {mutant.id[:8]} {mutant.description}")


def _modules(paths: list[str] | tuple[str, ...]) -> list[str]:
    found = []
    for name in paths:
        path = ROOT / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [str(f.relative_to(ROOT)) for f in files if f.name != "__init__.py"]
    return found


def _print_table(session: Session, table: list[tuple[str, int, list[Mutant]]]) -> None:
    columns = ("generated", "sampled", *OUTCOMES, "waiting")
    _say(f"{'module':32}" + "".join(f"{name:>13}" for name in columns))
    rows = {}
    for module, generated, chosen in table:
        found = [session.outcome(mutant) for mutant in chosen]
        rows[module] = [generated, len(chosen), *(found.count(kind) for kind in (*OUTCOMES, None))]
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    for name, counts in rows.items():
        _say(f"{name.removeprefix('src/fedsel/'):32}" + "".join(f"{n:>13}" for n in counts))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: a fork has one thread
    sys.exit(main())
