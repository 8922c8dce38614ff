"""`make flower` as a user meets it, and the example app that it runs."""

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel._internal.extras import MissingExtra
from fedsel.flower import Node
from tests.cli.support import marked, wait_for
from tools.flower.__main__ import APP, Demo, app_task, main
from tools.flower.federation import Federation, ProcessError

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "tools.flower"]


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_the_demo_runs_and_sums_up(tmp_path):
    keep, mark = tmp_path / "keep", f"TEST_MARK={tmp_path}"
    done = subprocess.run(
        [
            *(*DEMO, "--nodes", "2", "--epochs", "1", "--epsilon", "2"),
            *("--keep", str(keep), "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TEST_MARK": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["solution"], told["averaging"]) == ("FJ", 3.0)
    assert told["dim"] == 11
    assert told["epsilon_per_report"] == "2"
    assert [(n["reports"], n["spent"], n["left"]) for n in told["nodes"]] == [(1, "2", "0")] * 2
    assert told["report_bytes"] == 16
    assert told["reply_bytes"] < told["fedavg_reply_bytes"] / 5
    assert told["fedavg_accuracy"][0] > 0.9
    assert 0 < told["accuracy"][0] < 1
    assert (keep / "superlink.log").exists()
    assert marked(mark) == []


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_demo_whose_nodes_all_refuse_has_failed(tmp_path, monkeypatch):
    allowed = Demo.node_config
    refusing = {"fedsel-dimensions": 12}
    monkeypatch.setattr(Demo, "node_config", lambda *given: allowed(*given) | refusing)
    expected = "^the run failed: the run is over without a single report; 1 request"
    with pytest.raises(ProcessError, match=expected) as failed:
        Demo(nodes=1, epochs=1).run(tmp_path)
    assert "the policy of this device does not allow such a task" in str(failed.value)


@contextlib.contextmanager
def started_demo(tmp_path):
    """A demo whose temporary files are in a folder of its own."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [*DEMO, "--nodes", "1", "--epochs", "90", "--epsilon", "100"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env={**os.environ, "TEST_MARK": str(tmp_path), "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    try:
        yield process, temporary
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_the_demo_leaves_neither_processes_nor_files_when_interrupted(tmp_path):
    """In the middle of the rounds, where the server has a checkpoint; and the impatient may try."""
    mark = f"TEST_MARK={tmp_path}"
    with started_demo(tmp_path) as (process, temporary):
        wait_for(lambda: any(temporary.rglob("checkpoint.bin")))
        assert len(marked(mark)) >= 5
        process.send_signal(signal.SIGINT)
        for _ in range(3):
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        status = process.wait(300)
    assert status in (130, 128 + signal.SIGTERM)  # whichever came in time
    assert status != 130 or "interrupted" in (tmp_path / "err").read_text()
    assert marked(mark) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_demo_that_is_ended_while_it_begins_leaves_nothing(tmp_path):
    with started_demo(tmp_path) as (process, temporary):
        wait_for(lambda: any(temporary.rglob("superlink.log")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 128 + signal.SIGTERM
    assert marked(f"TEST_MARK={tmp_path}") == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nodes", "0"], "nodes = 0"),
        (["--epsilon", "nan"], "epsilon = nan"),
        (["--model", "forest"], "--model: invalid choice: 'forest'"),
        (["--solution", "NP"], "a private solution"),
    ],
)
def test_wrong_options_start_nothing(arguments, complaint, monkeypatch, capsys):
    monkeypatch.setattr(Federation, "__enter__", lambda _: pytest.fail("started"))
    monkeypatch.setattr(sys, "argv", ["tools.flower", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert complaint in capsys.readouterr().err


def test_a_solution_that_is_not_private_starts_nothing():
    with pytest.raises(InvalidArgument, match="a private solution"):
        Demo(solution="NP")


@pytest.mark.parametrize("solution", ["RJ", "rc", "PM", "PM-RP", "PS-PM", "PS-PM-O"])
def test_nodes_allow_what_they_are_asked_for(tmp_path, solution):
    made = Demo(solution=solution)
    policy = Node.of(made.node_config(tmp_path, 0, dim=11)).policy
    assert policy.solutions == (made.strategy().recipe_of(11).solution,)


def test_without_flower_one_sentence_says_what_to_install(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("fedsel.flower")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    said = "fedsel.flower: flwr is missing, pip install 'fedsel[flower]'"
    with pytest.raises(MissingExtra, match=rf"^{re.escape(said)}$"):
        importlib.import_module("fedsel.flower")


def test_the_settings_of_the_demo_are_settings_of_the_app():
    settings = tomllib.loads((APP / "pyproject.toml").read_text())
    assert set(Demo().config()) <= set(settings["tool"]["flwr"]["app"]["config"])


def test_the_app_asks_for_the_recommended_recipe(monkeypatch):
    monkeypatch.syspath_prepend(str(APP))
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    strategy_of = importlib.import_module("flower_adult.server_app").strategy_of
    linear = strategy_of({**config["config"], **Demo().config()}).recipe_of(11)
    assert (linear.solution, linear.averaging, round(linear.rho, 2)) == ("FJ", 3.0, 0.08)
    pytest.importorskip("torch", reason="torch is not there for this Python")
    network = strategy_of({**config["config"], **Demo(model="mlp").config()}).recipe_of(48)
    assert (network.solution, network.averaging, network.rho) == ("FJ", 3.0, None)
    given = {"rho": 0.1, "learning-rate": 2.0}
    named = strategy_of({**config["config"], **given}).recipe_of(11)
    assert (named.rho, named.learning_rate, named.averaging) == (0.1, 2.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_the_task_learns_without_privacy(model):
    task, config = app_task(), {"dataset": "syn", "features": 10, "hidden": 4}
    config["model"] = model
    records = task.load(config)
    part, test = task.partition(records, 1, 3), task.held_out(records)
    assert len(part[1]) == 16_000
    np.testing.assert_allclose(np.linalg.norm(part[0], axis=1), 1, rtol=1e-5)
    arrays = task.start(records[0].shape[1], config)
    before = task.judge(arrays, test)[1]
    for _ in range(30):
        arrays = task.train(arrays, part, 5.0)
    accuracy, loss = task.judge(arrays, test)
    assert accuracy > 0.9
    assert loss < before
