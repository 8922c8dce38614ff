"""Flower's own processes on loopback: both engines, TLS, crashes, hostile servers, what travels.

Each process is ended by its group, each wait has a limit. The bundle tests/flower/replay_app
replays the randomness of simulated clients, so that both engines must end with the weights of
fedsel's own, and with the same average of them, to the bit.
"""

import json
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_object_id,
    get_object_type_from_object_content,
)

from fedsel.device import Ledger, Reason
from fedsel.flower import NODES_VARIABLE
from fedsel.flower._messages import NodeRefusal, report_of
from fedsel.simulation import Simulation, Training
from fedsel.wire import Request, decode_recipe
from tests.flower.replay_app.flower_replay import task
from tests.flower.support import Proxy, certificates, node_key
from tests.wire.support import complete
from tools.flower.federation import Federation

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower")]

APP = Path(__file__).parent / "replay_app"
PATIENCE = 30.0
"""Seconds that the server waits for a node that may never answer."""
LIMIT = 600
"""Seconds for a run, on the busiest of machines; it takes twenty."""


class Clients:
    """The clients of the bundle as the engine sees them."""

    chunk, scales = 7, None

    def __init__(self, clients):
        self.clients = clients

    def receive(self, weights):
        self.weights = weights

    def vectors(self, clients):
        return [np.stack([task.update(self.weights, c) for c in clients.tolist()])]


def check_weights(told, clients):
    """The weights and their average are those of fedsel's own engine on the same randomness."""
    asked = decode_recipe(bytes.fromhex(told["recipe"]))
    start = np.concatenate([array.reshape(-1) for array in task.START.values()]).astype(np.float64)
    reg = task.FURTHER[asked.solution].get("reg", 0.0)
    training = Training(asked.build(), task.RATE, reg=reg, seed=task.SEED, averaging=task.AVERAGING)
    runner = Simulation(training, Clients(clients), start)
    runner.play()
    np.testing.assert_array_equal(told["weights"], runner.state.weights)
    np.testing.assert_array_equal(told["average"], runner.state.average)
    assert told["weights"] != told["average"]


def settings(folder, number, **changes):
    """The node_config of a node."""
    given = {"store": folder / f"store-{number}", "create": True, "lifetime": 6.0}
    given |= {"per-report": 1.0, "solutions": "PS-PM,RJ", "dimensions": task.D, **changes}
    return {"partition-id": number, **{f"fedsel-{name}": value for name, value in given.items()}}


def spent(folder, number):
    return Ledger(folder / f"store-{number}").read().spent


def submit(federation, name, *, simulated=None, **config):
    """Submit the bundle; the server writes to a file."""
    file = federation.folder / f"{name}.json"
    config["results"] = str(file)
    return federation.submit(APP, config, name=name, nodes=simulated), file


def finished(federation, run):
    """Wait for the end of a run and read what the server wrote."""
    process, file = run
    federation.wait(lambda: not process.running, LIMIT, "the run", federation.processes[0])
    assert file.exists(), process.text()[-3000:]
    return json.loads(file.read_text())


def test_simulation_gives_the_weights_of_the_engine(tmp_path, quick_path):
    """30 clients with a ledger each, three rounds with residual, momentum and average.

    It may take more than twenty seconds, most of them until ray and Flower's processes are there.
    """
    policy = f'lifetime = 5.0\nper_report = 1.0\nsolutions = ["PS-PM"]\ndimensions = [{task.D}]\n'
    (quick_path / "policy.toml").write_text(policy)
    with Federation(
        tmp_path, simulation=True, environment={NODES_VARIABLE: str(quick_path)}
    ) as federation:
        told = finished(federation, submit(federation, "simulation", simulated=30, nodes=30))
    assert [r["reports"] for r in told["rounds"]] == [30] * 3
    check_weights(told, 30)
    histories = [Ledger(quick_path / f"node-{n}").read() for n in range(30)]
    assert {h.spent for h in histories} == {3}


def test_deployment(tmp_path):
    """Two SuperNodes, one behind a proxy: a run, hostile wishes, a crash, a budget's end.

    It takes more than a minute: the server waits half of one for the node that was killed. Each
    answer of a node is a process of Flower's, which imports for a second: hence two nodes.
    """
    flag = tmp_path / "wait"
    with (
        Federation(tmp_path, environment={"FEDSEL_TEST_WAIT": str(flag)}) as federation,
        Proxy(federation.port) as proxy,
    ):
        own = [settings(tmp_path, 0), settings(tmp_path, 1, lifetime=3.0)]
        behind_the_proxy = federation.add_node("node-0", own[0], superlink_port=proxy.port)
        federation.add_node("node-1", own[1])

        def paid():
            return [spent(tmp_path, n) for n in range(2)]

        config = {"epochs": 2, "epsilon": 2.0, "nodes": 2}
        told = finished(federation, submit(federation, "first", hostile=True, **config))
        assert [r["reports"] for r in told["rounds"]] == [2, 2]
        check_weights(told, 2)
        assert told["said"] == {
            "epsilon": Reason.TOO_MUCH.value,
            "nan": Reason.WEIGHTS.value,
            "evaluate": NodeRefusal.NO_ANSWER,
        }
        assert paid() == [2, 2]
        check_what_travelled(proxy.sent, tmp_path)

        # Both have answered, and no answer has left: one node is killed and comes back.
        flag.touch()
        second = submit(federation, "second", timeout=PATIENCE, **config)
        federation.wait(lambda: min(paid()) == 3, LIMIT, "answers")
        behind_the_proxy.kill()
        assert paid() == [3, 3]  # paid, though it never left
        federation.add_node("node-0-again", own[0])  # while the round is still held open
        flag.unlink()
        told = finished(federation, second)
        # To Flower the node is a new one; the old one stays silent, and the server goes on. In the
        # second round the new one answers, and the other has nothing left to spend.
        assert [r["reports"] for r in told["rounds"]] == [1, 1]
        assert told["rounds"][0]["silent"] == 1
        assert told["refusals"]["EXHAUSTED"] == 1
        assert paid() == [4, 3]
        for number in range(2):
            history = Ledger(tmp_path / f"store-{number}").read()  # checks every link
            assert history.spent <= history.lifetime


def check_what_travelled(sent, folder):
    """Decode every object that the SuperNode pushed: messages whose content is the report.

    A refusal is a message without content.
    """
    objects = {}
    for path, _, body in sent:
        if path.endswith("push-object"):
            content = PushObjectRequest.FromString(body).object_content
            objects[get_object_id(content)] = content
    kinds = Counter(get_object_type_from_object_content(o) for o in objects.values())
    refusals = kinds.pop("Message") - 2
    assert kinds == {"ConfigRecord": 2, "RecordDict": 2}
    assert refusals in (1, 2)  # of three wishes, one after another to the two nodes
    entries = Ledger(folder / "store-0").read().entries
    form = Request(entries[0].run, 0, 0, complete("PS-PM", epsilon=2.0, dim=task.D, epochs=2, k=3))
    reports = []
    for content in objects.values():
        if get_object_type_from_object_content(content) == "ConfigRecord":
            record = ConfigRecord.inflate(content)
            reports.append(report_of(RecordDict({"fedsel": record})))
    assert sorted(reports) == sorted(entry.report for entry in entries)
    assert all(form.format.decode(report) is not None for report in reports)
    # Nothing of the data, in any message that left, in any form that it might have.
    everything = b"".join(path.encode() + head.encode() + body for path, head, body in sent)
    secret = np.float32(task.SECRET)
    for form_of_it in (
        *(struct.pack(f"{order}{kind}", secret) for order in "<>" for kind in "fd"),
        struct.pack("<d", task.SECRET),
        b"num-examples",
        b"metrics",
        str(task.SECRET).encode(),
        str(task.EXAMPLES).encode(),
        struct.pack("<i", task.EXAMPLES),
        b"numpy",
    ):
        assert form_of_it not in everything


def test_tls_and_authenticated_nodes(tmp_path):
    """Known keys alone: a node with another is sent away. RJ, whose server decays the weights.

    It may take more than twenty seconds: nine of Flower's processes are started, some one after
    another.
    """
    files = certificates(tmp_path)
    keys = [node_key(tmp_path / f"key-{n}") for n in range(2)]
    with Federation(tmp_path, tls=files, options=["--enable-supernode-auth"]) as federation:
        federation.flwr("supernode", "register", f"{keys[0]}.pub", "local")
        stranger = federation.add_node("stranger", settings(tmp_path, 1), private_key=keys[1])
        federation.add_node("node-0", settings(tmp_path, 0), private_key=keys[0])
        config = {"solution": "RJ", "epochs": 2, "epsilon": 2.0, "nodes": 1}
        told = finished(federation, submit(federation, "run", **config))
        federation.wait(lambda: not stranger.running, 60, "the stranger to be sent away")
        assert stranger.popen.returncode != 0
        assert "Failed to activate SuperNode" in stranger.text()
    assert [r["reports"] for r in told["rounds"]] == [1, 1]
    check_weights(told, 1)
    assert spent(tmp_path, 0) == 2
    assert not (tmp_path / "store-1").exists()
