"""The page of a report on ledgers: overview, runs, meaning, and one section for each device."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fedsel._internal.display import counted, printable
from fedsel.device import History, Intent, Limits
from fedsel.pages import Cell, Section, Table
from fedsel.statements._ledgers import Device, LedgerReport, RunOnDevices, moment
from fedsel.statements._meaning import Document, exactly, in_percent, meaning, meaning_section

NOT_STATED = "not stated"
_MOST_ROWS = 200
"""The newest reports of one device that the page lists."""
_MOST_LETTERS = 40
_DAY = len("2026-11-17")
_MOST_DIGITS = 16
"""A longer fraction is left out of tables; facts and JSON have room for it."""
_RUN_COLUMNS = ("run", "purpose", "recipient", "solution")
_LIMITS = (
    "The page repeats what the ledgers say. A ledger notices accidental changes, crashes and"
    " restored copies, but not somebody who controls the device and forges a new one.",
    "Purpose and recipient are claims of the server. The transport (TLS, authentication) decides"
    " who may talk to a device at all.",
    "The page shows neither the content of reports nor what devices keep for themselves.",
    "Programs other than fedsel may have sent other data from the same devices.",
)


def document_of(report: LedgerReport) -> Document:
    """The report for people."""
    return Document(
        title="What these devices have reported",
        summary=_summary(report),
        facts={
            "devices": str(len(report.devices)),
            "ledgers read": str(len(report.read)),
            "ledgers not read": str(len(report.unread)),
            "reports": str(sum(len(d.history.entries) for d in report.read if d.history)),
            "largest ε spent": exactly(report.most_spent),
            "read at": _when(report.made),
        },
        sections=(
            _overview(report),
            _runs(report),
            meaning_section(),
            *(
                device_section(one, place, _MOST_ROWS)
                for place, one in enumerate(report.devices, 1)
            ),
            Section("limits", "What this page does not say", points=_LIMITS),
        ),
    )


def _summary(report: LedgerReport) -> tuple[str, ...]:
    read, unread, spent = len(report.read), len(report.unread), report.most_spent
    if not read:
        return ("No ledger could be read, so this page says nothing about what was sent.",)
    sentence = "The ledger was read." if read == 1 else f"All {read} ledgers were read."
    if unread:
        sentence = (
            f"{unread} of {read + unread} ledgers could not be read: what these devices have sent"
            " is not known here."
        )
    if not spent:
        return (sentence, "The devices whose ledgers were read have sent nothing.")
    return (sentence, f"No device has spent more than ε = {_decimal(spent)}. {meaning(spent)}")


def _overview(report: LedgerReport) -> Section:
    names = [device.name for device in report.devices]
    rows: list[tuple[Cell, ...]] = []
    for device in report.devices:
        label = device.name if names.count(device.name) == 1 else printable(device.store)
        if len(label) > _MOST_LETTERS:
            half = _MOST_LETTERS // 2
            label = f"{label[:half]}…{label[-half:]}"
        history = device.history
        if history is None:
            rows.append((label, "NOT READ", *[None] * 6))
            continue
        amounts = (history.spent, _left(device), history.lifetime)
        spent = ("none" if x is None else _amount(x) for x in amounts)
        last = max((entry.time for entry in history.entries), default=None)
        sent = (len(history.entries), None if last is None else _when(last))
        rows.append((label, "read", *spent, *sent, in_percent(history.spent)))
    columns = ("device", "ledger", "ε spent", "ε left", "lifetime ε", "reports", "last report")
    unread = [f"{printable(d.store)}: {d.fault.value}." for d in report.unread if d.fault]
    copies = [
        f"{printable(d.store)} is a copy of {printable(d.copy_of)}: each of them spends the"
        " lifetime by itself."
        for d in report.devices
        if d.copy_of
    ]
    risen = [f"{printable(d.store)}: {line}" for d in report.read for line in _raised(d.history)]
    table = Table(
        "Each device, and what it has spent of its lifetime ε",
        (*columns, "certainty at most"),
        tuple(rows),
        note="Times come from the devices' own clocks.",
    )
    return Section(
        name="devices",
        title="The devices at a glance",
        missing=(*unread, *copies, *risen),
        notice="Ledgers that need attention",
        tables=(table,),
    )


def _runs(report: LedgerReport) -> Section:
    name, title = "runs", "What was asked, for what and for whom"
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *_run_cells(run),
            run.devices,
            run.reports,
            _amount(run.most_epsilon),
            " – ".join(dict.fromkeys(_when(end)[:_DAY] for end in (run.first, run.last))),
        )
        for run in report.runs
    )
    if not rows:
        return Section(name, title, text=("No run has had a report.",))
    silent = sum(1 for run in report.runs if not any(run.intents))
    text = "Purpose and recipient are what the server stated. Nobody has verified them."
    if silent:
        text += f" {silent} of {len(rows)} runs stated neither."
    table = Table(
        "Each run, over all devices whose ledgers were read",
        (*_RUN_COLUMNS, "devices", "reports", "most ε of a device", "when"),
        rows,
        note="A report is one random draw by the solution named here, on an update of d numbers.",
    )
    return Section(name, title, text=(text,), tables=(table,))


def _run_cells(run: RunOnDevices) -> tuple[str, ...]:
    sent = f"{run.solution}, d\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{run.dim}"
    said = (_stated(name, run.intents) for name in ("purpose", "recipient"))
    return (run.run.hex()[:8], *said, sent)


def device_section(device: Device, place: int = 1, most_rows: int | None = None) -> Section:
    """What the ledger of one device says, with its newest reports; None stands for all."""
    name, where, history = f"device {place}", f"Device {place}", device.history
    if history is None:
        problem = device.fault.value if device.fault else "it could not be read"
        return Section(
            name=name,
            title=device.name,
            where=where,
            missing=(f"{problem[0].upper()}{problem[1:]}.",),
            notice="This ledger was not read",
            facts={"store": printable(device.store)},
        )
    copies = (f"It is a copy of {printable(device.copy_of)}.",) if device.copy_of else ()
    return Section(
        name=name,
        title=device.name,
        where=where,
        missing=(*copies, *_raised(history)),
        notice="This ledger needs attention",
        facts={
            **({"store": printable(device.store)} if device.store else {}),
            "ε spent": exactly(history.spent),
            "ε left": exactly(_left(device)),
            "lifetime ε": "none" if history.lifetime is None else exactly(history.lifetime),
            "certainty so far": f"at most {in_percent(history.spent)}, from an even prior",
            "certainty in the end": "without a bound, window after window"
            if history.lifetime is None
            else f"at most {in_percent(history.lifetime)}, if all is spent",
        },
        text=(
            *(() if device.runs else ("No report has left this device.",)),
            *_renewed(history),
        ),
        tables=_device_tables(device, history, most_rows),
    )


def _device_tables(device: Device, history: History, most: int | None) -> tuple[Table, ...]:
    limits: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *(str(one.limit), _amount(one.held), _amount(one.left), _amount(one.ever)),
            f"{_amount(one.renewals[0][1])} on {_when(one.renewals[0][0])}"
            if one.renewals
            else None,
        )
        for one in device.standings
    )
    changes = tuple(
        (
            *("; ".join(map(str, one.limits)), _since(one.time), one.reports),
            one.by or "–",
        )
        for one in history.changes
    )
    confirmed = tuple((_when(one.time), one.reports, one.by) for one in history.confirmations)
    runs: tuple[tuple[Cell, ...], ...] = tuple(
        (*_run_cells(run), run.reports, _amount(run.most_epsilon)) for run in device.runs
    )
    reports = tuple(
        (
            *(e.number, _when(e.time), e.run.hex()[:8], e.epoch, e.round, len(e.report)),
            _amount(e.charge),
        )
        for e in history.entries[-(most or 0) :]
    )
    left_out = len(history.entries) - len(reports)
    note = f"The {left_out} reports before these are in the JSON of the same command."
    tables = (
        Table(
            "Its limits, what they count, and what they give back",
            ("limit", "ε counted now", "ε left", "ε ever", "next given back"),
            () if all(limit.is_lifetime for limit in history.limits) else limits,
        ),
        Table(
            "All limits that this ledger has had",
            ("limits", "since", "after reports", "allowed by"),
            changes if len(changes) > 1 else (),
        ),
        Table(
            "Times of its clock that its owner has confirmed",
            ("time", "after reports", "confirmed by"),
            confirmed,
        ),
        Table("Runs, with what they have cost", (*_RUN_COLUMNS, "reports", "ε"), runs),
        Table(
            "Reports that may have left",
            ("number", "time", "run", "epoch", "round", "bytes", "ε"),
            reports,
            note=note if left_out else "",
        ),
    )
    return tuple(table for table in tables if table.rows)


def _when(seconds: int) -> str:
    """A time as a person reads it.

    >>> _when(1_700_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    text = moment(seconds)
    return text.replace("T", " ").replace("+00:00", " UTC") if "T" in text else text


def _stated(name: str, intents: Sequence[Intent]) -> str:
    """What a server said; all of it where it said different things to different devices.

    >>> _stated("purpose", [Intent("A study"), Intent()])
    'A study / not stated'
    """
    return " / ".join(dict.fromkeys(getattr(intent, name) or NOT_STATED for intent in intents))


def _raised(history: History | None) -> tuple[str, ...]:
    """A sentence for each time that more was allowed."""
    return tuple(
        f"It was allowed more on {_when(new.time or 0)}, after {counted(new.reports, 'report')},"
        f" by {new.by}:"
        f" {_listed(new)}, in place of {_listed(old)}."
        for old, new in (history.raises if history else ())
    )


def _listed(limits: Limits) -> str:
    return ", ".join(map(str, limits.limits))


def _renewed(history: History) -> tuple[str, ...]:
    """What a renewing budget does not promise, where there is one."""
    if all(limit.seconds is None for limit in history.limits):
        return ()
    bound = "" if history.lifetime is None else " The lifetime bounds that sum for good."
    return (
        "A budget that is renewed limits each interval of its length, not all of them together: the"
        " reports of many intervals add up. Against somebody who keeps all reports, the guarantee"
        f" is the sum of all that was ever spent, ε = {_decimal(history.spent)} so far.{bound}",
    )


def _left(device: Device) -> Fraction:
    """What a report may cost, whatever it states."""
    return min(
        (one.left for one in device.standings if one.limit.concerns(Intent())),
        default=Fraction(0),
    )


def _since(time: int | None) -> str:
    return "before changes were recorded" if time is None else _when(time)


def _decimal(amount: Fraction) -> str:
    return f"{float(amount):.6g}"


def _amount(amount: Fraction) -> str:
    """A decimal for a table, and the fraction where it is short and says more.

    >>> _amount(Fraction(1, 9)), _amount(Fraction(2)), _amount(Fraction(10**30 + 1, 10**30))
    ('0.111111 (1/9)', '2', '1')
    """
    number, exact = _decimal(amount), str(amount)
    return number if exact == number or len(exact) > _MOST_DIGITS else f"{number} ({exact})"
