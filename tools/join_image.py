"""Write docs/images/join.png: the page /join in the middle of a run with real devices.

``python tools/join_image.py`` takes a few minutes, most of them for flushing ledgers. It needs
Chromium, playwright and Pillow (``pip install 'fedsel[dev]'``); ``--folder DIR`` writes every width
and scheme there instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any
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
FEATURES = ("age", "hours", "visits", "contract months")
LOW, HIGH = np.zeros(4), np.array([100.0, 80.0, 30.0, 48.0])
DEVICES, EPOCHS, ROUNDS, OWN = 800, 6, 4, 40
People = tuple[NDArray[np.float64], NDArray[np.int8]]


def people(rng: np.random.Generator, count: int) -> People:
    """Customers: those with few hours and short contracts leave."""
    X = np.floor(rng.uniform(LOW, HIGH, (count, 4)))
    score = (2 * X / HIGH - 1) @ [0.3, -1.0, 0.4, -1.2] + rng.normal(0, 0.3, count)
    return X, np.where(score > 0, 1, -1).astype(np.int8)


def task() -> Task:
    """Each round has all devices and one browser."""
    return Task.of(
        {
            "name": "churn",
            "epsilon": EPOCHS,
            "epochs": EPOCHS,
            "features": list(FEATURES),
            "feature_range": [LOW.tolist(), HIGH.tolist()],
            "spread": 0,
            "centre": 0,
            "labels": ["stays", "leaves"],
            "clients": DEVICES + 1,
            "close_after": {"reports": DEVICES + 1},
            "purpose": "Predict who leaves, to call them first",
            "recipient": "Example Telecom, customer care",
        }
    )


def asked(url: str, body: bytes | None = None, token: str = "") -> bytes:
    """What the service answers."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    method = "GET" if body is None else "PUT"
    with urlopen(Request(url, body, headers, method=method)) as answer:  # noqa: S310 (our own service)
        return bytes(answer.read())


def batch(chosen: Task, url: str, number: int, everyone: People, folder: Path) -> bytes:
    """The reports of all devices but the browser's, in one round."""
    recipe = chosen.begin.recipe
    policy = Policy(EPOCHS * recipe.charge, recipe.charge, [recipe.solution], [chosen.dim])
    place = f"{url}/v1/rounds/{number}"
    request, weights = asked(f"{place}/request"), asked(f"{place}/weights")
    preparing = RecordPipeline.decode(asked(f"{place}/preparing").decode(), len(FEATURES))
    reports = []
    for i, (x, label) in enumerate(
        zip(preparing.scale.apply(everyone[0]), everyone[1], strict=True)
    ):
        records = LinearRecords(x[None], label[None], LinearModel(chosen.loss, reg=0.0))
        device = Client(policy, folder / f"{number}-{i}", create=True)
        update = records.update(number, preparing.preparation)
        reports.append(device.answer(request, weights, update))
    return b"".join(reports)


def take_part(tab: Any, link: str, own: People) -> None:
    """What a person does: choose a file, agree, press the button."""
    rows = [
        ",".join([*(f"{value:g}" for value in x), "leaves" if label > 0 else "stays"])
        for x, label in zip(*own, strict=True)
    ]
    text = "\n".join([",".join([*FEATURES, "churned"]), *rows])
    tab.goto(link)
    file = {"name": "customers.csv", "mimeType": "text/csv", "buffer": text.encode()}
    tab.set_input_files("#file", file)
    tab.check("#anew-yes")
    tab.click("#go")


def small(path: Path) -> None:
    """A picture of a page has few colours."""
    from PIL import Image

    with Image.open(path) as image:
        image.convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    """Run, look, end."""
    from playwright.sync_api import sync_playwright

    from tests.browsing import ARGUMENTS, chromium

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    to = parser.parse_args().folder
    shots = {ROOT / "docs" / "images" / "join.png": (1280, "light")}
    if to is not None:
        every = [(width, scheme) for width in (380, 1280) for scheme in ("light", "dark")]
        shots = {to / f"{width}-{scheme}.png": (width, scheme) for width, scheme in every}
    chosen, rng = task(), np.random.default_rng(0)
    everyone, own = people(rng, DEVICES), people(rng, OWN)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        store = str(Path(name) / "store")
        with background(chosen, Serving(store, port=0)) as url:
            invitations = invitations_of(chosen, store)
            browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            take_part(tab, f"{url}/join#token={invitations.invite('device')}", own)
            for number in range(ROUNDS):
                tab.get_by_text(f"Round {number + 1}, epoch").wait_for()
                reports = batch(chosen, url, number, everyone, Path(name))
                asked(f"{url}/v1/batches/{number}", reports, invitations.invite("gateway"))
            tab.get_by_text(f"Round {ROUNDS + 1}, epoch").wait_for()
            for path, (width, scheme) in shots.items():
                tab.set_viewport_size({"width": width, "height": 900})
                tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                tab.screenshot(path=path, full_page=True)
                small(path)
            browser.close()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
