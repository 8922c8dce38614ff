"""Small environments for the tests of the built package, with nothing that was not asked for."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

Versions = Literal["newest", "lowest"]


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


def uv_install(python: Path, *words: str | Path) -> None:
    """The same by uv, which takes a second where pip takes a minute."""
    run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *words)


def installed(folder: Path, wheel: Path, extras: Iterable[str], versions: Versions) -> Path:
    """The Python of a new environment of a wheel with these extras, and nothing else.

    What these ask for is the newest or the lowest version that they allow. torch alone is linked
    from the environment of the tests: it has one version for all of them.
    """
    python, asked = empty(folder), required(wheel, extras)
    with_torch = asked.pop("torch", None) is not None
    resolution = {"newest": "highest", "lowest": "lowest-direct"}[versions]
    uv_install(python, "--resolution", resolution, *map(_written, asked.values()))
    uv_install(python, "--no-deps", "--no-cache", wheel)
    if versions == "lowest":
        found = metadata.distributions(path=[str(_site(python))])
        there = {canonicalize_name(one.name): Version(one.version) for one in found}
        for name in asked.keys() - required(wheel, ()).keys():
            (bound,) = asked[name].specifier  # what is promised can be had
            assert there[name] == Version(bound.version), (asked[name], there[name])
    if with_torch:
        uv_install(python, *map(_written, _asked(metadata.requires("torch") or (), "")))
        _link(python, metadata.distribution("torch"))
    return python


def required(wheel: Path, extras: Iterable[str]) -> dict[str, Requirement]:
    """What a wheel asks for with these extras, and with those of its own that they name."""
    (folder,) = (entry for entry in zipfile.Path(wheel).iterdir() if ".dist-info" in entry.name)
    lines = metadata.PathDistribution(folder).requires or ()
    own = canonicalize_name(wheel.name.partition("-")[0])
    found: dict[str, Requirement] = {}
    todo = ["", *extras]
    for extra in todo:  # it grows
        for asked in _asked(lines, extra):
            if asked.name == own:
                todo += sorted(asked.extras - {*todo})
            else:
                found[asked.name] = asked
    return found


def _written(asked: Requirement) -> str:
    return f"{asked.name}[{','.join(asked.extras)}]{asked.specifier}"


def _asked(lines: Iterable[str], extra: str) -> Iterator[Requirement]:
    for asked in map(Requirement, lines):
        if asked.marker is None or asked.marker.evaluate({"extra": extra}):
            yield asked


def _site(python: Path) -> Path:
    paths = {"base": python.parents[1], "platbase": python.parents[1]}
    return Path(sysconfig.get_path("purelib", "venv", paths))


def _link(python: Path, distribution: metadata.Distribution) -> None:
    site = _site(python)
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        (site / top).symlink_to(Path(str(distribution.locate_file(top))))
