"""Clients that talk too much, behind the mod; the randomness is that of simulated clients."""

import os
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedsel._internal.random import stream
from fedsel.flower import FedSelMod
from fedsel.wire import Request
from flower_replay import task


class Replayed(FedSelMod):
    """The only way to replayed randomness: a bundle with a class of its own."""

    def _client(self, context, question):
        client = super()._client(context, question)
        epoch = Request.decode(question.request).epoch
        client._entropy = stream(task.SEED, epoch, int(context.node_config["partition-id"]))
        return client


class Slow(Replayed):
    """Waits between the answer and its leaving, if the test says so: there it kills the node."""

    def __call__(self, message, context, call_next):
        reply = super().__call__(message, context, call_next)
        flag = os.environ.get("FEDSEL_TEST_WAIT")
        while flag and Path(flag).exists():
            time.sleep(0.05)
        return reply


app = ClientApp(mods=[Slow()])


@app.train()
def train(message, context):
    arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
    trained = task.train(arrays, int(context.node_config["partition-id"]))
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in trained.items()}),
        "metrics": MetricRecord({"num-examples": task.EXAMPLES, "loss": task.SECRET}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    return Message(
        RecordDict({"metrics": MetricRecord({"accuracy": task.SECRET})}), reply_to=message
    )
