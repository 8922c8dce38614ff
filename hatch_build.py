"""Compile the kernels when the package is built: one extension module in C, for the stable ABI.

Written in C because the kernels are loops over plain arrays: no objects, no generated code, nothing
but a compiler to build it, and Python's headers only in the file that takes the arguments.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

NAME = "fedsel._internal._native"
SOURCES = "fedsel/sampling/native"
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
"""No contraction to fused multiply-add and no reordering: the same bits on every processor."""
WARNINGS = ["-Wall", "-Wextra", "-Wno-psabi"]
MICROSOFT = ["/std:c11", "/O2", "/fp:precise"]


class CompileKernels(BuildHookInterface):
    """Adds the compiled module to a wheel, or to the sources of an editable installation.

    FEDSEL_PURE=1 leaves it out: enough for devices and servers, not for simulations.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if self.target_name != "wheel" or os.environ.get("FEDSEL_PURE", "0") not in ("", "0"):
            return
        compile_kernels(Path(self.root) / "src")
        build_data["artifacts"] += ["src/fedsel/_internal/_native*"]
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform()}"


class BuildAtOnce(build_ext):
    """Compiles the files of the module at the same time: who installs from source waits for it."""

    def build_extensions(self) -> None:
        compile_all = self.compiler.compile

        def compile_each(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor() as pool:
                made = list(pool.map(lambda source: compile_all([source], **options), sources))
            return [file for files in made for file in files]

        if self.compiler.compiler_type == "unix":
            self.compiler.compile = compile_each
        super().build_extensions()


def compile_kernels(source: Path) -> None:
    """Compile the module into the package under this folder; CFLAGS and CC are honoured."""
    folder = source / SOURCES
    lean = [] if "CFLAGS" in os.environ else ["-g0"]  # no debug symbols unless CFLAGS asks for them
    extension = Extension(
        NAME,
        [str(folder / file) for file in ("module.c", "base.c", "avx2.c", "avx512.c")],
        depends=[str(part) for part in folder.glob("*.[hi]*")],
        extra_compile_args=MICROSOFT if sys.platform == "win32" else [*FLAGS, *WARNINGS, *lean],
        py_limited_api=True,
    )
    made = Distribution({"ext_modules": [extension], "package_dir": {"": str(source)}})
    command = BuildAtOnce(made)
    command.inplace = True
    try:
        with tempfile.TemporaryDirectory() as temporary:
            command.build_temp = command.build_lib = temporary
            command.ensure_finalized()
            command.run()
    except (BaseError, CCompilerError) as error:
        raise RuntimeError(
            f"fedsel's kernels could not be compiled ({error}). Install a C compiler; or, for a "
            "device or a server, which need no kernels, set FEDSEL_PURE=1"
        ) from error


def _platform() -> str:
    if sys.platform == "darwin":  # what it is compiled for, not what this machine runs
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    kinds = (tag.platform for tag in sys_tags())
    return next(kind for kind in kinds if "manylinux" not in kind and "musllinux" not in kind)


if __name__ == "__main__":
    compile_kernels(Path(sys.argv[1]))
