"""Records whose bounds the strategy knows: the first rounds of a run learn where they lie."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import fedsel.flower._session as session_module
from fedsel import InvalidArgument
from fedsel._internal.models import LinearModel
from fedsel._internal.random import stream
from fedsel.device import Ledger
from fedsel.flower import FedSelMod, FedSelStrategy, NoReports, prepared
from fedsel.flower._messages import NodeRefusal
from fedsel.simulation import Population, Training, train_vectors
from fedsel.wire import Request
from tests.flower.messages import SEED, Replayed, context
from tests.flower.messages import config as node_config

pytestmark = pytest.mark.usefixtures("flower_identity")

FEATURES, NODES, ROUNDS, EPOCHS = 5, 40, 10, 2
MODEL = LinearModel(reg=0.0)
RANGE = (0, 4)


def records():
    """Two of each node, far within their declared bounds."""
    rng = np.random.default_rng(1)
    X = np.clip(rng.normal([0.2, 0.1, 0.04, 0.3, 0.1], 0.03, (2 * NODES, FEATURES)), 0, 4)
    return X, np.where(X @ [1, 2, 3, -1, 1] > 0.32, 1, -1).astype(np.int8)


def model(features=FEATURES):
    return ArrayRecord([np.zeros(features, np.float32), np.zeros(1, np.float32)])


def strategy(folder, **changes):
    given = {"epsilon": 40.0, "nodes": NODES, "epochs": EPOCHS, "rounds_per_epoch": ROUNDS}
    given |= {"norm": 1.0, "feature_range": RANGE, "spread": 0.2, "centre": 0.2, "patience": 0.0}
    return FedSelStrategy(**{**given, **changes}, folder=folder)


def stepped(weights, X, y):
    """One step of gradient descent on all records of a node."""
    w = weights.astype(np.float32)
    return (w - MODEL.gradient(w, X, y)).astype(np.float32)


class Nodes:
    """A grid of nodes with two records each; the app sees raw records, and prepares them."""

    def __init__(self, folder, mod=FedSelMod, **policy):
        own = {"lifetime": 40.0, "per-report": 20.0, "solutions": "FJ", "dimensions": FEATURES + 1}
        self.own = [node_config(folder / f"{n}", **{**own, **policy}) for n in range(NODES)]
        self.X, self.y = records()
        self.mod, self.trained = mod(records=self.of_node), 0

    def of_node(self, context):
        node = context.node_config["partition-id"]
        return self.X[2 * node : 2 * node + 2]

    def app(self, msg, ctx):
        self.trained += 1
        node = ctx.node_config["partition-id"]
        weights = np.concatenate([a.numpy() for a in msg.content["arrays"].values()])
        X = prepared(msg, self.of_node(ctx))
        after = stepped(weights, X, self.y[2 * node : 2 * node + 2])
        arrays = ArrayRecord([after[:-1], after[-1:]])
        return Message(RecordDict({"arrays": arrays}), reply_to=msg)

    def get_node_ids(self):
        return list(range(1, NODES + 1))

    def send_and_receive(self, messages, *, timeout=None):
        del timeout
        return [self.answer(msg) for msg in messages]

    def answer(self, msg):
        node = msg.metadata.dst_node_id - 1
        return self.mod(msg, context(self.own[node] | {"partition-id": node}), self.app)


class Simulated:
    """The same nodes as the simulator sees them, once their records are prepared."""

    chunk, scales = 16, None

    def __init__(self, people):
        self.people = self.population = people
        self.clients = people.clients

    def prepared(self, preparation):
        return Simulated(self.people.prepared(preparation))

    def receive(self, weights):
        self.weights = weights.astype(np.float32)

    def vectors(self, clients):
        X, y, w = self.people.X, self.people.y, self.weights
        after = [stepped(w, X[2 * c : 2 * c + 2], y[2 * c : 2 * c + 2]) for c in clients.tolist()]
        return [np.stack([(w.astype(np.float64) - a).astype(np.float32) for a in after])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "rounds"),
    [
        ({}, (2, 2)),
        ({"public_mean": {0: 0.2, 3: 0.3}}, (2, 2)),
        ({"public_mean": [0.2, 0.1, 0.04, 0.3, 0.1], "centre": "auto"}, (0, 0)),
    ],
    ids=["learnt", "some means", "all means"],
)
def test_strategy_and_mods_give_preparation_and_weights_of_the_simulator(
    given, rounds, quick_path, monkeypatch
):
    """The same words and the same cohorts: the same spread, centre and weights, to the bit.

    The strategy is begun anew three times: while it learns the spread, the centre, and the model.
    """
    made = strategy(quick_path / "server", **given)
    recipe = made.recipe_of(FEATURES + 1)
    begun = made.planned.preparing_of(recipe)
    assert (begun.plan.spread_rounds, begun.plan.centre_rounds) == rounds
    X, y = records()
    order, starts = np.arange(2 * NODES), np.arange(0, 2 * NODES + 1, 2)
    people = Population(begun.scale.apply(X), y, order, starts)
    training = Training(
        recipe.build(),
        float(recipe.learning_rate),
        NODES // ROUNDS,
        reg=0.0,
        seed=SEED,
        averaging=float(recipe.averaging),
        plan=begun.plan,
    )
    expected = train_vectors(training, Simulated(people), np.zeros(FEATURES + 1))
    cohorts = []
    for epoch in range(EPOCHS):
        drawn, ends = training.schedule(people.taking_part, people.clients, epoch)
        cohorts += [(part + 1).tolist() for part in np.split(drawn, ends[:-1])]

    class Chance:
        def sample(self, candidates, count):
            return cohorts[made.session.server.round][:count]

    monkeypatch.setattr(session_module, "_CHANCE", Chance())
    grid = Nodes(quick_path, Replayed)
    for number in (1, 2, 4, None):
        made = strategy(quick_path / "server", **given)
        made.start(grid, model(), num_rounds=number)
    assert made.session.server.finished
    learnt = made.preparing.preparation
    assert learnt == expected.preparation
    assert learnt.centre.any()
    assert (learnt.spread < 1).all()
    np.testing.assert_array_equal(made.history.weights, expected.weights)
    assert grid.trained == NODES * EPOCHS - sum(rounds) * NODES // ROUNDS
    # Who has helped to prepare has reported once in that epoch, like everybody else.
    for node in range(NODES):
        assert [entry.epoch for entry in Ledger(quick_path / f"{node}").read().entries] == [0, 1]
    assert [r.reports for r in made.history.rounds] == [NODES // ROUNDS] * ROUNDS * EPOCHS
    assert len(made.reply_bytes) == 1
    told = "public means" in made.statement.to_html()
    assert told == bool(made.statement.to_dict()["public_means"]) == bool(given)
    # The model of prepared records is linear in raw ones.
    slopes, constant = made.preparing.linear(made.history.weights[None])
    inside = np.random.default_rng(1).uniform(0, 0.9, X.shape) * 4 * learnt.spread
    margins = made.prepared(inside) @ made.history.weights
    signs = np.sign(inside @ slopes[0] + constant[0])
    np.testing.assert_array_equal(signs, np.sign(margins))


def test_another_range_is_not_that_of_the_checkpoint(quick_path):
    grid = Nodes(quick_path)
    strategy(quick_path / "server").start(grid, model(), num_rounds=1)
    with pytest.raises(InvalidArgument, match="as in the checkpoint"):
        strategy(quick_path / "server", feature_range=(0, 8)).start(grid, model())
    with pytest.raises(InvalidArgument, match=r"public_mean = .*on the scale .*None, as in"):
        strategy(quick_path / "server", public_mean={0: 0.2}).start(grid, model())


# --- what is automatic --------------------------------------------------------------------------


def rounds_of(dim=101, expected=100, **changes):
    given = {"epsilon": 2.0, "nodes": 20_000, "rounds_per_epoch": 50, "norm": 1.0}
    planned = FedSelStrategy(**{**given, "feature_range": (0, 1), **changes}).planned
    begun = planned.preparing_of(planned.recipe_of(dim))
    assert len(begun.scale.low) == expected
    plan = begun.plan
    return None if plan is None else (plan.spread_rounds, plan.centre_rounds)


def test_public_knowledge_decides_which_rounds_prepare():
    assert rounds_of() == (0, 5)
    assert rounds_of(feature_range=(-1, 1)) is None
    assert rounds_of(feature_range=(0, 100)) == (3, 5)
    assert rounds_of(feature_range="private") == (15, 5)
    assert rounds_of(centre=0.2) == (0, 10)
    assert rounds_of(rounds_per_epoch=10) is None
    assert rounds_of(nodes=60) is None
    assert rounds_of(dim=63, expected=20, feature_range=(np.zeros(20), np.ones(20))) == (0, 5)
    three = FedSelStrategy(epsilon=2.0, nodes=9, norm=1.0, feature_range=(0, 1), features=20)
    assert three.recipe_of(63).rho == 0.4


def test_a_network_prepares_where_it_is_asked_to():
    assert rounds_of(norm=None) is None
    assert rounds_of(norm=None, centre=0.1, features=20, dim=110, expected=20) == (0, 5)
    made = FedSelStrategy(epsilon=2.0, nodes=100, feature_range=(0, 1), features=20)
    plain = made.planned.preparing_of(made.recipe_of(110))
    X = np.random.default_rng(0).uniform(0, 1, (3, 20)).astype(np.float32)
    np.testing.assert_array_equal(plain.records(X), X)  # no intercept, and of its own norm


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"feature_range": (1, 0)}, "feature_range"),
        ({"feature_range": "known"}, "feature_range"),
        ({"feature_range": 3}, "feature_range"),
        ({"feature_range": (0, float("nan"))}, "feature_range"),
        ({"norm": 2.0}, "norm"),
        ({"features": 0}, "features"),
        ({"features": 4, "feature_range": ([0] * 3, [1] * 3)}, "feature_range"),
        ({"feature_range": None}, "centre"),
        ({"feature_range": None, "centre": 0.0, "spread": 0.1}, "spread"),
        ({"feature_range": None, "centre": "auto", "spread": "auto", "features": 5}, "features"),
        ({"centre": 0.5, "rounds_per_epoch": 1}, "centre"),
        ({"centre": 0.1, "solution": "PS-PM", "mu": 0.1}, "spread"),
    ],
)
def test_wrong_parameters_are_refused_at_once(tmp_path, changes, name):
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        strategy(tmp_path, **changes)


def test_a_model_of_another_size_is_refused(tmp_path):
    made = strategy(tmp_path, features=4)
    with pytest.raises(InvalidArgument, match=r"^features = 4: .*the 6 parameters"):
        made.start(Nodes(tmp_path), model())
    without = strategy(tmp_path, feature_range=None, spread=0.0, centre=0.0)
    without._open(model())
    assert without.preparing is None
    with pytest.raises(InvalidArgument, match="feature_range = None"):
        without.prepared(records()[0])


# --- nodes --------------------------------------------------------------------------------------


def asked(folder, **changes):
    """The first message of a strategy."""
    made = strategy(folder, **changes)
    return next(iter(made.configure_train(1, model(), ConfigRecord(), Nodes(folder)))), made


def answered(msg, tmp_path, mod):
    own = {"lifetime": 40.0, "per-report": 20.0, "solutions": "FJ", "dimensions": FEATURES + 1}
    grid = Nodes(tmp_path)
    reply = mod(msg, context(node_config(tmp_path / "one", **own) | {"partition-id": 0}), grid.app)
    return reply.error.reason if reply.has_error() else reply.content["fedsel"]["report"]


def test_an_app_of_flower_prepares_and_trains(quick_path):
    """By `ClientApp`, as Flower calls it: first its records are told, later it trains on them."""
    grid = Nodes(quick_path)
    app = ClientApp(mods=[grid.mod])
    app.train()(grid.app)
    made = strategy(quick_path / "server", epochs=1, epsilon=20.0)
    grid.answer = lambda msg: app(
        msg, context(grid.own[msg.metadata.dst_node_id - 1] | {"partition-id": 0})
    )

    def judge(number, arrays):
        del number
        weights = np.concatenate([a.numpy() for a in arrays.values()])
        hits = (made.prepared(grid.X) @ weights >= 0) == (grid.y > 0)
        return MetricRecord({"accuracy": float(hits.mean())})

    made.start(grid, model(), num_rounds=5, evaluate_fn=judge)
    assert all(0 < r.accuracy <= 1 for r in made.history.rounds)
    assert grid.trained == NODES // ROUNDS
    assert made.preparing.preparation.centre.any()


def test_a_misunderstanding_costs_nothing(tmp_path):
    msg, _ = asked(tmp_path / "a")
    assert answered(msg, tmp_path, FedSelMod()) == NodeRefusal.NO_RECORDS
    msg, _ = asked(tmp_path / "b", feature_range=None, centre=0.0, spread=0.0)
    assert (
        answered(msg, tmp_path, FedSelMod(records=lambda _: records()[0])) == NodeRefusal.NO_BOUNDS
    )
    assert not (tmp_path / "one").exists()
    grid = Nodes(tmp_path)
    grid.mod = FedSelMod()
    made = strategy(tmp_path / "server")
    with pytest.raises(NoReports, match=r"knows of no records to prepare: FedSelMod\(records=…\)"):
        made.start(grid, model())
    assert made.refusals == {"NO_RECORDS": 12}
    with pytest.raises(InvalidArgument, match=r"^records = 3: must be a function"):
        FedSelMod(records=3)
    assert repr(FedSelMod(records=records)) == "FedSelMod(records=…)"


@pytest.mark.parametrize("fails", ["raises", "shape", "nan", "exits"])
def test_records_that_fail_count_as_zeros(tmp_path, fails, caplog):
    """Whether a node answers must not depend on its records; its owner is told what failed."""

    def broken(_):
        if fails == "raises":
            raise RuntimeError("secret")
        if fails == "exits":
            raise SystemExit
        return np.full((2, FEATURES), np.nan) if fails == "nan" else np.zeros((2, 3))

    msg, made = asked(tmp_path / "server")
    told = answered(msg, tmp_path, Replayed(records=broken))
    solution = made.recipe.build()
    expected, _ = solution.in_round(0).encode(
        np.zeros(FEATURES + 1, np.float32), np.zeros(FEATURES + 1), stream(SEED, 0, 0)
    )
    request = Request.decode(msg.content["fedsel"]["request"])
    assert told == request.format.encode(0, expected)
    if fails in ("raises", "exits"):
        kind = "RuntimeError" if fails == "raises" else "SystemExit"
        assert f"the app or its records failed: {kind}" in caplog.text
    assert "secret" not in caplog.text
