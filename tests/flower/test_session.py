"""FedSelStrategy when no report comes, and when its folder is wanted by others."""

import logging

import numpy as np
import pytest
from flwr.app import ArrayRecord, Error, Message

from fedsel.device import Ledger
from fedsel.flower import NoReports
from fedsel.server import FolderInUse
from tests.flower.messages import App, D, config, model
from tests.flower.test_strategy import Network, strategy

pytestmark = pytest.mark.usefixtures("flower_identity")


def spent_nodes(folder, count=3):
    """Nodes whose budget suffices for nothing."""
    return Network(folder, range(1, count + 1), lifetime=1.0)


@pytest.fixture(autouse=True)
def heard(caplog):
    """What Flower's logger is told, whatever its programs have made of it in this process.

    They set its level and its propagation, and a migration of its database disables it.
    """
    logger = logging.getLogger("flwr")
    before, level = (logger.propagate, logger.disabled), logger.level
    logger.propagate, logger.disabled = False, False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(caplog.handler)
    yield
    logger.removeHandler(caplog.handler)
    logger.propagate, logger.disabled = before
    logger.setLevel(level)


def warnings_in(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_a_run_that_gets_no_reports_warns_at_once_and_then_ends(tmp_path, caplog):
    """Nothing was released, and no ε is counted: neither in the metrics nor in the history."""
    grid = spent_nodes(tmp_path)
    made = strategy(tmp_path / "server", nodes=3, epsilon=20.0, epochs=10, max_empty_rounds=4)
    why = r"12 requests: 12 × \"the budget of this device does not suffice for the report\""
    with pytest.raises(NoReports, match=rf"^no report in 4 rounds in a row; {why}$"):
        made.start(grid, model())
    assert len(grid.asked) == 12
    told = warnings_in(caplog)
    assert len(told) == 4
    assert told[0].startswith(
        'No report in round 1, nothing is learnt; 3 requests: 3 × "the budget'
    )
    assert made.refusals == {"EXHAUSTED": 12}
    assert [r.epsilon for r in made.history.rounds] == [0.0] * 4
    assert {Ledger(tmp_path / f"node-{n}").read().spent for n in (1, 2, 3)} == {0}
    # It can be started again, and has as many tries; what is over stays over.
    with pytest.raises(NoReports, match="4 rounds in a row"):
        strategy(tmp_path / "server", nodes=3, epsilon=20.0, epochs=10, max_empty_rounds=4).start(
            grid, model()
        )
    assert len(grid.asked) == 24


def test_nodes_without_a_policy(tmp_path, caplog):
    grid = Network(tmp_path, range(1, 3))
    grid.apps = {n: (App(), {"partition-id": n}) for n in grid.online}
    grid.spoil = {2: lambda msg, reply: []}
    with pytest.raises(NoReports, match=r'1 × "this node has no settings of.*", 1 × no answer$'):
        strategy(tmp_path / "server", nodes=2, epsilon=20.0, max_empty_rounds=1).start(
            grid, model()
        )
    nobody = Network(tmp_path, [])
    with pytest.raises(NoReports, match=r"^no report in 3 .*; no node was there to be asked$"):
        strategy(tmp_path / "other", epsilon=20.0, epochs=10).start(nobody, model())


def test_nodes_that_refuse_beside_others_that_report_are_a_warning(tmp_path, caplog):
    """Three of four at once, and each round; one of seven once for each of its reasons."""
    grid = Network(tmp_path, range(1, 5))
    wrong = ({"partition-id": 2}, {"fedsel-sotre": "/s"}, {"fedsel-store": str(tmp_path / "s")})
    for node, own in zip((2, 3, 4), wrong, strict=True):
        grid.apps[node] = (App(), own)
    made = strategy(tmp_path / "server", nodes=4)
    made.start(grid, model())
    assert made.refusals == {"NO_SETTINGS": 2, "WRONG_SETTINGS": 2, "WRONG_POLICY": 2}
    told = warnings_in(caplog)
    assert [t.split(";")[0] for t in told] == [
        f"1 of 4 nodes reported in round {n}" for n in (1, 2)
    ]
    assert told[0].count("1 × ") == 3
    caplog.clear()
    grid = Network(tmp_path / "more", range(1, 8), lifetime=6.0)
    grid.apps[7] = (App(), config(tmp_path / "poor", lifetime=2.0))
    strategy(tmp_path / "other", nodes=7, epsilon=6.0, epochs=3).start(grid, model())
    assert [t.split(":")[0] for t in warnings_in(caplog)] == [
        "6 of 7 nodes reported in round 2; the others"
    ]


def test_the_text_of_a_node_is_not_repeated(tmp_path, caplog):
    grid = Network(tmp_path, [1])
    grid.spoil = {1: lambda msg, reply: [Message(Error(0, "\x1b[31m boo"), reply_to=msg)]}
    with pytest.raises(NoReports, match=r"; 1 requests: 1 × another error$"):
        strategy(tmp_path / "server", nodes=1, max_empty_rounds=1).start(grid, model())
    assert "boo" not in caplog.text


def test_a_short_run_without_any_report_has_failed_too(tmp_path, caplog):
    with pytest.raises(NoReports, match=r"^the run is over without a single report; 6 requests"):
        strategy(tmp_path / "server", nodes=3).start(spent_nodes(tmp_path), model())
    # One that is not over yet has not failed: rounds may be run one by one.
    made = strategy(tmp_path / "other", nodes=3)
    made.start(spent_nodes(tmp_path), model(), num_rounds=1)
    with pytest.raises(NoReports, match="without a single report"):
        made.start(spent_nodes(tmp_path), model())
    patient = strategy(tmp_path / "patient", nodes=3, epochs=9, epsilon=18.0, max_empty_rounds=None)
    patient.start(spent_nodes(tmp_path), model())
    assert [r.reports for r in patient.history.rounds] == [0] * 9
    assert len(warnings_in(caplog)) == 2 + 2 + 9


def test_one_report_ends_the_silence_and_only_its_epoch_is_counted(tmp_path, caplog):
    """Rounds with reports cost; the others do not, wherever they are."""
    grid = Network(tmp_path, range(1, 4), lifetime=12.0)
    quiet = {n: lambda msg, reply: [] for n in (1, 2, 3)}
    made = strategy(tmp_path / "server", nodes=3, epsilon=12.0, epochs=6)
    metrics = []
    for spoil in (quiet, quiet, {}, quiet, quiet, {}):
        grid.spoil = spoil
        result = made.start(grid, model(), num_rounds=1)
        metrics.append(result.train_metrics_clientapp[1]["epsilon"])
    assert metrics == [0.0, 0.0, 2.0, 2.0, 2.0, 4.0]
    assert [r.epsilon for r in made.history.rounds] == metrics
    assert [r.reports for r in made.history.rounds] == [0, 0, 3, 0, 0, 3]


def test_the_rounds_of_an_epoch_cost_a_node_once(tmp_path):
    grid = Network(tmp_path, range(1, 7))
    made = strategy(tmp_path / "server", nodes=6, rounds_per_epoch=3)
    result = made.start(grid, model())
    assert [r.epsilon for r in made.history.rounds] == [2.0] * 3 + [4.0] * 3
    assert [m["epsilon"] for m in result.train_metrics_clientapp.values()] == [2.0] * 3 + [4.0] * 3


def test_the_folder_is_the_strategys_own_while_it_runs(tmp_path):
    """Also against another model: what is written down of it is written under the lock."""
    made, other = strategy(tmp_path / "server"), strategy(tmp_path / "server")

    class Busy(Network):
        def send_and_receive(self, messages, *, timeout=None):
            for arrays in (model(), ArrayRecord([np.zeros(D, np.float32)])):
                with pytest.raises(FolderInUse, match="server"):
                    other.start(grid, arrays)
            return super().send_and_receive(messages, timeout=timeout)

    grid = Busy(tmp_path, range(1, 5))
    made.start(grid, model(), num_rounds=1)
    other.start(Network(tmp_path, range(1, 5)), model())
    assert [r.reports for r in other.history.rounds] == [4, 4]
    assert [r.reports for r in made.history.rounds] == [4]  # as it was left
    assert made.start(grid, model()).train_metrics_clientapp == {}  # all is over
    assert made.history.table()[0]["reports"] == 4


def test_who_was_asked_in_an_epoch_is_known_in_the_next_start(tmp_path):
    grid = Network(tmp_path, range(1, 7))
    made = strategy(None, nodes=6, epochs=1, epsilon=2.0, rounds_per_epoch=3)
    for _ in range(3):
        made.start(grid, model(), num_rounds=1)
    assert sorted(grid.asked) == list(range(1, 7))
    assert made.refusals == {}


def test_what_a_killed_strategy_left_is_removed(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    left = [folder / f".{name}.4711" for name in ("model.json", "checkpoint.bin")]
    for file in left:
        file.write_bytes(b"half of it")
    strategy(folder).start(Network(tmp_path, range(1, 5)), model())
    assert not any(file.exists() for file in left)
