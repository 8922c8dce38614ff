"""The ledgers of many devices, read and put side by side: what was sent, for what, for whom.

Ledgers are only read. One that cannot be read is a line of the report like any other, with the
reason. Neither reports nor residuals are copied: nothing here depends on data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, final

from fedsel._internal.display import printable
from fedsel._internal.progress import note
from fedsel.device import (
    Entry,
    Fault,
    History,
    Intent,
    Ledger,
    LedgerError,
    Limit,
    Standing,
)
from fedsel.errors import InvalidArgument
from fedsel.statements._meaning import EXAMPLES, Document, Statement, certainty, numbers

NAME_IN_WITNESS = "{name}"
"""This stands for the name of a store in the path of its witness."""
_TIMEOUT = 5.0


@final
@dataclass(frozen=True)
class RunOnDevices:
    """What one run has had from one or more devices, and the most ε that it cost one of them.

    A server that stated different things to different devices has several ``intents``.
    """

    run: bytes
    intents: tuple[Intent, ...]
    solution: str
    dim: int
    bytes_each: int
    devices: int
    reports: int
    first: int
    last: int
    most_epsilon: Fraction

    @classmethod
    def of(cls, run: bytes, parts: Sequence[tuple[History, list[Entry]]]) -> RunOnDevices:
        """A run from what each of its devices has sent to it."""
        recipe, entries = parts[0][0].recipes[run], [e for _, some in parts for e in some]
        return cls(
            run=run,
            intents=tuple(dict.fromkeys(h.intents.get(run, Intent()) for h, _ in parts)),
            solution=recipe.solution,
            dim=int(recipe.dim or 0),
            bytes_each=len(entries[0].report),
            devices=len(parts),
            reports=len(entries),
            first=min(entry.time for entry in entries),
            last=max(entry.time for entry in entries),
            most_epsilon=max(sum((e.charge for e in some), Fraction(0)) for _, some in parts),
        )

    def to_dict(self) -> dict[str, Any]:
        """The run of one device as JSON holds it."""
        return {
            "run": self.run.hex(),
            "purpose": self.intents[0].purpose or None,
            "recipient": self.intents[0].recipient or None,
            "solution": self.solution,
            "dim": self.dim,
            "reports": self.reports,
            "bytes_per_report": self.bytes_each,
            "first": moment(self.first),
            "last": moment(self.last),
            **numbers("epsilon", self.most_epsilon),
        }


@final
@dataclass(frozen=True)
class Device:
    """One store: what its ledger says, or the ``fault`` for which it could not be read.

    ``copy_of`` names a store before it in the report that is the same ledger: a copied store
    spends the lifetime of the first once more. ``read_at`` is when it was read (seconds since
    1970; None: now).
    """

    store: str
    history: History | None = None
    fault: Fault | None = None
    copy_of: str | None = None
    read_at: float | None = None

    @property
    def name(self) -> str:
        """The last part of the path, as a person reads it."""
        return printable(Path(self.store).name or self.store)

    @cached_property
    def runs(self) -> tuple[RunOnDevices, ...]:
        """Its runs, in the order of their first reports."""
        return _runs([self])

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """What each of its limits counts when it was read, and what it gives back when."""
        now = datetime.now(UTC).timestamp() if self.read_at is None else self.read_at
        return () if self.history is None else self.history.standings(now)

    def to_dict(self) -> dict[str, Any]:
        """The device as JSON holds it: an ε is an exact fraction and the nearest number."""
        found: dict[str, Any] = {
            "store": printable(self.store),
            "read": self.history is not None,
            "fault": None if self.fault is None else self.fault.name,
            "problem": None if self.fault is None else self.fault.value,
            "copy_of": None if self.copy_of is None else printable(self.copy_of),
        }
        history = self.history
        if history is None:
            return found
        return {
            **found,
            "certainty_lifetime": None if history.lifetime is None else certainty(history.lifetime),
            "certainty_spent": certainty(history.spent),
            "runs": [run.to_dict() for run in self.runs],
            **_as_json(self, history, lambda entry: {"bytes": len(entry.report)}),
        }


def _runs(devices: Iterable[Device]) -> tuple[RunOnDevices, ...]:
    """Each run over all devices, in the order in which they come up."""
    found: dict[bytes, list[tuple[History, list[Entry]]]] = {}
    for history in (device.history for device in devices if device.history):
        own: dict[bytes, list[Entry]] = {}
        for entry in history.entries:
            own.setdefault(entry.run, []).append(entry)
        for run, entries in own.items():
            found.setdefault(run, []).append((history, entries))
    return tuple(RunOnDevices.of(run, parts) for run, parts in found.items())


def with_contents(history: History) -> dict[str, Any]:
    """A ledger as JSON holds it for the device's owner: with runs and contents of all reports."""

    def more(entry: Entry) -> dict[str, Any]:
        recipe, intent = history.recipes[entry.run], history.intents.get(entry.run, Intent())
        return {
            "solution": recipe.solution,
            "dim": recipe.dim,
            "purpose": intent.purpose or None,
            "recipient": intent.recipient or None,
            "report": entry.report.hex(),
        }

    return _as_json(Device("", history), history, more)


def _as_json(
    device: Device, history: History, more: Callable[[Entry], dict[str, Any]]
) -> dict[str, Any]:
    """What a ledger has spent, within which limits, all that it has had, and its reports."""
    return {
        **numbers("lifetime", history.lifetime),
        **numbers("spent", history.spent),
        **numbers("left", history.left),
        "limits": [
            {
                **_limit(one.limit),
                **numbers("held", one.held),
                **numbers("left", one.left),
                **numbers("ever", one.ever),
                "renewals": [
                    {"at": moment(at), **numbers("epsilon", back)} for at, back in one.renewals
                ],
            }
            for one in device.standings
        ],
        "changes": [
            {
                "limits": [_limit(limit) for limit in one.limits],
                "since": None if one.time is None else moment(one.time),
                "after_reports": one.reports,
                "allowed_by": one.by or None,
            }
            for one in history.changes
        ],
        "confirmations": [
            {"time": moment(one.time), "after_reports": one.reports, "by": one.by}
            for one in history.confirmations
        ],
        "reports": [
            {
                "number": entry.number,
                "time": moment(entry.time),
                "run": entry.run.hex(),
                "epoch": entry.epoch,
                "round": entry.round,
                **more(entry),
                **numbers("epsilon", entry.charge),
            }
            for entry in history.entries
        ],
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {**vars(limit), **numbers("epsilon", limit.epsilon)}


def moment(seconds: int) -> str:
    """A time of a device's clock in UTC, or the seconds where no calendar has the day.

    >>> moment(1_700_000_000), moment(10**18)
    ('2023-11-14T22:13:20+00:00', '1000000000000000000 s after 1970')
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after 1970"


@final
@dataclass(frozen=True)
class LedgerReport(Statement):
    """What the ledgers of these devices say; ``made`` is when it was read (seconds since 1970)."""

    devices: tuple[Device, ...]
    made: int

    @property
    def read(self) -> tuple[Device, ...]:
        """The devices whose ledger could be read."""
        return tuple(device for device in self.devices if device.history is not None)

    @property
    def unread(self) -> tuple[Device, ...]:
        """The devices whose ledger could not be read."""
        return tuple(device for device in self.devices if device.history is None)

    @property
    def complete(self) -> bool:
        """Whether every ledger could be read."""
        return not self.unread

    @cached_property
    def runs(self) -> tuple[RunOnDevices, ...]:
        """The register of runs over all devices."""
        return _runs(self.devices)

    @property
    def most_spent(self) -> Fraction:
        """The largest ε that one of these devices has spent."""
        return max((d.history.spent for d in self.read if d.history), default=Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {
            "made": moment(self.made),
            "complete": self.complete,
            "devices_read": len(self.read),
            "devices_unread": len(self.unread),
            **numbers("most_spent", self.most_spent),
            "certainty_most_spent": certainty(self.most_spent),
            "meaning": [{"epsilon": e, "certainty": certainty(e)} for e in EXAMPLES],
            "devices": [device.to_dict() for device in self.devices],
        }

    @property
    def document(self) -> Document:
        from fedsel.statements._ledger_page import document_of

        return document_of(self)


def inspect_ledgers(
    stores: Iterable[str | Path],
    *,
    witness: str | None = None,
    made: float | None = None,
) -> LedgerReport:
    """Read the ledgers in these folders, and change none of them.

    ``witness`` is the path of a witness outside of the stores, with ``{name}`` for the name of the
    store. ``made`` is the time that the report carries: now, if it is None.
    """
    paths = [Path(store) for store in stores]
    seen: set[str] = set()
    for path in paths:
        place = os.path.realpath(path)
        if place in seen:
            raise InvalidArgument("DIR", str(path), "listed once: its ε would count twice")
        seen.add(place)
    if witness is not None and len(paths) > 1 and NAME_IN_WITNESS not in witness:
        allowed = f"a path with {NAME_IN_WITNESS} in it: there are {len(paths)} stores"
        raise InvalidArgument("witness", witness, allowed)
    now = datetime.now(UTC).timestamp() if made is None else made
    devices: list[Device] = []
    first: dict[bytes, str] = {}
    with note("reading ledgers", len(paths)) as advance:
        for path in paths:
            device = replace(_inspected(path, witness), read_at=now)
            if device.history and device.history.identity:
                original = first.setdefault(device.history.identity, device.store)
                device = replace(device, copy_of=None if original == device.store else original)
            devices.append(device)
            advance(1)
    return LedgerReport(tuple(devices), int(now))


def _inspected(store: Path, witness: str | None) -> Device:
    place = None if witness is None else witness.replace(NAME_IN_WITNESS, store.absolute().name)
    try:
        return Device(str(store), Ledger(store, place, timeout=_TIMEOUT).inspect())
    except LedgerError as error:
        return Device(str(store), fault=error.fault)
