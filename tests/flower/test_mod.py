"""FedSelMod in one process: what leaves a node, and what does not."""

import os
import sys

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsel._internal.random import stream
from fedsel.device import Ledger, Reason
from fedsel.flower import FedSelMod
from fedsel.flower._messages import NodeRefusal, content_bytes, report_of
from fedsel.wire import Request
from tests.flower.messages import (
    CLIENT,
    RECIPE,
    SECRET,
    SEED,
    App,
    D,
    Replayed,
    config,
    context,
    message,
    model,
    question,
)
from tests.wire.support import complete

pytestmark = pytest.mark.usefixtures("flower_identity")


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
    update, drawn = np.full(D, np.float32(SECRET)), stream(SEED, 0, CLIENT)
    expected, _ = RECIPE.build().encode(update, np.zeros(D), drawn)
    form = Request(bytes(16), 0, 0, RECIPE).format
    assert reply.content["fedsel"]["report"] == form.encode(0, expected)
    assert content_bytes(reply) < 400
    # The app saw what it would have seen without the mod.
    (seen,) = app.calls
    assert list(seen.content) == ["arrays", "config"]
    assert Ledger(tmp_path / "store").read().spent == 2


def test_what_an_app_writes_into_its_message_does_not_leave(tmp_path):
    """Flower makes a reply from the metadata of the message; the app has all their setters."""

    def writes(msg, ctx):
        told = msg.metadata
        told.group_id, told.message_type = f"the patient has {SECRET}", "train.patient"
        told.ttl, told.created_at, told.delivered_at = 4242.0, 4242.0, f"{SECRET}"
        told.dst_node_id = told.src_task_id = told.dst_task_id = 4242
        vars(told)["_message_id"] = vars(told)["_reply_to_message_id"] = f"{SECRET}"
        vars(told)["_src_node_id"] = vars(told)["_run_id"] = 4242
        msg.content["note"] = ConfigRecord({"note": SECRET})
        vars(msg)["_metadata"].group_id += "!"
        return App()(msg, ctx)

    said, clock = [], ("_created_at", "_ttl")
    for name, result in (("quiet", None), ("talks", writes)):
        asked = message(question())
        reply = FedSelMod()(asked, context(config(tmp_path / name)), App(result=result))
        assert reply.has_content()
        assert 0 <= reply.metadata.created_at - asked.metadata.created_at < 3600
        assert asked.metadata.ttl - 3600 < reply.metadata.ttl <= asked.metadata.ttl
        said.append({k: v for k, v in vars(reply.metadata).items() if k not in clock})
        assert list(asked.content) == ["arrays", "config", "fedsel"]
    assert said[0] == said[1]


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
    pytest.importorskip("torch", reason="torch is not there for this Python")
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
    (raises, "ValueError"),
    (leaves, "SystemExit"),
    (other_shape, "InvalidArgument"),
    (not_finite, None),  # numbers like others: NaN counts as 0
    (lambda msg, ctx: None, "AttributeError"),
    (lambda msg, ctx: Message(Error(0, f"{SECRET}"), reply_to=msg), "ValueError"),
    (lambda msg, ctx: Message(RecordDict(), reply_to=msg), "ValueError"),
]


@pytest.mark.parametrize(("result", "told"), NONSENSE)
def test_whether_a_node_answers_does_not_depend_on_its_app(tmp_path, result, told, caplog):
    reply = FedSelMod()(message(question()), context(config(tmp_path / "s")), App(result=result))
    assert isinstance(report_of(reply.content), bytes)
    assert len(report_of(reply.content)) == 16
    assert str(SECRET) not in caplog.text + repr(reply)
    said = [r for r in caplog.records if r.name == "fedsel.flower" and r.levelname == "WARNING"]
    expected = [] if told is None else [f"the app or its records failed: {told}"]
    assert [r.getMessage() for r in said] == expected  # for the node's owner
    assert not any(r.exc_info for r in said)


def nan_model():
    arrays = [np.zeros((2, 2), np.float32), np.array([0, np.nan], np.float32)]
    return ArrayRecord(arrays)


def changed(name):
    """A message that asks for something that must be refused."""
    ask = {
        "ε": lambda: question(complete("PS-PM", epsilon=100.0, dim=D, k=2)),
        "solution": lambda: question(complete("PM", epsilon=1.0, dim=D)),
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
    assert refusal(reply) == NodeRefusal.NO_ANSWER
    assert app.calls == []
    assert not (tmp_path / "s").exists()


def test_the_budget_outlives_runs_and_the_store_is_the_nodes_own(tmp_path):
    """Two reports are a lifetime; a third is refused, also under another run and another mod."""
    own = config(tmp_path / "store")
    for number in range(2):
        assert FedSelMod()(message(question(number=number)), context(own), App()).has_content()
    later = Request(b"another run here", 0, 0, RECIPE).encode()
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
    asked = question(complete("PS-PM", epsilon=100.0, dim=D, k=2))
    asked["config"] = ConfigRecord(wide)
    app = App()
    reply = FedSelMod()(message(asked), context(config(tmp_path / "s"), **wide, seed=1), app)
    assert refusal(reply) == Reason.TOO_MUCH.value
    nothing = FedSelMod()(message(asked), context({"partition-id": 0}, **wide), app)
    assert refusal(nothing) == NodeRefusal.NO_SETTINGS
    assert app.calls == []
    assert not (tmp_path / "other").exists()


def test_the_clip_is_in_units_of_the_scale(tmp_path):
    """What docs/flower.md says: the server's scale decides how much of an update is clipped."""
    drawn = []
    for update, scale in (
        (0.25, 1.0),
        (0.25 * 8, 8.0),
        (0.25 * 512, 512.0),
        (8.0, 1.0),
        (1e6, 1.0),
    ):
        store = config(tmp_path / f"{update}-{scale}", clip=1.0)
        asked = question(scales=(scale, scale))
        reply = Replayed()(message(asked), context(store), App(update))
        drawn.append(report_of(reply.content))
    assert drawn[0] == drawn[1] == drawn[2]  # 0.25 each, though one is 128 in the app's own units
    assert drawn[3] == drawn[4]  # beyond the clip in units of the scale
