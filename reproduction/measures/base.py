"""What measurements share: they are tasks of parameters alone, and need no data set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


class Measure:
    """A task whose parameters are its fields, done in one part unless it says otherwise."""

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @property
    def parts(self) -> int:
        return 1
