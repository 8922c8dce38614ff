"""Random tasks, answered by Python and by another client on the same words: same bytes?

The other client is the one in JavaScript, or that in C, which has neither RC nor …-RP.

A task is a recipe of any private solution, an update with ties, zeros, infinities and subnormal
numbers, a residual, a round and 64-bit words, some of them on the edge. What must agree is the
charge, the report's bytes, the residual that is kept, and how many words were used; or that the
parameters do not go together. An update of BR may be an integer. Beside them go requests with
damaged bytes and texts of odd characters, on which both must agree, too.

A history is a device with windows, a menu and a clock of its own: requests at random times,
questions in several epochs, clocks that are confirmed, policies that change. What must agree is
each decision, and what the ledger says in the end: limits, confirmations, what is left and what is
renewed when.

Examples: python benchmarks/differential.py --count 100000
          python benchmarks/differential.py --solutions FJ RJ BR
          python benchmarks/differential.py --count 0 --histories 2000
          python benchmarks/differential.py --client c --count 100000 --histories 0
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.c_client import Runner, answered, compiled
from fedsel._internal.random import Stream
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.device import Client, LedgerError, Policy, Refused
from fedsel.device._client import saturated
from fedsel.errors import InvalidArgument
from fedsel.mechanisms._selection import Share
from fedsel.recipe import Recipe
from fedsel.solutions import entry, names
from fedsel.solutions._transforms import RandomDirections
from fedsel.wire import Intent, InvalidMessage, Request, UnknownVersion, check_sendable
from fedsel.wire._request import check_text

CLIENT = Path(__file__).parents[1] / "clients" / "js" / "test" / "differential.mjs"
TASKS_A_RECIPE = 20
_MASK = (1 << 64) - 1
_EDGES = (0, 1, _MASK, 1 << 63, _MASK - 1, (1 << 63) - 1, 1 << 32, 0xFFFFFFFF)
_LARGEST = 3.4028234663852886e38
_ODD = (
    " \u00a0\u00ad\u0301\u0308aAz0é\u212b\u200b\u0378\U0001f600\u0344\U0001d4b3~\u2800\ud55c"
    "\u1112\u1161\ufb1d\u0958"
)


def words(seed):
    """SplitMix64, with a word on the edge now and then."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & _MASK
        word = seed
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
        word ^= word >> 31
        yield _EDGES[(word >> 32) % 8] if word % 29 == 0 else word


def private_names():
    recipes = ((n, Recipe(n, epsilon=1.0, dim=2, k=1, mu=0.1, rho=None)) for n in names())
    return [name for name, recipe in recipes if recipe.private]


def random_recipe(rng, known):
    """A recipe; an InvalidArgument where its parameters are none."""
    solution = rng.choice(known)
    if entry(solution).answers:
        return _random_question(rng, solution)
    dim = rng.choice([1, 2, 3, 5, 16, 30, 64, 100, 123, 200, rng.randint(1, 700)])
    if solution == "RC" or solution.endswith("-RP"):
        dim = min(dim, 60)
    epsilon = rng.choice(
        [
            Fraction(rng.choice(["0.1", "0.5", "1", "2", "4", "8", "10", "20"])),
            Fraction(rng.randint(1, 40_000), 1000),
            Fraction(rng.randint(1, 1 << 40), rng.randint(1 << 36, 1 << 41)),
        ]
    )
    count = rng.random() < 0.5
    return Recipe(
        solution,
        epsilon=epsilon,
        dim=dim,
        epochs=rng.choice([1, 1, 2, 3, 7]),
        learning_rate=rng.choice([0.1, 1.0, 3e-5, 1e30]),
        averaging=0.0,
        rho=rng.choice([None, 1.0, 0.3, 1e-3, 12.5]),
        mu=rng.choice([0.0, 0.05, 0.1, 0.2, 0.9]),
        k=rng.randint(1, dim) if count else Share(rng.choice([0.1, 0.29, 0.5, 1.0, 0.001])),
        clip=rng.choice([1.0, 0.5, 1e-3, 7.0]),
        momentum=rng.choice([0.0, 0.5, -0.25, 0.9]),
        ratio=rng.choice([0.1, 0.5, 1.0]),
        words=rng.choice([None, 8, 100]) if solution == "RC" else None,
        bases=rng.choice([None, 1, 2, 16]) if solution in ("RJ", "FJ") else None,
        seed=rng.choice([0, 7, rng.getrandbits(64)]),
        spread=0.0,
        centre=0.0,
    )


def _random_question(rng, solution):
    """Blocks of answers: mostly some that there are."""
    dim = rng.choice([2, 3, 6, 16, 100, rng.randint(2, 40), rng.randint(2, 700)])
    if rng.random() < 0.03:
        dim = rng.choice([4096, 65_535, 65_536, rng.randint(700, 65_536)])
    epsilon = rng.choice([Fraction(rng.randint(1, 9000), 1000), Fraction(rng.randint(1, 400))])
    asked = Recipe(solution, epsilon=epsilon, dim=dim, epochs=rng.choice([1, 1, 2, 5]), mu=0.0)
    kind = rng.random()
    if kind < 0.5:
        best = resolve_auto(asked, PublicFacts(dim, 100, asked.epochs))
        return replace(best, seed=rng.choice([0, 7]))
    k, words, bases = min(dim, rng.choice([1, 2, 2, 3, dim - 1, rng.randint(1, dim)])), None, None
    if kind < 0.9:
        words = rng.choice([7, 13, 31, 101, 257, 719, 719, 8191, 65_537, 131_071])
        words = rng.randint(2, 800) if rng.random() < 0.1 else words
        divisors = [e for e in range(1, min(words, 65_537)) if (words - 1) % e == 0]
        bases = rng.choice(divisors) if rng.random() < 0.95 else rng.randint(1, 70)
    return replace(asked, k=k, words=words, bases=bases, rho=None, learning_rate=1.0, averaging=0.0)


def random_vector(rng, dim):
    """An update in doubles: smooth, tied, sparse, or at the ends of the floats."""
    kind = rng.random()
    if kind < 0.4:
        return np.array([rng.gauss(0, 10 ** rng.uniform(-3, 1)) for _ in range(dim)])
    if kind < 0.6:
        return np.array([rng.choice([0.0, -0.0, 0.5, -0.5, 1.0]) for _ in range(dim)])
    if kind < 0.7:
        return np.zeros(dim)
    if kind < 0.85:
        return np.array([rng.gauss(0, 1) if rng.random() < 0.1 else 0.0 for _ in range(dim)])
    ends = (np.nan, np.inf, -np.inf, 1e300, -1e38, _LARGEST, 1e-45, -1e-40, 0.0, 1.0)
    return np.array([rng.choice(ends) for _ in range(dim)])


def tasks(rng, count, known):
    """Tasks with what Python makes of them; a function that explains a difference, or None."""
    made = 0
    while made < count:
        if rng.random() < 0.2:
            yield from _odd_ones(rng, known)
            made += 2
        try:
            recipe = random_recipe(rng, known)
        except (InvalidArgument, ValueError):
            continue
        try:
            check_sendable(recipe)
        except (InvalidArgument, ValueError):
            task = {"request": Request(bytes(16), 0, 0, recipe).encode().hex(), "update": None}
            yield task, {"refused": "malformed"}, None
            made += 1
            continue
        for _ in range(min(TASKS_A_RECIPE, count - made)):
            yield _task(rng, recipe)
            made += 1


def _task(rng, recipe):
    run, place = rng.randbytes(16), rng.choice([0, 1, rng.getrandbits(32)])
    request = Request(run, rng.randrange(recipe.epochs), place, recipe)
    update, seed = random_vector(rng, recipe.dim), rng.getrandbits(64)
    answer = None
    if entry(recipe.solution).answers and rng.random() < 0.6:
        answer = rng.choice([rng.randrange(recipe.dim), rng.randrange(-2, recipe.dim + 2), 1 << 40])
        update = (np.arange(recipe.dim) == answer).astype(np.float64)
    solution = recipe.build()
    residual = None
    if solution.accumulates and rng.random() < 0.7:
        residual = saturated(random_vector(rng, recipe.dim))
    task = {
        "request": request.encode().hex(),
        "update": update.astype("<f8").tobytes().hex() if answer is None else None,
        "answer": answer,
        "residual": None if residual is None else residual.astype("<f4").tobytes().hex(),
        "seed": str(seed),
    }
    wanted = _answered(request, update, residual, seed)
    return task, wanted, lambda: _answered_with_exact_scores(request, update, residual, seed)


def _answered(request, update, residual, seed):
    recipe = request.recipe
    solution = recipe.build()
    with np.errstate(all="ignore"):
        gradient = saturated(update)
        if solution.rate_inside:
            gradient = saturated(gradient, float(recipe.learning_rate))
        before = np.zeros(recipe.dim, np.float32) if residual is None else residual
        used = itertools.count()
        counted = (word for word in words(seed) if next(used) >= 0)
        drawn = solution.in_round(request.round).encode(gradient, before, Stream(counted))
    report, kept = drawn
    return {
        "charge": str(recipe.charge),
        "report": request.format.encode(request.round, report).hex(),
        "residual": kept.astype("<f4").tobytes().hex() if solution.accumulates else None,
        "used": next(used),
    }


def _answered_with_exact_scores(request, update, residual, seed):
    """As Python answers where the scores of RC are rounded once, not in the order of a library."""
    plain = RandomDirections.scores

    def scores(self, vectors):
        return (self.matrix.astype(np.float64) @ vectors.astype(np.float64)).astype(np.float32)

    RandomDirections.scores = scores
    try:
        return _answered(request, update, residual, seed)
    finally:
        RandomDirections.scores = plain


def _odd_ones(rng, known):
    """A damaged request, and a text that a purpose may not have."""
    try:
        recipe = random_recipe(rng, known)
        intent = Intent("For a test", "") if rng.random() < 0.3 else Intent()
        message = bytearray(Request(bytes(16), 0, 5, recipe, intent).encode())
    except (InvalidArgument, ValueError):
        message = bytearray(150)
    for _ in range(rng.choice([0, 1, 1, 2])):
        message[rng.randrange(len(message))] = rng.choice([0, 1, 2, 3, 255, rng.randrange(256)])
    if rng.random() < 0.2:
        message = message[: rng.randrange(len(message))]
    yield {"message": message.hex()}, {"request": _understood(bytes(message))}, None
    text = "".join(rng.choice(_ODD) for _ in range(rng.randint(0, 8)))
    if rng.random() < 0.5:
        text = "".join(chr(rng.randrange(0x20, 0x3000)) for _ in range(rng.randint(1, 4)))
    try:
        accepted = check_text("purpose", text) == text
    except InvalidArgument:
        accepted = False
    yield {"text": text}, {"accepted": accepted}, None


def _understood(message):
    try:
        Request.decode(message)
    except UnknownVersion:
        return "version"
    except InvalidMessage:
        return "malformed"
    return "understood"


_HOUR, _DAY, _BEGIN, _DIM = 3_600, 86_400, 1_700_000_000, 6
_PRICES = ("1/10", "1/3", "1/2", "1", "1/7", "2/101", "1/103", "3/2")
_LENGTHS = ("1 hour", "3 hours", "36 hours", "1 day", "1 week", "30 days")
_PURPOSES = ("", "Health research", "Advertising", "health research")
_RECIPIENTS = ("", "A hospital", "Example Ltd")
_STEPS = (0, 0, 1, 600, _HOUR - 1, _HOUR, _HOUR + 1, 3 * _HOUR + 1, _DAY, _DAY + 1)
_PLAIN = {
    "dim": _DIM,
    "k": 2,
    "mu": 0.1,
    "rho": None,
    "learning_rate": 1.0,
    "averaging": 0.0,
    "spread": 0.0,
    "centre": 0.0,
}


def histories(rng, count):
    """Histories with what Python makes of them."""
    for _ in range(count):
        policy, now = _random_policy(rng), _BEGIN
        steps = [{"now": now, "policy": policy, "by": None}]
        questions = [_Question(rng, number, policy) for number in range(2)]
        for _ in range(rng.randint(5, 25)):
            now = max(0, now + _random_step(rng))
            if rng.random() < 0.3:
                steps.append({"now": now, **rng.choice(questions).asked(rng)})
            else:
                steps.append(_random_event(rng, now, steps[0]["policy"]))
        task = {"history": json.loads(json.dumps(steps, default=str))}
        with tempfile.TemporaryDirectory() as folder:
            yield task, _lived(steps, folder), None


class _Question:
    """A run that asks which of a few answers the device has, epoch after epoch."""

    def __init__(self, rng, number, policy):
        stated = _random_texts(rng, policy)
        self._run, self._number = bytes([0xFF, number]) + bytes(14), 0
        self._intent = Intent(stated["purpose"], stated["recipient"])
        epsilon = 30 * Fraction(rng.choice(_PRICES))
        given = {**_PLAIN, "k": rng.choice([1, 3])}
        self._recipe = check_sendable(Recipe("BR", epsilon=epsilon, epochs=30, **given))

    def asked(self, rng):
        self._number += rng.random() < 0.9  # else the round that was answered
        place = (self._number, 3 * self._number)
        request = Request(self._run, *place, self._recipe, self._intent).encode()
        return {"question": request.hex(), "answer": rng.choice([0, 0, 0, 1, 5, 6])}


def _random_step(rng):
    step = rng.choice(_STEPS) + rng.choice([0, 0, 0.5, 0.25])
    if rng.random() < 0.15:
        return -step
    return rng.choice([60, 120]) * _DAY + rng.randint(-1, 1) if rng.random() < 0.03 else step


def _random_event(rng, now, policy):
    kind = rng.random()
    if kind < 0.12:
        return {"now": now, "confirm": "The owner"}
    if kind < 0.2:
        changed = {**policy, **_random_policy(rng)} if rng.random() < 0.5 else _random_policy(rng)
        by = rng.choice([None, None, "The owner"])
        return {"now": now, "policy": changed, "by": by}
    price = Fraction(rng.choice(_PRICES))
    return {"now": now, "charge": price, **_random_texts(rng, policy)}


def _random_texts(rng, policy):
    texts = {"purpose": rng.choice(_PURPOSES), "recipient": rng.choice(_RECIPIENTS)}
    if policy.get("menu") and rng.random() < 0.7:
        texts |= {name: text for name, text in policy["menu"][0].items() if name in texts}
    return texts


def _random_policy(rng):
    def epsilon(*texts):
        return Fraction(rng.choice(texts))

    def window():
        return [epsilon("1/2", "1", "3/2", "2", "5"), rng.choice(_LENGTHS)]

    policy = {"per_report": epsilon("1", "3/2", "2"), "dimensions": [_DIM]}
    policy["solutions"] = ["PM", "BR"]
    policy["runs"] = rng.choice([1, 99])
    if rng.random() < 0.8:
        policy["per_window"] = window()
    if "per_window" not in policy or rng.random() < 0.5:
        policy["lifetime"] = epsilon("2", "3", "8", "20")
    if rng.random() < 0.4:
        policy["menu"] = [_random_item(rng, epsilon, window) for _ in range(rng.randint(1, 3))]
    if "per_window" in policy and rng.random() < 0.3:
        policy["clock_tolerance"] = rng.choice(_LENGTHS)
    return policy


def _random_item(rng, epsilon, window):
    item = {}
    while not item:
        for name, texts in (("purpose", _PURPOSES), ("recipient", _RECIPIENTS)):
            if rng.random() < 0.6:
                item[name] = rng.choice(texts[1:])
    texts = len(item)
    while len(item) == texts:
        if rng.random() < 0.3:
            item["per_report"] = epsilon("1/2", "1", "2")
        if rng.random() < 0.4:
            item["lifetime"] = epsilon("1", "3")
        if rng.random() < 0.5:
            item["per_window"] = window()
    return item


def _lived(steps, folder):
    """The decisions of a device, and what its ledger says in the end."""
    client, decisions = None, []
    for number, step in enumerate(steps):
        now = step["now"]
        try:
            if "policy" in step:
                client = _opened(step, client, Path(folder, "store"))
                decisions.append("opened")
            elif "confirm" in step:
                client.ledger._now = lambda now=now: now
                client.ledger.confirm_clock(step["confirm"])
                decisions.append("confirmed")
            else:
                decisions.append(_reported(client, step, number))
        except LedgerError as error:
            decisions.append(error.fault.name)
        except Refused as refused:
            decisions.append(refused.reason.name)
    history = client.history()
    return {
        "decisions": decisions,
        "spent": str(history.spent),
        "left": None if history.left is None else str(history.left),
        "changes": [
            [[_row(limit) for limit in change.limits], change.time, change.reports, change.by]
            for change in history.changes
        ],
        "confirmations": [list(vars(one).values()) for one in history.confirmations],
        "standings": [
            [
                _row(one.limit),
                *map(str, (one.held, one.ever, one.left)),
                [[at, str(given)] for at, given in one.renewals],
            ]
            for one in history.standings(steps[-1]["now"])
        ],
    }


def _opened(step, before, store):
    """The client of a policy; it is as if its process had begun at the time of the step."""
    clock, time.time = time.time, lambda: step["now"]
    try:
        client = Client(
            Policy.of(step["policy"]), store, create=before is None, raised_by=step["by"]
        )
    finally:
        time.time = clock
    return client


def _reported(client, step, number):
    client._now = lambda: step["now"]
    if "question" in step:
        client.answer(bytes.fromhex(step["question"]), b"", step["answer"])
        entry = client.history().entries[-1]
        return [entry.time, str(entry.charge)]
    recipe = check_sendable(Recipe("PM", epsilon=step["charge"], **_PLAIN))
    intent = Intent(step["purpose"], step["recipient"])
    request = Request(number.to_bytes(16, "big"), 0, 0, recipe, intent)
    client.answer(request.encode(), np.zeros(_DIM), np.zeros(_DIM))
    return [client.history().entries[-1].time, str(recipe.charge)]


def _row(limit):
    return [str(limit.epsilon), limit.seconds, limit.purpose, limit.recipient]


class Node:
    """The client in JavaScript."""

    solutions = staticmethod(private_names)

    def __enter__(self):
        self._process = subprocess.Popen(
            [shutil.which("node"), str(CLIENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *reason):
        self._process.__exit__(*reason)

    def answer(self, task):
        # In small parts, so that neither side waits for a full pipe.
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class InC:
    """The client in C, compiled anew unless a program is given."""

    def __init__(self, program=None):
        self._program = program

    @staticmethod
    def solutions():
        return [name for name in private_names() if name != "RC" and not name.endswith("-RP")]

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        program = self._program or compiled(Path(self._folder.name, "runner"), "-O2")
        self._runner = Runner(program).__enter__()
        return self

    def __exit__(self, *reason):
        self._runner.__exit__(*reason)
        self._folder.cleanup()

    def answer(self, task):
        return answered(self._runner, task)


CLIENTS = {"javascript": Node, "c": InC}


def compare(count, seed=0, progress=None, solutions=None, lives=0, client=None):
    """How many tasks agree, those that only differ by the rounding of scores, and the others."""
    client = client or Node()
    rng, known = random.Random(seed), solutions or client.solutions()
    agreed, rounded, differing = 0, 0, []
    with client:
        source = itertools.chain(tasks(rng, count, known), histories(rng, lives))
        while batch := list(itertools.islice(source, 64)):
            for task, wanted, explained in batch:
                got = client.answer(task)
                if got == wanted:
                    agreed += 1
                elif explained is not None and got == explained():
                    rounded += 1
                else:
                    differing.append((task, wanted, got))
            if progress is not None:
                progress(agreed + rounded + len(differing))
    return agreed, rounded, differing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="tasks (10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the tasks (0)")
    parser.add_argument("--histories", type=int, default=200, help="of ledgers (200)")
    parser.add_argument("--solutions", nargs="+", metavar="NAME", help="only these (all private)")
    parser.add_argument("--client", choices=CLIENTS, default="javascript", help="(javascript)")
    options = parser.parse_args()
    if options.client == "c" and options.histories:
        parser.error("the client in C keeps no histories: --histories 0")
    begin = time.monotonic()

    def progress(done):
        if sys.stderr.isatty() or done % 6400 < 64:
            rate = done / (time.monotonic() - begin)
            print(f"\r{done:,} tasks, {rate:,.0f} a second", end="", file=sys.stderr, flush=True)

    agreed, rounded, differing = compare(
        options.count,
        options.seed,
        progress,
        options.solutions,
        options.histories,
        CLIENTS[options.client](),
    )
    print(file=sys.stderr)
    print(
        f"{agreed:,} agree; {rounded:,} of RC differ by the rounding of its scores; "
        f"{len(differing):,} differ"
    )
    for task, wanted, got in differing[:5]:
        print(json.dumps({"task": task, "python": wanted, options.client: got})[:2000])
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
