"""Small environments for the tests of the built package, with nothing that was not asked for."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SCRIPT = "#!{python}\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"


def run(python, *words, check=True, cwd=None, timeout=900, **variables):
    """Run a Python on these words; with ``check`` it must succeed."""
    done = subprocess.run(
        [str(python), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": "", **variables},
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def empty(folder: Path) -> Path:
    """The Python of a new environment without any package, not even pip."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def pip_install(python: Path, *words: str | Path) -> None:
    """Install into another environment with the pip of this one."""
    pip = ["-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--quiet"]
    run(sys.executable, *pip, *words)


def linked(folder: Path, distributions: Iterable[metadata.Distribution]) -> Path:
    """The Python of a new environment of these distributions, linked from where they lie.

    Made in no time, whatever their size. All else that is installed where they lie stays hidden.
    """
    python = empty(folder)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": folder, "platbase": folder}))
    for distribution in distributions:
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():  # a namespace may be shared
                (site / top).symlink_to(Path(str(distribution.locate_file(top))))
        for entry in distribution.entry_points.select(group="console_scripts"):
            program = folder / "bin" / entry.name
            program.write_text(SCRIPT.format(python=python, module=entry.module, name=entry.attr))
            program.chmod(0o755)
    return python


def required(
    distribution: metadata.Distribution, extras: Iterable[str]
) -> dict[str, metadata.Distribution]:
    """What a distribution asks for with these extras, and what that asks for, as installed here.

    Fails where something is not installed, or not in the version that is asked for.
    """
    found: dict[str, metadata.Distribution] = {canonicalize_name(distribution.name): distribution}
    todo = [(distribution, extra) for extra in ("", *extras)]
    for asking, extra in todo:  # it grows
        for asked in _asked(asking, extra):
            name = canonicalize_name(asked.name)
            if name not in found:
                found[name] = metadata.distribution(name)
                assert asked.specifier.contains(found[name].version, prereleases=True), asked
            more = [(found[name], wanted) for wanted in ("", *sorted(asked.extras))]
            todo += [pair for pair in more if pair not in todo]
    return found


def _asked(distribution: metadata.Distribution, extra: str) -> Iterator[Requirement]:
    for line in distribution.requires or ():
        asked = Requirement(line)
        if asked.marker is None or asked.marker.evaluate({"extra": extra}):
            yield asked
