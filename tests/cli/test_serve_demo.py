"""``fedsel serve --demo``: it runs, and leaves neither processes nor files behind."""

import json
import os
import re
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
def test_three_parties_show_what_each_has_seen(quick_path):
    keep = quick_path / "keep"
    few = ("--relay", "--devices", "3", "--epochs", "2", "--json", "--keep", str(keep))
    demo = started(quick_path, *few)
    out, err = demo.communicate(timeout=600)
    assert demo.returncode == 0, err
    told, task = json.loads(out), Task.load(keep / "task.toml")
    assert [one["reports"] for one in told["rounds"]] == [3, 3]
    assert task.shuffle.n_min == 3
    assert told["both"] == {
        "epsilon": 8.0,
        "central_epsilon": task.shuffled_epsilon,
        "delta": 1e-6,
        "honest": 3,
        "said": task.shuffle.said(task.shuffled_epsilon, 8),
    }
    assert told["condition"] == task.shuffle.condition
    assert told["relay"] == {"devices": 3, "sealed_messages": 6}
    assert told["service"] == {"devices": 0, "reports": 6}
    places = re.findall(r"dashboard of the (\w+): (http://127.0.0.1:\d+)/", err)
    assert [name for name, _ in places] == ["service", "relay"]
    assert len({url for _, url in places}) == 2
    assert sorted(path.name for path in keep.iterdir() if path.suffix == "") == [
        *(f"ledger-{n}" for n in range(3)), "relay", "store",
    ]  # fmt: skip
    assert marked(f"TEST_MARK={quick_path}") == []


def test_people_read_both_numbers_last(capsys):
    shuffle = {"said": "ε = 8 against everybody; ε = 2", "condition": "The relay releases"}
    _serve_demo._show(
        {
            "solution": "FJ",
            "dim": 6,
            "epsilon_per_report": "1",
            "rounds": [{}] * 8,
            "devices": [{"reports": 8, "spent": "8", "left": "0"}] * 2,
            "accuracy": 0.9,
            "plain_accuracy": 1.0,
            "seconds": 3.0,
            "both": shuffle,
            "condition": shuffle["condition"],
            "relay": {"devices": 2, "sealed_messages": 16},
            "service": {"devices": 0, "reports": 16},
        }
    )
    told = capsys.readouterr().out
    assert "2 devices, and when" in told
    assert "16 messages, all of them sealed" in told
    assert "16 reports in 8 rounds, each sorted" in told
    assert "ε = 8 against everybody; ε = 2.\nThe relay releases\n" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "options"),
    [
        ("ledger-1/ledger.sqlite", ()),
        ("task.toml", ("--relay",)),
        ("relay", ("--relay",)),
        ("ledger-1/ledger.sqlite", ("--relay",)),
    ],
)
def test_interrupted_it_leaves_neither_processes_nor_files(quick_path, moment, options):
    """At the start, or in the middle of the rounds; and the impatient may try."""
    mark = f"TEST_MARK={quick_path}"
    demo = started(quick_path, "--devices", "2", "--epochs", "90", *options)
    wait_for(lambda: [*(quick_path / "t").glob(f"*/{moment}")])
    for _ in range(3):
        demo.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, err = demo.communicate(timeout=300)
    assert demo.returncode == 130
    relay = ", the relay" if options else ""
    assert f"interrupted; the service{relay} and the devices were ended" in err
    assert "Traceback" not in err
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
        (["--demo", "--relay", "--devices", "1"], "--devices = 1: must be"),
        (["task.toml", "--relay"], "--relay = True: must be omitted without --demo"),
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
@pytest.mark.parametrize("options", [(), ("--relay",)])
def test_a_device_that_fails_ends_the_demo(monkeypatch, options):
    def fail(*_, **__):
        raise Ended(Ending.REFUSED, "no")

    monkeypatch.setattr(_serve_demo, "join", fail)
    done = run_here("serve", "--demo", "--devices", "2", "--epochs", "2", *options, status=1)
    assert "the demo has failed: this device refuses what it is asked: no" in done.stderr
