"""``fedsel bench``"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from fedsel._internal.extras import check_installed
from fedsel.cli.common import JsonOption, output
from fedsel.cli.waiting import patience
from fedsel.errors import InvalidArgument

TARGETS = {
    "private_over_nonprivate_d100": ("at most", 4.0),
    "private_over_nonprivate_d1000": ("at most", 2.0),
    "J_over_nonprivate_d1000": ("at most", 1.7),
    "rj_over_nonprivate_d1000": ("at most", 3.0),
    "rj_over_pspm_d100": ("at most", 2.0),
    "rc_over_rj_d100": ("to know", 0.0),
    "rc_over_rj_d1000": ("to know", 0.0),
    "literal_over_fedsel": ("at least", 100.0),
    "numpy_over_fedsel": ("at least", 5.0),
    "two_threads": ("at least", 1.8),
}


InstructionsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SET",
        show_default="the best that this processor has",
        help="The kernels to measure: base, avx2 or avx512. Changes no result.",
    ),
]


def bench(instructions: InstructionsOption = None, as_json: JsonOption = False) -> None:
    """Measure the engine against a non-private loop, numpy and plain Python.

    All are ratios within this run; the machine may be busy. Takes a minute or two.
    """
    from fedsel.cli.bench import speed
    from fedsel.sampling.kernels import native

    check_installed("simulation", "fedsel bench", "joblib", "scipy")
    has = native.variants()
    used = has[-1] if instructions is None else instructions
    if used not in has:
        raise InvalidArgument("--instructions", used, f"one that is here: {', '.join(has)}")
    before = native.use(used)
    try:
        with patience("measuring") as notify:
            result = speed.measure(lambda part: notify(f"measuring {part}"))
    finally:
        native.use(before)
    if as_json:
        content = {"instructions": used, "ratios": result.ratios, "seconds": result.seconds}
        typer.echo(json.dumps(content, indent=1, allow_nan=False))
        return
    setting = f"PS-PM at ε′ = 2, J, RJ and FJ at ε = 1 … 4; one thread, instructions: {used}"
    table = Table(title=f"One private epoch: {setting}")
    for heading in ("ratio", "measured", "target", ""):
        table.add_column(heading, justify="left" if heading == "ratio" else "right")
    for name, measured in result.ratios.items():
        kind, bound = TARGETS[name]
        if kind == "to know":
            table.add_row(name, f"{measured:.1f}", "", "")
            continue
        met = measured <= bound if kind == "at most" else measured >= bound
        table.add_row(name, f"{measured:.2f}", f"{kind} {bound:g}", "met" if met else "MISSED")
    output().print(table)
    for name, value in result.seconds.items():
        if not name.startswith("jobs"):
            output().print(f"{name}: {1e9 * value:,.0f} ns a client")
