"""A server that trains and then, if told so, asks for what it must not get."""

import json
import secrets
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

from fedsel import Recipe
from fedsel.flower import FedSelStrategy
from fedsel.flower._messages import Question
from fedsel.wire import Request, encode_recipe
from flower_replay import task

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    told = train(grid, config)
    if config["hostile"]:
        told["said"] = hostile(grid, config)
    Path(config["results"]).write_text(json.dumps(told))


def train(grid, config):
    strategy = FedSelStrategy(
        solution=config["solution"],
        epsilon=config["epsilon"],
        epochs=config["epochs"],
        nodes=config["nodes"],
        min_nodes=config["min-nodes"],
        learning_rate=task.RATE,
        mu=0.1,
        k=3,
        averaging=task.AVERAGING,
        **task.FURTHER[config["solution"]],
    )
    first = ArrayRecord({name: Array(array) for name, array in task.START.items()})
    result = strategy.start(grid, first, timeout=config["timeout"])
    return {
        "weights": strategy.session.server.weights.tolist(),
        "average": strategy.history.weights.tolist(),
        "rounds": [dict(result.train_metrics_clientapp[n]) for n in result.train_metrics_clientapp],
        "refusals": dict(strategy.refusals),
        "recipe": encode_recipe(strategy.recipe).hex(),
    }


def hostile(grid, config):
    """Every wish goes to some node; what comes back is written down.

    A process of Flower's answers each: these are three that are refused in different places. The
    others are in test_mod.py.
    """
    good = ArrayRecord({name: Array(array) for name, array in task.START.items()})
    nan = ArrayRecord({**good, "b": Array(np.array([0, 0, np.nan, 0], np.float32))})
    rest = {"dim": task.D, "mu": 0.1, "rho": None, "learning_rate": 1.0}
    usual = Recipe("PS-PM", epsilon=1.0, k=3, **rest)
    wishes = {
        "epsilon": ("train", Recipe("PS-PM", epsilon=100.0, k=3, **rest), good),
        "nan": ("train", usual, nan),
        "evaluate": ("evaluate", usual, good),
    }
    nodes = sorted(grid.get_node_ids())
    messages = []
    for number, (kind, asked, arrays) in enumerate(wishes.values()):
        request = Request(secrets.token_bytes(16), 0, 0, asked).encode()
        content = RecordDict({"arrays": arrays})
        content["fedsel"] = Question(request, (1.0,) * len(arrays)).record()
        node = nodes[number % len(nodes)]
        messages.append(Message(content, message_type=kind, dst_node_id=node))
    names = dict(zip(grid.push_messages(messages), wishes, strict=True))
    told, until = {}, time.time() + config["timeout"]
    while names and time.time() < until:
        for reply in grid.pull_messages(list(names)):
            said = reply.error.reason if reply.has_error() else repr(reply.content)
            told[names.pop(reply.metadata.reply_to_message_id)] = said
        time.sleep(0.5)
    return told
