"""The ledgers of many devices, read and put side by side: what was sent, for what, for whom.

Ledgers are opened for reading alone. One that cannot be read is a line of the report like any
other, with the reason. Neither reports nor residuals are copied: nothing here depends on data.
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
from fedsel.device import Fault, History, Intent, Ledger, LedgerError
from fedsel.errors import InvalidArgument
from fedsel.statements.document import Document
from fedsel.statements.meaning import EXAMPLES, certainty

NAME_IN_WITNESS = "{name}"
"""What stands for the name of a store in the path of its witness."""
_TIMEOUT = 5.0
_NOTHING_STATED = Intent()


@final
@dataclass(frozen=True)
class RunOnDevice:
    """What one run has had from one device: purpose, recipient, reports, and their ε."""

    run: bytes
    intent: Intent
    solution: str
    dim: int
    reports: int
    bytes_each: int
    first: int
    last: int
    epsilon: Fraction


@final
@dataclass(frozen=True)
class RunOnDevices:
    """What one run has had from all devices of a report, and the most ε that it cost one of them.

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
    def of(cls, parts: Sequence[RunOnDevice]) -> RunOnDevices:
        """The parts of one run put together."""
        one = parts[0]
        return cls(
            run=one.run,
            intents=tuple(dict.fromkeys(part.intent for part in parts)),
            solution=one.solution,
            dim=one.dim,
            bytes_each=one.bytes_each,
            devices=len(parts),
            reports=sum(part.reports for part in parts),
            first=min(part.first for part in parts),
            last=max(part.last for part in parts),
            most_epsilon=max(part.epsilon for part in parts),
        )


@final
@dataclass(frozen=True)
class Device:
    """One store: what its ledger says, or the ``fault`` for which it could not be read.

    ``copy_of`` names a store before it in the report that is the same ledger: a copied store
    spends the lifetime of the first once more.
    """

    store: str
    history: History | None = None
    fault: Fault | None = None
    copy_of: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path, as a person reads it."""
        return printable(Path(self.store).name or self.store)

    @cached_property
    def runs(self) -> tuple[RunOnDevice, ...]:
        """Its runs, in the order of their first reports."""
        history = self.history
        if history is None:
            return ()
        by_run: dict[bytes, list[Any]] = {}
        for entry in history.entries:
            by_run.setdefault(entry.run, []).append(entry)
        return tuple(
            RunOnDevice(
                run=run,
                intent=history.intents.get(run, _NOTHING_STATED),
                solution=history.recipes[run].solution,
                dim=int(history.recipes[run].dim or 0),
                reports=len(entries),
                bytes_each=len(entries[0].report),
                first=min(entry.time for entry in entries),
                last=max(entry.time for entry in entries),
                epsilon=sum((entry.charge for entry in entries), Fraction(0)),
            )
            for run, entries in by_run.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """The device as JSON holds it: an ε is an exact fraction and the nearest number."""
        told: dict[str, Any] = {
            "store": printable(self.store),
            "read": self.history is not None,
            "fault": None if self.fault is None else self.fault.name,
            "problem": None if self.fault is None else self.fault.value,
            "copy_of": None if self.copy_of is None else printable(self.copy_of),
        }
        history = self.history
        if history is None:
            return told
        for name in ("lifetime", "spent", "left"):
            told |= numbers(name, getattr(history, name))
        for name in ("lifetime", "spent"):
            told[f"certainty_{name}"] = certainty(getattr(history, name))
        told["lifetimes"] = lifetimes(history)
        told["runs"] = [_run_as_dict(run) for run in self.runs]
        told["reports"] = [
            {
                "number": entry.number,
                "time": moment(entry.time),
                "run": entry.run.hex(),
                "epoch": entry.epoch,
                "round": entry.round,
                "bytes": len(entry.report),
                **numbers("epsilon", entry.charge),
            }
            for entry in history.entries
        ]
        return told


def _run_as_dict(run: RunOnDevice) -> dict[str, Any]:
    return {
        "run": run.run.hex(),
        "purpose": run.intent.purpose or None,
        "recipient": run.intent.recipient or None,
        "solution": run.solution,
        "dim": run.dim,
        "reports": run.reports,
        "bytes_per_report": run.bytes_each,
        "first": moment(run.first),
        "last": moment(run.last),
        **numbers("epsilon", run.epsilon),
    }


def lifetimes(history: History) -> list[dict[str, Any]]:
    """All lifetimes that a ledger has had, for JSON; the present one is the last."""
    return [
        {
            **numbers("epsilon", one.epsilon),
            "since": None if one.time is None else moment(one.time),
            "after_reports": one.reports,
            "raised_by": one.by or None,
        }
        for one in history.lifetimes
    ]


def numbers(name: str, exact: Fraction) -> dict[str, Any]:
    """An ε for JSON.

    >>> numbers("spent", Fraction(2, 5))
    {'spent': 0.4, 'spent_exact': '2/5'}
    """
    return {name: float(exact), f"{name}_exact": str(exact)}


def moment(seconds: int) -> str:
    """A time of a device's clock, in UTC; as it is where no calendar has it.

    >>> moment(1_700_000_000), moment(10**18)
    ('2023-11-14T22:13:20+00:00', '1000000000000000000 s after 1970')
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after 1970"


@final
@dataclass(frozen=True)
class LedgerReport:
    """What the ledgers of these devices say; ``made`` is when it was read (seconds since 1970)."""

    devices: tuple[Device, ...]
    made: int

    @property
    def read(self) -> tuple[Device, ...]:
        """Those whose ledger could be read."""
        return tuple(device for device in self.devices if device.history is not None)

    @property
    def unread(self) -> tuple[Device, ...]:
        """The others."""
        return tuple(device for device in self.devices if device.history is None)

    @property
    def complete(self) -> bool:
        """Whether every ledger could be read."""
        return not self.unread

    @cached_property
    def runs(self) -> tuple[RunOnDevices, ...]:
        """The register: each run over all devices, in the order in which they come up."""
        by_run: dict[bytes, list[RunOnDevice]] = {}
        for device in self.read:
            for run in device.runs:
                by_run.setdefault(run.run, []).append(run)
        return tuple(RunOnDevices.of(parts) for parts in by_run.values())

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
        """The report for people."""
        from fedsel.statements.ledger_page import document_of

        return document_of(self)

    def to_html(self) -> str:
        """The report as one page."""
        return self.document.to_html()


def inspect_ledgers(
    stores: Iterable[str | Path],
    *,
    witness: str | None = None,
    made: float | None = None,
    advance: Callable[[str], object] | None = None,
) -> LedgerReport:
    """Read the ledgers in these folders, and change none of them.

    ``witness`` is the path of a witness outside of the stores, with ``{name}`` for the name of the
    store. ``made`` is the time that the report carries: now, if it is None. ``advance`` is told
    each store that is about to be read.
    """
    paths = [Path(store) for store in stores]
    _check_named_once(paths)
    if witness is not None and len(paths) > 1 and NAME_IN_WITNESS not in witness:
        allowed = f"a path with {NAME_IN_WITNESS} in it: there are {len(paths)} stores"
        raise InvalidArgument("witness", witness, allowed)
    devices = []
    for path in paths:
        if advance is not None:
            advance(str(path))
        devices.append(_inspected(path, witness))
    now = datetime.now(UTC).timestamp() if made is None else made
    return LedgerReport(tuple(_with_copies(devices)), int(now))


def _inspected(store: Path, witness: str | None) -> Device:
    name = store.absolute().name
    place = None if witness is None else witness.replace(NAME_IN_WITNESS, name)
    try:
        return Device(str(store), Ledger(store, place, timeout=_TIMEOUT).inspect())
    except LedgerError as error:
        return Device(str(store), fault=error.fault)


def _check_named_once(paths: Sequence[Path]) -> None:
    seen = set()
    for path in paths:
        place = os.path.realpath(path)
        if place in seen:
            raise InvalidArgument("DIR", str(path), "named once: its ε would count twice")
        seen.add(place)


def _with_copies(devices: Sequence[Device]) -> list[Device]:
    """The devices, with a word where two stores are one ledger."""
    first: dict[bytes, str] = {}
    told = []
    for device in devices:
        identity = device.history.identity if device.history else b""
        original = first.setdefault(identity, device.store) if identity else device.store
        told.append(device if original == device.store else replace(device, copy_of=original))
    return told
