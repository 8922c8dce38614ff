"""Draws docs/images/flow.svg and its narrow twin: ``python -m tools.site.flow``.

The site shows the pictures inline, in its own colours; elsewhere they follow the reader's system.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TITLE = "From an update on a device, through one private report, to a step of the server"


class Box(NamedTuple):
    """One step: its name, the shape of what leaves it, and a line or three."""

    name: str
    shape: str
    lines: tuple[str, ...]
    spends: bool = False


DEVICE = (
    Box("update", "(n, d)", ("a gradient, or what", "local steps changed")),
    Box("feedback", "(n, d)", ("nothing, or adds what", "was not sent before", "(Algorithm 1)")),
    Box(
        "transform", "(n, M)", ("scores by codewords:", "coordinates, rotated", "bases, directions")
    ),
    Box(
        "mechanism", "(n,)", ("two stages, flat,", "or one symbol:", "ε is spent here alone"), True
    ),
)
SERVER = (
    Box("totals", "(M,)", ("integer sums: parts", "can be merged")),
    Box("decode", "(d,)", ("scale, and", "transform back")),
    Box("step", "(d,)", ("rate, decay, average", "of the weights")),
    Box("model", "(d,)", ("and its history:", "accuracy, ε, bits")),
)
LETTERS = "n clients of a round · d entries of an update · M slots"
WIDTH, HEIGHT, GAP, EDGE = 204, 116, 25, 16
BAND = 84
_END = ' text-anchor="end"'

STYLE = """
  .flow-picture {
    --ink: var(--md-default-fg-color, #1d2733);
    --soft: var(--md-default-fg-color--light, #4b5763);
  }
  @media (prefers-color-scheme: dark) {
    .flow-picture {
      --ink: var(--md-default-fg-color, #e4e9ef);
      --soft: var(--md-default-fg-color--light, #b4bec9);
    }
  }
  .flow-picture text {
    font: 15px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
    fill: var(--soft);
  }
  .flow-picture .flow-head, .flow-picture .flow-name {
    font-size: 18px; font-weight: 600; fill: var(--ink);
  }
  .flow-zone { fill: #2b6cb0; fill-opacity: .08 }
  .flow-box { fill: #7a8a9a; fill-opacity: .10; stroke: #7a8a9a; stroke-width: 1.2 }
  .flow-spends { fill: #c2601c; fill-opacity: .14; stroke: #c2601c; stroke-width: 1.8 }
  .flow-band {
    fill: #c2601c; fill-opacity: .10; stroke: #c2601c; stroke-width: 2; stroke-dasharray: 8 5;
  }
  .flow-way { stroke: #7a8a9a; stroke-width: 2; fill: none }
  .flow-tip { fill: #7a8a9a }
"""


def main() -> None:
    """Write both pictures."""
    for name, columns in (("flow", 4), ("flow-narrow", 2)):
        (IMAGES / f"{name}.svg").write_text(drawn(columns), encoding="utf-8")


def drawn(columns: int) -> str:
    """The picture with so many boxes side by side."""
    width = 2 * EDGE + columns * WIDTH + (columns - 1) * GAP
    rows = 4 // columns
    zone = 52 + rows * HEIGHT + (rows - 1) * GAP + EDGE
    band, server = zone + 40, zone + 40 + BAND + 40
    parts = [
        *_zone(DEVICE, 0, columns, "On the device of each client", width, zone),
        _down(EDGE + (columns - 1) * (WIDTH + GAP) + WIDTH // 2, zone - EDGE + 2, band - 2),
        f'<rect class="flow-band" x="1" y="{band}" width="{width - 2}" height="{BAND}" rx="10"/>',
        _text(EDGE, band + 34, "Reports(slot, symbol)", "flow-head"),
        *_wrapped(EDGE, band + 60, columns),
        _down(EDGE + WIDTH // 2, band + BAND + 2, server + 50),
        *_zone(SERVER, server, columns, "On the server", width, zone),
        _text(EDGE, server + zone + 26, LETTERS),
    ]
    height = server + zone + 36
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="flow-picture" role="img" '
            f'viewBox="0 0 {width} {height}" aria-label="{TITLE}">',
            f"<style>{STYLE}</style>",
            *parts,
            "</svg>\n",
        ]
    )


def _wrapped(x: int, y: int, columns: int) -> list[str]:
    said = "The trust boundary: the only thing that leaves a device."
    return [_text(x, y, said if columns < 4 else f"{said} FJ: 33 bits.")]


def _zone(
    boxes: tuple[Box, ...], top: int, columns: int, head: str, width: int, height: int
) -> list[str]:
    parts = [
        f'<rect class="flow-zone" x="0" y="{top}" width="{width}" height="{height}" rx="10"/>',
        _text(width - EDGE, top + 32, head, "flow-head", end=True)
        if top
        else _text(EDGE, 32, head, "flow-head"),
    ]
    for place, box in enumerate(boxes):
        row, column = divmod(place, columns)
        x, y = EDGE + column * (WIDTH + GAP), top + 52 + row * (HEIGHT + GAP)
        parts += _box(box, x, y)
        if column < columns - 1:
            parts.append(_right(x + WIDTH + 2, x + WIDTH + GAP - 2, y + HEIGHT // 2))
        elif place < len(boxes) - 1:
            parts.append(_back(x + WIDTH // 2, y + HEIGHT, EDGE + WIDTH // 2))
    return parts


def _box(box: Box, x: int, y: int) -> list[str]:
    kind = "flow-spends" if box.spends else "flow-box"
    lines = [_text(x + 14, y + 54 + 20 * i, line) for i, line in enumerate(box.lines)]
    return [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        _text(x + 14, y + 28, box.name, "flow-name"),
        _text(x + WIDTH - 14, y + 28, box.shape, end=True),
        *lines,
    ]


def _text(x: int, y: int, said: str, kind: str = "", *, end: bool = False) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}"{_END if end else ""}>{said}</text>'


def _right(x: int, to: int, y: int) -> str:
    return f'<path class="flow-way" d="M{x} {y}H{to - 6}"/>{_tip(to, y, -8, -5, 0, 10)}'


def _down(x: int, y: int, to: int) -> str:
    return f'<path class="flow-way" d="M{x} {y}V{to - 6}"/>{_tip(x, to, -5, -8, 10, 0)}'


def _back(x: int, y: int, to: int) -> str:
    """From the end of a row to the beginning of the next."""
    middle = y + GAP // 2 - 2
    way = f'<path class="flow-way" d="M{x} {y + 2}V{middle}H{to}V{y + GAP - 8}"/>'
    return way + _tip(to, y + GAP - 2, -5, -8, 10, 0)


def _tip(x: int, y: int, dx: int, dy: int, width: int, height: int) -> str:
    return f'<path class="flow-tip" d="M{x} {y}l{dx} {dy}l{width} {height}z"/>'


if __name__ == "__main__":
    main()
