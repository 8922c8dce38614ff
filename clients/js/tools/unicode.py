"""Writes the two tables of src/wire/unicode.js: `python clients/js/tools/unicode.py` prints them."""

from fedsel.wire.intent import _UNICODE, _is_visible

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def in_base_36(number):
    rest, digit = divmod(number, 36)
    return (in_base_36(rest) if rest else "") + _DIGITS[digit]


def packed(belongs):
    """Of each range of characters the distance from the one before, and its length."""
    parts, end, start = [], 0, None
    for code in range(0x110001):
        inside = code < 0x110000 and not 0xD800 <= code < 0xE000 and belongs(chr(code))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            parts += [in_base_36(start - end), in_base_36(code - start)]
            end, start = code, None
    return " ".join(parts)


def tables():
    """What can be seen, and the marks among it."""
    seen = packed(_is_visible)
    marks = packed(lambda c: _is_visible(c) and _UNICODE.category(c)[0] == "M")
    return seen, marks


if __name__ == "__main__":
    print(*tables(), sep="\n\n")
