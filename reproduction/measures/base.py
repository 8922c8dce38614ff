"""What measurements share: they are tasks of parameters alone, and need no data set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fedsel import InvalidArgument


def check_count(name: str, value: int, least: int = 1) -> None:
    """Refuse a value that is not an integer or too small."""
    if type(value) is not int or value < least:
        raise InvalidArgument(name, value, f"an integer ≥ {least}")


class Measure:
    """A task whose parameters are its fields, by default in one part."""

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @property
    def parts(self) -> int:
        return 1
