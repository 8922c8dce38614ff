"""FedSelStrategy in one process: what a server makes of reports, and of everything else."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedsel import InvalidArgument
from fedsel.device import Ledger
from fedsel.flower import FedSelMod, FedSelStrategy
from fedsel.flower._messages import Layout, answer_of, report_of
from fedsel.server import Aggregator, Verdict
from fedsel.simulation import Simulation, Training
from tests.flower.messages import SEED, App, D, Replayed, config, context, model
from tests.server.test_aggregator import same_run
from tests.tracking.test_callbacks import Failing, Recorder

pytestmark = pytest.mark.usefixtures("flower_identity")


class Network:
    """A grid whose nodes live here; each may misbehave."""

    def __init__(self, folder, nodes, solution="PS-PM", lifetime=4.0, app=None, mod=FedSelMod):
        own = {"lifetime": lifetime, "solutions": solution, "per-report": 2.0}
        self.apps = {
            n: (
                App(0.1 * (n % 3)) if app is None else app(n),
                config(folder / f"node-{n}", **own) | {"partition-id": n},
            )
            for n in nodes
        }
        self.online, self.spoil, self.asked, self.mod = set(nodes), {}, [], mod
        self.rounds = []

    def get_node_ids(self):
        return list(self.online)

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for msg in messages:
            node = msg.metadata.dst_node_id
            self.asked.append(node)
            app, own = self.apps[node]
            reply = self.mod()(msg, context(own), app)
            replies += self.spoil[node](msg, reply) if node in self.spoil else [reply]
        self.rounds += [replies] if replies else []
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
    assert made.history.rounds[0].bits == 4 * made.recipe.build().bits
    assert made.history.fewest_reports == made.statement.shuffled.reports == 4
    assert made.history.central(delta=1e-3) == made.statement.central(delta=1e-3)
    assert made.statement.shuffled.sentence in str(made.statement)
    assert result.train_metrics_clientapp[2]["epsilon"] == 4.0
    layout = Layout.of(model())
    told = layout.vector(result.arrays)
    np.testing.assert_allclose(told, made.history.weights, rtol=1e-6)
    assert np.abs(told).sum() > 0
    assert {Ledger(tmp_path / f"node-{n}").read().left for n in range(1, 5)} == {0}
    assert len(set(made.reply_bytes)) == 1
    assert made.plot_history().get_ylabel().startswith("accuracy")
    assert made.start(grid, model()).train_metrics_clientapp == {}  # all is over


def test_callbacks_follow_a_run_through_a_restart(tmp_path):
    grid, seen = Network(tmp_path, range(1, 5)), Recorder()

    def judge(number, arrays):
        return MetricRecord({"accuracy": number / 10, "recall": 0.5, "round": 77, "norm": -1})

    given = {"learning_rate": 0.5, "epsilon": 4.0}
    broken = Failing("round")
    made = strategy(tmp_path / "server", callbacks=[broken, seen], **given)
    made.start(grid, model(), num_rounds=1, evaluate_fn=judge)
    assert seen.run.epsilon == made.recipe.build().privacy.total
    assert (seen.run.rounds, seen.run.parameters["nodes"]) == (1, 4)
    assert all(isinstance(v, str | int | float) for v in seen.run.parameters.values())
    norm = float(np.linalg.norm(made.history.weights))
    known = {"round": 1, "epoch": 0, "epsilon": 2.0, "reports": 4, "learning_rate": 0.5}
    known |= {"bits": made.history.rounds[0].bits, "accuracy": 0.1, "recall": 0.5, "norm": norm}
    assert seen.records == [known]
    assert (broken.calls, seen.history.rounds) == (1, made.history.rounds)

    rows = []
    again = strategy(tmp_path / "server", callbacks=[rows.append], **given)
    again.start(grid, model())
    assert [row["round"] for row in rows] == [2]
    assert again.start(grid, model()).train_metrics_clientapp == {}
    assert len(rows) == 1


def test_wrong_callbacks_are_refused_before_anything_begins(tmp_path):
    with pytest.raises(InvalidArgument, match="callbacks = "):
        strategy(tmp_path, callbacks=print)
    grid = Network(tmp_path, range(1, 5))
    with pytest.raises(OSError, match="full"):
        strategy(tmp_path / "server", callbacks=[Failing("start")]).start(grid, model())
    assert not grid.asked


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
    assert again.recipe == made.recipe
    with pytest.raises(InvalidArgument, match="as in the checkpoint"):
        strategy(tmp_path / "server", learning_rate=0.1).start(grid, model())
    for changed_ in ({"scale": 0.5}, {}):
        arrays = model() if changed_ else ArrayRecord([np.zeros(D, np.float32)])
        with pytest.raises(InvalidArgument, match="as in the checkpoint"):
            strategy(tmp_path / "server", **changed_).start(grid, arrays)


def angles(weights, node):
    """What a node would like to tell: it depends on the weights that it was sent."""
    w = weights.astype(np.float32)
    return (w - np.cos(w + node + np.arange(D, dtype=np.float32))).astype(np.float32)


class Trained(App):
    """Trains by `angles`."""

    def __init__(self, node):
        layout = Layout.of(model())

        def trained(msg, ctx):
            arrays = layout.record(angles(layout.vector(msg.content["arrays"]), node))
            return Message(RecordDict({"arrays": arrays}), reply_to=msg)

        super().__init__(result=trained)


class Simulated:
    """The same nodes as the simulator sees them."""

    clients, chunk, scales = 4, 3, None

    def receive(self, weights):
        self.weights = weights.astype(np.float32).astype(np.float64)

    def vectors(self, clients):
        after = [angles(self.weights, c) for c in clients.tolist()]
        return [np.stack([(self.weights - a).astype(np.float32) for a in after])]


def recommended(folder, **changes):
    given = {"epsilon": 3.0, "nodes": 4, "epochs": 3, "reg": 0.01, "patience": 0.0, "norm": 1.0}
    return FedSelStrategy(**{**given, **changes}, folder=folder)


def test_unless_told_otherwise_it_is_the_recommended_recipe(tmp_path):
    made = FedSelStrategy(epsilon=4.0, nodes=4, epochs=2, patience=0.0)
    made.start(Network(tmp_path, range(4), "FJ"), model())
    recipe = made.recipe
    assert (recipe.solution, recipe.rho, recipe.averaging, recipe.reg) == ("FJ", None, 3.0, 0.0)
    assert recipe.learning_rate > 0
    assert [r.reports for r in made.history.rounds] == [4, 4]


def test_strategy_aggregator_and_simulator_are_one(tmp_path):
    """The recommended recipe with λ > 0, on the same random words: weights and average alike."""
    grid = Network(tmp_path, range(4), "FJ", app=Trained, mod=Replayed)
    made = recommended(tmp_path / "server")
    start = ArrayRecord([np.full((2, 2), 0.25, np.float32), np.zeros(2, np.float32)])
    result = made.start(grid, start)
    vector, state = Layout.of(start).vector(start, np.float64), made.session.server.state
    assert made.recipe.averaging > 0
    assert not np.array_equal(state.weights, state.average)
    np.testing.assert_array_equal(made.history.weights, state.average)
    told = Layout.of(start).vector(result.arrays)
    np.testing.assert_array_equal(told, state.average.astype(np.float32))

    server = Aggregator(made.recipe, tmp_path / "alone", weights=vector)
    same_run(server, made.session.server)
    for replies in grid.rounds:
        for reply in reversed(replies):
            node = reply.metadata.src_node_id
            assert server.receive(node, report_of(reply.content)) is Verdict.ACCEPTED
        server.step()
    np.testing.assert_array_equal(server.weights, state.weights)
    np.testing.assert_array_equal(server.model, state.average)

    training = Training(
        made.recipe.build(),
        made.recipe.learning_rate,
        reg=made.recipe.reg,
        seed=SEED,
        averaging=made.recipe.averaging,
    )
    runner = Simulation(training, Simulated(), vector)
    history = runner.play()
    np.testing.assert_array_equal(runner.state.weights, state.weights)
    np.testing.assert_array_equal(history.weights, state.average)


def test_the_average_survives_a_restart(tmp_path):
    """Begun again after each round, or never: the same weights and the same average."""
    whole = recommended(tmp_path / "whole" / "server")
    whole.start(Network(tmp_path / "whole", range(4), "FJ", app=Trained, mod=Replayed), model())
    folder = tmp_path / "parts"
    grid = Network(folder, range(4), "FJ", app=Trained, mod=Replayed)
    for _ in range(3):
        part = recommended(folder / "server")
        result = part.start(grid, model(), num_rounds=1)
    a, b = whole.session.server.state, part.session.server.state
    assert b.rounds == 3
    assert not np.array_equal(b.weights, b.average)
    np.testing.assert_array_equal(b.weights, a.weights)
    np.testing.assert_array_equal(b.average, a.average)
    again = recommended(folder / "server").start(Network(folder, []), model())
    layout = Layout.of(model())
    np.testing.assert_array_equal(layout.vector(again.arrays), layout.vector(result.arrays))
    for changed in ({"averaging": 0.0}, {"averaging": 1.0}):
        with pytest.raises(InvalidArgument, match="as in the checkpoint"):
            recommended(folder / "server", **changed).start(grid, model())


def test_nodes_train_on_the_weights_and_the_average_is_judged(tmp_path):
    seen, judged = [], []

    class Watching(App):
        def __call__(self, msg, ctx):
            seen.append(Layout.of(model()).vector(msg.content["arrays"]).tolist())
            return super().__call__(msg, ctx)

    made = FedSelStrategy(epsilon=3.0, nodes=1, epochs=3, patience=0.0)
    grid = Network(tmp_path, [0], "FJ", app=lambda _: Watching())

    def judge(number, arrays):
        judged.append(Layout.of(model()).vector(arrays).tolist())
        server = made.session.server
        assert judged[-1] == server.model.astype(np.float32).tolist()
        weights.append(server.weights.astype(np.float32).tolist())

    weights = []
    made.start(grid, model(), evaluate_fn=judge)
    assert seen == weights[:-1]
    assert judged[2:] != weights[2:]


def test_the_server_decays_only_where_nodes_need_not_know(tmp_path):
    for name in ("PS-PM", "PM", "PM-RP"):
        with pytest.raises(InvalidArgument, match=rf"^reg = 0.1: must be 0 for {name}: "):
            strategy(tmp_path, solution=name, reg=0.1)
    for name in ("FJ", "J", "RC"):
        assert strategy(tmp_path, solution=name, reg=0.1).recipe_of(D).reg == 0.1
    assert not list(tmp_path.iterdir())


def test_an_unknown_parameter_is_refused_with_the_list_of_known_ones(tmp_path):
    with pytest.raises(InvalidArgument, match="radius") as refused:
        strategy(tmp_path, radius=1.0)
    allowed = refused.value.allowed.partition(": ")[2].split(", ")
    assert {"averaging", "rho", "mu", "reg", "k", "clip", "momentum", "seed"} <= set(allowed)
    assert not {"dim", "requested_solution", "epsilon", "solution"} & set(allowed)


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
    import fedsel.flower._strategy as module

    monkeypatch.setattr(module.time, "sleep", lambda _: grid.online.add(next(joined, 3)))
    made = strategy(tmp_path / "server", nodes=3, patience=60.0)
    made.start(grid, model())
    assert [r.reports for r in made.history.rounds] == [3, 3]
    empty = Network(tmp_path, [])
    alone = strategy(tmp_path / "other", nodes=3, max_empty_rounds=None)
    result = alone.start(empty, model())
    assert [r.reports for r in alone.history.rounds] == [0, 0]
    assert Layout.of(model()).vector(result.arrays).tolist() == [0.0] * D


def test_hyper_parameters_follow_from_the_planned_nodes(tmp_path):
    many = FedSelStrategy(solution="PS-PM", epsilon=4.0, nodes=10_000)
    assert many.recipe_of(100).mu == 0.2
    few = FedSelStrategy(solution="PS-PM", epsilon=0.5, nodes=100)
    assert few.recipe_of(100).solution == "PM"  # nothing is left for the selection
    assert few.recipe_of(100).requested_solution == "PS-PM"
    rj = FedSelStrategy(epsilon=1.0, nodes=100, epochs=4, rho=0.1)
    assert rj.recipe_of(101).rho == 0.1
    assert rj.recipe_of(101, [0.5]).learning_rate == 2 * rj.recipe_of(101).learning_rate
    more = FedSelStrategy(epsilon=1.0, nodes=400, epochs=4, rho=0.1)
    assert more.recipe_of(101).learning_rate == pytest.approx(2 * rj.recipe_of(101).learning_rate)


def test_where_no_norm_is_known_directions_are_reported(tmp_path):
    """Then nothing depends on how large the updates are, nor on a scale of all arrays."""
    made = FedSelStrategy(epsilon=4.0, nodes=100, epochs=4, norm=None)
    recipe = made.recipe_of(101)
    assert (recipe.solution, recipe.rho, recipe.averaging) == ("FJ", None, 3.0)
    known = FedSelStrategy(epsilon=4.0, nodes=100, epochs=4, norm=2.0).recipe_of(101)
    assert known.rho == 0.8
    assert FedSelStrategy(epsilon=4.0, nodes=100, epochs=4).recipe_of(101) == recipe
    many = FedSelStrategy(epsilon=4.0, nodes=100, epochs=4, norm=1.0, records_per_node=500)
    assert many.recipe_of(101).rho == pytest.approx(0.0819, abs=1e-4)
    given = FedSelStrategy(epsilon=4.0, nodes=100, epochs=4, norm=None, rho=0.1).recipe_of(101)
    assert given.rho == 0.1
    assert given.learning_rate == pytest.approx(10 * recipe.learning_rate)
    weights = []
    for scale in (1.0, 0.125):
        folder = tmp_path / str(scale)
        grid = Network(folder, range(4), "FJ", app=Trained, mod=Replayed)
        run = recommended(folder / "server", norm=None, scale=scale)
        run.start(grid, model())
        weights.append(run.history.weights)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"solution": "NP"}, "solution"),
        ({"solution": "RX"}, "solution"),
        ({"nodes": 0}, "nodes"),
        ({"rounds_per_epoch": 5}, "rounds_per_epoch"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"scale": 0.0}, "scale"),
        ({"scale": {"0": float("nan")}}, r"scale\['0'\]"),
        ({"mu": 2.0}, "mu"),
        ({"patience": float("nan")}, "patience"),
        ({"patience": -1}, "patience"),
        ({"max_empty_rounds": 0}, "max_empty_rounds"),
        ({"max_empty_rounds": 1.5}, "max_empty_rounds"),
        ({"rho": -1.0}, "rho"),
        ({"norm": 0.0}, "norm"),
        ({"norm": 1.0, "records_per_node": 0}, "records_per_node"),
        ({"records_per_node": 5}, "records_per_node"),
        ({"averaging": -1.0}, "averaging"),
        ({"reg": float("nan")}, "reg"),
        ({"radius": 1.0}, "radius"),
        ({"dim": 6}, "dim"),
        ({"asked": "FJ"}, "asked"),
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
    with pytest.raises(InvalidArgument, match=r"^initial_arrays = 'list': must be an ArrayRecord"):
        strategy(tmp_path).start(Network(tmp_path, [1]), [np.zeros(2)])
    with pytest.raises(InvalidArgument, match=r"^scale = 'x'"):
        strategy(tmp_path, scale={"x": 1.0}).start(Network(tmp_path, [1]), model())
    with pytest.raises(InvalidArgument, match="not started"):
        _ = strategy(tmp_path).history
