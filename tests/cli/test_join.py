"""``fedsel join`` as an owner meets it: processes that are killed, and what it says."""

import json
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="needs the extra fedsel[service]")

from fedsel.device import Ledger
from fedsel.device import _client as clients
from fedsel.device._records import SuitedRecords
from fedsel.service import Task
from fedsel.service.inviting import invitations
from tests.cli.support import FEDSEL, run_here, wait_for
from tests.device.joining import CUT, Script, Server
from tests.service.relay.support import relayed
from tests.service.support import PATIENCE, Http, ServiceProcess, running, wait_until
from tests.service.test_running import certificate
from tests.service.visiting import join_task

pytestmark = pytest.mark.xdist_group("processes")
KEYS = ("server_key", "signing_key")
POLICY = 'lifetime = 2.0\nper_report = 2.0\nsolutions = ["FJ", "RJ"]\ndimensions = [3]\n'


@pytest.fixture
def folder(quick_path):
    """Records, a policy and an invitation."""
    (quick_path / "my.csv").write_text("y,pay,age\nyes,50,30\nno,20,60\n")
    (quick_path / "policy.toml").write_text(POLICY)
    (quick_path / "invitation").write_text("an-invitation\n")
    return quick_path


def arguments(folder, url, *more, store="ledger"):
    command = ["join", url, "--data", folder / "my.csv", "--label", "y"]
    command += ["--store", folder / store, "--create", "--every", "0.05"]
    command += [] if "--patience" in more else ["--patience", "60"]
    if "--lifetime" not in more and "--policy" not in more:
        command += ["--policy", folder / "policy.toml"]
    if "--token-file" not in more:
        command += ["--token-file", folder / "invitation"]
    return [str(part) for part in (*command, *more)]


def started(folder, url, *more):
    return subprocess.Popen(
        [FEDSEL, *arguments(folder, url, "--json", *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def test_it_says_what_is_asked_and_shows_the_ledger(folder):
    script = Script()
    with Server(script) as server:
        done = run_here(*arguments(folder, server.url))
    for line in (
        "'test' asks this device for reports.",
        "purpose: Testing   recipient: Testers",
        "of your columns: age, pay",
        "RJ, d = 3: ε = 2 a report, 1 report, ε = 2 in all",
        "your policy: ε ≤ 2 a report; 2 of 2 are left, enough for 1 of them",
        "round 0: accepted",
    ):
        assert line in done.stderr
    assert "ε left: 0" in done.stdout
    assert "1 report accepted" in done.stdout


def test_what_a_service_says_is_text_and_nothing_else(folder):
    """A terminal may be where JSON goes, too."""
    hostile = "\u202e\u2066\x9b31m\x1b[31m\ud800"
    script = Script()
    script.next["/v1/reports"] = [(400, json.dumps({"error": hostile}).encode(), {})]
    with Server(script) as server:
        done = run_here(*arguments(folder, server.url, "--json"), status=1)
    told = json.loads(done.stdout)
    assert (told["ending"], told["message"].endswith(hostile)) == ("not_understood", True)
    printed = done.stdout + done.stderr
    assert not any(letter in printed for letter in hostile.replace("31m", "").replace("[", ""))


def test_two_numbers_in_place_of_a_policy(folder):
    with Server(Script(epochs=2)) as server:
        limits = ("--lifetime", "1.5", "--per-report", "1")
        told = json.loads(run_here(*arguments(folder, server.url, *limits, "--json")).stdout)
        assert (told["ending"], told["accepted"]) == ("spent", 1)
        assert told["ledger"]["left_exact"] == "1/2"
        limits = ("--lifetime", "1.5", "--per-report", "0.5")
        refused = run_here(*arguments(folder, server.url, *limits, store="b"), status=1)
    assert "this device refuses what it is asked: the report would cost more" in refused.stdout


def test_what_of_a_task_the_policy_does_not_allow_is_named(folder):
    policy = (folder / "policy.toml").read_text()
    assert "dimensions = [3]" in policy
    (folder / "policy.toml").write_text(policy.replace("[3]", "[4, 5]"))
    with Server(Script()) as server:
        refused = run_here(*arguments(folder, server.url), status=1)
    assert "your policy does not allow d = 3, only 4, 5\n" in refused.stderr
    assert "ε spent: 0" in refused.stdout


def test_a_column_that_the_policy_does_not_allow_is_named(folder):
    policy = (folder / "policy.toml").read_text() + '\ncolumns = ["age"]\n'
    (folder / "policy.toml").write_text(policy)
    with Server(Script()) as server:
        refused = run_here(*arguments(folder, server.url), status=1)
        assert server.script.seen["/v1/invitation"] == 0
    assert 'your policy does not allow the column "pay"' in refused.stderr
    assert 'the policy of this device does not allow the column "pay"' in refused.stdout
    assert "ε spent: 0" in refused.stdout


def test_a_lifetime_above_the_ledgers_is_refused_before_any_contact(folder):
    run_here("ledger", "create", folder / "ledger", "--lifetime", "1")
    for limits in (("--lifetime", "1.5"), ("--policy", folder / "policy.toml")):
        given = ("--data", folder / "my.csv", "--label", "y", "--store", folder / "ledger")
        refused = run_here("join", "http://127.0.0.1:1", *given, *limits, status=1)
        assert "must be at most 1.0" in refused.stderr
        assert "fedsel ledger raise DIR" in refused.stderr


def test_it_asks_on_a_terminal_alone(folder, monkeypatch):
    from typer.testing import CliRunner

    from fedsel import cli

    with Server(Script()) as server:
        given = arguments(folder, server.url)
        monkeypatch.setattr("fedsel.cli.join._is_asked", lambda: True)
        refused = CliRunner().invoke(cli.app, given, input="n\n")
        assert refused.exit_code == 1
        assert "Take part?" in refused.stderr
        assert not (folder / "ledger").exists()
        agreed = CliRunner().invoke(cli.app, given, input="y\n")
        assert agreed.exit_code == 0
    with Server(Script()) as server:
        given = arguments(folder, server.url, "--yes", store="b")
        assert "Take part?" not in CliRunner().invoke(cli.app, given).stderr


@pytest.mark.parametrize(
    ("change", "status", "complaint"),
    [
        (["--label", "z"], 2, "--label = 'z': must be a column of"),
        (["--data", "nothing.csv"], 2, "--data = 'nothing.csv': must be a file"),
        (
            ["--lifetime", "1", "--policy", "{folder}/policy.toml"],
            2,
            "--lifetime = 1.0: must be om",
        ),
        (["--per-report", "1"], 2, "--per-report = 1.0: must be omitted with --policy"),
        (["--lifetime", "-1"], 2, "--lifetime = -1.0: must be a number > 0"),
        (["--token", "x"], 2, "must be omitted with --token"),
        (["--token-file", "{folder}/my.csv"], 2, "a file with one invitation"),
        (["--every", "0"], 2, "--every = 0.0"),
        (["--ca", "{folder}/my.csv"], 2, "--ca"),
    ],
)
def test_wrong_options_are_told_in_the_words_of_the_owner(folder, change, status, complaint):
    change = [part.format(folder=folder) for part in change]
    done = run_here(*arguments(folder, "http://127.0.0.1:1", *change), status=status)
    assert complaint in done.stderr
    assert not (folder / "ledger").exists()


def test_whatever_ends_it_too_early_is_told(folder):
    assert "URL = 'x': must be the address of a service" in (
        run_here(*arguments(folder, "x"), status=2).stderr
    )
    with Server(Script(schema={"columns": {"age": [0, 9], "shoe": [0, 9]}})) as server:
        done = run_here(*arguments(folder, server.url), status=2)
        assert "column = 'shoe': must be in the records, as the task asks for it" in done.stderr
        assert not (folder / "ledger").exists()
        url = server.url
    done = run_here(*arguments(folder, url, "--patience", "1"), status=1)
    assert "the service does not answer: " in done.stderr
    script = Script()
    script.next["/v1/invitation"] = [(401, b"{}", {})]
    with Server(script) as server:
        done = run_here(*arguments(folder, server.url), status=1)
        assert "the invitation is not valid for this run" in done.stdout
    script = Script()
    script.finished = True
    with Server(script) as server:
        done = run_here(*arguments(folder, server.url))
        assert "The run 'test' is over." in done.stderr
        assert "0 reports accepted; the run is over" in done.stdout


def test_the_records_of_the_file_are_read_within_an_update_alone(folder, monkeypatch):
    reads, evaluated, arranged = [], clients.evaluated, SuitedRecords.arranged

    def update(*given, **more):
        reads.append("begin")
        value = evaluated(*given, **more)
        reads.append("end")
        return value

    monkeypatch.setattr(clients, "evaluated", update)
    monkeypatch.setattr(SuitedRecords, "arranged", lambda s: reads.append("read") or arranged(s))
    with Server(Script()) as server:
        limits = ("--lifetime", "1.5", "--per-report", "0.5")
        run_here(*arguments(folder, server.url, *limits), status=1)
        assert reads == []
        run_here(*arguments(folder, server.url, store="b"))
    assert reads == ["begin", "read", "end"]


def test_killed_between_charge_and_send_it_sends_the_same_bytes_and_pays_once(folder):
    script = Script()

    def hold(_):
        time.sleep(1.0)
        return CUT

    script.next["/v1/reports"] = [hold]
    with Server(script) as server:
        first = started(folder, server.url)
        wait_for(script.posted.is_set)
        first.kill()
        first.communicate()
        paid = Ledger(folder / "ledger").read()
        assert len(paid.entries) == 1
        out, err = started(folder, server.url).communicate(timeout=PATIENCE)
    told = json.loads(out)
    assert (told["accepted"], len(told["ledger"]["reports"])) == (1, 1), err
    assert script.bodies == [paid.entries[0].report] * 2


def test_interrupted_it_shows_the_ledger(folder):
    script = Script(epochs=2)
    script.took = lambda body: (200, b'{"outcome": "accepted"}', {})  # and the round goes on
    with Server(script) as server:
        device = started(folder, server.url)
        wait_for(script.posted.is_set)
        device.send_signal(signal.SIGINT)
        out, err = device.communicate(timeout=PATIENCE)
    assert device.returncode == 130
    assert "ε spent: 1" in out
    assert "interrupted" in err
    assert "Traceback" not in err


def test_without_a_ledger_it_contacts_nobody(folder):
    given = [part for part in arguments(folder, "http://127.0.0.1:1") if part != "--create"]
    assert "must be a folder with a ledger; --create begins one" in (
        run_here(*given, status=2).stderr
    )


def task_file(folder, devices, epochs):
    file = folder / "task.toml"
    file.write_text(
        f'epsilon = 2.0\nepochs = {epochs}\nclients = {devices}\nfeatures = ["age", "pay"]\n'
        'feature_range = [0, 100]\nlabels = ["no", "yes"]\n'
        f"close_after = {{ reports = {devices} }}\n"
        "limits = { per_client = 1e9, per_address = 1e9 }\n"
    )
    return file


@pytest.mark.slow
def test_devices_survive_a_service_that_is_killed_and_nothing_is_lost_or_doubled(folder):
    devices, epochs = 2, 12
    file, store = task_file(folder, devices, epochs), folder / "store"
    tokens = list(invitations(Task.load(file), store, devices))
    with ServiceProcess(file, store) as service:
        processes = []
        for number, token in enumerate(tokens):
            (folder / f"token-{number}").write_text(token)
            given = ("--store", folder / f"ledger-{number}")
            given += ("--token-file", folder / f"token-{number}")
            processes.append(started(folder, service.address, *given))
        client = Http(service.address)
        client.wait_for(2)
        for number in (4, 7):
            client.close()
            service.kill()
            service.start()
            client.wait_for(number)
        outs = [process.communicate(timeout=PATIENCE) for process in processes]
        rounds = client.get("/v1/rounds")
        client.close()
    assert [process.returncode for process in processes] == [0, 0], outs
    told = [json.loads(out) for out, _ in outs]
    assert [one["accepted"] for one in told] == [epochs] * devices
    assert [one["ledger"]["spent_exact"] for one in told] == ["2"] * devices
    assert [one["accepted"] for one in rounds["rounds"]] == [devices] * epochs
    assert rounds["finished"]


def test_over_tls(folder):
    cert, key = certificate(folder)
    task = Task.load(task_file(folder, 1, 1))
    with running(task, folder / "s", tls_cert=cert, tls_key=key) as client:
        (folder / "invitation").write_text(client.invitations.invite("device"))
        done = run_here(*arguments(folder, client.address), status=1)
        assert "its certificate is not trusted" in done.stderr
        done = run_here(*arguments(folder, client.address, "--ca", folder / "cert.pem"))
        assert "1 report accepted" in done.stdout


def test_any_token_of_a_stranger_is_refused_by_the_service_before_it_is_paid_for(folder):
    with running(Task.load(task_file(folder, 1, 1)), folder / "s") as client:
        done = run_here(*arguments(folder, client.address), status=1)
        assert "the invitation is not valid for this run" in done.stdout
        assert Ledger(folder / "ledger").read().entries == ()
        (folder / "invitation").write_text(client.invitations.invite("gateway"))
        done = run_here(*arguments(folder, client.address), status=1)
        assert "the invitation is for a gateway" in done.stdout
        assert client.get("/v1/rounds/open")["counts"]["rejected"] == 0


@contextmanager
def at_relay(folder, **changes):
    """A relay, by default of rounds with two reports, and an invitation to it."""
    (folder / "my.csv").write_text("y,age,hours\nstays,50,30\nleaves,20,60\n")
    given = {"close_after": {"reports": 2}, "shuffle": {"n_min": 2, "dishonest": 0.0}, **changes}
    task = join_task(epsilon=1, epochs=1, clients=100, **given)
    with relayed(folder, task=task) as (service, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        (folder / "invitation").write_text(relay.invitations.invite("device"))
        relay.task, relay.behind = task, service
        yield relay


def key_options(config):
    return "--server-key", config.server_key, "--signing-key", config.signing_key


def sealed_policy(folder, config, *without):
    keys = [f'{name} = "{getattr(config, name)}"' for name in KEYS if name not in without]
    text = "\n".join(['lifetime = 1\nper_report = 1\nsolutions = ["FJ"]\ndimensions = [3]', *keys])
    (folder / "sealed.toml").write_text(text)
    return "--policy", folder / "sealed.toml"


def test_both_numbers_of_a_relay_are_shown_before_it_pays(folder, monkeypatch):
    from typer.testing import CliRunner

    from fedsel import cli

    monkeypatch.setattr("fedsel.cli.join._is_asked", lambda: True)
    with at_relay(folder, close_after={"reports": 100}, shuffle={"n_min": 80}) as relay:
        given = arguments(folder, relay.address, "--lifetime", "1", *key_options(relay.config))
        said = CliRunner().invoke(cli.app, given, input="n\n").stderr
        both = relay.task.shuffle.said(relay.task.shuffled_epsilon, 1)
        assert both.startswith("ε = 1 against everybody; ε = 0.")
        assert both in said
        assert "releases a round with at least 80 reports, or never; at most 8 of them" in said
        assert "The open round has 0 of the 80 reports." in said
        assert "is paid for when it leaves, and counts once its round is released" in said
        assert "Take part?" in said.splitlines()[-2]
        assert not (folder / "ledger").exists()
        assert relay.get("/v1/rounds/open")["counts"]["accepted"] == 0


def test_it_takes_part_behind_a_relay_by_options_and_by_a_policy(folder):
    with at_relay(folder) as relay:
        limits = ("--lifetime", "1", *key_options(relay.config), "--json")
        told = json.loads(run_here(*arguments(folder, relay.address, *limits)).stdout)
        assert (told["ending"], told["accepted"]) == ("done", 1)
        (folder / "invitation").write_text(relay.invitations.invite("device"))
        limits = sealed_policy(folder, relay.config)
        done = run_here(*arguments(folder, relay.address, *limits, store="b"))
        assert "1 report accepted" in done.stdout
        relay.behind.wait_for(1)
        assert [one["accepted"] for one in relay.behind.get("/v1/rounds")["rounds"]] == [2]


def test_without_the_keys_of_the_service_nothing_is_asked_or_paid(folder, monkeypatch):
    monkeypatch.setattr("fedsel.cli.join._is_asked", lambda: True)
    with at_relay(folder) as relay:
        config, told = relay.config, {}
        for store, limits in {
            "none": ("--lifetime", "1"),
            "one": ("--lifetime", "1", *key_options(config)[:2]),
            "policy": sealed_policy(folder, config, *KEYS),
            "wrong": ("--lifetime", "1", *key_options(config)[:3], "ab" * 32),
        }.items():
            done = run_here(*arguments(folder, relay.address, *limits, store=store), status=1)
            told[store] = done.stderr.splitlines()[-1]
            assert "0 reports accepted; this device refuses what it is asked" in done.stdout
            assert Ledger(folder / store).read().entries == ()
        assert relay.get("/v1/rounds/open")["counts"]["accepted"] == 0
    server, signing = (f'{name} = "{getattr(config, name)}"' for name in KEYS)
    needs, options = "reports of this run leave sealed: its policy needs", "(--server-key, --sign"
    for store in ("none", "policy"):
        assert f"{needs} {server} and {signing}, if these are the service's" in told[store]
        assert options in told[store]
    assert f"{needs} {signing}, if that is the service's" in told["one"]
    assert told["wrong"] == "  the run has another signing_key than its policy"
