"""Create an environment and install fedsel with an extra into it: ``install.py .venv demo``.

Says all the while what is going on; the whole output of pip is shown only where it fails.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parent.parent
_TICK, _EVERY_IN_A_LOG = 0.2, 2.0
_CLEAR_LINE = "\r\x1b[K"
_WIDTH = 72


def main(folder: str, extra: str) -> int:
    """Install, and return the status of what failed, or 0."""
    begin = time.monotonic()
    python = Path(folder) / "bin" / "python"
    if not python.exists():
        status = watched([sys.executable, "-m", "venv", folder], f"creating {folder}")
        if status:
            return status
    # Modules are compiled when they are first imported: most of them never are.
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    status = watched([*pip, "--editable", f"{ROOT}[{extra}]"], f"installing fedsel[{extra}]")
    if not status:
        _write(f"installed fedsel[{extra}] into {folder} in {time.monotonic() - begin:.0f} s\n")
    return status


def watched(command: list[str], what: str) -> int:
    """Run a command and show the last line of its output, and the time; all of it if it fails."""
    begin = last = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    terminal, output, now = sys.stdout.isatty(), [], ""
    _write(what if terminal else f"{what}\n")
    while True:
        try:
            line = lines.get(timeout=_TICK)
        except queue.Empty:
            line = ""
        if line is None:
            break
        output.append(line)
        now = line.strip() or now
        shown = f"{what}, {time.monotonic() - begin:.0f} s  {now}"[:_WIDTH]
        if terminal:
            _write(_CLEAR_LINE + shown)
        elif time.monotonic() - last >= _EVERY_IN_A_LOG:
            last = time.monotonic()
            _write(f"{shown}\n")
    _write(_CLEAR_LINE if terminal else "")
    if process.wait():
        _write("".join(output))
    return process.returncode


def _read(output: IO[str], lines: queue.Queue[str | None]) -> None:
    with output:
        for line in output:
            lines.put(line)
    lines.put(None)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
