"""Write docs/images/dashboard.png: the service's page in the middle of a run with real devices.

``python tools/dashboard_image.py`` takes a minute. It needs Chromium and playwright
(``pip install 'fedsel[dev]'``); ``--folder DIR`` writes every width and scheme there instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel
from fedsel.device import Client, LinearRecords, Policy
from fedsel.service import Task
from fedsel.service.inviting import invitations_of
from fedsel.service.running import Serving, background
from fedsel.wire import RecordPipeline

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ("tenure", "calls", "bill")
LOW, HIGH = np.zeros(3), np.array([60.0, 20.0, 120.0])
ROUNDS, BATCH = 26, 200


def people(rng: np.random.Generator, count: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Customers: those with a short tenure, many calls and a high bill leave."""
    X = rng.uniform(LOW, HIGH, (count, 3))
    score = (X / HIGH) @ [-2.0, 1.2, 1.0] + rng.normal(0, 0.25, count)
    return X, np.where(score > 0.1, 1, -1).astype(np.int8)


def task_with(folder: Path, rng: np.random.Generator) -> Task:
    """A task with a public test set."""
    X, y = people(rng, 1000)
    rows = [[*FEATURES, "left"]]
    rows += [[*map(str, x.round(1)), "yes" if s > 0 else "no"] for x, s in zip(X, y, strict=True)]
    test = folder / "test.csv"
    test.write_text("".join(",".join(row) + "\n" for row in rows))
    return Task.of(
        {
            "name": "churn",
            "epsilon": 8,
            "epochs": 2,
            "features": list(FEATURES),
            "feature_range": [LOW.tolist(), HIGH.tolist()],
            "labels": ["no", "yes"],
            "clients": 40 * BATCH,
            "rounds_per_epoch": 40,
            "close_after": {"reports": BATCH, "seconds": 3600},
            "purpose": "Predict who leaves within three months",
            "recipient": "Customer care, Example Ltd",
            "evaluation": {"data": str(test), "label": "left"},
            "limits": {"per_client": 1e9, "per_address": 1e9},
        }
    )


def follow(task: Task, folder: Path, address: str, rng: np.random.Generator) -> None:
    """Let devices report through a gateway, until the last round is half full."""
    recipe = task.begin.recipe
    policy = Policy(2 * recipe.charge, recipe.charge, [recipe.solution], [task.dim])
    token = invitations_of(task, str(folder / "store")).invite("gateway")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}

    def asked(path: str, body: bytes | None = None) -> bytes:
        method = "GET" if body is None else "PUT"
        question = Request(f"{address}/v1/{path}", body, headers, method=method)  # noqa: S310 (our own service)
        with urlopen(question) as answer:  # noqa: S310 (our own service)
            return bytes(answer.read())

    for n in range(ROUNDS + 1):
        while json.loads(asked("rounds/open"))["round"] < n:
            time.sleep(0.05)
        request = asked(f"rounds/{n}/request")
        weights = np.frombuffer(asked(f"rounds/{n}/weights"))
        preparing = RecordPipeline.decode(asked(f"rounds/{n}/preparing").decode(), len(FEATURES))
        X, y = people(rng, BATCH + int(rng.integers(0, 12)) if n < ROUNDS else 3 * BATCH // 5)
        reports = []
        for i, (x, label) in enumerate(zip(preparing.scale.apply(X), y, strict=True)):
            model = LinearModel(task.loss, reg=0.0)
            records = LinearRecords(x[None], label[None], model, preparing.plan)
            update = records.update(n, preparing.preparation)
            device = Client(policy, folder / f"{n}-{i}", create=True)
            reports.append(device.answer(request, weights, update))
        asked(f"batches/{n}", b"".join(reports))


def look(address: str, shots: dict[Path, tuple[int, int | None, str]]) -> None:
    """Take pictures of the page: file → width, height (None: all of it) and scheme."""
    from playwright.sync_api import sync_playwright

    from tests.browsing import ARGUMENTS, chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for path, (width, height, scheme) in shots.items():
            size = {"width": width, "height": height or 900}
            tab = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
            tab.goto(address)
            tab.get_by_text("δ = 10⁻⁶").first.wait_for()
            tab.wait_for_selector('#connection[data-state="live"]')
            tab.screenshot(path=path, full_page=height is None)
            tab.close()
        browser.close()


def main() -> None:
    """Run, look, end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args().folder
    shots: dict[Path, tuple[int, int | None, str]]
    shots = {ROOT / "docs" / "images" / "dashboard.png": (1280, 1000, "light")}
    if chosen is not None:
        every = [(width, scheme) for width in (380, 1280) for scheme in ("light", "dark")]
        shots = {chosen / f"{w}-{scheme}.png": (w, None, scheme) for w, scheme in every}
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = task_with(folder, rng)
        with background(task, Serving(str(folder / "store"), port=0)) as address:
            follow(task, folder, address, rng)
            look(address, shots)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
