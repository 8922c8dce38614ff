"""Measure what a device needs: bytes of code and tables, and the deepest stack of each function.

The compiler writes the frame of each function, and whom it calls. Calls through a pointer go to the
passes over scores, or to the device's source of random words, which is not counted.

Examples: python clients/c/tools/measure.py
          CC=arm-none-eabi-gcc python clients/c/tools/measure.py -mcpu=cortex-m4 -mthumb
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
ENTRIES = ("fedsel_read", "fedsel_prepare", "fedsel_report", "fedsel_answer")
POINTED_AT = ("count_pass", "histogram_pass", "find_pass")
INDIRECT = "__indirect_call"
_NODE = re.compile(r'node: { title: "([^"]+)" label: "([^"\\]+)\\n[^"]*?(\d+) bytes')
_EDGE = re.compile(r'edge: { sourcename: "([^"]+)" targetname: "([^"]+)"')


def main() -> None:
    compiler = os.environ.get("CC", "gcc")
    with tempfile.TemporaryDirectory() as folder:
        code = _compiled(compiler, sys.argv[1:], Path(folder))
        graph = "".join(path.read_text() for path in Path(folder).glob("*.ci"))
    frames, calls = parsed(graph)
    name, largest = max(frames.items(), key=lambda item: item[1])
    print(f"code and tables: {code:,} bytes")
    print(f"largest frame: {largest:,} bytes ({name.rpartition(':')[2]})")
    for entry in ENTRIES:
        print(f"deepest stack of {entry}: {deepest(entry, frames, calls):,} bytes")


def _compiled(compiler: str, flags: list[str], folder: Path) -> int:
    command = [compiler, "-std=c99", "-Os", "-fcallgraph-info=su", *flags, "-c"]
    subprocess.run([*command, *map(str, SOURCES.glob("*.c"))], cwd=folder, check=True)
    size = compiler.removesuffix("gcc") + "size"
    objects = sorted(str(path) for path in folder.glob("*.o"))
    done = subprocess.run([size, *objects], capture_output=True, text=True, check=True)
    return sum(int(line.split()[3]) for line in done.stdout.splitlines()[1:])


def parsed(graph: str) -> tuple[dict[str, int], dict[str, set[str]]]:
    """The frame of each function in bytes, and the functions that it calls."""
    frames = {title: int(size) for title, _, size in _NODE.findall(graph)}
    calls: dict[str, set[str]] = {}
    for source, target in _EDGE.findall(graph):
        calls.setdefault(source, set()).add(target)
    calls[INDIRECT] = {title for title in frames if title.rpartition(":")[2] in POINTED_AT}
    return frames, calls


def deepest(
    function: str, frames: dict[str, int], calls: dict[str, set[str]], above: tuple[str, ...] = ()
) -> int:
    """The bytes of a function's deepest stack; a recursion is an error."""
    if function in above:
        raise RecursionError(" → ".join([*above, function]))
    path = (*above, function)
    below = (deepest(called, frames, calls, path) for called in calls.get(function, ()))
    return frames.get(function, 0) + max(below, default=0)


if __name__ == "__main__":
    main()
