"""Write src/tables.h: the nodes of a quadrature, and the characters that texts may have.

Example: python clients/c/tools/tables.py
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable
from math import cos, pi
from pathlib import Path

TABLES = Path(__file__).parents[1] / "src" / "tables.h"
VECTORS = Path(__file__).parents[3] / "vectors" / "messages.json"
NODES, WORDS = 96, 6
_BITS = 32 * WORDS + 64
_UNIT = 1 << _BITS
_UNICODE = unicodedata.ucd_3_2_0
_LAST = 0x10FFFF
_HANGUL = range(0xAC00, 0xAC00 + 11172)
_JAMO = range(0x1100, 0x1200)


def main() -> None:
    TABLES.write_text(text())


def text() -> str:
    """The whole file."""
    nodes = [f"{{{{{_words(x)}}}, {{{_words(weight)}}}}}" for x, weight in rule()]
    return "\n".join(
        [
            "/* Written by tools/tables.py. */",
            "#ifndef FEDSEL_TABLES_H",
            "#define FEDSEL_TABLES_H",
            "",
            "#include <stdint.h>",
            "",
            "/* Gauss and Legendre on [0, 1] with 96 nodes: the lower half, and their weights. */",
            _table("uint32_t", "FS_NODES", f"[2][{WORDS}]", nodes, 1),
            "/* Ranges of code points: those seen, marks, those of no text in normal form C. */",
            _table("uint32_t", "FS_SEEN", "[2]", _pairs(_ranges(is_visible)), 7),
            _table("uint32_t", "FS_MARKS", "[2]", _pairs(_ranges(is_mark)), 7),
            _table("uint32_t", "FS_ABNORMAL", "[2]", _pairs(_ranges(is_abnormal)), 7),
            "/* Ranges of a combining class that is not 0. */",
            _table("uint32_t", "FS_CLASSES", "[3]", _classes(), 5),
            "/* A character, and the two that it is composed of. */",
            _table("uint16_t", "FS_COMPOSED", "[3]", _compositions(), 4),
            "#endif",
            "",
        ]
    )


def _table(kind: str, name: str, size: str, rows: Iterable[str], width: int) -> str:
    rows = list(rows)
    lines = [", ".join(rows[i : i + width]) for i in range(0, len(rows), width)]
    body = ",\n".join(f"    {line}" for line in lines)
    head = f"#define {name}_COUNT {len(rows)}\nstatic const {kind} {name}[{name}_COUNT]{size}"
    return f"{head} = {{\n{body}}};\n"


def _legendre(x: int) -> tuple[int, int]:
    """The Legendre polynomial of the degree NODES at x, and its derivative, in 2^-_BITS."""
    before, here = _UNIT, x
    for n in range(1, NODES):
        before, here = here, ((2 * n + 1) * (x * here >> _BITS) - n * before) // (n + 1)
    slope = NODES * ((x * here >> _BITS) - before) * _UNIT // ((x * x >> _BITS) - _UNIT)
    return here, slope


def rule() -> list[tuple[int, int]]:
    """The lower nodes and their weights, in 2^-_BITS, by Newton's method."""
    found = []
    for number in range(1, NODES // 2 + 1):
        x = int(cos((4 * number - 1) * pi / (4 * NODES + 2)) * 2**60) << (_BITS - 60)
        for _ in range(7):
            value, slope = _legendre(x)
            x -= value * _UNIT // slope
        slope = _legendre(x)[1]
        gap = _UNIT - (x * x >> _BITS)
        found.append(((_UNIT - x) // 2, _UNIT**3 // (gap * (slope * slope >> _BITS))))
    return found


def _words(x: int) -> str:
    top = (x + (1 << 63)) >> 64
    words = [(top >> (32 * i)) & 0xFFFFFFFF for i in reversed(range(WORDS))]
    return ", ".join(f"0x{word:08x}" for word in words)


def _listed(kind: str) -> frozenset[str]:
    cases = json.loads(VECTORS.read_text())["cases"]
    [ranges] = [case["ranges"] for case in cases if case["kind"] == kind]
    return frozenset(chr(code) for first, last in ranges for code in range(first, last + 1))


_SEEN = _listed("visible")
_MARKS = _listed("marks") & _SEEN


def is_visible(character: str) -> bool:
    return character in _SEEN


def is_mark(character: str) -> bool:
    return character in _MARKS


def is_abnormal(character: str) -> bool:
    """Whether a character of its own is not in normal form C."""
    return _UNICODE.normalize("NFC", character) != character


def _ranges(belongs: Callable[[str], bool]) -> list[list[int]]:
    found: list[list[int]] = []
    for code in sorted(map(ord, _SEEN)):
        if not belongs(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def _pairs(ranges: list[list[int]]) -> list[str]:
    return [f"{{{first}, {last}}}" for first, last in ranges]


def _classes() -> list[str]:
    kinds = {character: _UNICODE.combining(character) for character in _MARKS}
    found = []
    for kind in sorted(set(kinds.values()) - {0}):
        ranges = _ranges(lambda c, kind=kind: kinds.get(c) == kind)  # type: ignore[misc]
        found += [f"{{{first}, {last}, {kind}}}" for first, last in ranges]
    return found


def _compositions() -> list[str]:
    found = []
    for code in range(_LAST + 1):
        parts = _UNICODE.decomposition(chr(code))
        canonical = parts and not parts.startswith("<")
        if code in _HANGUL or not canonical or not is_visible(chr(code)) or is_abnormal(chr(code)):
            continue
        first, second = (int(part, 16) for part in parts.split())
        # What the judge of texts relies on: only marks are composed with what is before them.
        if not is_mark(chr(second)) or max(code, first, second) > 0xFFFF or second in _JAMO:
            raise ValueError(f"U+{code:04X} is composed in a way that text.c does not know")
        found.append(f"{{{code}, {first}, {second}}}")
    return found


if __name__ == "__main__":
    main()
