"""Devices in Node and a service over HTTP: they train one model, with rounds that prepare."""

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from fedsel.wire import RecordPipeline
from tests.clients.test_js import node  # noqa: F401

CLIENT = Path(__file__).parents[2] / "clients" / "js"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


def test_devices_in_node_take_part_until_the_run_is_over(node, tmp_path):  # noqa: F811
    service = pytest.importorskip("fedsel.service", reason="pip install 'fedsel[serve]'")
    running = pytest.importorskip("fedsel.service.running", reason="pip install 'fedsel[serve]'")
    task = service.Task.of(
        {
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
    )
    with running.background(task, running.Serving(tmp_path / "service", port=0)) as address:
        text = urllib.request.urlopen(f"{address}/v1/rounds/open/preparing").read().decode()
        assert RecordPipeline.decode(text, 3).plan.rounds > 0
        script = CLIENT / "test" / "service_device.mjs"
        devices = [
            subprocess.Popen(
                [
                    shutil.which("node"),
                    script,
                    address,
                    tmp_path / name,
                    f"a-token-of-{name}-its-own",
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in ("one", "two")
        ]
        told = [json.loads(device.communicate()[0]) for device in devices]
        model = np.frombuffer(urllib.request.urlopen(f"{address}/v1/model").read(), "<f8")
    assert told == [{"reports": 4, "entries": 4, "spent": "16"}] * 2
    assert model.shape == (4,)
    assert model.any()
