"""Attacks on what docs/relay.md claims of a relay, each with counts; every "broken" must be 0.

- altered: a relay changes, mixes, withholds or ages what it passes on, and a device with a ledger
  takes part. Broken: a device that has spent ε; or one at an honest relay, that has not.
- sealed: messages are damaged, moved to other rounds, runs and keys, or put together from two.
  Broken: one that opens to a report.
- n_min: clients repeat their own messages and those of others. Broken: a round that is released
  with fewer than n_min different messages, or held back with enough.
- order: the same messages come in another order, from other clients. Broken: other bytes go to the
  service.
- two relays: both have a token for one run, and give the service the same round, parts of it,
  parts twice, wrong counts. Broken: a report that counts twice, a round that is over too early.
- strangers: what is no request of a device, with and without an invitation. Broken: an answer that
  is no word of the interface, or a token, an address or a path in the logs.

Example: python benchmarks/relay_attack.py --scale 0.1
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import logging
import random
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsel import Reports
from fedsel._internal.progress import Bar
from fedsel.device import Client, Policy, join
from fedsel.server import ServerKey
from fedsel.server._keys import SigningKey
from fedsel.service import Task
from fedsel.service._http import PROBLEMS
from fedsel.service._judging import IncomingReport, tallied
from fedsel.service._monitoring import JSONLines
from fedsel.service._snapshot import CachedBytes
from fedsel.service._store import open_store
from fedsel.service._training import opened
from fedsel.service.inviting import invitations_of, relay_settings
from fedsel.service.relay import RelayConfig
from fedsel.service.relay._run import RelayedRun
from fedsel.service.relay._state import Passed, Terms
from fedsel.service.running import Serving, background
from fedsel.wire import CloseRule, Request, Sealing, SignedRound, Verdict
from fedsel.wire._contract import Shuffled, ShuffleRule

FREE = {"per_client": 1e9, "per_address": 1e9}
DIM, N_MIN = 8, 4
PARTS = ("task", "request", "weights", "preparing", "signature")


def task(name: str = "target", **more: Any) -> Task:
    values = {
        "name": name, "epsilon": 4.0, "dim": DIM, "clients": 40, "rounds_per_epoch": 4,
        "close_after": {"reports": N_MIN}, "shuffle": {"n_min": N_MIN}, "limits": FREE,
    }  # fmt: skip
    return Task.of({**values, **more})


@contextmanager
def service_and_relay(folder: Path, name: str = "target") -> Iterator[tuple[str, str, RelayConfig]]:
    """Addresses of a service and of its relay, and the relay's settings."""
    chosen = task(name)
    with background(chosen, Serving(str(folder / "service"), port=0)) as service:
        settings = tomllib.loads(relay_settings(chosen, folder / "service", service))
        config = RelayConfig.of({**settings, "limits": FREE})
        with background(config, Serving(str(folder / "relay"), port=0)) as relay:
            while ask(relay, "/readyz")[0] != 200:
                time.sleep(0.01)
            yield service, relay, config


def ask(
    url: str, path: str, body: bytes | None = None, method: str | None = None, **headers: str
) -> tuple[int, bytes]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        verb = method or ("GET" if body is None else "POST")
        connection.request(verb, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def rows_of(request: Request, count: int, rng: np.random.Generator) -> list[bytes]:
    form = request.format
    return [
        form.encode(
            request.round,
            Reports(
                rng.choice(form.slots, form.picks, replace=False).tolist(),
                rng.integers(0, form.symbols, form.picks).tolist(),
            ),
        )
        for _ in range(count)
    ]


# --- altered: a relay between device and relay ----------------------------------------------------


class Altering:
    """In front of a relay; ``changed`` has other answers, by the last part of their path."""

    def __init__(self, relay: str) -> None:
        self.changed: dict[str, tuple[int, bytes]] = {}
        self.reports = 0
        front = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
                front.reports += body is not None
                known = {k: v for k, v in self.headers.items() if k in ("Authorization",)}
                kind = {} if body is None else {"Content-Type": "application/octet-stream"}
                status, data = ask(relay, self.path, body, **known, **kind)
                if body is None and status == 200:
                    part = self.path.rpartition("/")[2]
                    status, data = front.changed.get(part, (status, data))
                self.send_response_only(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                with suppress(ConnectionError):  # a device that gives up does not wait
                    self.wfile.write(data)

            do_POST = do_GET  # noqa: N815 - their names in the library

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def altered(count: int, seed: int, bar: Bar) -> Counter[str]:
    rng, seen = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            service_and_relay(folder / "a") as (_, relay, config),
            service_and_relay(folder / "b", "other") as (_, elsewhere, _),
        ):
            evil, own = Ed25519PrivateKey.generate(), ServerKey.generate()
            true = signing_key_of(folder / "a" / "service")
            other = {part: ask(elsewhere, place_of(part))[1] for part in PARTS}
            mine = {part: ask(relay, place_of(part))[1] for part in PARTS}
            front = Altering(relay)
            tokens = invitations_of(config, folder / "a" / "relay")
            for i in range(count + 1):
                kind = KINDS[i % len(KINDS)] if i < count else "unaltered"
                front.changed, front.reports = {}, 0
                if i < count:
                    front.changed = changed(kind, mine, other, own, evil, true, rng)
                policy = Policy(
                    lifetime=4.0, per_report=4.0, solutions=["FJ"], dimensions=[DIM],
                    server_key=config.server_key, signing_key=config.signing_key,
                )  # fmt: skip
                client = Client(policy, folder / f"ledger-{i}", create=True)
                outcome = join(
                    front.url, client, lambda _: np.ones(DIM), token=tokens.invite("device"),
                    every=0.001, patience=0.5,
                )  # fmt: skip
                seen[f"{kind}: {outcome.ending.name.lower()}"] += 1
                spent = client.history().spent > 0
                seen["broken"] += spent == (i < count) or (front.reports > 0) == (i < count)
                seen["tried"] += i < count
                bar.update(completed=i)
            front.close()
    return seen


def place_of(part: str) -> str:
    return "/v1/task" if part == "task" else f"/v1/rounds/open/{part}"


KINDS = ("flipped", "cut", "longer", "swapped", "withheld", "aged", "own key", "own keys")


def changed(
    kind: str, mine: dict[str, bytes], other: dict[str, bytes], own: ServerKey,
    evil: Ed25519PrivateKey, true: SigningKey, rng: random.Random,
) -> dict[str, tuple[int, bytes]]:  # fmt: skip
    """What a relay gives in the place of some parts, by part."""
    part = rng.choice(PARTS)
    data, signs = mine[part], {name: mine[name] for name in PARTS[:4]}
    parts: dict[str, bytes] = {}
    if kind == "withheld":
        answers = ((404, b""), (410, b"{}"), (503, b""), (200, b""), (500, b"<html>"))
        return {rng.choice(PARTS[2:]): rng.choice(answers)}
    if kind == "flipped":
        at = rng.randrange(len(data))
        parts[part] = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    elif kind == "cut":
        parts[part] = data[: rng.randrange(len(data))]
    elif kind == "longer":
        parts[part] = data + rng.randbytes(rng.randrange(1, 9))
    elif kind == "swapped":
        differ = [name for name in PARTS if other[name] != mine[name]]  # both begin with zeros
        parts = {name: other[name] for name in rng.sample(differ, rng.randrange(1, len(differ)))}
    elif kind == "aged":  # the service's own word, of another time
        age = rng.choice((-1, 1)) * rng.randrange(3700, 10**6)
        parts["signature"] = true.sign(int(time.time()) - age, **signs)
    else:  # the key of the task is the relay's own, perhaps both are, and it signs
        task = signs["task"].replace(own_key(signs["task"], "server_key"), own.public.encode())
        if kind == "own keys":
            signing = evil.public_key().public_bytes_raw().hex().encode()
            task = task.replace(own_key(task, "signing_key"), signing)
        signs["task"] = parts["task"] = task
        parts["signature"] = SignedRound.sign(evil, int(time.time()), **signs)
    return {name: (200, new) for name, new in parts.items()}


def signing_key_of(folder: Path) -> SigningKey:
    """The key with which the service signs."""
    store = open_store(folder, alone=False)
    store.choose("target")
    run = opened(task(), store).run
    key = SigningKey.of_secret(store.secret, run)
    store.close()
    return key


def own_key(text: bytes, name: str) -> bytes:
    key: str = json.loads(text)["shuffle"][name]
    return key.encode()


# --- the relay's own run, without a network -------------------------------------------------------


def sealed(count: int, seed: int, bar: Bar) -> Counter[str]:
    rng, numbers, seen = random.Random(seed), np.random.default_rng(seed), Counter[str]()
    begun, key, wrong = task().begin, ServerKey.generate(), ServerKey.generate()
    asked = [state.request().encode() for state in (begun, task("other").begin)]
    sealings = [Sealing(request, key.public) for request in asked]
    size = Request.decode(asked[0]).format.size
    rows = rows_of(Request.decode(asked[0]), 200, numbers)
    contents = [sealings[0].seal(row)[33:] for row in rows]
    foreign = [Sealing(asked[0], wrong.public).seal(row)[33:] for row in rows]
    moved = [sealings[1].seal(row)[33:] for row in rows]
    known = set(contents)
    for i in range(count):
        one, two = rng.sample(contents, 2)
        match i % 5:
            case 0:
                at = rng.randrange(len(one))
                new = one[:at] + bytes([one[at] ^ (1 << rng.randrange(8))]) + one[at + 1 :]
            case 1:
                at = rng.randrange(1, len(one))
                new = one[:at] + two[at:]
            case 2:
                new = rng.choice(foreign)
            case 3:
                new = rng.choice(moved)
            case _:
                new = rng.randbytes(len(one))
        opened, _ = key.opened(asked[0], new)
        seen["tried"] += 1
        seen["broken"] += new not in known and opened != bytes(size)
        if i % 100 == 0:
            bar.update(completed=i)
    return seen


def relay_run(folder: Path, n_min: int) -> RelayedRun:
    """A relay's run with round 0 open, due with n_min messages."""
    config = RelayConfig.of(
        {
            "name": "a", "service": "http://127.0.0.1:9", "run": "ab" * 16, "token": "a.b.c",
            "server_key": "0a" * 32, "signing_key": "0b" * 32,
        }
    )  # fmt: skip
    run = RelayedRun(config, open_store(folder), time.time)
    open_round(run, 0, n_min)
    return run


def open_round(run: RelayedRun, number: int, n_min: int) -> None:
    shuffle = Shuffled(ShuffleRule(n_min), 0.5, "0a" * 32, "0b" * 32)
    terms = Terms("", "", 1 << 30, CloseRule(reports=n_min), shuffle, 64, 4.0)
    tag = number.to_bytes(32, "big")
    run.open(Passed(number, terms, tag, CachedBytes(b""), None, CachedBytes(b"")))
    run.read()


def send(run: RelayedRun, *messages: tuple[bytes, bytes]) -> list[Any]:
    reports = [IncomingReport(run.snapshot.turn, *message) for message in messages]
    with run.store.writing() as transaction:
        verdicts = run.judged(transaction, reports)
        transaction.tally(tallied(verdicts, 0))
    return verdicts


def n_min(count: int, seed: int, bar: Bar) -> Counter[str]:
    rng, seen = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        run = relay_run(Path(name), 5)
        for number in range(count):
            heard: list[bytes] = []
            first: dict[bytes, bytes] = {}  # what each client has sent first
            while run.snapshot.turn == 2 * number + 1:
                group = []
                for _ in range(rng.randrange(1, 4)):
                    client = rng.randbytes(1)[:1] + b"c"
                    replay = heard and rng.random() < 0.5
                    content = rng.choice(heard) if replay else rng.randbytes(64)
                    group.append((client, content))
                    heard.append(content)
                for (client, content), verdict in zip(group, send(run, *group), strict=True):
                    expected = Verdict.DUPLICATE if client in first else Verdict.ACCEPTED
                    seen["broken"] += verdict is not expected
                    first.setdefault(client, content)
                    seen["messages"] += 1
                if run.due(run.store.status()):
                    run.close()
                    run.read()
                released = run.snapshot.turn != 2 * number + 1
                seen["broken"] += released != (len(set(first.values())) >= 5)
            kept = b"".join(run.store.sorted_reports(2 * number + 1, 2))
            seen["broken"] += kept != b"".join(sorted(set(first.values())))
            seen["tried"] += 1
            open_round(run, number + 1, 5)
            seen["broken"] += b"".join(run.store.sorted_reports(2 * number + 1, 2)) != b""
            if number % 10 == 0:
                bar.update(completed=number)
        run.store.close()
    return seen


def order(count: int, seed: int, bar: Bar) -> Counter[str]:
    rng, seen = random.Random(seed), Counter[str]()
    contents = [rng.randbytes(64) for _ in range(40)]
    delivered = set()
    with tempfile.TemporaryDirectory() as name:
        run = relay_run(Path(name), len(contents))
        for number in range(count):
            rng.shuffle(contents)
            clients = [rng.randbytes(16) for _ in contents]
            pairs = list(zip(clients, contents, strict=True))
            while pairs:
                size = rng.randrange(1, 12)
                send(run, *pairs[:size])
                del pairs[:size]
            run.close()
            run.read()
            delivered.add(tuple(run.store.sorted_reports(2 * number + 1, 7)))
            seen["tried"] += 1
            open_round(run, number + 1, len(contents))
            bar.update(completed=number)
        run.store.close()
    seen["broken"] = len(delivered) - 1
    return seen


# --- two relays, and strangers, at real services --------------------------------------------------


def two_relays(count: int, seed: int, bar: Bar) -> Counter[str]:
    rng, numbers, seen = random.Random(seed), np.random.default_rng(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = task(rounds_per_epoch=10, epochs=1)
        with background(chosen, Serving(str(folder / "s"), port=0)) as service:
            own = invitations_of(chosen, folder / "s")
            key = json.loads(ask(service, "/v1/task")[1])["shuffle"]["server_key"]
            for number in range(10):
                request = ask(service, "/v1/rounds/open/request")[1]
                sealing = Sealing(request, key)
                rows = rows_of(Request.decode(request), 6, numbers)
                sealed = sorted(sealing.seal(row)[33:] for row in rows)
                parts = {i: b"".join(sealed[3 * i : 3 * i + 3]) for i in range(2)}
                wrong = {i: parts[1 - i] for i in parts}
                taken: dict[int, bytes] = {}
                over = False
                for _ in range(count // 10):
                    token, part = own.invite("relay"), rng.randrange(2)
                    headers = {
                        "Authorization": f"Bearer {token}",
                        "Content_Type": "application/octet-stream",
                    }
                    seen["tried"] += 1
                    if rng.random() < 0.6:
                        data = (parts if rng.random() < 0.7 else wrong)[part]
                        status, _ = ask(
                            service, f"/v1/rounds/{number}/shuffled/{part}", data, **headers
                        )
                        if over and part not in taken:
                            expected = 410
                        elif taken.setdefault(part, data) == data:
                            expected = 200
                        else:
                            expected = 409
                    else:
                        said = rng.choice((0, 3, 5, 6, 7, 12))
                        status, _ = ask(
                            service, f"/v1/rounds/{number}/released/{said}", b"", **headers
                        )
                        right = said == 3 * len(taken) and said >= N_MIN
                        expected = 200 if right else 409
                        over = over or right
                    seen["broken"] += status != expected
                    seen[f"status {status}"] += 1
                while not over:  # whatever came of it, the round can be ended
                    for i, data in parts.items():
                        taken.setdefault(i, data)
                        ask(service, f"/v1/rounds/{number}/shuffled/{i}", taken[i], **headers)
                    over = ask(service, f"/v1/rounds/{number}/released/6", b"", **headers)[0] == 200
                rounds = json.loads(ask(service, "/v1/rounds")[1])["rounds"]
                seen["broken"] += rounds[number]["accepted"] != 6 or len(rounds) != number + 1
                bar.update(completed=(number + 1) * (count // 10))
    return seen


def strangers(count: int, seed: int, bar: Bar) -> Counter[str]:
    rng, seen = random.Random(seed), Counter[str]()
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setFormatter(JSONLines())
    logger = logging.getLogger("fedsel.service")
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel("DEBUG")
    paths = (
        "/v1/reports", "/v1/rounds/open/request", "/v1/rounds/0/weights", "/v1/invitation",
        "/v1/rounds/0/shuffled/0", "/v1/rounds/0/released/9", "/v1/batches/a", "/v1/model.json",
        "/v1/rounds/%00/x", "/v1/rounds/99999999999/weights", "/../etc", "/v1/task?x=%ff", "/join",
        "/", "/v1/events-", "/metrics", "/readyz", "/runs/target/v1/task", "/runs/x/",
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as name,
        service_and_relay(Path(name)) as (service, relay, config),
    ):
        tokens = [
            invitations_of(config, Path(name) / "relay").invite("device"),
            config.token,
            "made.up.token",
            "x" * 3000,
        ]
        words = {*PROBLEMS}
        for i in range(count):
            url, method = rng.choice((service, relay)), rng.choice(("GET", "POST", "PUT", "DELETE"))
            body = rng.randbytes(rng.choice((0, 1, 33, 97, 98, 4096))) if method != "GET" else None
            headers = {"Content_Type": rng.choice(("application/octet-stream", "text/plain"))}
            if rng.random() < 0.7:
                headers["Authorization"] = f"Bearer {rng.choice(tokens)}"
            status, answer = ask(url, rng.choice(paths), body, method, **headers)
            seen["tried"] += 1
            seen[f"status {status}"] += 1
            if status >= 400:
                try:
                    word = json.loads(answer)["error"]
                except (ValueError, KeyError):
                    word = None
                seen["broken"] += word not in words or status == 500
            if i % 50 == 0:
                bar.update(completed=i)
        text = log.getvalue()
        seen["lines of logs"] = text.count("\n")
        secrets = [*(token for token in tokens[:2]), "127.0.0.1", str(name)]
        seen["broken"] += sum(secret in text for secret in secrets)
    logger.handlers, logger.level, logger.propagate = before
    return seen


ATTACKS: dict[str, tuple[Callable[[int, int, Bar], Counter[str]], int]] = {
    "altered": (altered, 1600),
    "sealed": (sealed, 50_000),
    "n_min": (n_min, 1000),
    "order": (order, 300),
    "two relays": (two_relays, 2000),
    "strangers": (strangers, 10_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the tries")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=ATTACKS, action="append")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {}
    for name, (attack, most) in ATTACKS.items():
        if asked.only and name not in asked.only:
            continue
        count = max(20, round(most * asked.scale))
        with Bar(count, name) as bar:
            seen = attack(count, asked.seed, bar)
        found[name] = dict(seen)
        if not asked.json:
            told = ", ".join(f"{what} {times:,}" for what, times in sorted(seen.items()))
            print(f"{name}: broken {seen['broken']} ({told})")
    if asked.json:
        print(json.dumps(found))
    if any(seen.get("broken") for seen in found.values()):
        sys.exit("a claim is broken")


if __name__ == "__main__":
    main()
