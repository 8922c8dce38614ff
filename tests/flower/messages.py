"""Messages, nodes and apps for the tests of the Flower integration, in one process."""

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)

from fedsel._internal.random import stream
from fedsel.flower import FedSelMod
from fedsel.flower._messages import Question
from fedsel.wire import Request
from tests.wire.support import complete

SECRET = 0.4242424242
D = 6
RECIPE = complete("PS-PM", epsilon=4.0, dim=D, epochs=2, k=2)
SEED, CLIENT = 3, 5
"""Of the replayed randomness; the client where a node has no number."""


def model(dtype=np.float32):
    return ArrayRecord([np.zeros((2, 2), dtype), np.zeros(2, dtype)])


def config(store, /, **changes):
    given = {"store": str(store), "create": True, "lifetime": 4.0, "per-report": 2.0}
    given |= {"solutions": "PS-PM", "dimensions": D, **changes}
    return {f"fedsel-{name}": value for name, value in given.items() if value is not None}


def context(node_config, **run_config):
    return Context(1, 1, node_config, RecordDict(), run_config)


def question(recipe=RECIPE, number=0, arrays=None, scales=None, request=None):
    arrays = model() if arrays is None else arrays
    asked = Request(bytes(16), number, number, recipe).encode() if request is None else request
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
    """With the randomness of a simulated client: that of the node's number in the epoch."""

    def _client(self, context, question):
        client = super()._client(context, question)
        number = context.node_config.get("partition-id", CLIENT)
        client._entropy = stream(SEED, Request.decode(question.request).epoch, number)
        return client
