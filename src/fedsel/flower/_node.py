"""A node's own settings, policy and ledger, from the ``node_config`` that its owner wrote.

Neither ``run_config`` nor a message can change them. In a simulation, where Flower invents the
``node_config``, an environment variable names a folder instead.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

from fedsel._internal.settings import check_keys, check_omitted
from fedsel.device import Client, Policy
from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.flower._messages import NodeRefusal

PREFIX = "fedsel-"
NODES_VARIABLE = "FEDSEL_FLOWER_NODES"
"""The variable that names the folder of policy.toml and the ledgers in a simulation."""

_PLACES = ("policy", "store", "witness", "create")
_LISTS = ("solutions", "dimensions", "purposes", "recipients")
_OURS = PREFIX.rstrip("-")
_ALIKE = 0.8
"""Words this similar to our prefix count as typing errors: fesdel, fedsl."""


class WrongSettings(InvalidArgument):
    """A wrong setting: the message is for the owner, the fixed ``sentence`` for the server."""

    def __init__(
        self, name: str, value: object, allowed: str, sentence: str = NodeRefusal.WRONG_SETTINGS
    ) -> None:
        super().__init__(name, value, allowed)
        self.sentence = sentence


@final
@dataclass(frozen=True)
class Node:
    """A node's policy, and the place of its ledger.

    Keys of ``node_config``: ``fedsel-store``, the ledger's folder; ``fedsel-policy``, a TOML file,
    or the policy's fields themselves with dashes (``fedsel-lifetime=8.0``, lists with commas);
    ``fedsel-witness``, a file on another disk; ``fedsel-create=true`` to create a missing ledger.
    Paths must be absolute: a relative one would mean another ledger, and another lifetime, in each
    working directory. Unknown and misspelt keys are refused.

    >>> Node.of({"fedsel-store": "/store", "fedsel-lifetime": 8.0, "fedsel-per-report": 2.0,
    ...          "fedsel-solutions": "FJ,PS-PM", "fedsel-dimensions": 11}).policy.solutions
    ('FJ', 'PS-PM')
    """

    policy: Policy
    store: Path
    witness: Path | None = None
    create: bool = False

    def __post_init__(self) -> None:
        # Each report would be charged in vain.
        check_omitted("omitted on Flower", server_key=self.policy.server_key)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Node:
        """Read a ``node_config``; a missing, unknown or wrong setting is refused."""
        for key, value in config.items():
            if not key.startswith(PREFIX) and _looks_like_ours(key):
                raise InvalidArgument(key, value, f"spelled {PREFIX}…, or without {_OURS} in it")
        own = {k.removeprefix(PREFIX): v for k, v in config.items() if k.startswith(PREFIX)}
        folder = os.environ.get(NODES_VARIABLE)
        if not own and folder:
            return cls._simulated(_path(NODES_VARIABLE, folder), config)
        if "store" not in own:
            allowed = "set in the node_config of this node"
            sentence = NodeRefusal.WRONG_SETTINGS if own else NodeRefusal.NO_SETTINGS
            raise WrongSettings(f"{PREFIX}store", None, allowed, sentence)
        witness = own.get("witness")
        create = own.get("create", False)
        check_kind(f"{PREFIX}create", create, bool)
        return cls(
            _policy({k: v for k, v in own.items() if k not in _PLACES}, own.get("policy")),
            _path(f"{PREFIX}store", own["store"]),
            None if witness is None else _path(f"{PREFIX}witness", witness),
            create,
        )

    @classmethod
    def _simulated(cls, folder: Path, config: Mapping[str, Any]) -> Node:
        number = check_count("partition-id", config.get("partition-id"), least=0)
        policy = _checked(Policy.load, folder / "policy.toml")
        return cls(policy, folder / f"node-{number}", create=True)

    def client(self) -> Client:
        """Return the device that answers for this node."""
        return Client(self.policy, self.store, witness=self.witness, create=self.create)


def _policy(values: dict[str, Any], file: object) -> Policy:
    if file is not None:
        if values:
            name = next(iter(values))
            raise InvalidArgument(f"{PREFIX}{name}", values[name], f"omitted with {PREFIX}policy")
        return _checked(Policy.load, _path(f"{PREFIX}policy", file))
    known = {field.name.replace("_", "-"): field.name for field in fields(Policy)}
    check_keys(values, [*_PLACES, *known], within=PREFIX)
    settings: dict[str, Any] = {known[name]: value for name, value in values.items()}
    for name in _LISTS:
        if isinstance(settings.get(name), str | int):
            settings[name] = [part.strip() for part in str(settings[name]).split(",")]
    if "dimensions" in settings:
        settings["dimensions"] = [_count(part) for part in settings["dimensions"]]
    return _checked(Policy.of, settings)


def _checked(make: Callable[[Any], Policy], given: object) -> Policy:
    """Build a policy, and name the policy in errors."""
    try:
        return make(given)
    except InvalidArgument as error:
        raise WrongSettings(
            error.name, error.value, error.allowed, NodeRefusal.WRONG_POLICY
        ) from None


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{PREFIX}dimensions", text, "counts, with commas between") from None


def _path(name: str, value: object) -> Path:
    path = None
    if isinstance(value, str) and value:
        with suppress(RuntimeError):  # ~name of an unknown user
            path = Path(value).expanduser()
    if path is None or not path.is_absolute():
        raise InvalidArgument(name, value, "an absolute path")
    return path


def _looks_like_ours(key: str) -> bool:
    """Return whether a key looks like a misspelt one of ours.

    >>> [k for k in ("fedsel_store", "Fedsel-clip", "fesdel-clip", "fed-sel-clip", "partition-id",
    ...              "federation", "fedavg-clip") if _looks_like_ours(k)]
    ['fedsel_store', 'Fedsel-clip', 'fesdel-clip', 'fed-sel-clip']
    """
    words = re.findall(r"[^\W\d_]+", key.casefold())
    if not words:
        return False
    alike = difflib.SequenceMatcher(None, words[0], _OURS).ratio() >= _ALIKE
    return alike or _OURS in "".join(words)
