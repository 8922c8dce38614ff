"""One table of looks: a solution has the same colour, marker and line in every figure.

The colours come from Okabe and Ito, with three more (wine and indigo of Paul Tol, and a brown)
that colour-blind readers can tell apart, too. Markers and lines tell solutions apart in grey print:
no two solutions of the registry share all three.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from fedsel.errors import InvalidArgument
from fedsel.solutions import Entry, entry

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
WINE, INDIGO, BROWN = "#882255", "#332288", "#664422"
GREY = "#777777"
"""Solutions that draw at random, and levels such as the majority class."""
PALE = "#C4C4C4"
"""Lines that are there for comparison only."""
COLOURS = (BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, WINE, INDIGO, BROWN, GREY)
SOLID, DASHED, DOTTED, DASH_DOT = "-", "--", ":", "-."
LINES = (SOLID, DASHED, DOTTED, DASH_DOT)
BROKEN = (0, (5, 1, 1, 1))
"""The line of compositions that users registered."""
Line = str | tuple[int, tuple[int, ...]]


class Look(NamedTuple):
    """How a solution is drawn. An empty marker is none: a level line."""

    colour: str
    marker: str
    line: Line

    @property
    def style(self) -> dict[str, Any]:
        """The look as keyword arguments of matplotlib."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line}


_SINGLE = {
    "NP": Look(BLACK, "", SOLID),
    "NP-K": Look(BLACK, "P", DASH_DOT),
    "NP-RS": Look(GREY, "x", SOLID),
    "RS": Look(GREY, "h", DASHED),
    "J": Look(WINE, "<", SOLID),
    "UJ": Look(WINE, ">", DASHED),
    "FJ": Look(RED, "P", SOLID),
    "RJ": Look(RED, "d", DASH_DOT),
    "RC": Look(RED, "X", DASHED),
    "PrivUnit": Look(BLACK, "x", DASHED),
    "Duchi-L2": Look(BLACK, "+", DOTTED),
    "SignDS": Look(BLACK, "1", DASH_DOT),
}
_VALUES = {"PM": (ORANGE, "o"), "HM": (SKY, "v"), "Duchi": (INDIGO, "d"), "OW": (BROWN, "*")}
_SELECTIONS = {"EXP": BLUE, "PE": GREEN, "PE-published": GREEN, "PS": PURPLE}
_STAGES = {
    "EXP": {"": "p", "PM": "D"},
    "PE": {"": ">", "PM": "^"},
    "PE-published": {"": "4", "PM": "<", "HM": "1", "Duchi": "2", "OW": "3"},
    "PS": {"": "h", "PM": "s"},
}
"""Markers of a selection by its value; what is not listed has the marker of the flat value."""
_LINES = {(True, True): DASH_DOT, (True, False): DASHED, (False, True): DOTTED}
"""Line styles by whether a name ends with -C, and with -O."""


def look(name: str) -> Look:
    """Colour, marker and line of a solution; those of an unknown name depend on the name alone.

    A value has a colour where it is sent flat, a selection where it comes first; -C is dashed, -O
    dotted, -RP dash-dotted.

    >>> look("FJ")
    Look(colour='#D55E00', marker='P', line='-')
    >>> look("PS-HM-C").line, look("PS-HM").marker == look("HM").marker
    ('--', True)
    """
    if name in _SINGLE:
        return _SINGLE[name]
    try:
        known = entry(name)
    except InvalidArgument:
        return _own(name)
    return _composed(known) or _own(name)


def _composed(known: Entry) -> Look | None:
    """The look of selection and value; None where a mechanism was added later."""
    if known.selection not in (None, *_SELECTIONS) or known.value not in (None, *_VALUES):
        return None
    if known.selection is not None:
        value = known.value or ""
        marker = _STAGES[known.selection].get(value) or _VALUES[value][1]
        line = _LINES.get((known.control, known.rate_inside), SOLID)
        return Look(_SELECTIONS[known.selection], marker, line)
    if known.value is None:
        return None
    colour, marker = _VALUES[known.value]
    if known.projected:
        return Look(colour, "X", DASH_DOT)
    return Look(colour, "h", DASHED) if known.unscaled else Look(colour, marker, SOLID)


def style(name: str, **changes: Any) -> dict[str, Any]:
    """The look of a solution as keyword arguments of matplotlib, with these changes.

    >>> style("NP", linewidth=1)
    {'color': '#000000', 'marker': '', 'linestyle': '-', 'linewidth': 1}
    """
    return look(name).style | changes


def _own(name: str) -> Look:
    """A look for a name that is not in the table: always the same for the same name."""
    colours, markers = COLOURS[1:-1], "8Hp<>dv"
    digest = zlib.crc32(name.encode(errors="surrogatepass"))
    return Look(colours[digest % len(colours)], markers[digest // 16 % len(markers)], BROKEN)
