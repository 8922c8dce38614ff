"""FedSelMod and FedSelStrategy in one process: what leaves a node, what a server makes of it."""

import os
import sys
from fractions import Fraction

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

from fedsel import InvalidArgument
from fedsel.device import Ledger, Reason
from fedsel.executors.device import SYSTEM
from fedsel.integrations.flower import NODES_VARIABLE, FedSelMod, FedSelStrategy, Node
from fedsel.integrations.flower.messages import (
    NO_ANSWER,
    Layout,
    Question,
    answer_of,
    content_bytes,
    report_of,
)
from fedsel.protocol import Request, Task
from fedsel.random import stream

SECRET = 0.4242424242
D = 6
TASK = Task("PS-PM", epsilon=4.0, dim=D, epochs=2, k=2)


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Who is speaking: Flower's own processes set it."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.delenv(NODES_VARIABLE, raising=False)


def model(dtype=np.float32):
    return ArrayRecord([np.zeros((2, 2), dtype), np.zeros(2, dtype)])


def config(store, /, **changes):
    given = {"store": str(store), "create": True, "lifetime": 4.0, "per-report": 2.0}
    given |= {"solutions": "PS-PM", "dimensions": D, **changes}
    return {f"fedsel-{name}": value for name, value in given.items() if value is not None}


def context(node_config, **run_config):
    return Context(1, 1, node_config, RecordDict(), run_config)


def question(task=TASK, number=0, arrays=None, scales=None, request=None):
    arrays = model() if arrays is None else arrays
    asked = Request(bytes(16), number, number, task).encode() if request is None else request
    scales = tuple([1.0] * len(arrays)) if scales is None else scales
    record = RecordDict({"arrays": arrays, "config": ConfigRecord({"lr": 0.1})})
    record["fedsel"] = Question(asked, scales).record()
    return record


def message(content, kind="train"):
    return Message(content, dst_node_id=7, message_type=kind)


class App:
    """An ordinary training function that talks too much."""

    def __init__(self, update=SECRET, result=None):
        self.update, self.result, self.calls = update, result, []

    def __call__(self, msg, ctx):
        self.calls.append(msg)
        if self.result is not None:
            return self.result(msg, ctx)
        arrays = {}
        for name, array in msg.content["arrays"].items():
            arrays[name] = Array(array.numpy() - np.float32(self.update))
        content = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 31337})}
        return Message(RecordDict(content), reply_to=msg)


class Replayed(FedSelMod):
    """With the randomness of a simulated client."""

    def _client(self, context, question):
        client = super()._client(context, question)
        client._entropy = stream(3, 0, 5)
        return client


def refusal(reply):
    assert reply.has_error()
    assert not reply.has_content()
    return reply.error.reason


def test_the_reply_is_the_report_and_nothing_else(tmp_path):
    app = App()
    reply = Replayed()(message(question()), context(config(tmp_path / "store")), app)
    assert reply.has_content()
    assert not reply.has_error()
    assert list(reply.content) == ["fedsel"]
    assert list(reply.content["fedsel"]) == ["report"]
    expected, _ = TASK.solution.encode(np.full(D, np.float32(SECRET)), np.zeros(D), stream(3, 0, 5))
    form = Request(bytes(16), 0, 0, TASK).format
    assert reply.content["fedsel"]["report"] == form.encode(0, expected)
    assert content_bytes(reply) < 400
    # The app saw what it would have seen without the mod.
    (seen,) = app.calls
    assert list(seen.content) == ["arrays", "config"]
    assert Ledger(tmp_path / "store").read().spent == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_of_any_shape_and_their_scales(tmp_path, dtype):
    """(model − returned)/scale, flattened in the order of the record, whatever is returned."""
    seen = []

    class Watching(FedSelMod):
        def _client(self, context, question):
            client = super()._client(context, question)
            answer = client.answer

            def watched(request, weights, update):
                def spy(w):
                    seen.append((w.dtype, update(w)))
                    return seen[-1][1]

                return answer(request, weights, spy)

            return type("Client", (), {"answer": staticmethod(watched)})

    start = ArrayRecord({"b": Array(np.ones((1, 2, 1), dtype)), "a": Array(np.full(4, 2, dtype))})

    def trained(msg, ctx):
        arrays = {"a": Array(np.arange(4)), "b": Array(np.array([[[1.0], [0.0]]], np.float64))}
        return Message(RecordDict({"whatever": ArrayRecord(arrays)}), reply_to=msg)

    asked = question(arrays=start, scales=(0.5, 2.0))
    reply = Watching()(message(asked), context(config(tmp_path / "s")), App(result=trained))
    assert reply.has_content()
    ((kind, update),) = seen
    assert kind == (np.float64 if dtype == np.float64 else np.float32)
    assert update.tolist() == [0.0, 2.0, 1.0, 0.5, 0.0, -0.5]


def test_torch_models(tmp_path):
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Linear(2, 1, bias=False))
    before = ArrayRecord(net.state_dict())

    def trained(msg, ctx):
        net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
        with torch.no_grad():
            net[0].weight += 1.0
        return Message(RecordDict({"arrays": ArrayRecord(net.state_dict())}), reply_to=msg)

    reply = FedSelMod()(
        message(question(arrays=before)), context(config(tmp_path / "s")), App(result=trained)
    )
    assert reply.has_content()


def raises(msg, ctx):
    raise ValueError(f"the patient has {SECRET}")


def leaves(msg, ctx):
    sys.exit(f"the patient has {SECRET}")


def other_shape(msg, ctx):
    return Message(RecordDict({"arrays": ArrayRecord([np.zeros(3)])}), reply_to=msg)


def not_finite(msg, ctx):
    arrays = [np.full((2, 2), np.nan, np.float32), np.full(2, np.inf, np.float32)]
    return Message(RecordDict({"arrays": ArrayRecord(arrays)}), reply_to=msg)


NONSENSE = [
    raises,
    leaves,
    other_shape,
    not_finite,
    lambda msg, ctx: None,
    lambda msg, ctx: Message(Error(0, f"{SECRET}"), reply_to=msg),
    lambda msg, ctx: Message(RecordDict(), reply_to=msg),
]


@pytest.mark.parametrize("result", NONSENSE)
def test_whether_a_node_answers_does_not_depend_on_its_app(tmp_path, result, caplog):
    reply = FedSelMod()(message(question()), context(config(tmp_path / "s")), App(result=result))
    assert isinstance(report_of(reply.content), bytes)
    assert len(report_of(reply.content)) == 16
    assert str(SECRET) not in caplog.text + repr(reply)


def nan_model():
    arrays = [np.zeros((2, 2), np.float32), np.array([0, np.nan], np.float32)]
    return ArrayRecord(arrays)


def changed(name):
    """A message that asks for something that must be refused."""
    ask = {
        "ε": lambda: question(Task("PS-PM", epsilon=100.0, dim=D, k=2)),
        "solution": lambda: question(Task("PM", epsilon=1.0, dim=D)),
        "NaN": lambda: question(arrays=nan_model()),
        "infinity": lambda: question(arrays=ArrayRecord([np.full(D, np.inf)])),
        "shape": lambda: question(arrays=ArrayRecord([np.zeros(7, np.float32)])),
        "integers": lambda: question(arrays=ArrayRecord([np.zeros(D, np.int64)])),
        "no array": lambda: question(arrays=ArrayRecord()),
        "garbage": lambda: question(request=os.urandom(150)),
        "empty": lambda: question(request=b""),
        "scale": lambda: question(scales=(1.0, float("nan"))),
        "scales": lambda: question(scales=(1.0,)),
        "zero": lambda: question(scales=(1.0, 0.0)),
        "bytes": bytes_that_are_no_array,
    }
    return ask[name]()


def bytes_that_are_no_array():
    bad = Array("float32", (D,), "numpy.ndarray", b"\x93NUMPY\x01\x00" + b"\xff" * 40)
    return question(arrays=ArrayRecord({"0": bad}))


REFUSED = {
    "ε": Reason.TOO_MUCH,
    "solution": Reason.NOT_ALLOWED,
    **dict.fromkeys(("NaN", "infinity", "shape", "integers", "bytes"), Reason.WEIGHTS),
    "no array": Reason.WEIGHTS,
    **dict.fromkeys(("garbage", "empty", "scale", "scales", "zero"), Reason.MALFORMED),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_fixed_and_the_app_never_runs(tmp_path, name):
    said = set()
    for secret in (0.0, SECRET):
        app, store = App(secret), tmp_path / str(secret)
        said.add(refusal(FedSelMod()(message(changed(name)), context(config(store)), app)))
        assert app.calls == []
        assert not store.exists() or Ledger(store).read().spent == 0
    assert said == {REFUSED[name].value}


def test_a_message_without_a_request_is_refused(tmp_path):
    content = RecordDict({"arrays": model(), "config": ConfigRecord()})
    app = App()
    reply = FedSelMod()(message(content), context(config(tmp_path / "s")), app)
    assert refusal(reply) == Reason.MALFORMED.value
    two = question()
    two["more"] = model()
    del two["arrays"]
    two["other"] = model()
    assert refusal(FedSelMod()(message(two), context(config(tmp_path / "s")), app))
    assert app.calls == []


@pytest.mark.parametrize("kind", ["evaluate", "query", "evaluate.now"])
def test_nothing_but_training_is_answered(tmp_path, kind):
    client_app, app = ClientApp(mods=[FedSelMod()]), App()
    for register in (client_app.train, client_app.evaluate, client_app.query):
        register("default" if "." not in kind else "now")(app)
    reply = client_app(message(question(), kind), context(config(tmp_path / "s")))
    assert refusal(reply) == NO_ANSWER
    assert app.calls == []
    assert not (tmp_path / "s").exists()


def test_the_budget_outlives_runs_and_the_store_is_the_nodes_own(tmp_path):
    """Two reports are a lifetime; a third is refused, also under another run and another mod."""
    own = config(tmp_path / "store")
    for number in range(2):
        assert FedSelMod()(message(question(number=number)), context(own), App()).has_content()
    later = Request(b"another run here", 0, 0, TASK).encode()
    app = App()
    reply = FedSelMod()(message(question(request=later)), context(own), app)
    assert refusal(reply) == Reason.EXHAUSTED.value
    assert app.calls == []
    # The same request again gets the same bytes, for nothing.
    again = FedSelMod()(message(question(number=1)), context(own), app)
    history = Ledger(tmp_path / "store").read()
    assert report_of(again.content) == history.entries[1].report
    assert history.spent == history.lifetime == 4


def test_the_run_cannot_widen_what_the_node_allows(tmp_path):
    """run_config and message are the submitter's; only node_config is heard."""
    wide = config(tmp_path / "other", lifetime=500.0, **{"per-report": 500.0})
    asked = question(Task("PS-PM", epsilon=100.0, dim=D, k=2))
    asked["config"] = ConfigRecord(wide)
    app = App()
    reply = FedSelMod()(message(asked), context(config(tmp_path / "s"), **wide, seed=1), app)
    assert refusal(reply) == Reason.TOO_MUCH.value
    nothing = FedSelMod()(message(asked), context({"partition-id": 0}, **wide), app)
    assert refusal(nothing) == Reason.INTERNAL.value
    assert app.calls == []
    assert not (tmp_path / "other").exists()


def test_no_setting_leads_to_other_entropy(tmp_path, monkeypatch):
    for name in ("SEED", "FEDSEL_SEED", "FEDSEL_ENTROPY", "PYTHONHASHSEED"):
        monkeypatch.setenv(name, "1")
    wishes = {"seed": 1, "entropy": "seeded", "fedsel-seed": 1}
    asked = Question(b"", (1.0,))
    client = FedSelMod()._client(context(config(tmp_path / "s") | {"seed": 1}, **wishes), asked)
    assert client._entropy is SYSTEM


def test_a_missing_ledger_is_not_begun_anew(tmp_path, caplog):
    app = App()
    own = config(tmp_path / "gone", create=None)
    assert refusal(FedSelMod()(message(question()), context(own), app)) == Reason.LEDGER.value
    assert "there is no ledger" in caplog.text  # the owner is told
    assert app.calls == []


def test_settings_of_a_node(tmp_path, monkeypatch):
    file = tmp_path / "policy.toml"
    file.write_text('lifetime = 0.3\nper_report = 0.1\nsolutions = ["RJ"]\ndimensions = [9, 10]\n')
    node = Node.of({"fedsel-policy": str(file), "fedsel-store": "s", "fedsel-witness": "w"})
    assert node.policy.lifetime == Fraction(3, 10)
    assert str(node.witness) == "w"
    assert not node.create
    values = config(tmp_path, solutions="RJ, PM", dimensions="9,10", **{"least-seconds": 0.5})
    assert Node.of(values).policy.dimensions == (9, 10)
    assert Node.of(values).policy.least_seconds == 0.5
    monkeypatch.setenv(NODES_VARIABLE, str(tmp_path))
    assert Node.of({"partition-id": 3, "num-partitions": 9}).store == tmp_path / "node-3"
    assert Node.of(values).store == tmp_path  # the node's own config comes first


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"store": None}, "fedsel-store"),
        ({"store": 3}, "fedsel-store"),
        ({"lifetime": None}, "lifetime"),
        ({"lifetime": float("nan")}, "lifetime"),
        ({"lifetime": True}, "lifetime"),
        ({"per-report": "lots"}, "per_report"),
        ({"dimensions": "many"}, "fedsel-dimensions"),
        ({"solutions": "NP"}, "name"),
        ({"reports-per-dya": 3}, "fedsel-reports-per-dya"),
        ({"policy": "/nowhere.toml"}, "fedsel-lifetime"),
        ({"create": "yes"}, "fedsel-create"),
        ({"seed": 1}, "fedsel-seed"),
        ({"entropy": "seeded"}, "fedsel-entropy"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, changes, name):
    wrong = config(tmp_path / "s", **changes)
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        Node.of(wrong)
    app = App()
    reply = FedSelMod()(message(question()), context(wrong), app)
    assert refusal(reply) == Reason.INTERNAL.value
    assert app.calls == []


# --- the strategy -----------------------------------------------------------------------------


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
    import fedsel.integrations.flower.strategy as module

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
