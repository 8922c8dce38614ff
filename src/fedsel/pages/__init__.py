"""Tables, figures and verdicts: in self-contained HTML pages, on terminals and for papers.

A table prints itself on a terminal (rich), and `Table.to_latex` is for a paper. A page loads
nothing, opens from a file, works without JavaScript and in print, and is byte for byte the same for
the same data.

>>> section = Section(
...     name="table3",
...     title="Gains and losses",
...     where="Table 3",
...     text=("Accuracy of two-stage solutions less the accuracy of the flat one.",),
...     command="python -m reproduction table3",
...     settings={"ε": "2"},
...     tables=(Table("Gains", ("data", "PS-PM"), (("BANK", 1.25), ("KDD", None))),),
...     verdicts=(Verdict("PS-PM gains on BANK.", "Section 5.3", "holds", "+1.25.", "fedsel …"),),
... )
>>> page = render([section], title="FedSel, reproduced", summary=["One of one claims holds."],
...               facts={"fedsel": "0.1"})
>>> page.startswith("<!doctype html>"), "BANK" in page, 'id="table3"' in page
(True, True, True)
"""

from fedsel._internal import palette
from fedsel._internal.display import shown
from fedsel._internal.plotting import epsilon_axis, legend_below, new_figure, svg_of, write_pdf
from fedsel.pages._model import Cell, Figure, Overview, Section, Table, Verdict
from fedsel.pages._render import render, write_page

__all__ = [
    "Cell",
    "Figure",
    "Overview",
    "Section",
    "Table",
    "Verdict",
    "epsilon_axis",
    "legend_below",
    "new_figure",
    "palette",
    "render",
    "shown",
    "svg_of",
    "write_page",
    "write_pdf",
]
