"""The nodes: an ordinary Flower client; what FedSelMod lets out is one private report."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedsel.flower import FedSelMod
from flower_adult import task

app = ClientApp(mods=[FedSelMod()])  # before every function of the app


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train as ever; the mod reads the arrays and drops the rest."""
    config, node = context.run_config, context.node_config
    records = task.partition(
        task.load(config), int(node["partition-id"]), int(node["num-partitions"])
    )
    arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
    trained = task.train(arrays, records, float(config["local-rate"]))
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(array) for name, array in trained.items()}),
            "metrics": MetricRecord({"num-examples": len(records[1])}),  # never leaves
        }
    )
    return Message(content, reply_to=message)
