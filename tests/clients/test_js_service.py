"""Devices in Node and a service over HTTP: they train one model, with rounds that prepare."""

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from fedsel import Schema
from fedsel.device import RawRecords
from fedsel.preparation import FeatureScale, Preparation, of_rows, shaped
from fedsel.wire import ModelQuestion, RecordPipeline
from fedsel.wire._pipeline import preparing_text
from tests.clients.test_js import node  # noqa: F401

CLIENT = Path(__file__).parents[2] / "clients" / "js"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


def test_node_prepares_records_as_python_does(node):  # noqa: F811
    """By the preparation that public rows give: the matrix to the bit, records but for rounding."""
    rows = np.random.default_rng(0).normal(10, 5, (300, 40))
    scale = FeatureScale.read(rows)
    told = of_rows(scale.apply(rows), loose=scale.loose)
    for prepared in (shaped(told, scale.apply(rows), 1e-3), told):
        pipeline = RecordPipeline(scale, prepared)
        source = """
            import { readFileSync } from "node:fs";
            import { RecordPipeline } from "./src/models/pipeline.js";
            const { text, rows } = JSON.parse(readFileSync(0, "utf8"));
            const { scale, preparation } = RecordPipeline.parse(text, 40);
            const records = rows.map((row) => [...preparation.record(scale.apply(row))]);
            const mixing = preparation.mixing?.map((row) => [...row]);
            console.log(JSON.stringify({ records, mixing }));
        """
        given = json.dumps({"text": pipeline.encode(), "rows": rows.tolist()})
        done = subprocess.run(
            [shutil.which("node"), "--input-type=module", "-e", source],
            input=given, capture_output=True, text=True, check=True, cwd=CLIENT,
        )  # fmt: skip
        found = json.loads(done.stdout)
        np.testing.assert_allclose(found["records"], pipeline.records(rows), atol=1e-6)
        if prepared.mixing is not None:
            np.testing.assert_array_equal(found["mixing"], prepared.mixing)


MEASURED = """
    import { readFileSync } from "node:fs";
    import { measuringOf } from "./src/joining/records.js";
    import { Schema } from "./src/models/schema.js";
    const { schema: values, text, answers, weights, records, labels } = JSON.parse(
      readFileSync(0, "utf8"),
    );
    const schema = new Schema(values);
    const found = records.map((record, i) => {
      const own = { X: [record], y: [labels[i]] };
      const { update } = measuringOf({ schema }, own, text, answers);
      return update(Float64Array.from(weights));
    });
    console.log(JSON.stringify(found));
"""
COLUMNS = [{"name": "age", "range": [0, 90]}, {"name": "job", "levels": ["cook", "smith"]}]


@pytest.mark.parametrize(
    ("label", "question"),
    [
        ({"classes": ["no", "yes"]}, ModelQuestion("scores", 2, edges=(-0.4, 0.0, 0.3))),
        (
            {"classes": ["no", "yes"]},
            ModelQuestion("spread", 2, edges=tuple(np.linspace(-1, 1, 31))),
        ),
        ({"classes": ["a", "b", "c"]}, ModelQuestion("predictions", 3)),
        ({"classes": ["a", "b", "c"]}, ModelQuestion("confidence", 3, edges=(0.1, 0.5, 1.0))),
        ({"target_range": [0, 10]}, ModelQuestion("residuals", 2, (0.2, 0.6), (-0.5, 0.0, 0.5))),
    ],
)
def test_node_measures_a_model_as_python_does(node, label, question):  # noqa: F811
    rng = np.random.default_rng(5)
    schema = Schema.of_dict({"label": "y", "columns": COLUMNS, **label})
    shape = {"spread": [0.5, 2.0, 1.0], "centre": [0.1, -0.2, 0.0], "intercept": 0.7}
    learnt = Preparation.of_dict({**shape, "unit": True, "factor": 1.0})
    pipeline = RecordPipeline(schema.scale, learnt)
    weights = rng.normal(0, 1, schema.dim)
    jobs, known = ["cook", "smith", "nurse", None], [*(label.get("classes") or [2, "7.5", 11]), "?"]
    records = [{"age": rng.uniform(-5, 95), "job": jobs[i % 4]} for i in range(200)]
    labels = [known[i % len(known)] for i in range(200)]
    wanted = []
    for record, own in zip(records, labels, strict=True):
        raw = RawRecords([{**record, "y": own}], "y").suited(schema)
        wanted.append(raw.measuring(pipeline, question, schema.dim)(weights))
    asked = {
        "schema": schema.to_dict(),
        "text": preparing_text(pipeline, question).decode(),
        "answers": question.count,
        "weights": weights.tolist(),
        "records": records,
        "labels": labels,
    }
    done = subprocess.run(
        [shutil.which("node"), "--input-type=module", "-e", MEASURED],
        input=json.dumps(asked), capture_output=True, text=True, check=True, cwd=CLIENT,
    )  # fmt: skip
    assert json.loads(done.stdout) == wanted
    assert len({*wanted}) >= 4  # among them −1, for labels that are none


@pytest.mark.parametrize("public", [False, True])
def test_devices_in_node_take_part_until_the_run_is_over(node, tmp_path, public):  # noqa: F811
    """With rounds that prepare, or with public rows and their matrix of 121² numbers."""
    service = pytest.importorskip("fedsel.service", reason="pip install 'fedsel[serve]'")
    running = pytest.importorskip("fedsel.service.running", reason="pip install 'fedsel[serve]'")
    given = {
        "name": "trial",
        "epsilon": 4,
        "rounds_per_epoch": 4,
        "features": 3,
        "feature_range": [[0, 0, -10], [100, 1, 10]],
        "spread": 0.25,
        "centre": 0.25,
        "clients": 8,
        "invitations": "open",
        "close_after": {"reports": 2},
    }
    if public:
        rows = np.random.default_rng(0).normal(10, 5, (40, 120))
        rows[:, 7] = 4  # this feature does not vary, so that nothing is known about it
        np.savez(tmp_path / "rows.npz", X=rows)
        ours = {"features": 120, "public_rows": str(tmp_path / "rows.npz")}
        given |= ours | {"feature_range": "private", "spread": "auto", "centre": "auto"}
    task = service.Task.of(given)
    features = task.schema.feature_count
    with running.background(task, running.Serving(tmp_path / "service", port=0)) as address:
        text = urllib.request.urlopen(f"{address}/v1/rounds/open/preparing").read().decode()
        pipeline = RecordPipeline.decode(text, features)
        assert (pipeline.plan is None) == public
        assert (pipeline.preparation.mixing is not None) == public
        script = CLIENT / "test" / "service_device.mjs"
        devices = [
            subprocess.Popen(
                [
                    shutil.which("node"),
                    script,
                    address,
                    tmp_path / name,
                    f"a-token-of-{name}-its-own",
                    str(features),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in ("one", "two")
        ]
        told = [json.loads(device.communicate()[0]) for device in devices]
        model = np.frombuffer(urllib.request.urlopen(f"{address}/v1/model").read(), "<f8")
    assert told == [{"reports": 4, "entries": 4, "spent": "16"}] * 2
    assert model.shape == (features + 1,)
    assert model.any()
