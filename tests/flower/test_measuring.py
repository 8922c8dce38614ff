"""Federated evaluation that leaks nothing: nodes that measure the model and do not train it."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict

from fedsel import InvalidArgument
from fedsel.device import Ledger
from fedsel.flower import FedSelMod, FedSelStrategy
from fedsel.flower._messages import NodeRefusal
from fedsel.wire import measured_question
from tests.flower.messages import config as node_config
from tests.flower.messages import context

pytestmark = pytest.mark.usefixtures("flower_identity")
NODES, FEATURES = 60, 3
RUN = {"epsilon": 6.0, "nodes": NODES, "rounds_per_epoch": 6, "norm": 1.0, "patience": 0.0}
RUN |= {"measure": 0.34, "classes": 2}


class Nodes:
    """A grid of nodes with one record each, whose class is the sign of its first entry."""

    def __init__(self, folder, *, scores=True, classes=2):
        own = {"lifetime": 6.0, "per-report": 6.0, "solutions": "FJ,BR"}
        own["dimensions"] = "4,8,16,32,100," + str(FEATURES)
        self.folder, self.classes = folder, classes
        self.own = [node_config(folder / f"{n}", **own) for n in range(NODES)]
        rng = np.random.default_rng(0)
        X = rng.normal(size=(NODES, FEATURES))
        self.X = X / np.linalg.norm(X, axis=1, keepdims=True)
        self.y = (self.X[:, 0] > 0).astype(int)
        self.mod = FedSelMod(scores=self.scores if scores else None)
        self.trained, self.measured = [], []

    def scores(self, msg, ctx):
        node = ctx.node_config["partition-id"]
        self.measured.append(node)
        (weights,) = (a.numpy() for a in msg.content["arrays"].values())
        return self.X[[node]] @ weights[:, None], self.y[[node]]

    def app(self, msg, ctx):
        node = ctx.node_config["partition-id"]
        self.trained.append(node)
        (weights,) = (a.numpy() for a in msg.content["arrays"].values())
        sign = 2 * self.y[node] - 1
        slope = -sign / (1 + np.exp(sign * self.X[node] @ weights))
        arrays = ArrayRecord([(weights - slope * self.X[node]).astype(np.float32)])
        return Message(RecordDict({"arrays": arrays}), reply_to=msg)

    def get_node_ids(self):
        return list(range(1, NODES + 1))

    def send_and_receive(self, messages, *, timeout=None):
        del timeout
        return [self.answer(msg) for msg in messages]

    def answer(self, msg):
        node = msg.metadata.dst_node_id - 1
        return self.mod(msg, context(self.own[node] | {"partition-id": node}), self.app)


def start():
    return ArrayRecord([np.zeros(FEATURES, np.float32)])


@pytest.mark.parametrize("epochs", [1, 2])
def test_some_nodes_measure_and_never_train(quick_path, epochs):
    nodes = Nodes(quick_path)
    strategy = FedSelStrategy(**RUN, epochs=epochs, folder=quick_path / "server")
    strategy.start(nodes, start())
    measured, trained = set(nodes.measured), set(nodes.trained)
    assert len(nodes.measured) == len(measured) > 0
    assert not measured & trained
    assert measured | trained == set(range(NODES))
    assert set(strategy.measurements) == set(range(epochs))
    assert sum(one.clients for one in strategy.measurements.values()) == len(measured)
    found = strategy.measurements[epochs - 1]
    weights = strategy.arrays["0"].numpy()
    truth = np.mean((nodes.X @ weights >= 0) == nodes.y)
    assert abs(found["accuracy"].value - truth) <= 7 * found["accuracy"].error + 0.1  # 1e-11
    run = strategy.session.server.run
    for node in range(NODES):
        history = Ledger(quick_path / f"{node}").read()
        runs = [entry.run for entry in history.entries]
        asked = [measured_question(run, one) is not None for one in runs]
        assert asked == ([True] if node in measured else [False] * epochs)
        assert history.spent <= 6


def test_a_run_goes_on_in_the_middle_of_measuring(quick_path):
    nodes = Nodes(quick_path)
    for rounds in (5, None):
        strategy = FedSelStrategy(**RUN, folder=quick_path / "server")
        strategy.start(nodes, start(), num_rounds=rounds)
    assert len(nodes.measured) == len(set(nodes.measured))
    assert strategy.measurements[0].clients == len(nodes.measured)


def test_nodes_that_cannot_measure_refuse_and_spend_nothing(quick_path):
    nodes = Nodes(quick_path, scores=False)
    strategy = FedSelStrategy(**RUN, folder=quick_path / "server")
    strategy.start(nodes, start())
    assert set(strategy.refusals) == {NodeRefusal.NO_SCORES.name}
    assert strategy.measurements == {}
    refused = set(range(NODES)) - set(nodes.trained)
    assert refused
    assert not any((quick_path / f"{node}").exists() for node in refused)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classes": None}, "classes = None: must be how many classes"),
        ({"classes": 1}, "classes = 1: must be 0 for numbers"),
        ({"measure": 1.0}, "measure = 1.0: must be in"),
        ({"measure": "a"}, "measure = 'a'"),
        ({"rounds_per_epoch": 1}, "rounds_per_epoch = 1: must be at least 2 with measure"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(given, said):
    with pytest.raises(InvalidArgument) as found:
        FedSelStrategy(**{**RUN, **given})
    assert str(found.value).startswith(said), found.value
