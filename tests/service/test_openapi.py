"""The description of the service for programs."""

import json
from urllib.parse import urljoin

import pytest

from fedsel.service import Limits
from fedsel.service._monitoring import Metrics
from fedsel.service._openapi import document, relay_document, root_document
from fedsel.service._pages import static_routes
from fedsel.service._runs import Lobby
from fedsel.service._service import Service
from fedsel.service.relay._front import Relay
from tests.service.relay.support import relay_config
from tests.service.support import running, task_of
from tests.service.test_prefix import below_a_path, fetched
from tests.service.visiting import join_task

pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture
def service(quick_path):
    with running(join_task(close_after={"reports": 1}), quick_path / "store") as client:
        yield client


def test_the_description_for_programs_says_where_the_service_is(service):
    with below_a_path(service) as url:
        place = f"{url}/v1/openapi.json"
        (server,) = json.loads(fetched(place))["servers"]
        assert urljoin(place, server["url"]) == f"{url}/"


VERBS = ("get", "post", "put")


def methods(described):
    paths = described["paths"].items()
    return {(name.upper(), path) for path, about in paths for name in about if name in VERBS}


def test_every_route_but_those_of_files_is_described():
    files = {path for _, path, _ in static_routes()}
    for more in ({}, {"shuffle": {"n_min": 5}}):
        of_run = {entry[:2] for entry in Service(task_of(**more), "a", Metrics()).routes()}
        about = document("a", 16, Limits(), alone=False, shuffled=bool(more))
        assert of_run == methods(about)
    of_relay = {entry[:2] for entry in Relay(relay_config(), "a", Metrics()).routes()}
    assert of_relay == methods(relay_document("a", 64, alone=False))
    elsewhere = {("GET", "/runs/{run}/v1/openapi.json")}  # every run has its own
    apart = {("GET", "/v1/task")}  # answers devices that ask at the wrong address
    of_root = {tuple(route[:2]) for route in Lobby({}, Metrics()).routes() if route[1] not in files}
    assert of_root - apart == methods(root_document()) - elsewhere
