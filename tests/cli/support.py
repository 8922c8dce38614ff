"""The command line, in a process of its own or in this one."""

import contextlib
import functools
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from fedsel import cli
from fedsel._internal.progress import show_progress

FEDSEL = str(Path(sys.executable).parent / "fedsel")
COMMANDS = functools.cache(typer.main.get_command)
"""typer's, which makes all commands anew for every call: in a process of tests once is enough."""


class Done(NamedTuple):
    """What a command has printed."""

    stdout: str
    stderr: str


def run(*arguments, status=0, cwd=None, timeout=600, **environment):
    """Run fedsel as a user does, without a terminal."""
    done = subprocess.run(
        [FEDSEL, *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **environment},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return Done(done.stdout, done.stderr)


def run_here(*arguments, status=0, cwd=None, main=cli.main, **environment):
    """The same in this process: no second is spent on importing everything once more."""
    ended, done = outcome(*arguments, cwd=cwd, main=main, **environment)
    assert ended == status, done.stdout + done.stderr
    return done


def outcome(*arguments, cwd=None, main=cli.main, **environment):
    """The status with which a command ends in this process, and what it has printed."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, ended = show_progress(False), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["fedsel", *map(str, arguments)])
        patch.setattr(typer.main, "get_command", COMMANDS)
        patch.chdir(cwd or Path.cwd())
        for name, value in {"COLUMNS": "100", **environment}.items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as exit_:
            ended = exit_.code or 0
        finally:
            show_progress(before)
    return ended, Done(*(stream.buffer.getvalue().decode() for stream in (out, err)))


def marked(mark):
    """Processes that carry a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(happened):
    """Until something has happened, however slow the machine is."""
    until = time.monotonic() + 300
    while not happened() and time.monotonic() < until:
        time.sleep(0.1)
    assert happened()
