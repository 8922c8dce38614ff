"""The deployment of docs/relay.md, line by line, on this machine and with smaller numbers."""

import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import fedsel
from fedsel.auto import reachable_n_min
from fedsel.device import Client, Policy, RawRecords, join
from fedsel.wire import ShuffleRule
from tests.service.support import PATIENCE, Http, certificate, wait_until

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "relay.md").read_text("utf-8")
DEPLOYMENT = re.search(r"in fifteen lines\n\n```sh\n(.*?)```", PAGE, re.DOTALL)[1]
RECORDS = "age,hours,y\n31,40,1\n47,12,-1\n"
SMALLER = {
    "clients = 5000 ": "clients = 36 ",
    "--count 5000": "--count 36",
    "rounds_per_epoch = 20": "rounds_per_epoch = 1",  # no device is too slow for it
    "seconds = 3600": "seconds = 1",
}


def lines_of(text):
    """The commands; a file that is written, or a continued line, is one."""
    pattern = r"^cat > (?s:.*?)\nEND\n|^(?:[^#\n].*\\\n)*[^#\n].*\n"
    found = re.findall(pattern, text, re.MULTILINE)
    return [line.strip() for line in found]


def free_ports(count):
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in made:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in made]


def fedsel_command(line):
    """The arguments of a line, comments left out."""
    whole = os.path.expandvars(line.replace("\\\n", " "))
    name, *arguments = shlex.split(whole, comments=True)
    assert name == "fedsel"
    return [sys.executable, "-m", "fedsel", *arguments]


def test_it_has_fifteen_lines():
    assert sum(line.count("\n") - line.count("\\\n") + 1 for line in lines_of(DEPLOYMENT)) == 15


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_the_deployment(quick_path, monkeypatch):
    text, (learn, relay) = DEPLOYMENT, free_ports(2)
    local = {
        "https://learn.example:8000": f"https://127.0.0.1:{learn}",
        "https://relay.example:8000": f"https://127.0.0.1:{relay}",
        "--host 0.0.0.0": "--host 127.0.0.1",
    }
    for meant, here in {**SMALLER, **local}.items():
        assert meant in text
        text = text.replace(meant, here)
    write, invite_relay, serve, invite, relays, joins = lines_of(text)

    monkeypatch.chdir(quick_path)
    certificate(quick_path)
    Path("my.csv").write_text(RECORDS)
    subprocess.run(["bash", "-c", write], check=True)
    subprocess.run(fedsel_command(invite_relay), check=True)
    settings = tomllib.loads(Path("relay.toml").read_text())
    with Path("relay.toml").open("a") as file:
        file.write('ca = "cert.pem"\n')  # nobody else has signed it
    with ExitStack() as stack:
        for line, port in ((serve, learn), (relays, relay)):
            command = [*fedsel_command(line), "--port", str(port), "--json"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.callback(process.communicate, timeout=PATIENCE)
            stack.callback(process.terminate)
            told = json.loads(process.stdout.readline())
            assert told["address"] == f"https://127.0.0.1:{port}"
            if line is serve:
                subprocess.run(fedsel_command(invite), check=True)
        tokens = Path("tokens.txt").read_text().split()
        Path("token").write_text(tokens[0] + "\n")
        keys = {name: settings[name] for name in ("server_key", "signing_key")}
        for name, key in keys.items():
            monkeypatch.setenv(name.upper(), key)

        def device(number):
            about = {"lifetime": 4.0, "per_report": 4.0, "solutions": ["FJ"], "dimensions": [3]}
            client = Client(Policy(**about, **keys), f"ledger-{number}", create=True)
            records = RawRecords.read("my.csv", "y")
            where = {"token": tokens[number], "ca": "cert.pem", "every": 0.3}
            return join(f"https://127.0.0.1:{relay}", client, records, **where).accepted  # or late

        command = [*fedsel_command(joins), "--ca", "cert.pem", "--every", "0.3", "--json"]
        with ThreadPoolExecutor(len(tokens)) as pool:
            others = [pool.submit(device, number) for number in range(1, len(tokens))]
            first = subprocess.run(command, check=True, capture_output=True, text=True)
            accepted = json.loads(first.stdout)["accepted"] + sum(one.result() for one in others)
        (only,) = wait_until(lambda: closed_rounds(f"https://127.0.0.1:{learn}"))
        assert only["accepted"] == accepted >= reachable_n_min(36, 1, drop_out=0.1) > 20


def closed_rounds(address):
    """The rounds of a run that is over."""
    client = Http(address, ssl.create_default_context(cafile="cert.pem"))
    try:
        found = client.get("/v1/rounds")
        return found["rounds"] if found["finished"] else None
    finally:
        client.close()


@pytest.mark.parametrize(
    "row", re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
)
def test_the_table_of_fleets(row):
    clients, n_min = (int(cell.replace(",", "")) for cell in row[:2])
    assert n_min == reachable_n_min(clients, 20, drop_out=0.1)
    rule = ShuffleRule(n_min, dishonest=0.1)
    for local, told in ((4.0, row[2]), (1.0, row[3])):
        recipe = fedsel.Recipe("FJ", epsilon=local, dim=128, rho=0.4)
        found = rule.guarantee(recipe).epsilon
        assert 0.9 * float(told) < found <= float(told)
