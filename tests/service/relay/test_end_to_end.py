"""Devices and browsers at a relay: its service learns what the simulator learns, to the bit."""

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from fedsel import Reports
from fedsel._internal.random import stream, words_of
from fedsel.device import Client, Policy, RawRecords, _session, join
from fedsel.device._records import SuitedRecords
from fedsel.server import Counts
from fedsel.service import Task
from fedsel.service.relay import RelayConfig
from fedsel.simulation import Population, Training, train
from fedsel.wire import ReportFormat
from tests.cli.support import run_here
from tests.service.support import PATIENCE, Http, ServiceProcess, wait_until
from tests.service.visiting import GIVEN_WORDS, Visitor, shown_reports, take_part

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

CLIENTS, SHARE, BATCH, EPOCHS, SEED = 54, 3, 9, 2, 1
EACH = CLIENTS // BATCH  # rounds of an epoch
NUMBERS = ("age", "hours", "pay")
FREE = "limits = { per_client = 1e9, per_address = 1e9 }\n"
# A round is over with all of its reports, however long it takes: nobody takes another's turn.
TASK = f"""
epsilon = 16
epochs = {EPOCHS}
clients = {CLIENTS}
rounds_per_epoch = {EACH}
close_after = {{ reports = {BATCH}, seconds = 86400 }}
spread = 0.2
centre = 0.2
purpose = "Predict who leaves"
shuffle = {{ n_min = {BATCH} }}
{FREE}
[schema]
label = "answer"
classes = ["no", "yes"]
[schema.columns]
age = [0, 100]
hours = [-4, 4]
pay = "private"
kind = ["x", "y"]
"""
WORDS = 200  # for each report of a browser
CHANCE = {0: 0.0, EACH - 1: 0.9}
"""What Math.random gives, so that a browser takes this round of each epoch."""


def people():
    """The records of all as texts, some of them incomplete."""
    rng, count = np.random.default_rng(1), CLIENTS * SHARE
    y = rng.random(count) < 0.5
    numbers = rng.normal([[40], [0.5], [3000]], [[9], [0.6], [900]], (3, count))
    numbers += np.array([[8], [-0.6], [0]]) * np.where(y, 1, -1)
    kinds = rng.choice(["x", "y"], count)
    rows = [
        {**{name: f"{value:.3f}" for name, value in zip(NUMBERS, numbers[:, i], strict=True)},
         "kind": kinds[i], "answer": "yes" if y[i] else "no"}
        for i in range(count)
    ]  # fmt: skip
    for row in rows[::7]:
        row["hours"] = ""
    return [rows[i : i + SHARE] for i in range(0, count, SHARE)]


def table(rows):
    return "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)])


class Simulated:
    """The simulator's rounds: whose they are, and what is learnt in them."""

    def __init__(self, task, records):
        recipe, schema = task.begin.recipe, task.schema
        rows = [row for some in records for row in some]
        X = task.preparing(task.begin).scale.apply(schema.encode(rows))
        y = np.array([1 if row["answer"] == "yes" else -1 for row in rows], np.int8)
        training = Training(
            recipe.build(), float(recipe.learning_rate), BATCH, reg=recipe.reg, seed=SEED,
            averaging=float(recipe.averaging), plan=task.begin.plan,
        )  # fmt: skip
        starts = np.arange(0, len(X) + 1, SHARE)
        people = Population(X.astype(np.float32), y, np.arange(len(X)), starts)
        self.history = train(training, people)
        self.turns = np.zeros((EPOCHS, CLIENTS), int)  # the round of each client, by epoch
        for epoch in range(EPOCHS):
            order, ends = training.schedule(people.taking_part, CLIENTS, epoch)
            for i, part in enumerate(np.split(order, ends[:-1])):
                assert len(part) == BATCH
                self.turns[epoch, part] = epoch * EACH + i

    def always(self, place):
        """The clients that are always in this round of an epoch."""
        return np.flatnonzero((self.turns % EACH == place).all(axis=0)).tolist()


class Devices:
    """Devices in threads, each with the words and in the rounds of its client in the simulator."""

    def __init__(self, monkeypatch, simulated):
        self._turns, self.pipelines, own = simulated.turns, {}, threading.local()
        self._own, real = own, SuitedRecords.update

        def update(records, number, pipeline, *rest):
            own.client._entropy = stream(SEED, number // EACH, own.number)
            self.pipelines[number] = pipeline
            return real(records, number, pipeline, *rest)

        monkeypatch.setattr(SuitedRecords, "update", update)
        monkeypatch.setattr(_session, "random_round", self._turn)

    def _turn(self, _, last):
        return int(self._turns[last // EACH, self._own.number])

    def take_part(self, number, client, records, address, token):
        self._own.number, self._own.client = number, client
        more = {"token": token, "every": 0.1, "patience": PATIENCE}
        return join(address, client, RawRecords(records), **more)


def replayed(task, run, reports):
    """The checkpoints of a run in which these reports count: before each round, and at its end."""
    state = replace(task.begin, run=run)
    batch = ReportFormat.of(state.recipe.build(), run).decode_many(b"".join(reports))
    assert batch.valid.all()
    yield state
    while not state.finished:
        totals = state.recipe.build().in_round(state.round).totals()
        now = batch.round == state.round
        totals.add(Reports(batch.reports.slot[now], batch.reports.symbol[now]))
        state = state.advanced(totals, Counts(totals.count))
        yield state


class Person(Visitor):
    """A browser with the words and in the round of its client in the simulator."""

    def __init__(self, browser, address, number, place):
        super().__init__(browser, address)
        words = [
            [str(word) for word in islice(words_of(SEED, epoch, number), WORDS)]
            for epoch in range(EPOCHS)
            for _ in range(EACH)
        ]
        self.context.add_init_script(f"({GIVEN_WORDS})({json.dumps(words)})")
        self.context.add_init_script(f"Math.random = () => {CHANCE[place]}")

    def begin(self, link, rows):
        """Take part with these records, by the link of an invitation."""
        self.tab = self.follow(link)
        assert "if relay and service do not work together" in self.tab.inner_text("#both-numbers")
        assert self.tab.is_hidden("#compare")  # the link names the keys
        take_part(self.tab, table(rows), f"{SHARE} records are ready.")

    def end(self):
        """The reports that it shows once the run is over; it has asked nobody but the relay."""
        over = self.tab.get_by_text("The run is over. Thank you: you spent ε = 16 in all.")
        over.wait_for(timeout=1000 * PATIENCE)
        shown = shown_reports(self.tab)
        assert [outcome for outcome, _ in shown] == ["accepted"] * EPOCHS
        assert self.tab.is_visible("#coefficients")
        asked = {request.url for request in self.requests}
        assert all(url.startswith(f"{self.address}/") for url in asked)
        sealed = {body for body, _ in self.uploads()}
        assert len(sealed) == EPOCHS
        assert not any(report in message for _, report in shown for message in sealed)
        self.close()
        return [report for _, report in shown]


@contextmanager
def both(file, store, relay_store):
    """A service and its relay as processes; the relay's address, settings and invitations."""
    settings, tokens = file.with_name("relay.toml"), file.with_name("tokens")
    with ServiceProcess(file, store) as service:
        given = ("--store", store, "--relay", service.address, "--out", settings)
        run_here("invite", file, *given)
        with settings.open("a") as more:
            more.write(FREE)
        with ServiceProcess(settings, relay_store, command="relay") as relay:
            invite = ("invite", settings, "--store", relay_store)
            run_here(*invite, "--count", CLIENTS, "--out", tokens)
            links = run_here(*invite, "--count", len(CHANCE) + 1, "--links", relay.address).stdout
            yield Http(service.address), Http(relay.address), settings, tokens, links.split()


@pytest.mark.parametrize("of_relay", ["postgresql", "sqlite"])
def test_devices_and_browsers_learn_what_the_simulator_learns(
    of_relay, browser, quick_path, postgres_url, monkeypatch
):
    """On the same words, in rounds that prepare and in those that train."""
    file = quick_path / "task.toml"
    file.write_text(TASK)
    stores = [quick_path / "store", postgres_url]
    task, records = Task.load(file), people()
    simulated = Simulated(task, records)
    first, last = (simulated.always(place) for place in CHANCE)
    visiting = {first[0]: 0, first[1]: 0, last[0]: EACH - 1}
    devices = Devices(monkeypatch, simulated)
    with (
        ThreadPoolExecutor(CLIENTS) as pool,  # ends last: without a relay devices give up
        both(file, *(stores if of_relay == "postgresql" else stores[::-1])) as pair,
    ):
        service, relay, settings, tokens, links = pair
        config = RelayConfig.load(settings)
        recipe = task.begin.recipe
        policy = Policy(
            recipe.epsilon, recipe.charge, [recipe.solution], [recipe.dim],
            server_key=config.server_key, signing_key=config.signing_key,
        )  # fmt: skip
        persons = [
            Person(browser, relay.address, number, place) for number, place in visiting.items()
        ]
        for number, person, link in zip(visiting, persons, links, strict=True):
            person.begin(link, records[number])
        at_work = []
        for number, token in enumerate(tokens.read_text().split()):
            if number not in visiting:
                client = Client(policy, quick_path / f"{number}", create=True)
                given = (number, client, records[number], relay.address, token)
                at_work.append(pool.submit(devices.take_part, *given))
        sent = [report for person in persons for report in person.end()]
        outcomes = [one.result() for one in at_work]
        service.wait_for(EPOCHS * EACH)
        wait_until(lambda: relay.get("/v1/rounds/open")["finished"])
        wait_until(lambda: relay.ask("GET", "/v1/model.json")[0] == 200)
        told, collected = service.get("/v1/rounds"), relay.get("/v1/rounds")
        learnt, announced = service.get("/v1/model"), service.get("/v1/task")
        assert relay.get("/v1/model.json") == service.get("/v1/model.json")
        service.close()
        relay.close()
    assert all(one.accepted == EPOCHS and not one.late for one in outcomes)
    entries = [entry for one in outcomes for entry in one.history.entries]
    assert len(sent) + len(entries) == CLIENTS * EPOCHS
    for rounds in (told, collected):
        counts = [(one["accepted"], one["late"], one["rejected"]) for one in rounds["rounds"]]
        assert counts == [(BATCH, 0, 0)] * (EPOCHS * EACH)
    # From what the devices have sent follow the weights, and the preparation, of every round.
    run = bytes.fromhex(announced["run"])
    *states, end = replayed(task, run, sent + [entry.report for entry in entries])
    for state in states:
        weights = state.state.weights.astype("<f8")
        assert devices.pipelines[state.round].encode() == task.preparing(state).encode()
        signs = hashlib.sha256(state.request().encode() + b"<f8" + weights.tobytes()).digest()
        assert {entry.digest for entry in entries if entry.round == state.round} == {signs}
    np.testing.assert_array_equal(np.frombuffer(learnt, "<f8"), end.state.average)
    np.testing.assert_array_equal(end.state.average, simulated.history.weights)
    assert end.preparation == simulated.history.preparation
    assert end.preparation.centre.any()
    assert np.abs(end.state.average).min() > 0
