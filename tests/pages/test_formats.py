"""Tables on a terminal that fit, and in LaTeX, where no text is read as a command."""

import io
import re
import string

import pytest
from rich.console import Console

from fedsel.pages import Table
from fedsel.pages._formats import _COMMANDS, _NAMES, _SYMBOLS, escaped

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


def shown(width, **more):
    rows = (("first", 1.2345, "x" * 12), ("second\x1b[2J", 23.45, "y" * 12))
    console = Console(width=width, record=True, file=io.StringIO(), color_system="truecolor")
    columns, optional = ("name", "heavy", "light"), ("light", "heavy")
    console.print(Table("a", columns, rows, optional=optional, **more))
    return console


def test_a_table_leaves_out_its_optional_columns_in_their_order_and_says_so():
    texts = {width: " ".join(shown(width).export_text().split()) for width in (80, 32, 20)}
    assert "y" * 12 in texts[80]
    assert "Too narrow" not in texts[80]
    assert "23.45" in texts[32]
    assert "yyy" not in texts[32]
    assert "Too narrow for light" in texts[32]
    assert "Too narrow for light, heavy" in texts[20]
    assert not any("\x1b" in text for text in texts.values())


def test_on_a_terminal_some_cells_are_bold_and_some_rows_are_faint():
    text = shown(80, bold=frozenset({(0, 1)}), faint=frozenset({1})).export_text(styles=True)
    assert re.search(r"\x1b\[1m *1\.23", text)
    assert re.search(r"\x1b\[2m *23\.45", text)
    assert not re.search(r"\x1b\[[12]m *first", text)
