"""The page of a report on ledgers: overview, runs, meaning, and one section for each device."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fedsel._internal.display import printable
from fedsel.device import History, Intent
from fedsel.pages import Section, Table
from fedsel.statements.document import Document
from fedsel.statements.ledgers import Device, LedgerReport, RunOnDevice, RunOnDevices, moment
from fedsel.statements.meaning import exactly, in_percent, meaning, meaning_section

NOT_STATED = "not stated"
_RUNS_TITLE = "What was asked, for what and for whom"
_MOST_ROWS = 200
"""Reports of one device that the page lists; the newest ones."""
_MOST_LETTERS = 40
_DAY = len("2026-11-17")
_MOST_DIGITS = 16
"""Of a fraction in a table; longer ones stand where there is room, and in the JSON."""


def document_of(report: LedgerReport) -> Document:
    """The report for people."""
    reports = sum(len(d.history.entries) for d in report.read if d.history)
    return Document(
        title="What these devices have reported",
        summary=_summary(report),
        facts={
            "devices": str(len(report.devices)),
            "ledgers read": str(len(report.read)),
            "ledgers not read": str(len(report.unread)),
            "reports": str(reports),
            "largest ε spent": f"{float(report.most_spent):.6g}",
            "read at": when(report.made),
        },
        sections=(
            _overview(report),
            _runs(report),
            meaning_section(),
            *(_device(device, place) for place, device in enumerate(report.devices, 1)),
            _limits(),
        ),
    )


def when(seconds: int) -> str:
    """A time as a person reads it.

    >>> when(1_700_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    text = moment(seconds)
    return text.replace("T", " ").replace("+00:00", " UTC") if "T" in text else text


def _summary(report: LedgerReport) -> tuple[str, ...]:
    if not report.read:
        return ("No ledger could be read, so this page says nothing about what was sent.",)
    unread = len(report.unread)
    sentences = [
        f"All {len(report.read)} ledgers were read."
        if report.complete and len(report.read) > 1
        else "The ledger was read."
        if report.complete
        else f"{unread} of {len(report.devices)} ledgers could not be read: what these devices"
        " have sent is not known here."
    ]
    spent = report.most_spent
    if spent:
        sentences.append(f"No device has spent more than ε = {float(spent):.6g}. {meaning(spent)}")
    else:
        sentences.append("Nothing was sent by the devices whose ledgers were read.")
    return tuple(sentences)


def _overview(report: LedgerReport) -> Section:
    rows = tuple(
        (
            _label(device, report.devices),
            "read" if device.history else "NOT READ",
            *_amounts(device),
        )
        for device in report.devices
    )
    columns = ("device", "ledger", "ε spent", "ε left", "lifetime ε", "reports", "last report")
    unread = [f"{printable(d.store)}: {d.fault.value}." for d in report.unread if d.fault]
    copies = [
        f"{printable(d.store)} is a copy of {printable(d.copy_of)}: each of them spends the"
        " lifetime by itself."
        for d in report.devices
        if d.copy_of
    ]
    risen = [f"{printable(d.store)}: {line}" for d in report.read for line in raised(d.history)]
    return Section(
        name="devices",
        title="The devices at a glance",
        missing=(*unread, *copies, *risen),
        notice="Ledgers that need a look",
        tables=(
            Table(
                "Each device, and what it has spent of its lifetime ε",
                (*columns, "certainty at most"),
                rows,
                note="Times are those of the devices' own clocks. Exact fractions stand below.",
            ),
        ),
    )


def _amounts(device: Device) -> tuple[str | int | None, ...]:
    history = device.history
    if history is None:
        return (None,) * 6
    last = when(max(entry.time for entry in history.entries)) if history.entries else None
    return (
        *(_decimal(x) for x in (history.spent, history.left, history.lifetime)),
        len(history.entries),
        last,
        in_percent(history.spent),
    )


def _label(device: Device, all_devices: Sequence[Device]) -> str:
    """A short name that no other device of the report has."""
    alike = sum(1 for other in all_devices if other.name == device.name)
    text = device.name if alike == 1 else printable(device.store)
    half = _MOST_LETTERS // 2
    return text if len(text) <= _MOST_LETTERS else f"{text[:half]}…{text[-half:]}"


def _runs(report: LedgerReport) -> Section:
    rows = tuple(
        (
            run.run.hex()[:8],
            stated("purpose", run.intents),
            stated("recipient", run.intents),
            _sent(run),
            run.devices,
            run.reports,
            _decimal(run.most_epsilon),
            f"{when(run.first)[:_DAY]} – {when(run.last)[:_DAY]}",
        )
        for run in report.runs
    )
    if not rows:
        return Section("runs", _RUNS_TITLE, text=("No run has had a report.",))
    silent = sum(1 for run in report.runs if not any(run.intents))
    text = "Purpose and recipient are what the server stated. Nobody has verified them."
    if silent:
        text += f" {silent} of {len(rows)} runs stated neither."
    columns = ("run", "purpose", "recipient", "solution", "devices", "reports")
    table = Table(
        "Each run, over all devices whose ledgers were read",
        (*columns, "most ε of a device", "when"),
        rows,
        note="A report is one draw of the solution that is named, on an update of d numbers. Times"
        " of day and bytes stand with the devices.",
    )
    return Section("runs", _RUNS_TITLE, text=(text,), tables=(table,))


def stated(name: str, intents: Sequence[Intent]) -> str:
    """What a server said; where it said different things to different devices, all of them.

    >>> stated("purpose", [Intent("A study"), Intent()])
    'A study / not stated'
    """
    texts = dict.fromkeys(getattr(intent, name) or NOT_STATED for intent in intents)
    return " / ".join(texts)


def _sent(run: RunOnDevice | RunOnDevices) -> str:
    return f"{run.solution}, d\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{run.dim}"


def _device(device: Device, place: int) -> Section:
    title, history = device.name, device.history
    if history is None:
        problem = device.fault.value if device.fault else "it could not be read"
        return Section(
            name=f"device {place}",
            title=title,
            where=f"Device {place}",
            missing=(f"{problem[0].upper()}{problem[1:]}.",),
            notice="This ledger was not read",
            facts={"store": printable(device.store)},
        )
    copies = (f"It is a copy of {printable(device.copy_of)}.",) if device.copy_of else ()
    steps = (_lifetimes(history),) if len(history.lifetimes) > 1 else ()
    return Section(
        name=f"device {place}",
        title=title,
        where=f"Device {place}",
        missing=(*copies, *raised(history)),
        notice="This ledger needs a look",
        facts={
            "store": printable(device.store),
            "ε spent": exactly(history.spent),
            "ε left": exactly(history.left),
            "lifetime ε": exactly(history.lifetime),
            "certainty so far": f"at most {in_percent(history.spent)}, from an even prior",
            "certainty in the end": f"at most {in_percent(history.lifetime)}, if all is spent",
        },
        text=() if device.runs else ("No report has left this device.",),
        tables=(*steps, *(_device_tables(device) if device.runs else ())),
    )


def raised(history: History | None) -> tuple[str, ...]:
    """A sentence for each time that the lifetime was raised."""
    return tuple(
        f"Its lifetime was raised from ε = {_decimal(old.epsilon)} to {_decimal(new.epsilon)} on"
        f" {when(new.time or 0)}, after {new.reports} reports, by {new.by}."
        for old, new in (history.raises if history else ())
    )


def _lifetimes(history: History) -> Table:
    rows = tuple(
        (
            _decimal(one.epsilon),
            "before changes were recorded" if one.time is None else when(one.time),
            one.reports,
            one.by or "–",
        )
        for one in history.lifetimes
    )
    columns = ("lifetime ε", "since", "after reports", "raised by")
    return Table("Every lifetime that this ledger has had", columns, rows)


def _device_tables(device: Device) -> tuple[Table, ...]:
    entries = device.history.entries if device.history else ()
    runs = tuple(
        (
            run.run.hex()[:8],
            stated("purpose", [run.intent]),
            stated("recipient", [run.intent]),
            _sent(run),
            run.reports,
            _decimal(run.epsilon),
            _fraction(run.epsilon),
        )
        for run in device.runs
    )
    rows = tuple(
        (
            *(e.number, when(e.time), e.run.hex()[:8], e.epoch, e.round, len(e.report)),
            *(_decimal(e.charge), _fraction(e.charge)),
        )
        for e in entries[-_MOST_ROWS:]
    )
    left_out = len(entries) - len(rows)
    note = f"The {left_out} reports before these are in the JSON of the same command."
    return (
        Table(
            "Runs, with what they have cost",
            ("run", "purpose", "recipient", "solution", "reports", "ε", "exactly"),
            runs,
        ),
        Table(
            "Reports that may have left",
            ("number", "time", "run", "epoch", "round", "bytes", "ε", "exactly"),
            rows,
            note=note if left_out else "",
        ),
    )


def short(amount: Fraction) -> str:
    """A decimal, and the fraction where it is short and says more.

    >>> short(Fraction(1, 9)), short(Fraction(2)), short(Fraction(10**30 + 1, 10**30))
    ('0.111111 = 1/9', '2', '1')
    """
    number, exact = _decimal(amount), _fraction(amount)
    return number if exact in (number, None) else f"{number} = {exact}"


def _decimal(amount: Fraction) -> str:
    return f"{float(amount):.6g}"


def _fraction(amount: Fraction) -> str | None:
    exact = str(amount)
    return exact if len(exact) <= _MOST_DIGITS else None


def _limits() -> Section:
    return Section(
        name="limits",
        title="What this page does not say",
        points=(
            "It tells what the ledgers say. A ledger notices changes by accident, crashes and"
            " restored copies, but not somebody who controls the device and makes up a new one.",
            "Purpose and recipient are claims of the server. Who may talk to a device at all is for"
            " the transport to decide (TLS, authentication).",
            "The content of reports and what devices keep for themselves is not on this page.",
            "Programs beside fedsel may have sent other data from the same devices.",
        ),
    )
