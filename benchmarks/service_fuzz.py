"""Fuzz the service: its OpenAPI document by schemathesis, and a million bodies of no good.

- schemathesis (``pip install schemathesis``; left out without it) sends what the document allows
  and what it forbids to a real service. That the document's bytes need not be a report is known:
  the check "positive_data_acceptance" is left out.
- Bodies: noise, reports with flipped bits, cut, doubled or of other runs and rounds, one by one and
  in batches, to the application itself. An answer is never 5xx, and a report is accepted if and
  only if the slow, readable twin of its decoder (`ReportFormat.decode`) takes it, in its round.

Example: python benchmarks/service_fuzz.py --bodies 100000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel import Reports
from fedsel.service.app import create_app
from fedsel.service.inviting import invitations_of
from fedsel.wire import ReportFormat
from tests.service.support import FREE, ServiceProcess, task_of

OCTETS = b"application/octet-stream"


def corrupted(good: bytes, rng: random.Random) -> bytes:
    """Something like a report, or not at all."""
    way = rng.randrange(8)
    if way == 0:
        return rng.randbytes(rng.randrange(64))
    if way == 1:
        return good[: rng.randrange(len(good))]
    if way == 2:
        return good + rng.randbytes(rng.randrange(1, 20))
    changed = bytearray(good)
    for _ in range(1 << rng.randrange(5)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


class Asked:
    """The application, called as a server calls it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def ask(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        told: dict[str, Any] = {"body": b""}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
            else:
                told["body"] += message["body"]

        headers = [
            (b"authorization", b"Bearer " + token.encode()),
            (b"content-type", OCTETS),
            (b"content-length", str(len(body)).encode()),
        ]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
            "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        await self._app(scope, receive, send)
        return told["status"], json.loads(told["body"])


async def bodies(count: int, folder: str) -> Counter[str]:
    """Send bodies; what became of them."""
    task = task_of(invitations="open", close_after={"reports": 10**9}, limits=FREE)
    app = create_app(task, f"{folder}/store")
    inner = app._app.root
    async with inner.router.lifespan_context(inner):
        (service,) = inner.state.services.values()
        snapshot = service.snapshot
        form: ReportFormat = snapshot.form
        gateway = invitations_of(task, f"{folder}/store").invite("gateway")
        asked, rng, seen = Asked(app), random.Random(0), Counter[str]()

        def good() -> bytes:
            slots = rng.sample(range(form.slots), form.picks)
            symbols = [rng.randrange(form.symbols) for _ in range(form.picks)]
            return form.encode(rng.choice([0, 0, 0, 1, 3]), Reports(slots, symbols))

        async def one() -> None:
            body = good() if rng.random() < 0.05 else corrupted(good(), rng)
            status, answer = await asked.ask("POST", "/v1/reports", secrets.token_hex(8), body)
            read = form.decode(body)
            expected = 400 if read is None else 200 if read[0] == 0 else 409
            if status != expected:
                raise SystemExit(f"{status} {answer}, not {expected}, for {body.hex()}")
            seen[answer.get("outcome", answer.get("error"))] += 1

        async def batch(number: int) -> None:
            rows = [good() if rng.random() < 0.5 else corrupted(good(), rng) for _ in range(20)]
            if rng.random() < 0.9:  # else most are no whole number of reports
                rows = [row.ljust(form.size, b"\0")[: form.size] for row in rows]
            body = b"".join(rows)
            status, answer = await asked.ask("PUT", f"/v1/batches/{number}", gateway, body)
            size = form.size
            whole = [form.decode(body[i : i + size]) for i in range(0, len(body), size)]
            taken = sum(read is not None and read[0] == 0 for read in whole)
            right = status == 400 if len(body) % size else answer.get("accepted") == taken
            if not right:
                raise SystemExit(f"{status} {answer}, not {taken} accepted, for {body.hex()}")
            seen[f"batches {answer.get('outcome', answer.get('error'))}"] += 1

        at_once = 200
        for start in range(0, count, at_once):
            await asyncio.gather(*(one() for _ in range(at_once - 4)))
            await asyncio.gather(*(batch(start + i) for i in range(4)))
            if start % 100_000 == 0:
                print(f"{start:,} of {count:,}", file=sys.stderr)
        kept = service.collector
        await asyncio.sleep(0.5)
        seen["in the database"] = kept.counts.accepted
    return seen


def by_document() -> None:
    """Let schemathesis look for a way to break it."""
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    if program is None:
        print("schemathesis is not installed: left out")
        return
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "fuzz.toml"
        file.write_text(
            'name = "test"\nepsilon = 4\ndim = 16\nclients = 40000\n'
            "close_after = { reports = 1000000 }\n"
            "[limits]\nper_client = 1e9\nper_address = 1e9\n"
        )
        with ServiceProcess(file, f"{name}/store") as service:
            for kind in ("device", "gateway"):
                from fedsel.service import Task

                token = invitations_of(Task.load(file), f"{name}/store").invite(kind)  # type: ignore[arg-type]
                done = subprocess.run(
                    [
                        program, "run", f"{service.address}/v1/openapi.json", "--no-color",
                        "-H", f"Authorization: Bearer {token}",
                        "--exclude-checks", "positive_data_acceptance",
                        "--exclude-path", "/v1/events",  # has no end
                    ],
                    capture_output=True, text=True, check=False, cwd=name,
                )  # fmt: skip
                cases = [line for line in done.stdout.splitlines() if " generated, " in line]
                print(f"schemathesis as a {kind}: {cases[-1].strip()}")
                if done.returncode:
                    raise SystemExit(done.stdout)


def main() -> None:
    """Fuzz and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bodies", type=int, default=1_000_000)
    options = parser.parse_args()
    by_document()
    with tempfile.TemporaryDirectory() as folder:
        for word, count in asyncio.run(bodies(options.bodies, folder)).most_common():
            print(f"{word:<24}{count:>12,}")


if __name__ == "__main__":
    main()
