"""Write docs/images/dashboard.png and relay.png: pages in the middle of runs with real devices.

One is a service's, the other the one of a relay that stands before another service.
``python tools/dashboard_image.py`` takes two minutes. It needs Chromium and playwright
(``pip install 'fedsel[dev]'``); ``--folder DIR`` writes every width and scheme there instead, and
the page of the service behind the relay; ``--only dashboard`` or ``relay`` writes one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel
from fedsel.device import Client, LinearRecords, Policy
from fedsel.service import Task
from fedsel.service.inviting import invitations_of, relay_settings
from fedsel.service.relay import RelayConfig
from fedsel.service.running import Serving, background
from fedsel.wire import RecordPipeline

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ("tenure", "calls", "bill")
LOW, HIGH = np.zeros(3), np.array([60.0, 20.0, 120.0])
ROUNDS, BATCH = 26, 200
SEALED_ROUNDS, SEALED = 7, 100
FREE = {"per_client": 1e9, "per_address": 1e9}

Shots = dict[Path, tuple[int, int | None, str]]
"""Pictures of a page: file → width, height (None: all of it) and scheme."""


def people(rng: np.random.Generator, count: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Customers: those with a short tenure, many calls and a high bill leave."""
    X = rng.uniform(LOW, HIGH, (count, 3))
    score = (X / HIGH) @ [-2.0, 1.2, 1.0] + rng.normal(0, 0.25, count)
    return X, np.where(score > 0.1, 1, -1).astype(np.int8)


def task_with(folder: Path, rng: np.random.Generator, **changes: Any) -> Task:
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
            "limits": FREE,
            **changes,
        }
    )


def asked(url: str, body: bytes | None = None, token: str = "", method: str = "PUT") -> bytes:
    """What is answered to a question, or to what is sent."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    method = "GET" if body is None else method
    question = Request(url, body, headers, method=method)  # noqa: S310 (our own service)
    with urlopen(question) as answer:  # noqa: S310 (our own service)
        return bytes(answer.read())


def reports_of(
    task: Task,
    url: str,
    n: int,
    people: tuple[NDArray[np.float64], NDArray[np.int8]],
    **policy: Any,
) -> list[bytes]:
    """The reports of devices in a round, each with a record and a ledger."""
    recipe, place = task.begin.recipe, f"{url}/v1/rounds/{n}"
    chosen = Policy(2 * recipe.charge, recipe.charge, [recipe.solution], [task.dim], **policy)
    request, weights = asked(f"{place}/request"), np.frombuffer(asked(f"{place}/weights"))
    preparing = RecordPipeline.decode(asked(f"{place}/preparing").decode(), len(FEATURES))
    reports, (X, y) = [], people
    for x, label in zip(preparing.scale.apply(X), y, strict=True):
        model = LinearModel(task.loss, reg=0.0)
        records = LinearRecords(x[None], label[None], model, preparing.plan)
        update = records.update(n, preparing.preparation)
        with tempfile.TemporaryDirectory() as ledger:
            device = Client(chosen, Path(ledger) / "ledger", create=True)
            reports.append(device.answer(request, weights, update))
    return reports


def wait_for(url: str, number: int) -> None:
    """Wait until this round is open, and its parts are there."""
    while True:
        now = json.loads(asked(f"{url}/v1/rounds/open"))
        if now["round"] == number and not now.get("released", False):
            return
        time.sleep(0.05)


def follow(task: Task, folder: Path, address: str, rng: np.random.Generator) -> None:
    """Let devices report through a gateway, until the last round is half full."""
    token = invitations_of(task, str(folder / "store")).invite("gateway")
    for n in range(ROUNDS + 1):
        wait_for(address, n)
        count = BATCH + int(rng.integers(0, 12)) if n < ROUNDS else 3 * BATCH // 5
        reports = reports_of(task, address, n, people(rng, count))
        asked(f"{address}/v1/batches/{n}", b"".join(reports), token)


def follow_relay(config: RelayConfig, task: Task, store: Path, url: str) -> None:
    """Let devices send sealed reports to a relay, until a later round is half full."""
    rng, invitations = np.random.default_rng(1), invitations_of(config, store)
    for n in range(SEALED_ROUNDS + 1):
        wait_for(url, n)
        count = SEALED if n < SEALED_ROUNDS else 3 * SEALED // 5
        chosen = people(rng, count)
        for report in reports_of(task, url, n, chosen, server_key=config.server_key):
            asked(f"{url}/v1/reports", report, invitations.invite("device"), "POST")


def look(address: str, shots: Shots) -> None:
    """Take pictures of a page."""
    from playwright.sync_api import sync_playwright

    from tests.browsing import ARGUMENTS, chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for path, (width, height, scheme) in shots.items():
            size = {"width": width, "height": height or 900}
            tab = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
            tab.goto(address)
            tab.get_by_text("10⁻⁶").first.wait_for()
            tab.wait_for_selector('#connection[data-state="live"]')
            tab.screenshot(path=path, full_page=height is None)
            tab.close()
        browser.close()


def of_service(folder: Path, shots: Shots) -> None:
    """A service whose devices report to it."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    task = task_with(folder, rng)
    with background(task, Serving(str(folder / "store"), port=0)) as address:
        follow(task, folder, address, rng)
        look(address, shots)


def of_relay(folder: Path, shots: Shots, behind: Shots) -> None:
    """A relay, and the service behind it."""
    folder.mkdir()
    store, at_relay = folder / "store", folder / "relay"
    shuffled = {"epsilon": 2, "clients": 5000, "shuffle": {"n_min": 90}}
    shuffled["close_after"] = {"reports": SEALED}
    task = task_with(folder, np.random.default_rng(0), **shuffled)
    with background(task, Serving(str(store), port=0)) as address:
        config = RelayConfig.of(
            {**tomllib.loads(relay_settings(task, store, address)), "limits": FREE}
        )
        with background(config, Serving(str(at_relay), port=0)) as relay:
            follow_relay(config, task, at_relay, relay)
            look(relay, shots)
            look(address, behind)


def main() -> None:
    """Run, look, end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=("dashboard", "relay"))
    given = parser.parse_args()
    chosen, only = given.folder, given.only
    images = ROOT / "docs" / "images"

    def shots(name: str, height: int) -> Shots:
        if chosen is None:
            return {images / f"{name}.png": (1280, height, "light")}
        every = [(width, scheme) for width in (380, 1280) for scheme in ("light", "dark")]
        return {chosen / f"{name}-{w}-{scheme}.png": (w, None, scheme) for w, scheme in every}

    with tempfile.TemporaryDirectory() as name:
        if only != "relay":
            of_service(Path(name) / "service", shots("dashboard", 1000))
        if only != "dashboard":
            behind = {} if chosen is None else shots("service", 0)
            of_relay(Path(name) / "relay", shots("relay", 1330), behind)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
