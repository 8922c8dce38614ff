"""Tables in LaTeX: booktabs, and no text that LaTeX reads as a command."""

import re
import string

import pytest

from fedsel.pages import Table
from fedsel.pages._latex import _COMMANDS, _NAMES, _SYMBOLS, escaped

_BACK = {name: c for c, name in _COMMANDS.items()} | dict(
    zip(_NAMES.split(), _SYMBOLS, strict=True)
)
_TOKEN = re.compile(
    r"\\(?P<command>[a-z]+)\{\}|\\(?P<escape>[&%$#_{}])|\$\\(?P<sign>[A-Za-z]+)\$|\$(?P<minus>-)\$"
    r"|\$\^(?P<power>\d)\$|\$_(?P<index>\d)\$|\{(?P<group>[\[*])\}|(?P<space>~)"
    r"|(?P<plain>[^\\&%$#_{}~^<>|\"\[*])"
)


def read_back(latex):
    """The text of escaped LaTeX; what is none of the known tokens is refused."""
    text, at = "", 0
    while at < len(latex):
        found = _TOKEN.match(latex, at)
        assert found, latex[at:]
        kind, what = found.lastgroup, found[found.lastgroup]
        text += {
            "command": lambda w: _BACK[w],
            "sign": lambda w: _BACK[w],
            "minus": lambda _: "−",
            "power": lambda w: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(w)],
            "index": lambda w: "₀₁₂₃₄₅₆₇₈₉"[int(w)],
            "space": lambda _: "\N{NO-BREAK SPACE}",
        }.get(kind, str)(what)
        at = found.end()
    return text


@pytest.mark.parametrize(
    "text",
    [
        string.punctuation + string.ascii_letters + string.digits + " ",
        _SYMBOLS + "−⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉",
        "[a]*b\\\\ \\input{/etc/passwd} %",
        "Ünïcödé – †",
    ],
)
def test_any_text_is_read_back_as_it_was(text):
    assert read_back(escaped(text)) == text


def test_no_text_leaves_its_line():
    table = Table("a\nb", ("c",), (("d\ne\x1b",),), note="f\r\ng")
    assert len(table.to_latex().splitlines()) == 10
    assert "\x1b" not in table.to_latex()


def test_a_table_for_a_paper():
    rows = (("x_1", 1.5, None), ("[50 %]", -2.0, "1 ± 2"))
    made = Table("A & B", ("name", "ε", "mean"), rows, note="One", bold=frozenset({(1, 2)}))
    assert (
        made.to_latex("tab:a")
        == r"""% \usepackage{booktabs}
% \caption{A \& B}
% \label{tab:a}
% One
\begin{tabular}{lrr}
\toprule
name & $\varepsilon$ & mean \\
\midrule
x\_1 & 1.50 & – \\
{[}50 \%] & $-$2.00 & \textbf{1 $\pm$ 2} \\
\bottomrule
\end{tabular}
"""
    )
