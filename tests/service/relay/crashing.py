"""Devices behind a relay that never give up, and a count of what became of their reports."""

import random
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsel.server import Counts
from fedsel.server._checkpoint import Checkpoint
from fedsel.service._store import open_store
from fedsel.service.inviting import invitations_of, relay_settings
from fedsel.service.relay import RelayConfig
from fedsel.service.relay._state import RelayState, ReleasedRound
from fedsel.wire import InvalidMessage, Request, Sealing
from tests.service.crashing import Threads, ask, children_of, plain_reports
from tests.service.support import Http, ServiceProcess, task_of, wait_until

NAME, N_MIN, REPORTS, SECONDS = "crash", 20, 22, 0.3
DEVICES, COPYCATS = 26, 2
_POLL_SECONDS = 0.05
TASK = f"""
epsilon = 4.0
dim = 512
solution = "PS-PM"
k = 2
mu = 0.1
learning_rate = 0.5
clients = 10000000
rounds_per_epoch = 100000
close_after = {{ reports = {REPORTS}, seconds = {SECONDS} }}
shuffle = {{ n_min = {N_MIN}, dishonest = 0.0 }}
"""
LIMITS = """
[limits]
per_client = 1e9
per_address = 1e9
"""
SMALL_PARTS = str(Path(__file__).with_name("small_parts.py"))
COLLECTING, RELEASED, DELIVERING, OPENING = "collecting", "released", "delivering", "opening"
STAGES = (COLLECTING, RELEASED, DELIVERING, OPENING)
_NUMBER_AND_PARTS = """
SELECT round, (SELECT count(*) FROM batches WHERE batches.round = runs.round) FROM runs
"""


def task_values():
    """The same task as in the file."""
    return task_of(
        name=NAME,
        dim=512,
        clients=10_000_000,
        rounds_per_epoch=100_000,
        close_after={"reports": REPORTS, "seconds": SECONDS},
        shuffle={"n_min": N_MIN, "dishonest": 0.0},
    )


class Pair:
    """A relay and its service, each a process of its own with a store of its own.

    ``between`` makes the address that the relay has for the service from the service's own. A round
    is delivered in several parts.
    """

    def __init__(self, folder, *, service_store=None, relay_store=None, between=str, workers=1):
        self.task = task_values()
        self.service_store = str(service_store or folder / "service")
        self.relay_store = str(relay_store or folder / "relay")
        task_file, config_file = folder / f"{NAME}.toml", folder / "relay.toml"
        task_file.write_text(TASK + LIMITS)
        self.service = ServiceProcess(task_file, self.service_store)
        more = [] if workers == 1 else ["--workers", str(workers)]
        self.relay = ServiceProcess(
            config_file, self.relay_store, *more, command="relay", program=[SMALL_PARTS]
        )
        self._config_file, self._between = config_file, between

    def __enter__(self):
        self.service.__enter__()
        address = self._between(self.service.address)
        self._config_file.write_text(relay_settings(self.task, self.service_store, address))
        with self._config_file.open("a") as file:
            file.write(LIMITS)
        self._config_file.chmod(0o600)
        self.config = RelayConfig.load(self._config_file)
        try:
            self.relay.__enter__()
        except BaseException:
            self.service.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.relay.__exit__()
        self.service.__exit__()

    def quiet(self, ledger):
        """Wait until nothing is under way: a round is open at both, with too few reports."""
        clients = [Http(self.relay.address), Http(self.service.address)]

        def found():
            (status, relay), (_, service) = (ask(c, "GET", "/v1/rounds/open") for c in clients)
            if status != 200 or service is None or relay["released"]:
                return False
            number = relay["round"]
            return number == service.get("round") and len(ledger.taken[number]) < N_MIN

        wait_until(found)
        for client in clients:
            client.close()


def stage_of(pair):
    """How far a round is, by both stores as they are: also beside processes that were killed."""
    with suppress(Exception):  # a database that is being killed
        with _database(pair.relay_store) as relay, _database(pair.service_store) as service:
            ((turn,),) = relay("SELECT round FROM runs")
            ((number, parts),) = service(_NUMBER_AND_PARTS)
        if turn % 2:
            return COLLECTING
        if turn != 2 * number + 2:
            return OPENING
        return DELIVERING if parts else RELEASED
    return "unknown"


@contextmanager
def _database(store):
    """Queries of a store that change nothing in it, nor in the log beside it."""
    if store.startswith("postgres"):
        import psycopg

        opened = psycopg.connect(store, options="-c search_path=fedsel", autocommit=True)
    else:
        opened = sqlite3.connect(f"file:{store}/service.sqlite?mode=ro", uri=True)
    with closing(opened) as connection:
        yield lambda query: connection.execute(query).fetchall()


def workers_of(relay):
    """The processes that serve, and not the one that multiprocessing has for itself."""
    found = []
    for child in children_of(relay.process.pid):
        with suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


class Ledger:
    """What devices have sent, and what they were told of it: whatever the relay may say later.

    ``taken``: for each round the different messages of which a device was told that they count;
    ``takers``: how many devices were told so; ``plain``: the report in a message, None for one that
    does not open.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self.plain, self.taken, self.takers = {}, defaultdict(set), Counter()
        self.told, self.failures, self.refused = Counter(), 0, set()

    def sealed(self, content, plain):
        """Note what a message holds, before it is sent."""
        with self._lock:
            self.plain[content] = plain

    def tell(self, number, content, word, failures, copied):
        """Note what a device was told of a message, its own or one that it has copied."""
        with self._lock:
            self.told[word] += 1
            self.failures += failures
            if word in ("accepted", "duplicate"):
                self.taken[number].add(content)
                self.takers[number] += 1
            elif not copied:
                self.refused.add(content)

    def overheard(self, number, rng):
        """A message of the round that counts already, as somebody on the line may have it."""
        with self._lock:
            known = sorted(self.taken[number])
        return rng.choice(known) if known else None

    @property
    def successes(self):
        """How many devices were told so far that their reports count."""
        return self.told["accepted"] + self.told["duplicate"]

    def grows(self, more):
        """Wait until so many more are told so."""
        goal = self.successes + more
        wait_until(lambda: self.successes >= goal)


class SealedCrowd(Threads):
    """Devices in threads: each seals a report for every round it sees, and sends until answered.

    One message in 20 does not open. Copycats send what others have sealed, with tokens of their
    own.
    """

    def __init__(self, pair, ledger, first=0):
        self._pair, self._ledger = pair, ledger
        new = invitations_of(pair.config, pair.relay_store).invite
        self.size = DEVICES + COPYCATS
        lives = range(first, first + self.size)
        super().__init__(self._live, [(i, i - first >= DEVICES, new("device")) for i in lives])

    def _live(self, client, copies, token):
        rng, http_client = random.Random(client), Http(self._pair.relay.address)
        answered = None
        while not self._over.is_set():
            status, data = ask(http_client, "GET", "/v1/rounds/open/request")
            try:
                request = Request.decode(data) if status == 200 else None
            except InvalidMessage:
                request = None
            message = None
            if request is not None and request.round != answered:
                message = self._message(request, data, rng, copies)
            if message is None:
                time.sleep(_POLL_SECONDS)
                continue
            time.sleep(rng.expovariate(20))
            word, failures = self._sent(http_client, message, token)
            content = Sealing.split(message).content
            self._ledger.tell(request.round, content, word, failures, copies)
            answered = request.round
        http_client.close()

    def _message(self, request, data, rng, copies):
        sealing = Sealing(data, self._pair.config.server_key)
        if copies:
            content = self._ledger.overheard(request.round, rng)
            return None if content is None else b"\1" + sealing.tag + content
        (plain,) = plain_reports(request, rng, 1)
        message = sealing.seal(plain)
        if rng.random() < 0.05:
            message, plain = message[:-1] + bytes([message[-1] ^ 1]), None
        self._ledger.sealed(Sealing.split(message).content, plain)
        return message

    def _sent(self, http_client, message, token):
        """What a device was told in the end, and how often it was told nothing before."""
        failures = 0
        while True:
            status, data = ask(http_client, "POST", "/v1/reports", message, token)
            word = data.get("outcome", data.get("error")) if isinstance(data, dict) else None
            if status is None or status == 503 or word == "early":
                failures += 1
                time.sleep(_POLL_SECONDS)
                continue
            return word, failures


@dataclass
class Found:
    """What an independent count found: ``counted`` reports in ``rounds`` rounds.

    Devices were told of ``copies``, ``unopened`` and ``waiting`` messages, too, that they count.
    """

    rounds: int = 0
    counted: int = 0
    copies: int = 0
    unopened: int = 0
    waiting: int = 0
    lost: int = 0
    doubled: int = 0
    too_small: int = 0
    weights_equal: bool = False

    @property
    def exactly_once(self):
        """Whether all is as it must be."""
        return self.weights_equal and not (self.lost or self.doubled or self.too_small)


def counted(pair, ledger):
    """Compare the stores of a relay and its service with what the devices know.

    For each round: the reports in the service are those in the messages that count, each once; so
    many messages were released, at least n_min; the relay has as many devices. The weights are
    those that the devices' own bytes give. What the relay has of the open round is what devices
    were told.
    """
    found = Found()
    task, service, relay = pair.task, _reader(pair.service_store), _reader(pair.relay_store)
    with closing(service), closing(relay):
        kept = Checkpoint.decode(service.checkpoint())
        state = replace(task.begin, run=kept.run)
        released = {one.round: one for one in map(ReleasedRound.of_row, relay.rounds()) if one}
        assert sorted(released) == list(range(kept.round))
        batches = defaultdict(Counts)
        query = "SELECT round, accepted, rejected, duplicate, late FROM batches WHERE run = ?"
        for number, *counts in service.execute(query, service._run).fetchall():
            batches[number] = batches[number].plus(Counts(*counts))
        for number in range(kept.round):
            messages = ledger.taken[number]
            plain = [ledger.plain[content] for content in messages]
            good = [one for one in plain if one is not None]
            with service.closing() as transaction:
                rows = b"".join(transaction.reports(number))
            have = Counter(rows[i : i + 16] for i in range(0, len(rows), 16))
            found.lost += (Counter(good) - have).total()
            found.doubled += (have - Counter(good)).total()
            unopened = len(plain) - len(good)
            same = batches[number] == Counts(len(good), unopened)
            same &= released[number].counts.accepted == ledger.takers[number]
            found.lost += not same
            found.too_small += sum(batches[number]) < N_MIN or len(messages) < N_MIN
            found.rounds, found.counted = found.rounds + 1, found.counted + len(good)
            found.unopened += unopened
            totals = kept.recipe.build().in_round(number).totals()
            totals.add(state.request().format.decode_many(b"".join(good)).reports)
            state = state.advanced(totals, kept.records[number].counts)
        found.weights_equal = all(
            np.array_equal(getattr(state.state, name), getattr(kept.state, name))
            for name in ("weights", "average")
        )
        found.waiting = len(ledger.taken[kept.round])
        found.copies = ledger.successes - sum(map(len, ledger.taken.values()))
        turn = relay.status().round
        assert turn == 2 * kept.round + 1
        assert RelayState.decode(relay.checkpoint()).tag
        waiting = b"".join(relay.sorted_reports(turn, 100))
        found.lost += waiting != b"".join(sorted(ledger.taken[kept.round]))
        taken = set().union(*ledger.taken.values())
        found.doubled += len(taken & ledger.refused)
    return found


def _reader(url):
    store = open_store(url, alone=False)
    store.choose(NAME)
    return store
