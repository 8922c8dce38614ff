"""How long a newcomer waits: new environments from the built wheel, and the first result in each.

The wheel is built from this checkout and installed by pip into an environment of its own for each
purpose. What is timed is the first process in it, with a cache folder of its own: the imports, and
from their end to the first result.

Example: python benchmarks/cold_start.py --only sklearn run
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

SKLEARN = """
import time; begin = time.perf_counter()
from sklearn.datasets import make_classification
from fedsel import FedSelClassifier
imported = time.perf_counter()
X, y = make_classification(10_000, 10, n_informative=5, n_clusters_per_class=1, random_state=1)
model = FedSelClassifier(epsilon=4.0, feature_range=(-8, 8)).fit(X, y)
score = model.score(X, y)
print(imported - begin, time.perf_counter() - imported)
"""
TORCH = """
import time; begin = time.perf_counter()
import torch
from torch import nn
from fedsel.torch import FederatedTrainer
imported = time.perf_counter()
X, y = torch.randn(2_000, 8), torch.randint(0, 2, (2_000,))
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
class First(Exception): pass
def stop(_):
    raise First
try:
    FederatedTrainer(net, epsilon=4.0).fit(X, y, advance=stop)
except First:
    print(imported - begin, time.perf_counter() - imported)
"""
DEVICE = """
import time; begin = time.perf_counter()
import numpy as np
from fedsel import Aggregator, Client, Policy, Recipe
imported = time.perf_counter()
recipe = Recipe(epsilon=1.0, dim=100, rho=0.4, learning_rate=1.0, averaging=0.0)
server = Aggregator(recipe, "server")
policy = Policy(lifetime=2.0, per_report=1.0, solutions=["FJ"], dimensions=[100])
device = Client(policy, "device", create=True)
server.receive("it", device.answer(server.request(), server.weights, lambda w: np.ones(100)))
server.step()
print(imported - begin, time.perf_counter() - imported)
"""
PROGRAMS = {"device": ("", DEVICE), "sklearn": ("sklearn", SKLEARN), "torch": ("torch", TORCH)}
COMMANDS = {"run": ("demo", ["run", "--out", "results"], "±")}
"""The extra, the words of the command, and what its first result has."""


@dataclass(frozen=True)
class Start:
    """Megabytes and seconds of one purpose: installing, importing, and up to the first result."""

    purpose: str
    megabytes: float
    install: float
    imports: float
    first_result: float


def build(folder: Path) -> Path:
    """The wheel of this checkout."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def install(folder: Path, wheel: Path, extra: str) -> tuple[Path, float, float]:
    """A new environment: its Python, its size and the seconds that pip took."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    begin = time.perf_counter()
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    # The one build of torch that the tests know: the newest may bring gigabytes for accelerators.
    more = ["torch==2.13.0"] if extra == "torch" else []
    subprocess.run([*pip, f"{wheel}[{extra}]" if extra else str(wheel), *more], check=True)
    seconds = time.perf_counter() - begin
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink())
    return python, size / 2**20, seconds


def measured(purpose: str, folder: Path, wheel: Path) -> Start:
    """Install and start one purpose."""
    extra = (PROGRAMS.get(purpose) or COMMANDS[purpose])[0]
    python, megabytes, seconds = install(folder / purpose, wheel, extra)
    work = folder / f"{purpose}-work"
    work.mkdir()
    environment = {**os.environ, "FEDSEL_CACHE": str(work / "cache"), "PYTHONPATH": ""}
    if purpose in PROGRAMS:
        done = subprocess.run(
            [str(python), "-c", PROGRAMS[purpose][1]],
            env=environment,
            cwd=work,
            check=True,
            capture_output=True,
            text=True,
        )
        imports, first = map(float, done.stdout.split()[-2:])
        return Start(purpose, megabytes, seconds, imports, first)
    return Start(purpose, megabytes, seconds, *_first_row(python, purpose, environment, work))


def _first_row(
    python: Path, purpose: str, environment: dict[str, str], work: Path
) -> tuple[float, float]:
    """Seconds of a command that does nothing, and from there to the first result."""
    begin = time.perf_counter()
    subprocess.run(
        [str(python), "-m", "fedsel", "--version"], env=environment, check=True, capture_output=True
    )
    imports = time.perf_counter() - begin
    _, words, mark = COMMANDS[purpose]
    begin = time.perf_counter()
    with subprocess.Popen(
        [str(python), "-m", "fedsel", *words],
        env={**environment, "PYTHONUNBUFFERED": "1"},
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        if not any(mark in line for line in process.stdout or ()):
            raise SystemExit(f"fedsel {' '.join(words)} ended without a result")
        took = time.perf_counter() - begin
        process.kill()
    return imports, max(0.0, took - imports)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = [*PROGRAMS, *COMMANDS]
    parser.add_argument("--only", nargs="+", choices=known, default=known)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        if not options.json:
            print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MB")
            print(f"{'':10}{'environment':>14}{'install':>10}{'imports':>10}{'first result':>15}")
        for purpose in options.only:
            start = measured(purpose, Path(folder), wheel)
            if options.json:
                print(json.dumps(asdict(start)), flush=True)
                continue
            print(
                f"{start.purpose:10}{start.megabytes:11.0f} MB{start.install:8.1f} s"
                f"{start.imports:8.2f} s{start.first_result:13.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
