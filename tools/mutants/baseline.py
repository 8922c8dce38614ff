"""The tests that mirror a module, and what each does without a mutant."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MODULES = (
    *(f"src/fedsel/{name}" for name in ("device", "mechanisms", "solutions", "wire", "server")),
    "src/fedsel/recipe.py",
    *(f"src/fedsel/_internal/{name}.py" for name in ("exact", "random")),
    *(f"src/fedsel/{name}" for name in ("sampling", "preparation")),
)
# The tests that mirror a module or folder: the longest name that fits. Its doctests come with it.
TESTS = {
    "device": "device",
    "device/_records": "device/test_records.py device/test_linear.py preparation",
    "mechanisms": "mechanisms solutions checks test_golden.py "
    "sampling/test_device.py sampling/test_fresh_seeds.py",
    "mechanisms/central": "mechanisms/central",
    "preparation": "preparation",
    "solutions": "solutions mechanisms/central/test_blanket.py test_golden.py",
    "wire": "wire test_golden.py",
    "server": "server preparation/test_preparation.py",
    "sampling": "sampling test_golden.py _internal/test_random.py",
    "_internal/exact": "_internal/test_exact.py mechanisms/test_certificate.py "
    "mechanisms/test_laws.py",
    "solutions/_budget": "solutions/test_budget.py solutions/test_registry.py",
    "recipe": "test_recipe.py wire preparation device/test_client.py solutions/test_registry.py",
    "mechanisms/_reports": "mechanisms/test_reports.py wire server/test_step.py "
    "sampling/test_device.py test_golden.py",
    "_internal/random": "_internal/test_random.py sampling/test_fresh_seeds.py test_golden.py",
}
# They start processes, or read the sources: they take too long, or are the same for every mutant.
LEFT_OUT = ("device/test_ledger_processes.py", "device/test_client_settings.py")


@dataclass(frozen=True)
class Test:
    """One test on its own: how long it takes, and which lines of the package it executes."""

    seconds: float
    failed: bool
    processes: bool  # it starts others, and what those execute is not known
    lines: dict[str, str]  # module: a bit for each line, in hexadecimal digits

    __test__ = False

    def executes(self, module: str, lines: Iterable[int] | None = None) -> bool:
        """Whether it executes any of these lines of a module; or anything of it, after import."""
        mask = int(self.lines.get(module, "0"), 16)
        return self.processes or bool(mask if lines is None else mask & bits(lines))


def bits(lines: Iterable[int]) -> int:
    mask = 0
    for line in lines:
        mask |= 1 << line
    return mask


class TestSet:
    """The tests of a folder or module, and notes of what each does, kept in a folder."""

    __test__ = False

    def __init__(self, root: Path, source: str, paths: list[str], kept_in: Path) -> None:
        # The doctests last: a module that pytest imports first, by its path, would be there twice.
        self.source, self.paths = source, [*paths, source]
        self.ignored = [f"tests/{name}" for name in LEFT_OUT]
        self._root, self._folder = root, kept_in
        self._shared = hashlib.sha256()  # of all that a test depends on besides its own file
        for file in sorted((*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py"))):
            if not file.name.startswith("test_"):
                self._shared.update(file.read_bytes())

    def digest(self, file: str) -> str:
        """Of a file of tests; of a module with doctests."""
        return hashlib.sha256((self._root / file).read_bytes()).hexdigest()[:16]

    @property
    def all_digest(self) -> str:
        """Of all files that have a say in whether these tests pass."""
        digest = self._shared.copy()
        for file in self.files():
            digest.update(f"{file} {self.digest(file)}".encode())
        return digest.hexdigest()[:16]

    def _notes(self, file: str) -> Path:
        both = f"{file} {self.digest(file)} {self._shared.hexdigest()}"
        return self._folder / f"{hashlib.sha256(both.encode()).hexdigest()[:16]}.json"

    def known(self, file: str) -> dict[str, Test] | None:
        """What is known of the tests of a file as it is now."""
        notes = self._notes(file)
        if not notes.exists():
            return None
        return {name: Test(**test) for name, test in json.loads(notes.read_text()).items()}

    def note(self, file: str, tests: dict[str, Test]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        content = {name: asdict(test) for name, test in tests.items()}
        self._notes(file).write_text(json.dumps(content))

    def files(self) -> list[str]:
        """The files with tests, and those that may have doctests."""
        found: list[Path] = []
        for name in self.paths:
            path, pattern = self._root / name, "*.py" if name == self.source else "test_*.py"
            found += sorted(path.rglob(pattern)) if path.is_dir() else [path]
        files = [str(file.relative_to(self._root)) for file in found]
        return [file for file in files if file not in self.ignored]

    def all_known(self, most_seconds: float) -> dict[str, Test]:
        """Every test that passes on its own, in no more time than this."""
        tests: dict[str, Test] = {}
        for file in self.files():
            tests.update(self.known(file) or {})
        return {n: t for n, t in tests.items() if not t.failed and t.seconds <= most_seconds}


def set_of(module: str) -> str:
    """The name of the tests that mirror a module."""
    name = module.removeprefix("src/fedsel/").removesuffix(".py")
    return max((key for key in TESTS if f"{name}/".startswith(f"{key}/")), key=len)


def tests_of(root: Path, name: str, kept_in: Path) -> TestSet:
    """The tests that `set_of` names, in a checkout."""
    source = f"src/fedsel/{name}" + ("" if (root / f"src/fedsel/{name}").is_dir() else ".py")
    return TestSet(root, source, [f"tests/{test}" for test in TESTS[name].split()], kept_in)


def copied(tree: Path) -> Path:
    """The files of the checkout as they are now, and the compiled kernels."""
    shutil.rmtree(tree, ignore_errors=True)
    git = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(git, check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
    kernels = (ROOT / "src/fedsel/_internal").glob("_native*.*")
    for name in {*names, *(str(file.relative_to(ROOT)) for file in kernels)}:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree
