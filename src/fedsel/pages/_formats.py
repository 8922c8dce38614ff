"""A table on a terminal, by rich, and in LaTeX, by booktabs. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsel._internal.display import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as Grid

    from fedsel.pages._model import Table

_SHORT = 20
"""Letters of cells that are never broken: names and numbers."""
_COMMANDS = {
    "\\": "textbackslash",
    "~": "textasciitilde",
    "^": "textasciicircum",
    "<": "textless",
    ">": "textgreater",
    "|": "textbar",
    '"': "textquotedbl",
}
"""Characters that mean something else to LaTeX, or look different in its usual font."""
_SYMBOLS = "αβγδεηθλμπρστφΓΔΠΣΩ±×·≤≥≠≈∝∞√‖∈⊥→′★"
_NAMES = (
    "alpha beta gamma delta varepsilon eta theta lambda mu pi rho sigma tau varphi Gamma Delta Pi "
    "Sigma Omega pm times cdot le ge ne approx propto infty surd Vert in perp to prime star"
)
"""Commands of mathematics for these symbols, in their order."""
_OTHERS = {
    "\N{MINUS SIGN}": "$-$",
    "\N{NO-BREAK SPACE}": "~",
    # At the start of a row these two would be an option of the line break before it.
    "[": "{[}",
    "*": "{*}",
}
_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {c: f"\\{name}{{}}" for c, name in _COMMANDS.items()}
    | {c: f"$\\{name}$" for c, name in zip(_SYMBOLS, _NAMES.split(), strict=True)}
    | {c: f"$^{n}$" for n, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    | {c: f"$_{n}$" for n, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}
    | _OTHERS
)


def grid(table: Table, console: Console, options: ConsoleOptions) -> Grid:
    """The table without those of its optional columns for which there is no room."""
    from rich.measure import Measurement

    unlimited = options.update(max_width=10_000)
    for count in range(len(table.optional) + 1):
        made = _without(table, table.optional[:count])
        if Measurement.get(console, unlimited, made).maximum <= options.max_width:
            break
    return made


def _without(table: Table, dropped: Sequence[str]) -> Grid:
    from rich.table import Table as Grid
    from rich.text import Text

    lacking = f"Too narrow for {', '.join(dropped)}: --json has all." if dropped else ""
    caption = printable(" ".join(filter(None, (table.note, lacking))))
    made = Grid(title=printable(table.title) or None, title_justify="left")
    made.caption, made.caption_justify = caption or None, "left"
    texts = [[text.replace("\N{NO-BREAK SPACE}", " ") for text in row] for row in table.texts]
    kept = [place for place, heading in enumerate(table.columns) if heading not in dropped]
    for place in kept:
        made.add_column(
            printable(table.columns[place]),
            justify="right" if table.numeric[place] else "left",
            overflow="fold",
            no_wrap=max((len(row[place]) for row in texts), default=0) <= _SHORT,
        )
    for number, row in enumerate(texts):
        styles = ("bold" if (number, place) in table.bold else "" for place in kept)
        cells = (
            Text(printable(row[place]), style) for place, style in zip(kept, styles, strict=True)
        )
        made.add_row(*cells, style="dim" if number in table.faint else "")
    return made


def escaped(text: str) -> str:
    r"""Text for LaTeX: nothing in it is a command, and Greek letters and signs are mathematics.

    >>> print(escaped("50 % of x_1 at ε ≤ 2"))
    50 \% of x\_1 at $\varepsilon$ $\le$ 2
    """
    return printable(text).translate(_ESCAPES)


def latex(table: Table, label: str) -> str:
    """The table as a tabular; title, note and ``label`` are comments to copy from."""
    sides = "".join("r" if numeric else "l" for numeric in table.numeric)
    cells = [[escaped(text) for text in row] for row in table.texts]
    for row, column in table.bold:
        cells[row][column] = rf"\textbf{{{cells[row][column]}}}"
    head, *body = (" & ".join(row) + r" \\" for row in (map(escaped, table.columns), *cells))
    lines = [
        r"% \usepackage{booktabs}",
        rf"% \caption{{{escaped(table.title)}}}",
        *([rf"% \label{{{label}}}"] if label else []),
        *([f"% {escaped(table.note)}"] if table.note else []),
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
