"""What an installation may lack: the compiled kernels, and packages for some purposes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

try:  # in C, from sampling/native; without them devices and servers are slower, and none simulates
    from fedsel._internal import _native as native
except ImportError:
    native = None  # type: ignore[assignment]

__all__ = ["MissingExtra", "check_installed", "native", "needed"]


class MissingExtra(ImportError):
    """A package that this needs is not installed."""


@contextmanager
def needed(extra: str, purpose: str) -> Iterator[None]:
    """Turn a failed import inside into an error that says what to install.

    >>> with needed("plots", "figures"):
    ...     import no_such_package
    Traceback (most recent call last):
    MissingExtra: figures: no_such_package is missing, pip install 'fedsel[plots]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0]
        if missing == "fedsel":
            raise
        sentence = f"{purpose}: {missing} is missing, pip install 'fedsel[{extra}]'"
        raise MissingExtra(sentence, name=error.name) from error


def check_installed(extra: str, purpose: str, *packages: str) -> None:
    """Check before long work that packages needed at its end are installed.

    >>> check_installed("plots", "figures", "no_such_package")
    Traceback (most recent call last):
    MissingExtra: figures: no_such_package is missing, pip install 'fedsel[plots]'
    """
    with needed(extra, purpose):
        for package in packages:
            if find_spec(package) is None:
                raise ModuleNotFoundError(name=package)
