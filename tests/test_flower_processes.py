"""Flower's own processes on loopback: both engines, TLS, crashes, hostile servers, what travels.

Each process is ended by its group, each wait has a limit. The bundle tests/flower_app replays the
randomness of simulated clients, so that both engines must end with the weights of fedsel's own.
"""

import json
import struct
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_object_id,
    get_object_type_from_object_content,
)

from fedsel.device import Ledger, Reason
from fedsel.engine.vectors import VectorTraining, train_vectors
from fedsel.integrations.flower import NODES_VARIABLE
from fedsel.integrations.flower.local import Federation
from fedsel.integrations.flower.messages import NO_ANSWER, report_of
from fedsel.protocol import Request, Task
from tests.flower_app.flower_replay import task
from tests.flower_support import Proxy, certificates, node_key

APP = Path(__file__).parent / "flower_app"
LIMIT = 150
"""Seconds for a run, on a busy machine; it takes a fifth of that."""


class Clients:
    """The clients of the bundle as the engine sees them."""

    chunk, scales = 7, None

    def __init__(self, clients):
        self.clients = clients

    def receive(self, weights):
        self.weights = weights

    def vectors(self, clients):
        return [np.stack([task.update(self.weights, c) for c in clients.tolist()])]


def expected(asked, clients):
    """The weights of fedsel's own engine on the same randomness."""
    start = np.concatenate([array.reshape(-1) for array in task.START.values()]).astype(np.float64)
    training = VectorTraining(asked.solution, task.RATE, clients, task.SEED)
    return train_vectors(training, Clients(clients), start).weights


def settings(folder, number, **changes):
    """The node_config of a node."""
    given = {"store": folder / f"store-{number}", "create": True, "lifetime": 6.0}
    given |= {"per-report": 1.0, "solutions": "PS-PM", "dimensions": task.D, **changes}
    return {"partition-id": number, **{f"fedsel-{name}": value for name, value in given.items()}}


def spent(folder, number):
    return Ledger(folder / f"store-{number}").read().spent


def run(federation, name, *, simulated=None, **config):
    """Submit the bundle, wait for its end, and read what the server wrote."""
    results = federation.folder / f"{name}.json"
    process = federation.submit(APP, {**config, "results": results}, name=name, nodes=simulated)
    federation.wait(lambda: not process.running, LIMIT, f"run {name}", federation.processes[0])
    assert results.exists(), process.text()[-3000:]
    return json.loads(results.read_text())


def test_simulation_gives_the_weights_of_the_engine(tmp_path):
    """100 clients, two solutions, one after the other on the same nodes."""
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    (nodes / "policy.toml").write_text(
        f'lifetime = 5.0\nper_report = 1.0\nsolutions = ["PS-PM", "RJ"]\ndimensions = [{task.D}]\n'
    )
    with Federation(
        tmp_path, simulation=True, environment={NODES_VARIABLE: str(nodes)}
    ) as federation:
        for solution, epochs in (("PS-PM", 3), ("RJ", 1)):
            config = {"solution": solution, "epochs": epochs, "epsilon": float(epochs)}
            told = run(federation, solution, simulated=100, nodes=100, **config)
            assert [r["reports"] for r in told["rounds"]] == [100] * epochs
            asked = Task.decode(bytes.fromhex(told["task"]))
            np.testing.assert_allclose(told["weights"], expected(asked, 100), rtol=1e-9, atol=1e-9)
    histories = [Ledger(nodes / f"node-{n}").read() for n in range(100)]
    assert {h.spent for h in histories} == {4}


def test_deployment(tmp_path):
    """Three SuperNodes, one behind a proxy: a run, a hostile server, and budgets that end."""
    with Federation(tmp_path) as federation, Proxy(federation.port) as proxy:
        for number in range(3):
            lifetime = 4.0 if number == 2 else 6.0
            port = proxy.port if number == 0 else None
            own = settings(tmp_path, number, lifetime=lifetime)
            federation.add_node(f"node-{number}", own, superlink_port=port)
        told = run(federation, "first")
        asked = Task.decode(bytes.fromhex(told["task"]))
        assert [r["reports"] for r in told["rounds"]] == [3, 3, 3]
        np.testing.assert_allclose(told["weights"], expected(asked, 3), rtol=1e-9, atol=1e-9)
        assert [spent(tmp_path, n) for n in range(3)] == [3, 3, 3]
        check_what_travelled(proxy.sent, tmp_path)

        said = run(federation, "hostile", mode="hostile")
        assert said == {
            "epsilon": Reason.TOO_MUCH.value,
            "solution": Reason.NOT_ALLOWED.value,
            "nan": Reason.WEIGHTS.value,
            "shape": Reason.WEIGHTS.value,
            "evaluate": NO_ANSWER,
        }
        assert [spent(tmp_path, n) for n in range(3)] == [3, 3, 3]

        told = run(federation, "second", epochs=2, epsilon=2.0)
        assert [r["reports"] for r in told["rounds"]] == [3, 2]  # goes on from the spent budget
        assert told["refusals"] == {"EXHAUSTED": 1}
        assert [spent(tmp_path, n) for n in range(3)] == [5, 5, 4]


def check_what_travelled(sent, folder):
    """Decode every object that the SuperNode pushed: messages whose content is the report."""
    objects = {}
    for path, _, body in sent:
        if path.endswith("push-object"):
            content = PushObjectRequest.FromString(body).object_content
            objects[get_object_id(content)] = content
    kinds = [get_object_type_from_object_content(o) for o in objects.values()]
    assert sorted(kinds) == ["ConfigRecord"] * 3 + ["Message"] * 3 + ["RecordDict"] * 3
    entries = Ledger(folder / "store-0").read().entries
    form = Request(entries[0].run, 0, 0, Task("PS-PM", epsilon=3.0, dim=task.D, epochs=3, k=3))
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


def test_tls_authentication_and_a_node_that_is_killed(tmp_path):
    """Known keys alone; a node dies between answer and reply, and comes back with its ledger."""
    files = certificates(tmp_path)
    keys = [node_key(tmp_path / f"key-{n}") for n in range(3)]
    flag = tmp_path / "wait"
    with Federation(
        tmp_path,
        tls=files,
        options=["--enable-supernode-auth"],
        environment={"FEDSEL_TEST_WAIT": str(flag)},
    ) as federation:
        for key in keys[:2]:
            federation.flwr("supernode", "register", f"{key}.pub", "local")
        stranger = federation.add_node("stranger", settings(tmp_path, 2), private_key=keys[2])
        nodes = [
            federation.add_node(f"node-{n}", settings(tmp_path, n), private_key=keys[n])
            for n in range(2)
        ]
        federation.wait(lambda: not stranger.running, 60, "the stranger to be sent away")
        assert stranger.popen.returncode != 0
        flag.touch()
        results = tmp_path / "run.json"
        config = {"nodes": 2, "timeout": 20.0, "results": results}
        process = federation.submit(APP, config)
        # Both have answered, and neither answer has left.
        federation.wait(
            lambda: charged(tmp_path, 0) and charged(tmp_path, 1), 90, "answers", *nodes
        )
        nodes[0].kill()
        flag.unlink()
        federation.add_node("node-0-again", settings(tmp_path, 0), private_key=keys[0])
        federation.wait(lambda: not process.running, LIMIT, "the run", nodes[1])
        assert results.exists(), process.text()[-3000:]
    told = json.loads(results.read_text())
    assert [r["reports"] for r in told["rounds"]] == [1, 2, 2]
    assert told["rounds"][0]["silent"] == 1
    for number in range(2):
        history = Ledger(tmp_path / f"store-{number}").read()  # checks every link
        assert [e.round for e in history.entries] == [0, 1, 2]
        assert history.spent == 3 <= history.lifetime
    assert not (tmp_path / "store-2").exists()


def charged(folder, number):
    store = folder / f"store-{number}"
    return (store / "ledger.sqlite").exists() and spent(folder, number) > 0
