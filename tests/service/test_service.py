"""What the service of a shuffled run gives, and what it refuses."""

import pytest

from fedsel.wire import SignedRound
from tests.service.relay.support import SHUFFLED
from tests.service.support import running, task_of


@pytest.fixture
def service(quick_path):
    with running(task_of(**SHUFFLED), quick_path / "store") as client:
        yield client


def test_both_numbers_and_the_keys_are_announced(service):
    shuffle = service.get("/v1/task")["shuffle"]
    assert (shuffle["n_min"], shuffle["honest"], shuffle["dishonest"]) == (4, 4, 0.0)
    assert 0 < shuffle["epsilon"] <= 4.0


def test_signatures_cover_the_open_round_alone(service):
    key = service.get("/v1/task")["shuffle"]["signing_key"]
    signed = SignedRound.verify(service.get("/v1/rounds/0/signature"), key)
    assert signed.covers(
        request=service.get("/v1/rounds/0/request"), weights=service.get("/v1/rounds/0/weights")
    )
    assert service.get("/v1/rounds/open/signature") == service.get("/v1/rounds/0/signature")
    assert service.ask("GET", "/v1/rounds/1/signature")[0] == 404


def test_a_part_needs_a_length_and_room(service):
    token, path = service.invitations.invite("relay"), "/v1/rounds/0/shuffled/0"
    assert service.ask("POST", path, b"", token)[2]["error"] == "malformed"
    status, _, answer = service.ask("POST", path, bytes(640), token)
    assert (status, answer["rejected"]) == (200, 10)  # none of them opens
    assert service.ask("POST", path, iter([bytes(64)]), token)[2]["error"] == "length"
