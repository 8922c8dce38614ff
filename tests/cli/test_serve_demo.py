"""``fedsel serve --demo``: it runs, and leaves neither processes nor files behind."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra fedsel[service]")

from fedsel.cli import _serve_demo
from fedsel.data import synthetic
from fedsel.device import Ended, Ending
from fedsel.service import Task
from tests.cli.support import FEDSEL, marked, run_here, wait_for

pytestmark = pytest.mark.xdist_group("processes")


def started(tmp_path, *arguments):
    """A demo whose temporary files are in a folder of its own, and its processes known."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    return subprocess.Popen(
        [FEDSEL, "serve", "--demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TEST_MARK": str(tmp_path), "TMPDIR": str(temporary), "COLUMNS": "80"},
        start_new_session=True,
    )


@pytest.mark.slow
def test_the_demo_runs_and_sums_up(quick_path):
    keep = quick_path / "keep"
    demo = started(quick_path, "--devices", "3", "--epochs", "2", "--json", "--keep", str(keep))
    out, err = demo.communicate(timeout=600)
    assert demo.returncode == 0, err
    told = json.loads(out)
    assert (told["solution"], told["dim"], told["epsilon_per_report"]) == ("FJ", 6, "4")
    assert [one["reports"] for one in told["rounds"]] == [3, 3]
    assert told["devices"] == [
        {"device": n, "reports": 2, "spent": "8", "left": "0"} for n in range(3)
    ]
    assert told["plain_accuracy"] > 0.95
    assert 0 < told["accuracy"] < 1
    assert "dashboard: http://127.0.0.1:" in err
    assert "round 2 of 2: 3 reports, accuracy" in err
    assert marked(f"TEST_MARK={quick_path}") == []
    assert Task.load(keep / "task.toml").name == "demo"


@pytest.mark.slow
def test_interrupted_it_leaves_neither_processes_nor_files(quick_path):
    """In the middle of the rounds; and the impatient may try."""
    mark = f"TEST_MARK={quick_path}"
    demo = started(quick_path, "--devices", "2", "--epochs", "90")
    wait_for(lambda: len(list(quick_path.rglob("ledger-*/ledger.sqlite"))) == 2)
    assert len(marked(mark)) == 1
    for _ in range(3):
        demo.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, err = demo.communicate(timeout=300)
    assert demo.returncode == 130
    assert "interrupted; the service and the devices were ended" in err
    assert marked(mark) == []
    assert list((quick_path / "t").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--demo", "task.toml"], "TASK = 'task.toml': must be omitted with --demo"),
        (["--demo", "--port", "1"], "--port = 1: must be omitted with --demo"),
        (["--demo", "--workers", "2"], "--workers = 2: must be omitted with --demo"),
        (["--demo", "--devices", "0"], "--devices = 0"),
        (["--demo", "--epsilon", "nan"], "--epsilon = nan"),
        (["--demo", "--keep", "."], "--keep = '.'"),
        (["task.toml", "--devices", "3"], "--devices = 3: must be omitted without --demo"),
        (["--stay"], "--stay = True: must be omitted without --demo"),
        ([], "TASK = None: must be a TOML file"),
    ],
)
def test_options_that_it_would_ignore_are_refused(arguments, complaint, monkeypatch):
    monkeypatch.setattr(_serve_demo, "run_demo", lambda *_, **__: pytest.fail("started"))
    assert complaint in run_here("serve", *arguments, status=2).stderr


def test_each_device_has_records_of_its_own():
    records = synthetic(d=5, n=5300, seed=3)
    labels = np.where(records.y > 0, "yes", "no")
    shares = [_serve_demo.records_of(number, records, labels) for number in range(3)]
    assert [len(share) for share in shares] == [100] * 3
    assert len({repr(share._table) for share in shares}) == 3


@pytest.mark.slow
def test_a_device_that_fails_ends_the_demo(monkeypatch):
    def fail(*_, **__):
        raise Ended(Ending.REFUSED, "no")

    monkeypatch.setattr(_serve_demo, "join", fail)
    done = run_here("serve", "--demo", "--devices", "2", "--epochs", "2", status=1)
    assert "the demo has failed: this device refuses what it is asked: no" in done.stderr
