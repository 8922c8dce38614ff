"""What a relay stands in front of: one run of a service, and the keys that its devices pin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self, final

from fedsel._internal.settings import check_keys, naming_file, read_toml
from fedsel.device._connection import check_address, check_token
from fedsel.errors import InvalidArgument, check_kind, check_private
from fedsel.service._task import Limits, check_name, table_of, texts_of
from fedsel.wire._report import RUN_BYTES, check_public_key


@final
@dataclass(frozen=True)
class RelayConfig:
    """The settings of a relay; ``fedsel invite TASK --relay URL`` writes them.

    ``service``: where the service is; ``run``: the run's own name, in hexadecimal; ``token``: the
    relay's invitation, a secret; ``server_key``, ``signing_key``: the service's; ``ca``: a file of
    certificates to verify the service by; ``name``, ``origins`` and ``limits`` as in a `Task`.
    """

    name: str
    service: str
    run: str
    token: str = field(repr=False)
    server_key: str
    signing_key: str
    ca: Path | None = None
    origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    file: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        check_address("service", self.service)
        check_kind("run", self.run, str)
        if not re.fullmatch(rf"[0-9a-f]{{{2 * RUN_BYTES}}}", self.run):
            allowed = f"{2 * RUN_BYTES} hexadecimal digits, in lower case"
            raise InvalidArgument("run", self.run, allowed)
        check_kind("token", self.token, str)
        check_token("token", self.token)
        for name in ("server_key", "signing_key"):
            check_public_key(name, getattr(self, name))

    def __str__(self) -> str:
        """How messages name it."""
        return f"the relay {self.name!r}" + ("" if self.file is None else f" in {self.file.name}")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The settings of a TOML file; the file's name is the relay's, unless it has one."""
        path, values = Path(path), read_toml("relay", path)
        check_private("relay", path)
        values.setdefault("name", path.stem)
        with naming_file(path):
            return cls.of(values, path)

    @classmethod
    def of(cls, values: Mapping[str, Any], file: Path | None = None) -> Self:
        """The settings of a table."""
        known = [f.name for f in fields(cls) if f.name != "file"]
        required = ("name", "service", "run", "token", "server_key", "signing_key")
        check_keys(values, known, required=required)
        given = dict(values)
        given["limits"] = table_of(Limits, "limits", given.get("limits", {}))
        if "origins" in given:
            given["origins"] = texts_of("origins", given["origins"])
        if given.get("ca") is not None:
            check_kind("ca", given["ca"], str)
            given["ca"] = Path(given["ca"]) if file is None else file.parent / given["ca"]
        return cls(file=file, **given)
