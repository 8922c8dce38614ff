"""The container files, as far as they can be tested without a container."""

import json
import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra fedsel[service]")
pytest.importorskip("yaml")

import yaml

from fedsel.service import Task
from tests.test_docs import check

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
RELAY = yaml.safe_load((DEPLOY / "relay.yaml").read_text())["services"]["relay"]


def instruction(name):
    """What follows the last instruction of this name, which is a list."""
    return json.loads(re.findall(rf"^\s*{name} (\[.*\])$", DOCKERFILE, re.MULTILINE)[-1])


def test_the_command_lines_are_those_of_fedsel():
    assert instruction("ENTRYPOINT") == ["fedsel"]
    check(instruction("CMD"), values=True)  # the last one is that of the image
    check(COMPOSE["services"]["service"]["command"], values=True)
    check(RELAY["command"], values=True)


def test_the_image_has_all_that_its_package_is_built_from():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    assert all((ROOT / source).exists() for source in sources)
    targets = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    needed |= {*targets["force-include"], targets["hooks"]["custom"]["path"]}
    needed |= {package.partition("/")[0] for package in targets["packages"]}
    assert needed <= sources
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert sources <= {line[1:] for line in ignored if line.startswith("!")}


def test_nobody_runs_as_root_and_versions_are_pinned():
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert int(re.search(r"^USER (\d+)$", last, re.MULTILINE)[1]) >= 10000
    for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert re.fullmatch(r"python:3\.\d+-slim", image)
    images = {name: one.get("image") for name, one in COMPOSE["services"].items()}
    assert re.fullmatch(r"postgres:\d+", images["postgres"])
    assert re.fullmatch(r"prom/prometheus:v\d+", images["prometheus"])
    assert COMPOSE["services"]["service"]["build"]["dockerfile"] == "deploy/Dockerfile"


def test_ports_paths_and_names_agree():
    service = COMPOSE["services"]["service"]
    command = service["command"]
    assert "@postgres/" in command[command.index("--store") + 1]
    assert command[command.index("--host") + 1] == "0.0.0.0"
    assert "8000/readyz" in instruction("CMD")[0] or "8000/readyz" in DOCKERFILE
    for source, target, _ in (volume.split(":") for volume in service["volumes"]):
        assert (DEPLOY / source).is_file()
        assert target in command
    watched = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert watched["static_configs"] == [{"targets": ["service:8000"]}]
    assert watched["metrics_path"] == "/metrics"
    for port in service["ports"]:
        assert port.startswith("127.0.0.1:")  # Docker's rules would go past a firewall


def test_no_command_line_has_a_secret():
    """Whoever is on the machine sees command lines; libpq takes PGPASSWORD."""
    for one in COMPOSE["services"].values():
        assert not re.search(
            "PASSWORD|KEY", json.dumps([one.get("command"), one.get("healthcheck")])
        )
    assert "PGPASSWORD" in COMPOSE["services"]["service"]["environment"]


def test_no_secret_has_a_default():
    text = (DEPLOY / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "FEDSEL_SERVICE_KEY"):
        assert re.findall(rf"\${{{name}(.)", text)
        assert set(re.findall(rf"\${{{name}(..)", text)) == {":?"}


def test_a_relay_is_held_as_tightly_as_a_service():
    service = COMPOSE["services"]["service"]
    for name in ("build", "image", "ports", "read_only", "tmpfs", "cap_drop", "security_opt"):
        assert RELAY[name] == service[name], name
    settings, store = (volume.split(":") for volume in RELAY["volumes"])
    assert settings[1] in RELAY["command"]
    assert any(one.startswith(store[1]) for one in RELAY["command"])
    assert "environment" not in RELAY  # the service's secret least of all


def test_the_task_can_be_served_and_is_shuffled():
    task = Task.load(DEPLOY / "task.toml")
    assert task.begin.recipe.private
    assert task.shuffle.n_min > 100
    assert task.shuffled_epsilon < 4
