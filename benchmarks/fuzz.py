"""Fuzz what a device reads from a server, and what a server reads from a device.

An input is tried as a request (`Request.decode`, and `Client.answer` of a device whose budget is
used up), as a report (`ReportFormat.decode`, `decode_many`) and as a load of reports
(`Aggregator.receive`, `receive_many`). Nothing may raise, nothing malformed may be accepted (what
is accepted encodes to the same bytes), and memory must not grow. Inputs come from atheris (guided
by coverage) where it is installed, else from random bytes and mutations of good messages.

Example: python benchmarks/fuzz.py --inputs 1000000   ·   python benchmarks/fuzz.py --engine atheris
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedsel import Recipe, Reports
from fedsel.device import Client, Policy, Refused
from fedsel.errors import check_count, check_epsilon, check_finite
from fedsel.server import Aggregator
from fedsel.wire import Intent, InvalidMessage, ReportFormat, Request, decode_recipe
from fedsel.wire._request import MOST_REQUEST_BYTES, _decoded, check_text

GUIDED = importlib.util.find_spec("atheris") is not None and "random" not in sys.argv
RUN = bytes(range(16))
GROWTH_MB = 64
UNSEEN = [c.encode() for c in ("\u200b", "\u202e", "\ufeff", "\x1b[1", "\u0301e", "  \n", "\u3164")]
"""Three bytes each, or near it, of what no purpose may have."""
INTENTS = (
    Intent("Better suggestions", "Example Ltd"),
    Intent("Tastaturvorschläge verbessern"),
    Intent("", "Example Ltd"),
    Intent("", "大学医院"),
    Intent("x" * 200, "é" * 50),
)
"""What servers may state: texts of one to three bytes a letter, and the longest."""
DECIDED = {"mu": 0.1, "learning_rate": 1.0, "averaging": 0.0}


class Target:
    """The parsers, and what must hold for any input."""

    def __init__(self, folder: Path) -> None:
        recipes = [
            Recipe("PS-PM", epsilon=2.0, dim=100, epochs=5, **DECIDED),
            Recipe("PE-Duchi", epsilon=2.0, dim=4, k=1, **DECIDED),
            Recipe("PM", epsilon=10.0, dim=30, k=0.5, **DECIDED),
            Recipe(epsilon=2.0, dim=30, rho=0.4, **DECIDED),
        ]
        rotated = Recipe("RJ", epsilon=2.0, dim=30, rho=0.4, bases=3, **DECIDED)
        plain = [Request(RUN, 0, 3, recipe).encode() for recipe in (*recipes, rotated)]
        stated = [
            Request(RUN, 0, 3, recipe, intent).encode()
            for recipe, intent in zip((*recipes, rotated), INTENTS, strict=True)
        ]
        self.requests = [*plain, *stated]
        self.formats = [Request.decode(r).format for r in plain[: len(recipes)]]
        self.servers = [Aggregator(recipe, folder / str(i)) for i, recipe in enumerate(recipes)]
        policy = Policy(1e-9, 500, ["PS-PM", "PE-Duchi", "PM", "FJ", "RJ"], [100, 4, 30], clip=10.0)
        self.client = Client(policy, folder / "device", create=True)
        self.weights = np.zeros(100)
        last = Recipe("PS-PM", epsilon=1e-9, dim=100, **DECIDED)
        request = Request(bytes(16), 0, 0, last).encode()
        self.client.answer(request, self.weights, self.weights)
        self.inputs = self.accepted_requests = self.accepted_reports = 0

    def seeds(self) -> list[bytes]:
        """Good messages to begin with."""
        formats = [*self.formats, *(server._format for server in self.servers)]
        reports = [f.encode(0, Reports(range(f.picks), [1] * f.picks)) for f in formats]
        nothing = self.formats[1].encode(0, Reports([-1], [0]))
        return [*self.requests, *reports, nothing, reports[len(self.formats)] * 3]

    def try_request(self, data: bytes) -> None:
        """What is a request is its own encoding, and says nothing that cannot be seen."""
        try:
            request = Request.decode(data)
        except InvalidMessage:
            return
        self.accepted_requests += 1
        if request.encode() != data:
            raise AssertionError("a request that is not its own encoding")
        if not all(text.isprintable() for text in vars(request.intent).values()):
            raise AssertionError("a text that cannot be seen")

    def try_one(self, data: bytes) -> None:
        """Everything that may happen to one input."""
        self.inputs += 1
        self.try_request(data)
        try:
            self.client.answer(data, self.weights, self.weights)
        except Refused:
            pass
        else:
            raise AssertionError("a device without budget has answered")
        for form in self.formats:
            decoded = form.decode(data)
            if len(data) == form.size:
                many = form.decode_many(data)
                alike = (int(many.round[0]), many.reports.rows(0)) if many.valid[0] else None
                if alike != decoded:
                    raise AssertionError("one and many disagree")
            if decoded:
                self.accepted_reports += 1
                if form.encode(*decoded) != data:
                    raise AssertionError("a report that is not its own encoding")
        for server in self.servers:
            before = sum(server.counts)
            server.receive(None, data)
            server.receive_many(data)
            size = server._format.size
            if sum(server.counts) - before != 1 + -(-len(data) // size):
                raise AssertionError("a report was not counted, or twice")


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """Random bytes, or a good message with some of it changed, cut or doubled."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.choice((0, 1, 16, 40, 138, 300, 456)))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        place, kind = rng.randrange(len(data) + 1), rng.random()
        if kind < 0.5 and place < len(data):
            data[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind < 0.7 and place + 8 <= len(data):
            value = rng.choice((0.0, -0.0, 1.0, 1e308, 5e-324, float("nan"), float("inf"), -1.0))
            data[place : place + 8] = struct.pack("<d", value)
        elif kind < 0.76:
            data[place : place + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\0\0\0\1"))
        elif kind < 0.8:
            data[place : place + 3] = rng.choice(UNSEEN)
        elif kind < 0.9:
            del data[place : place + rng.randrange(1, 9)]
        else:
            data[place:place] = rng.randbytes(rng.randrange(1, 9))
    return bytes(data)


def peak_megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Fuzz and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["auto", "atheris", "random"], default="auto")
    options = parser.parse_args()
    if options.engine == "atheris" and not GUIDED:
        parser.error("atheris is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = Target(folder)
        start = time.perf_counter()
        for seed in target.seeds():
            target.try_one(seed)
        memory = peak_megabytes()

        def summary() -> None:
            growth = peak_megabytes() - memory
            print(
                f"{target.inputs:,} inputs in {time.perf_counter() - start:.0f} s with "
                f"{'atheris' if GUIDED else 'random mutations'}: nothing raised; accepted, each "
                f"its own encoding: {target.accepted_requests:,} requests and "
                f"{target.accepted_reports:,} reports; memory grew by {growth:.0f} MB",
                flush=True,
            )
            if not GUIDED and growth > GROWTH_MB:
                raise SystemExit("memory grew")

        if not GUIDED:
            rng = random.Random(options.seed)
            seeds = target.seeds()
            for _ in range(options.inputs):
                target.try_one(mutated(rng, seeds))
            summary()
            return
        import atheris

        # The parsers alone: atheris keeps what it has compared, so arrays would fill the memory.
        for parser_part in (
            *(Request.decode.__func__, _decoded, Request.__post_init__, decode_recipe),
            *(Recipe.__post_init__, ReportFormat.decode, Policy.objection),
            *(Intent.read.__func__, Intent.__post_init__, check_text),
            *(check_count, check_epsilon, check_finite),
        ):
            atheris.instrument_func(parser_part)
        corpus = folder / "corpus"
        corpus.mkdir()
        for i, seed in enumerate(target.seeds()):
            (corpus / str(i)).write_bytes(seed)

        def one_input(data: bytes) -> None:
            target.try_one(data)
            if target.inputs == options.inputs:  # atheris ends the process by itself, unheard
                summary()

        limits = [
            f"-runs={options.inputs}",
            f"-max_len={MOST_REQUEST_BYTES + 8}",
            f"-seed={options.seed + 1}",
        ]
        limits.append(f"-artifact_prefix={tempfile.gettempdir()}/")
        atheris.Setup([sys.argv[0], *limits, "-verbosity=0", str(corpus)], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
