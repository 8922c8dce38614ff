"""Devices in Node and a service over HTTP: they train one model, with rounds that prepare."""

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from fedsel.preparation import FeatureScale, of_rows, shaped
from fedsel.wire import RecordPipeline
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
