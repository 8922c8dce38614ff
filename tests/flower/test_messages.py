"""Messages of Flower: what they say of preparing travels, and nonsense is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from fedsel import InvalidArgument
from fedsel.device import Reason
from fedsel.flower import FedSelMod, RecordPipeline, prepared
from fedsel.flower._messages import Question
from fedsel.preparation import FeatureScale, Preparation
from tests.flower.messages import message
from tests.flower.test_preparing import FEATURES, RANGE, answered, asked, records

pytestmark = pytest.mark.usefixtures("flower_identity")


def test_preparing_travels_and_nonsense_is_refused(tmp_path):
    msg, made = asked(tmp_path / "server")
    text = msg.content["fedsel"]["preparing"]
    again = RecordPipeline.decode(text, 9)
    assert again.encode() == text
    whole = made.session.server.plan
    assert again.plan.for_devices == whole.for_devices
    # What the server makes of reports stays with it.
    assert whole.to_dict().keys() - json.loads(text)["plan"].keys() == {"entry", "reach"}
    assert len(text) < 500  # what all features share is told once
    learnt = replace(again, preparation=replace(again.preparation, centre=np.arange(5) / 7))
    assert RecordPipeline.decode(learnt.encode(), 9).preparation == learnt.preparation
    parts = json.loads(text)
    for change in (
        {"features": 3},
        {"features": 0},
        {"features": FEATURES + 1, "plan": None},  # more than the model has parameters for
        {"features": 1 << 60, "plan": None},
        {"low": 5},
        {"low": [0.0] * 4},
        {"octaves": 1 << 40},
        {"octaves": "many"},
        {"preparation": None},
        {"preparation": {**parts["preparation"], "spread": 2.1}},
        {"plan": {**parts["plan"], "dim": FEATURES + 2}},
        {"plan": {**parts["plan"], "radius": -1.0}},
        {"plan": {**parts["plan"], "more": 1}},
        {"plan": 7},
    ):
        bad = RecordDict(dict(msg.content.items()))
        bad["fedsel"] = ConfigRecord(
            {**msg.content["fedsel"], "preparing": json.dumps({**parts, **change})}
        )
        told = answered(message(bad), tmp_path, FedSelMod(records=lambda _: records()[0]))
        assert told == Reason.MALFORMED.value, change
    assert not (tmp_path / "one").exists()


def test_records_are_prepared_for_messages_that_tell_how():
    X = records()[0]
    begun = RecordPipeline(FeatureScale.of(RANGE, FEATURES), Preparation.plain(FEATURES))
    content = RecordDict({"fedsel": Question(b"", (), begun).record()})
    np.testing.assert_array_equal(prepared(message(content), X), begun.records(X))
    with pytest.raises(InvalidArgument, match="message without preparation"):
        prepared(message(RecordDict({})), X)
    with pytest.raises(InvalidArgument, match="plan"):
        begun.vector(0, X)
    with pytest.raises(InvalidArgument, match="preparation"):
        RecordPipeline(begun.scale, Preparation.plain(3))
