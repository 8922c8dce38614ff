"""Who may send, and the parts of the open round, whatever a run is."""

import pytest

from fedsel.service._front import numbered
from fedsel.service._http import Refusal
from tests.service.relay.support import SHUFFLED
from tests.service.support import reports_for, running, task_of


@pytest.mark.parametrize("text", ["", "-1", "1e3", "9" * 11, "\u00b2", "0x0", "open"])
def test_what_is_no_number(text):
    with pytest.raises(Refusal, match="not_found"):
        numbered(text)


def test_numbers():
    assert (numbered("0"), numbered("0012"), numbered("9" * 10)) == (0, 12, 9_999_999_999)


def test_how_often_a_client_may_send(quick_path):
    limits = {"per_client": 0.001, "per_address": 1e9}
    with running(task_of(limits=limits), quick_path / "s") as client:
        (row,) = reports_for(client.request(), 1)
        token, other = (client.invitations.invite("device") for _ in range(2))
        assert client.send(row, token) == (200, "accepted")
        assert client.send(row, token) == (429, "too_often")
        assert client.send(row, other) == (200, "accepted")


def test_an_invitation_says_what_it_is_to(quick_path):
    with running(task_of(), quick_path / "s") as client:
        for kind in ("device", "gateway"):
            token = client.invitations.invite(kind)
            assert client.ask("GET", "/v1/invitation", token=token)[2] == {"kind": kind}
        relay = client.invitations.invite("relay")
        assert client.ask("GET", "/v1/invitation", token=relay)[0] == 401
        assert client.ask("GET", "/v1/invitation")[0] == 401


def test_no_device_is_told_to_pay_where_nobody_takes_its_report(quick_path):
    with running(task_of(**SHUFFLED), quick_path / "s") as client:
        device, relay = map(client.invitations.invite, ("device", "relay"))
        assert client.ask("GET", "/v1/invitation", token=device)[0] == 401
        assert client.ask("GET", "/v1/invitation", token=relay)[2] == {"kind": "relay"}
