"""The aggregator: hostile reports, crashes, and the very weights that the simulator gives."""

import io
import json
import math
import os
import random
import shutil
import signal
import struct
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsel.server._folder as folder_module
from fedsel import InvalidArgument, InvalidData, PublicFacts, Recipe, Reports, resolve_auto
from fedsel._internal.models import LinearModel
from fedsel._internal.random import stream
from fedsel.device import Client, Policy
from fedsel.sampling._kernels import native
from fedsel.server import Aggregator, CheckpointError, Counts, RoundRecord, StepRule, Verdict
from fedsel.server._aggregator import FILE_NAME
from fedsel.server._folder import LOCK_NAME
from fedsel.simulation import Population, Simulation, Training, train
from fedsel.simulation._clients import LinearClients, kernel_records
from fedsel.wire import Request
from tests.wire.support import complete

D = 12
NAMES = ["PS-PM", "PE-Duchi", "EXP-HM", "PM", "HM", "PM-RP", "PS-PM-O", "J", "UJ", "RJ", "RC", "FJ"]


def recipe(name="PS-PM", **changes):
    given_ = {"epsilon": 8.0, "dim": D, "epochs": 3, "k": 3, "ratio": 0.5, "learning_rate": 0.3}
    return complete(name, **{**given_, **changes})


def same_run(server, other):
    """Make a server take the reports of another one's run."""
    server._state, server._format = replace(server._state, run=other.run), other._format


def reports_of(server, clients, seed=0):
    """Reports and bytes of honest clients."""
    reports, data = [], []
    form = Request.decode(server.request()).format
    for i in clients:
        gradient = np.cos(np.arange(D) * (i + 1.0))
        entropy = stream(seed, server.round, i)
        report, _ = server.solution.encode(gradient, np.zeros(D), entropy)
        reports.append(report)
        data.append(form.encode(server.round, report))
    return reports, data


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_that_of_the_solution(tmp_path, name):
    server = Aggregator(recipe(name), tmp_path, weights=np.ones(D))
    reports, data = reports_of(server, range(50))
    assert all(server.receive(i, x) is Verdict.ACCEPTED for i, x in enumerate(data))
    expected = server.solution.decode(Reports.of(reports))
    np.testing.assert_allclose(server.mean(), expected, rtol=1e-12, atol=1e-12)
    server.step()
    rate = 1.0 if name.endswith("-O") else 0.3
    np.testing.assert_allclose(server.weights, 1 - rate * expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("looks", [False, True])
def test_who_looks_at_the_mean_changes_nothing(tmp_path, looks):
    """Reports are added up many at a time: none is forgotten, and none counts twice."""
    server = Aggregator(recipe("RJ"), tmp_path)
    reports, data = reports_of(server, range(5))
    for client, report in enumerate(data):
        assert server.receive(client, report) is Verdict.ACCEPTED
        if looks:
            server.mean()
    server.step()
    expected = -0.3 * server.solution.decode(Reports.of(reports))
    assert expected.any()
    np.testing.assert_allclose(server.weights, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_many_at_once_in_any_order_give_the_same_bits(tmp_path, name):
    made = recipe(name, epsilon=24.0)  # PM: three picks
    one = Aggregator(made, tmp_path / "one")
    many = Aggregator(made, tmp_path / "many")
    same_run(many, one)
    _, data = reports_of(one, range(200))
    for i, report in enumerate(data):
        one.receive(i, report)
    order = np.random.default_rng(0).permutation(200)
    for part in np.array_split(order, 3):
        counts = many.receive_many(b"".join(data[i] for i in part), part.tolist())
        assert counts == Counts(accepted=len(part))
    np.testing.assert_array_equal(one.mean(), many.mean())
    assert one.counts == many.counts == Counts(accepted=200)


def bad_reports(good):
    """Reports that are malformed, each in one way."""
    head, pair = good[:8], struct.Struct("<II")
    yield from (b"", good[:-1], good + b"\0", bytes(len(good)), b"\2" + good[1:])
    yield from (good[:1] + b"\0\0\0" + good[4:], good[:4] + b"\xff\xff\xff\xff" + good[8:])
    yield from (
        head + pair.pack(D, 0),
        head + pair.pack(0, 1 << 20),
        head + pair.pack(0, 2**32 - 1),
    )
    yield from (good[:4] + struct.pack("<I", 1) + good[8:],)  # a round that has not begun


def test_malformed_reports_are_counted_and_dropped(tmp_path):
    server = Aggregator(recipe(), tmp_path)
    _, (good,) = reports_of(server, [0])
    bad = list(bad_reports(good))
    for report in [*bad, None, 7, "text", bytearray(good), [good]]:
        assert server.receive("mallory", report) is Verdict.REJECTED
    assert server.receive("mallory", good) is Verdict.ACCEPTED  # a rejected one is no report
    assert server.receive("mallory", good) is Verdict.DUPLICATE
    whole = [report for report in bad if len(report) == len(good)]
    counts = server.receive_many(b"".join([*whole, good, good[:3]]), range(len(whole) + 1))
    assert counts == Counts(accepted=1, rejected=len(whole) + 1)
    before = server.mean()
    server.receive_many(b"".join(whole))
    assert (server.mean() == before).all()
    record = server.step()
    assert record == RoundRecord(0, 0, 2, len(bad) + 5 + 2 * len(whole) + 1, 1, 0)


def test_late_reports(tmp_path):
    server = Aggregator(recipe(epochs=2), tmp_path)
    _, (first,) = reports_of(server, [0])
    server.step()
    assert server.receive(0, first) is Verdict.LATE
    assert server.receive_many(first * 3) == Counts(late=3)
    assert server.step() == RoundRecord(1, 1, 0, 0, 0, 4)
    assert server.finished
    for use in (server.request, server.step):
        with pytest.raises(InvalidArgument, match="the run is over"):
            use()
    assert server.receive(0, first) is Verdict.LATE
    assert server.receive_many(first) == Counts(late=1)
    assert server.receive(0, first[:4] + struct.pack("<I", 2) + first[8:]) is Verdict.REJECTED


def test_duplicates_within_and_between_batches(tmp_path):
    server = Aggregator(recipe(), tmp_path)
    _, data = reports_of(server, range(4))
    assert server.receive(3, data[3]) is Verdict.ACCEPTED
    counts = server.receive_many(b"".join(data), np.array([0, 1, 1, 3]).tolist())
    assert counts == Counts(accepted=2, duplicate=2)
    assert server.receive_many(b"".join(data), [0, 1, 2, 3]) == Counts(accepted=1, duplicate=3)
    with pytest.raises(InvalidArgument, match=r"^clients = 3"):
        server.receive_many(b"".join(data), [0, 1, 2])


@pytest.mark.parametrize("bad", [["a list"], {}, math.nan, np.float64("nan"), (1, [])], ids=repr)
def test_a_name_that_no_client_can_have_loses_nothing(tmp_path, bad):
    """All names are looked at before any report is taken: the same reports can be sent again."""
    server, twin = Aggregator(recipe(), tmp_path / "a"), Aggregator(recipe(), tmp_path / "b")
    same_run(twin, server)
    _, data = reports_of(server, range(4))
    joined = b"".join(data)
    for names in ([0, 1, bad, 3], [0, 1, 2, bad], [bad, 1, 2, 3]):
        with pytest.raises(InvalidArgument, match=r"^clients = .*: must be hashable and equal"):
            server.receive_many(joined, names)
    with pytest.raises(InvalidArgument, match=r"^client = .*: must be hashable and equal"):
        server.receive(bad, data[0])
    with pytest.raises(InvalidArgument, match=r"^clients = .*: must be hashable and equal"):
        server.invite([0, bad])
    assert server.counts == Counts()
    assert server.receive_many(joined, range(4)) == twin.receive_many(joined, range(4))
    assert server.counts == Counts(accepted=4)
    np.testing.assert_array_equal(server.mean(), twin.mean())


def test_a_failure_while_reports_are_added_loses_no_name(tmp_path, monkeypatch):
    server = Aggregator(recipe(), tmp_path)
    _, data = reports_of(server, range(4))

    def fail(_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(server._totals, "add", fail)
        with pytest.raises(MemoryError):
            server.receive_many(b"".join(data), range(4))
    assert server.receive_many(b"".join(data), range(4)) == Counts(accepted=4)


def test_clients_without_a_name_among_those_with_one(tmp_path):
    """As with `receive`: nothing is known of them, so none is a duplicate."""
    one, many = Aggregator(recipe(), tmp_path / "one"), Aggregator(recipe(), tmp_path / "many")
    same_run(many, one)
    _, data = reports_of(one, range(5))
    names = [None, 1, None, 1, None]
    for name, report in zip(names, data, strict=True):
        one.receive(name, report)
    assert many.receive_many(b"".join(data), names) == one.counts == Counts(4, duplicate=1)
    np.testing.assert_array_equal(many.mean(), one.mean())


def test_only_the_invited_and_only_so_many(tmp_path):
    server = Aggregator(recipe(), tmp_path, limit=2)
    _, data = reports_of(server, range(5))
    server.invite([1, 2, 3])
    assert server.receive(0, data[0]) is Verdict.REJECTED
    assert server.receive(None, data[0]) is Verdict.REJECTED
    assert server.receive_many(b"".join(data)) == Counts(rejected=5)
    counts = server.receive_many(b"".join(data), range(5))
    assert counts == Counts(accepted=2, rejected=3)
    assert server.receive(3, data[3]) is Verdict.REJECTED
    server.step()
    _, data = reports_of(server, range(5))
    assert server.receive_many(b"".join(data)) == Counts(accepted=2, rejected=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PS-PM", "Duchi", "HM", "PM", "PM-RP", "J", "RJ", "RC"])
def test_one_hostile_client_moves_the_mean_by_its_influence_over_m(tmp_path, name):
    """Every slot and symbol: influence/m at most from a silent client, twice that from honest."""
    server = Aggregator(recipe(name, epsilon=8.0), tmp_path)
    _, data = reports_of(server, range(20))
    form = Request.decode(server.request()).format
    server.receive_many(b"".join(data[:-1]))
    sums, m = server._totals.sums.copy(), 20
    silent = server.mean() * (m - 1) / m
    server.receive(None, data[-1])
    honest = server.mean()
    largest = longest = 0.0
    for slot in range(form.slots):
        # Slots differ in their codewords alone: in the others the ends of the scale are enough.
        for symbol in range(form.symbols) if slot == 0 else (0, form.symbols - 1):
            server._totals.sums[:] = sums
            server._totals.count = server._counts[Verdict.ACCEPTED] = m - 1
            slots = [(slot + p) % form.slots for p in range(form.picks)]
            report = Reports(slots, [symbol] * form.picks)
            assert server.receive(None, form.encode(0, report)) is Verdict.ACCEPTED
            moved, away = server.mean() - silent, server.mean() - honest
            largest = max(largest, np.abs(moved).max())
            longest = max(longest, np.linalg.norm(moved))
            assert np.abs(away).max() <= 2 * server.influence.largest / m * (1 + 1e-9)
            assert np.linalg.norm(away) <= 2 * server.influence.norm / m * (1 + 1e-9)
    assert largest == pytest.approx(server.influence.largest / m)
    assert longest == pytest.approx(server.influence.norm / m)


@settings(max_examples=200)
@given(st.lists(st.binary(min_size=16, max_size=16) | st.binary(max_size=40), max_size=20))
def test_any_bytes_are_counted_once_and_crash_nothing(reports):
    server = FUZZED
    for report in reports:
        before = sum(server.counts)
        server.receive(None, report)
        assert sum(server.counts) == before + 1
    counts = server.receive_many(b"".join(reports))
    assert sum(counts) == -(-sum(map(len, reports)) // 16)
    assert np.isfinite(server.mean()).all()


@pytest.fixture(autouse=True, scope="module")
def _fuzzed(tmp_path_factory):
    global FUZZED  # noqa: PLW0603 - hypothesis and fixtures of a function do not go together
    FUZZED = Aggregator(recipe(), tmp_path_factory.mktemp("fuzzed"))


def test_a_restart_goes_on_where_it_was(tmp_path):
    """Reports of the unfinished round are asked for again; none is lost or counted twice."""
    whole = Aggregator(recipe(), tmp_path / "whole", rounds_per_epoch=2)
    broken = Aggregator(recipe(), tmp_path / "broken", rounds_per_epoch=2)
    same_run(broken, whole)
    broken._save(broken._state)
    while not whole.finished:
        _, data = reports_of(whole, range(30))
        whole.receive_many(b"".join(data), range(30))
        broken.receive_many(b"".join(data[:17]), range(17))
        request = broken.request()
        broken.close()
        broken = Aggregator(recipe(), tmp_path / "broken", rounds_per_epoch=2)  # as after a crash
        assert broken.request() == request == whole.request()
        assert broken.counts == Counts()
        broken.receive_many(b"".join(data), range(30))
        assert broken.step() == whole.step()
    assert broken.finished
    broken.close()
    again = Aggregator(recipe(), tmp_path / "broken", rounds_per_epoch=2)
    np.testing.assert_array_equal(again.weights, whole.weights)
    assert again.records == whole.records
    assert [(r.round, r.epoch) for r in again.records] == [(i, i // 2) for i in range(6)]


@pytest.mark.skipif(os.name != "posix", reason="folders are flushed where the platform can")
def test_a_checkpoint_is_flushed_before_and_its_name_after_it_takes_its_place(
    tmp_path, monkeypatch
):
    """A power cut at any time leaves the old one or the new one, whole."""
    file, flush, flushed = tmp_path / "file", os.fsync, []
    file.write_bytes(b"old")

    def noted(handle):
        flushed.append((os.fstat(handle).st_ino, os.fstat(handle).st_size, file.read_bytes()))
        flush(handle)

    monkeypatch.setattr(os, "fsync", noted)
    folder_module.replace_file(file, b"a new one")
    first, (folder, _, seen) = flushed
    assert first == (file.stat().st_ino, len(b"a new one"), b"old")
    assert (folder, seen) == (tmp_path.stat().st_ino, b"a new one")


@pytest.mark.parametrize("moment", ["open", "fsync", "replace"])
def test_a_crash_while_the_checkpoint_is_written(tmp_path, moment, monkeypatch):
    server = Aggregator(recipe(), tmp_path)
    _, data = reports_of(server, range(9))
    server.receive_many(b"".join(data), range(9))
    expected = server.mean()
    before = (tmp_path / FILE_NAME).read_bytes()

    def fail(*_, **__):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        if moment == "fsync":
            patch.setattr(os, "fsync", fail)
        else:
            patch.setattr(Path, moment, fail)
        with pytest.raises(OSError, match="no space left"):
            server.step()
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert server.round == 0
    assert {file.name for file in tmp_path.iterdir()} == {FILE_NAME, LOCK_NAME}
    assert server.step().accepted == 9  # the round was not over: it is tried again
    np.testing.assert_allclose(server.weights, -0.3 * expected, rtol=1e-12)


def play_round(server):
    _, data = reports_of(server, range(5))
    server.receive_many(b"".join(data), range(5))
    return server.step()


@pytest.mark.slow
def test_kill_minus_nine_loses_no_round_and_counts_none_twice(quick_path):
    """A server that is killed at random instants has the weights of one that never was."""
    long = recipe(epochs=1000)
    whole = Aggregator(long, quick_path / "whole")
    server = Aggregator(long, quick_path / "killed")
    same_run(server, whole)
    server._save(server._state)
    play_round(whole)  # laws are built once, before the children
    expected = [np.zeros(D), whole.weights]
    rng, reached, longest = random.Random(0), [0], 0.015
    # On a busy machine a server gets less far before it is killed: then it lives longer.
    while not server.finished and (len(reached) < 60 or reached[-1] <= 10) and len(reached) < 600:
        server.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other tests may have left threads
            pid = os.fork()
        if pid == 0:
            try:
                own = Aggregator(long, quick_path / "killed")
                while True:
                    play_round(own)
            finally:
                os._exit(1)
        time.sleep(rng.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        server = Aggregator(long, quick_path / "killed")
        assert server.round >= reached[-1]
        while whole.round < server.round:
            play_round(whole)
            expected.append(whole.weights)
        np.testing.assert_array_equal(server.weights, expected[server.round])
        assert server.records == whole.records[: server.round]
        reached.append(server.round)
        longest *= 2 if len(reached) % 60 == 0 else 1
    assert reached[-1] > 10


def test_damaged_checkpoints_are_refused(tmp_path):
    Aggregator(recipe(), tmp_path).step()
    file = tmp_path / FILE_NAME
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    places = [*range(50), *rng.integers(0, len(whole), 50).tolist()]
    damaged = [whole[:-1], whole[:20], b"", whole + b"x"]
    damaged += [whole[:p] + bytes([whole[p] ^ 4]) + whole[p + 1 :] for p in places]
    for data in damaged:
        file.write_bytes(data)
        with pytest.raises(CheckpointError):
            Aggregator(recipe(), tmp_path)
        assert file.read_bytes() == data
    file.write_bytes(whole)
    assert Aggregator(recipe(), tmp_path).round == 1


def test_the_checkpoint_of_another_recipe(tmp_path):
    Aggregator(recipe(), tmp_path)
    for change in ({"clip": 2.0}, {"averaging": 1.0}, {"reg": 0.1}, {"learning_rate": 0.2}):
        with pytest.raises(InvalidArgument, match="as in the checkpoint"):
            Aggregator(recipe(**change), tmp_path)
    with pytest.raises(InvalidArgument, match="as in the checkpoint"):
        Aggregator(recipe(), tmp_path, rounds_per_epoch=2)


def test_how_a_recipe_was_come_to_is_no_part_of_the_checkpoint(tmp_path):
    """Nor is what does not matter to its solution, which may be left open."""
    few = PublicFacts(dim=D, clients=3, rounds=3)
    flat = resolve_auto(Recipe("PS-PM", epsilon=0.5, theta=0.3, learning_rate=0.3), few)
    assert (flat.solution, flat.requested_solution) == ("PM", "PS-PM")
    open_ = Recipe("PM", epsilon=0.5, dim=D, learning_rate=0.3, averaging=0.0)
    for made in (flat, open_):
        Aggregator(made, tmp_path / str(made.requested_solution)).step()
        assert Aggregator(made, tmp_path / str(made.requested_solution)).finished
    Aggregator(open_, tmp_path / "PS-PM")  # the same run, written down by hand


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dim", {"dim": None}),
        ("learning_rate", {"learning_rate": "auto"}),
        ("averaging", {"averaging": "auto"}),
        ("mu", {"mu": "auto"}),
        ("rho", {"name": "RJ", "rho": "auto"}),
        ("epsilon", {"epsilon": 1e-300}),
        ("solution", {"name": "NP"}),
        ("solution", {"name": "PS"}),
        ("solution", {"name": "PrivUnit"}),
    ],
)
def test_recipes_that_no_server_can_run(tmp_path, name, change):
    """Named, before anything is written."""
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        Aggregator(recipe(**change), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_was_put_there_by_hand(tmp_path):
    one, other = Aggregator(recipe(), tmp_path), Aggregator(recipe(), tmp_path / "other")
    before = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes((tmp_path / "other" / FILE_NAME).read_bytes())
    with pytest.raises(CheckpointError, match="another process"):
        one.step()
    other.step()
    (tmp_path / FILE_NAME).write_bytes(before)
    one.step()


def test_versions_of_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr("fedsel.server._checkpoint._VERSION", 3)
    Aggregator(recipe(), tmp_path)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"version 3, of which this fedsel reads \(1, 2\)"):
        Aggregator(recipe(), tmp_path)


def test_a_checkpoint_of_version_1_has_neither_decay_nor_average(tmp_path):
    golden = Path(__file__).parents[1] / "golden"
    (tmp_path / FILE_NAME).write_bytes((golden / "checkpoint-v1.bin").read_bytes())
    given_ = json.loads((golden / "weights.json").read_text(encoding="utf-8"))["parameters"]
    dim = len(np.load(io.BytesIO((tmp_path / FILE_NAME).read_bytes()[40:]))["weights"])
    made = complete("RJ", **{**given_, "dim": dim, "learning_rate": 0.4})
    for change in ({"averaging": 3.0}, {"reg": 0.1}):
        with pytest.raises(InvalidArgument, match="as in the checkpoint"):
            Aggregator(replace(made, **change), tmp_path, rounds_per_epoch=2)
    server = Aggregator(made, tmp_path, rounds_per_epoch=2)
    assert (server.round, server.state.rounds) == (3, 3)
    np.testing.assert_array_equal(server.model, server.weights)
    server.step()
    server.close()
    again = Aggregator(made, tmp_path, rounds_per_epoch=2)
    np.testing.assert_array_equal(again.weights, server.weights)
    assert again.records == server.records


@pytest.mark.parametrize("weights", [np.zeros(D + 1), np.full(D, np.nan), "zero"])
def test_impossible_first_weights(tmp_path, weights):
    with pytest.raises((InvalidArgument, InvalidData), match="weights"):
        Aggregator(recipe(), tmp_path, weights=weights)


CLIENTS, BATCH = 23, 5
ROUNDS = -(-CLIENTS // BATCH)
WHOLE = {name: recipe(name, momentum=0.5, reg=0.01, averaging=2.0) for name in NAMES}
RECOMMENDED = resolve_auto(
    Recipe(epsilon=8.0, epochs=3, reg=0.02), PublicFacts(dim=D, clients=BATCH, rounds=3 * ROUNDS)
)
RUNS = {
    **{name: (made, 0.0) for name, made in WHOLE.items()},
    "the last weights": (recipe(momentum=0.5, reg=0.01), 0.0),
    "recommended": (RECOMMENDED, 0.0),
    "recommended, with silence": (RECOMMENDED, 0.7),
}


def test_the_recommended_recipe_is_all_that_the_server_can_do():
    made, rule = RECOMMENDED, StepRule.of(RECOMMENDED)
    assert (made.solution, made.averaging) == ("FJ", 3.0)
    assert made.rho > 0
    assert rule == StepRule(made.learning_rate, made.learning_rate * 0.02, 3.0)


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_devices_and_server_give_the_weights_of_the_simulator(quick_path, run):
    """The same words, the same schedule, the same gradients: Algorithm 1 over the wire.

    To the bit, weights and average, after every round; and so does a server that is closed in the
    middle of a round and opened again.
    """
    (made, dropout), seed = RUNS[run], 4
    solution, model = made.build(), LinearModel(reg=made.reg)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(CLIENTS, D)).astype(np.float32)
    people = Population(X, np.where(X @ rng.normal(size=D) > 0, 1, -1).astype(np.int8))
    training = Training(
        solution,
        made.learning_rate,
        BATCH,
        reg=made.reg,
        dropout=dropout,
        seed=seed,
        averaging=made.averaging,
    )
    own = LinearClients(people, LinearModel(reg=training.rule.client_reg))
    simulator = Simulation(training, own, np.zeros(D))
    records, one = kernel_records(people), np.array([1])

    def gradient_of(client):
        def gradient(weights):
            out = np.empty(D, dtype=np.float32)
            own = 0.0 if solution.decays_at_server else model.reg
            decay, w = (own * weights).astype(np.float32), weights.astype(np.float32)
            # A round of this client alone: the sum over its clients is the gradient of its loss.
            native.nonprivate_rounds(records, np.array([client]), one, 0.0, 0.0, w, out)
            return out + decay

        return gradient

    def agree(server, state):
        assert server.round == state.rounds
        for found, expected in ((server.weights, state.weights), (server.model, state.average)):
            if solution.rate_inside:  # …-O rounds α·g at another place
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(found, expected)

    policy = Policy(lifetime=8.0, per_report=3.0, solutions=[made.solution], dimensions=[D])
    devices = [Client(policy, quick_path / f"store-{i}", create=True) for i in range(CLIENTS)]
    servers = [Aggregator(made, quick_path / "server", rounds_per_epoch=ROUNDS)]
    reports = []
    for epoch in range(made.epochs):
        order, ends = training.schedule(people.taking_part, people.clients, epoch)
        states = simulator.run(epoch, order, ends, True)
        for part, state in zip(np.split(order, ends[:-1]), states, strict=True):
            request, weights, told = servers[0].request(), servers[0].weights, {}
            for client in part.tolist():
                devices[client]._entropy = stream(seed, epoch, client)
                told[client] = devices[client].answer(request, weights, gradient_of(client))
                assert servers[0].receive(client, told[client]) is Verdict.ACCEPTED
            if state.rounds == 8:  # all that this round has sent so far is lost, and asked again
                shutil.copytree(quick_path / "server", quick_path / "again")
                servers.append(Aggregator(made, quick_path / "again", rounds_per_epoch=ROUNDS))
                assert servers[1].request() == request
                np.testing.assert_array_equal(servers[1].weights, weights)
                again = {i: devices[i].answer(request, weights, gradient_of(i)) for i in told}
                assert again == told
            for other in servers[1:]:
                for client, report in told.items():
                    assert other.receive(client, report) is Verdict.ACCEPTED
            for server in servers:
                server.step()
                agree(server, state)
            reports.append(len(told))
    assert len(servers) == 2
    assert all(server.finished for server in servers)
    assert servers[0].records == servers[1].records
    servers[1].close()
    last = Aggregator(made, quick_path / "again", rounds_per_epoch=ROUNDS)
    for server in (*servers, last):
        np.testing.assert_array_equal(server.weights, servers[0].weights)
        np.testing.assert_array_equal(server.model, servers[0].model)
        agree(server, simulator.state)
        assert np.array_equal(server.model, server.weights) == (made.averaging == 0)
    np.testing.assert_array_equal(train(training, people).weights, simulator.state.average)
    assert (min(reports) == 0) == (dropout > 0)  # a round of silence
    for device in devices:
        assert (device.history().left == 0) or dropout > 0
    assert np.abs(servers[0].weights).max() > 0.01
