"""Trackers on the real libraries, whose files are read back."""

import struct
import subprocess
import sys

import numpy as np
import pytest

from fedsel import FedSelClassifier
from fedsel._internal.extras import MissingExtra
from fedsel.tracking import MLflowTracker, TensorBoardTracker
from tests.tracking.test_callbacks import people

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),  # MLflow's
    pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning"),
]


def fitted(*callbacks):
    X, y = people()
    model = FedSelClassifier(epsilon=2.0, feature_range=(-1, 1), batch_fraction=0.1)
    return model.fit(X, y, eval_set=(X, y), callbacks=list(callbacks))


@pytest.fixture(params=["sqlite", "files"])
def store(request, quick_path, monkeypatch):
    """A store of MLflow of each kind."""
    pytest.importorskip("mlflow")
    if request.param == "sqlite":
        pytest.importorskip("sqlalchemy")
        return f"sqlite:///{quick_path / 'runs.db'}"
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions refuse it otherwise
    return (quick_path / "runs").as_uri()


@pytest.mark.slow
def test_mlflow_keeps_parameters_privacy_and_every_round(store):
    tracker = MLflowTracker("trial", tracking_uri=store)
    model = fitted(tracker)
    run = tracker.client.get_run(tracker.run_id)
    assert run.info.run_name == "FedSelClassifier"
    assert run.info.status == "FINISHED"
    assert run.data.params["solution"] == model.recipe_.solution
    assert float(run.data.params["learning_rate"]) == model.learning_rate_
    assert float(run.data.params["epsilon_total"]) == model.privacy_.total
    assert run.data.tags["mlflow.note.content"].startswith("ε = 2 a report")
    for key in ("accuracy", "loss", "epsilon", "reports"):
        kept = tracker.client.get_metric_history(tracker.run_id, key)
        expected = [(row.round, getattr(row, key)) for row in model.history_.rounds]
        assert [(m.step, m.value) for m in kept] == expected
    again = fitted(tracker)  # is a run of its own in the same experiment
    runs = tracker.client.search_runs([run.info.experiment_id])
    assert len(runs) == 2
    assert again.privacy_.total == model.privacy_.total


@pytest.mark.slow
def test_mlflow_that_cannot_be_reached_stops_the_fit_at_once(quick_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = MLflowTracker(tracking_uri="http://127.0.0.1:9")
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        fitted(tracker)
    assert not tracker.run_id


def scalars(folder):
    """The scalars (tag, step, value) and the texts (tag, text) of the event file in a folder."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.glob("events.*")
    data, at, found, texts = file.read_bytes(), 0, [], {}
    while at < len(data):  # a TFRecord: length, its checksum, the event, its checksum
        (length,) = struct.unpack_from("<Q", data, at)
        event = Event.FromString(data[at + 12 : at + 12 + length])
        at += 12 + length + 4
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found.append((value.tag, event.step, value.simple_value))
            else:
                texts[value.tag.removesuffix("/text_summary")] = value.tensor.string_val[0].decode()
    return found, texts


def test_tensorboard_gets_every_round(tmp_path):
    pytest.importorskip("tensorboardX")
    model = fitted(TensorBoardTracker(tmp_path / "run"))
    found, texts = scalars(tmp_path / "run")
    for key in ("accuracy", "loss", "epsilon", "bits", "reports"):
        expected = [(row.round, np.float32(getattr(row, key))) for row in model.history_.rounds]
        assert [(step, value) for tag, step, value in found if tag == key] == expected
    assert {"norm", "learning_rate"} <= {tag for tag, *_ in found}
    assert texts["privacy"].startswith("ε = 2 a report")
    assert f"| solution | {model.recipe_.solution} |" in texts["parameters"]


@pytest.mark.parametrize(
    ("tracker", "package", "extra"),
    [(MLflowTracker, "mlflow", "mlflow"), (TensorBoardTracker, "tensorboardX", "tensorboard")],
)
def test_a_missing_library_is_named(tracker, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'fedsel\[{extra}\]'"):
        tracker("somewhere")


def test_importing_the_trackers_loads_neither_library():
    code = "import sys, fedsel.tracking; print({'mlflow', 'tensorboardX'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
