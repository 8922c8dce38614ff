"""Compiled kernels, kept on disk under a key of *all* the sources that they are made of.

numba's own cache looks at the file of the compiled function only: a change in a function that it
calls, in another file, would leave the old machine code in use. Where nothing can be written the
kernel is compiled anew in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from fedsel.paths import cache_folder, source_digest

_SOURCES = ("sampling", "mechanisms", "simulation/kernel.py", "cli/bench", "reports.py", "exact.py")
"""Where kernels and the constants in them come from."""


@cache
def kernel_folder() -> Path:
    """The folder of the machine code of just these sources, with just this compiler."""
    return cache_folder() / "kernels" / source_digest(*_SOURCES, beside=numba.__version__)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel: without the GIL, with numpy's rules of division, kept on disk."""
    return _kept(numba.njit(nogil=True, error_model="numpy")(function))


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that allocates nothing, and in turn counts no references to its arrays.

    Counting them atomically costs more than the work itself where an array is touched for each
    client.
    """
    return _kept(numba.njit(nogil=True, error_model="numpy", _nrt=False)(function))


def _kept(compiled: Any) -> Any:
    usual = config.CACHE_DIR
    try:
        config.CACHE_DIR = str(kernel_folder())
        compiled.enable_caching()
    except (RuntimeError, OSError):  # no place to write
        pass
    finally:
        config.CACHE_DIR = usual
    return compiled
