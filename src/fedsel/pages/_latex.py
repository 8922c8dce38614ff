"""A table in LaTeX, by the package booktabs, with all text escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedsel._internal.display import printable

if TYPE_CHECKING:
    from fedsel.pages._model import Table

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
_SYMBOLS = "αβγδεηθλμπρστφΓΔΠΣΩ±×·≤≥≠≈∞√‖∈⊥→′★"
_NAMES = (
    "alpha beta gamma delta varepsilon eta theta lambda mu pi rho sigma tau varphi Gamma Delta Pi "
    "Sigma Omega pm times cdot le ge ne approx infty surd Vert in perp to prime star"
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
