"""FedSelStrategy in one process: what a server makes of reports, and of everything else."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedsel import InvalidArgument
from fedsel.device import Ledger
from fedsel.flower import FedSelMod, FedSelStrategy
from fedsel.flower.messages import Layout, answer_of
from tests.flower.messages import App, D, Replayed, config, context, model

pytestmark = pytest.mark.usefixtures("flower_identity")


class Network:
    """A grid whose nodes live here; each may misbehave."""

    def __init__(self, folder, nodes, task="PS-PM", lifetime=4.0, per_report=2.0):
        self.apps = {
            n: (
                App(0.1 * (n % 3)),
                config(
                    folder / f"node-{n}",
                    lifetime=lifetime,
                    solutions=task,
                    **{"per-report": per_report},
                ),
            )
            for n in nodes
        }
        self.online, self.spoil, self.asked = set(nodes), {}, []

    def get_node_ids(self):
        return list(self.online)

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for msg in messages:
            node = msg.metadata.dst_node_id
            self.asked.append(node)
            app, own = self.apps[node]
            reply = FedSelMod()(msg, context(own), app)
            replies += self.spoil[node](msg, reply) if node in self.spoil else [reply]
        return replies


def strategy(folder, **changes):
    given = {"solution": "PS-PM", "epsilon": 4.0, "nodes": 4, "epochs": 2, "k": 2, "mu": 0.1}
    return FedSelStrategy(**{**given, "folder": folder, "patience": 0.0, **changes})


def test_a_run_steps_the_model_and_keeps_its_history(tmp_path):
    grid = Network(tmp_path, range(1, 5))
    made = strategy(tmp_path / "server", learning_rate=0.5, scale={"1": 0.1})

    def judge(number, arrays):
        return MetricRecord({"accuracy": number / 10, "loss": 1.0})

    result = made.start(grid, model(), evaluate_fn=judge)
    assert [r.reports for r in made.history.rounds] == [4, 4]
    assert [r.accuracy for r in made.history.rounds] == [0.1, 0.2]
    assert [r.epsilon for r in made.history.rounds] == [2.0, 4.0]
    assert made.history.rounds[0].bits == 4 * made.task.solution.bits
    assert result.train_metrics_clientapp[2]["epsilon"] == 4.0
    layout = Layout.of(model())
    told = layout.vector(result.arrays)
    np.testing.assert_allclose(told, made.history.weights, rtol=1e-6)
    assert np.abs(told).sum() > 0
    assert {Ledger(tmp_path / f"node-{n}").read().left for n in range(1, 5)} == {0}
    assert len(set(made.reply_bytes)) == 1
    assert made.plot_history().get_ylabel().startswith("accuracy")
    assert made.start(grid, model()).train_metrics_clientapp == {}  # all is over


def test_the_scale_is_taken_back_by_the_server(tmp_path):
    """In units of the scale the same words give the same reports: weights are scale times those."""
    weights = []
    for scale in (1.0, 0.125):
        folder = tmp_path / str(scale)
        made = strategy(folder, epochs=1, nodes=1, learning_rate=1.0, scale=scale, epsilon=2.0)
        content = list(made.configure_train(1, model(), ConfigRecord(), Network(folder, [1])))
        app = App(
            result=lambda msg, ctx, s=scale: Message(
                RecordDict(
                    {"arrays": ArrayRecord([np.full((2, 2), -0.5 * s), np.full(2, 0.25 * s)])}
                ),
                reply_to=msg,
            )
        )
        reply = Replayed()(content[0], context(config(folder / "node")), app)
        made.aggregate_train(1, [reply])
        weights.append(made.history.weights)
    assert np.abs(weights[0]).sum() > 0
    np.testing.assert_array_equal(weights[1], 0.125 * weights[0])


def test_what_is_no_report_of_the_round_is_counted_and_dropped(tmp_path):
    grid = Network(tmp_path, range(1, 8))
    kept = []

    def late(msg, reply):
        kept.append(reply)
        return [kept[0]] if len(kept) > 1 else []

    grid.spoil = {
        1: lambda msg, reply: [],
        2: late,
        3: lambda msg, reply: [reply, reply],
        4: lambda msg, reply: [Message(RecordDict(), reply_to=msg)],
        5: lambda msg, reply: [Message(answer_of(b"\xff" * 16), reply_to=msg)],
        6: lambda msg, reply: [Message(Error(0, "x" * 10_000), reply_to=msg)],
    }
    made = strategy(tmp_path / "server", nodes=7)
    result = made.start(grid, model())
    first, second = (result.train_metrics_clientapp[n] for n in (1, 2))
    counts = {"reports": 2, "duplicate": 1, "rejected": 2, "refused": 1, "late": 0, "silent": 1}
    assert {name: first[name] for name in counts} == counts
    assert second["late"] == 1
    assert made.refusals == {"OTHER": 2}


def test_an_epoch_is_shared_by_its_rounds_and_asks_nobody_twice(tmp_path):
    grid = Network(tmp_path, range(1, 8))
    made = strategy(tmp_path / "server", nodes=7, epochs=1, epsilon=2.0, rounds_per_epoch=3)
    made.start(grid, model())
    assert sorted(grid.asked) == list(range(1, 8))
    assert [r.reports for r in made.history.rounds] == [3, 2, 2]
    assert made.refusals == {}


def test_a_restarted_server_goes_on(tmp_path):
    grid = Network(tmp_path, range(1, 5))
    made = strategy(tmp_path / "server")
    made.start(grid, model(), num_rounds=1)
    again = strategy(tmp_path / "server")
    result = again.start(grid, model())
    assert list(result.train_metrics_clientapp) == [1]
    assert [r.reports for r in again.history.rounds] == [4, 4]
    assert again.task == made.task
    with pytest.raises(InvalidArgument, match="that of the checkpoint"):
        strategy(tmp_path / "server", learning_rate=0.1).start(grid, model())
    for changed_ in ({"scale": 0.5}, {}):
        arrays = model() if changed_ else ArrayRecord([np.zeros(D, np.float32)])
        with pytest.raises(InvalidArgument, match="those of the checkpoint"):
            strategy(tmp_path / "server", **changed_).start(grid, arrays)


def test_exhausted_nodes_refuse_and_the_others_go_on(tmp_path):
    grid = Network(tmp_path, range(1, 5))
    grid.apps[1] = (App(), config(tmp_path / "poor", lifetime=2.0))
    made = strategy(tmp_path / "server")
    made.start(grid, model())
    assert [r.reports for r in made.history.rounds] == [4, 3]
    assert made.refusals == {"EXHAUSTED": 1}


def test_a_round_waits_for_nodes_but_not_for_ever(tmp_path, monkeypatch):
    grid = Network(tmp_path, range(1, 5))
    grid.online = {1}
    joined = iter([2, 3])
    import fedsel.flower.strategy as module

    monkeypatch.setattr(module.time, "sleep", lambda _: grid.online.add(next(joined, 3)))
    made = strategy(tmp_path / "server", nodes=3, patience=60.0)
    made.start(grid, model())
    assert [r.reports for r in made.history.rounds] == [3, 3]
    empty = Network(tmp_path, [])
    alone = strategy(tmp_path / "other", nodes=3)
    result = alone.start(empty, model())
    assert [r.reports for r in alone.history.rounds] == [0, 0]
    assert Layout.of(model()).vector(result.arrays).tolist() == [0.0] * D


def test_hyper_parameters_follow_from_the_planned_nodes(tmp_path):
    many = FedSelStrategy(solution="PS-PM", epsilon=4.0, nodes=10_000)
    assert many.task_of(100).mu == 0.2
    few = FedSelStrategy(solution="PS-PM", epsilon=0.5, nodes=100)
    assert few.task_of(100).name == "PM"  # nothing is left for the selection
    rj = FedSelStrategy(epsilon=4.0, nodes=100, epochs=4, rho=0.1)
    assert rj.task_of(101).rho == 0.1
    assert rj.task_of(101, [0.5]).learning_rate == 2 * rj.task_of(101).learning_rate
    more = FedSelStrategy(epsilon=4.0, nodes=400, epochs=4, rho=0.1)
    assert more.task_of(101).learning_rate == pytest.approx(2 * rj.task_of(101).learning_rate)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"solution": "NP"}, "name"),
        ({"solution": "RX"}, "name"),
        ({"nodes": 0}, "nodes"),
        ({"rounds_per_epoch": 5}, "rounds_per_epoch"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"scale": 0.0}, "scale"),
        ({"scale": {"0": float("nan")}}, r"scale\['0'\]"),
        ({"mu": 2.0}, "mu"),
        ({"patience": float("nan")}, "patience"),
        ({"rho": -1.0}, "rho"),
        ({"radius": 1.0}, "radius"),
    ],
)
def test_wrong_parameters_are_refused_at_once(tmp_path, changes, name):
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        strategy(tmp_path, **changes)


@pytest.mark.parametrize(
    "arrays", [ArrayRecord(), ArrayRecord([np.zeros(2, np.int64)]), ArrayRecord([np.zeros(0)])]
)
def test_models_that_reports_cannot_train_are_refused(tmp_path, arrays):
    with pytest.raises(InvalidArgument, match=r"^arrays = "):
        strategy(tmp_path).start(Network(tmp_path, [1]), arrays)
    with pytest.raises(InvalidArgument, match=r"^scale = 'x'"):
        strategy(tmp_path, scale={"x": 1.0}).start(Network(tmp_path, [1]), model())
    with pytest.raises(InvalidArgument, match="not started"):
        _ = strategy(tmp_path).history
