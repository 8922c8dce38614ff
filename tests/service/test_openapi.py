"""The description of the service for programs."""

import json
from urllib.parse import urljoin

import pytest

from tests.service.support import running
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
