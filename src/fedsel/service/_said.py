"""What clients have said, as the page of a run draws it: of a model, or to a question."""

from __future__ import annotations

from fedsel._internal.display import counted, upper_bound
from fedsel.asking import Answer
from fedsel.measuring import Estimate, Measurement
from fedsel.service._charts import Drawn, Row, interval_chart
from fedsel.service._snapshot import RunSnapshot
from fedsel.wire import Schema

_MOST_ROWS = 40
_SHARES = ("accuracy", "balanced accuracy")


def figures_of_answers(snapshot: RunSnapshot) -> list[Drawn]:
    """Figures of the latest epoch that has answers; none where nobody was asked."""
    measured, answered = snapshot.state.measurements, snapshot.answers
    if measured:
        return _of_model(measured[max(measured)], snapshot.task.schema)
    if answered:
        return _of_people(answered[max(answered)])
    return []


def _of_model(found: Measurement, schema: Schema | None) -> list[Drawn]:
    cost = (
        f"By {counted(found.clients, 'device')} that measured and did not train, at ε ="
        f" {upper_bound(found.epsilon)} each; the lines are 95 % intervals."
    )
    shown = {name: one for name, one in found.metrics.items() if one.high < 2}
    rows = [_row(name, one, percent=name in _SHARES) for name, one in shown.items()]
    drawn = [_drawn("Measured by devices", rows, cost, most=1.0)]
    if found.shares and schema is not None:
        names = zip(schema.class_names, found.shares, strict=False)
        shares = [_row(name, one) for name, one in names][:_MOST_ROWS]
        drawn.append(_drawn("Shares of the classes", shares, "Among the same devices.", most=1.0))
    if found.shares and found.calibration:
        curve = [_row(f"says {one.said:.0%}", one.rate) for one in found.calibration]
        text = "How often the second class, or the right one, is true where the model says so."
        drawn.append(_drawn("Calibration", curve, text, most=1.0))
    return drawn


def _of_people(found: Answer) -> list[Drawn]:
    name = str(found.question).capitalize()
    if found.mean is not None:
        return [_drawn(name, [_row("mean", found.mean, percent=False)], f"{found}.")]
    rows = [
        _row(label if isinstance(label, str) else " × ".join(label), one)
        for label, one in found.shares.items()
    ]
    text = str(found)
    if len(rows) > _MOST_ROWS:
        rows = sorted(rows, key=lambda row: -row.value)[:_MOST_ROWS]
        text += f" The {_MOST_ROWS} most common answers are shown."
    return [_drawn(name, rows, text)]


def _row(name: str, one: Estimate, *, percent: bool = True) -> Row:
    ends = (f"{x:.1%}" if percent else f"{x:.4g}" for x in (one.value, one.low, one.high))
    value, low, high = ends
    short = name if len(name) <= 18 else f"{name[:17]}…"
    return Row(short, one.value, one.low, one.high, value, f"{value} ({low} to {high})")


def _drawn(title: str, rows: list[Row], text: str, most: float | None = None) -> Drawn:
    listed = "; ".join(f"{row.name} {row.said}" for row in rows)
    return title, interval_chart(rows, alt=f"{title}: {listed}.", most=most), text
