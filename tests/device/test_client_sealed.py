"""A device whose policy names a server's key: nothing leaves unsealed, and it is paid for once."""

import numpy as np
import pytest

from fedsel import InvalidArgument, Recipe
from fedsel._internal.random import stream
from fedsel.device import Client, Policy, Refused
from fedsel.server import ServerKey
from fedsel.wire import Request, Sealing

KEY = ServerKey.generate()
RECIPE = Recipe("PS-PM", epsilon=1.0, dim=4, k=2, mu=0.1, learning_rate=1.0, averaging=0.0)
REQUEST = Request(bytes(16), 0, 0, RECIPE).encode()
LIMITS = {"lifetime": 1.0, "per_report": 1.0, "solutions": ["PS-PM"], "dimensions": [4]}
UPDATE = np.array([0.5, -0.25, 0.0, 1.0])


def device(folder, key=KEY.public):
    client = Client(Policy(**LIMITS, server_key=key), folder, create=True)
    client._entropy = stream(3, 0, 0)
    return client


def opened(message):
    sealing = Sealing(REQUEST, KEY.public)
    tag, content = Sealing.split(message)
    assert tag == sealing.tag
    return sealing.unseal(content, KEY._private)


def test_what_leaves_is_sealed_and_opens_to_the_report(tmp_path):
    plain = device(tmp_path / "plain", key=None).answer(REQUEST, np.zeros(4), UPDATE)
    client = device(tmp_path / "sealed")
    first = client.answer(REQUEST, np.zeros(4), UPDATE)
    assert plain not in first
    assert opened(first) == plain == client.history().entries[0].report
    # Asked again: sealed anew, for the same report, at no cost.
    again = Client(client.policy, tmp_path / "sealed").answer(REQUEST, np.zeros(4), UPDATE)
    assert again != first
    assert opened(again) == plain
    assert opened(client.earlier(REQUEST)) == plain
    assert (len(client.history().entries), client.history().spent) == (1, 1)


@pytest.mark.parametrize("update", [UPDATE, np.zeros(4), None, [float("nan")] * 4])
def test_its_length_does_not_depend_on_the_data(tmp_path, update):
    assert len(device(tmp_path / "store").answer(REQUEST, np.zeros(4), update)) == 33 + 48 + 16


def test_the_key_is_part_of_the_policy_file(tmp_path):
    file = tmp_path / "policy.toml"
    lines = [f"{name} = {value}" for name, value in LIMITS.items()]
    file.write_text("\n".join([*lines, f'server_key = "{KEY.public}"']))
    assert Policy.load(file).server_key == KEY.public
    assert Policy(**LIMITS).server_key is None


@pytest.mark.parametrize("key", ["", "12", "00" * 32, 5, "ab" * 32 + "0", b"\0" * 32])
def test_a_key_that_is_none_is_refused_before_anything_is_spent(key):
    with pytest.raises(InvalidArgument, match=r"^server_key = "):
        Policy(**LIMITS, server_key=key)


def test_what_cannot_be_sealed_does_not_leave(tmp_path, monkeypatch):
    client = device(tmp_path / "store")

    def broken(self, report):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Sealing, "seal", broken)
        with pytest.raises(Refused):
            client.answer(REQUEST, np.zeros(4), UPDATE)
    assert opened(client.answer(REQUEST, np.zeros(4), UPDATE)) == client.history().entries[0].report
