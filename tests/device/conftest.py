"""What tests of joining share: short pauses, a clock that they set, a client."""

import time

import pytest

from fedsel.device import Client
from tests.device.joining import POLICY


@pytest.fixture
def hurry(monkeypatch):
    """Nobody waits for long."""
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.002)))


@pytest.fixture
def clock(monkeypatch):
    """What time the device takes it to be; it passes as a test says."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def client(quick_path):
    return Client(POLICY, quick_path / "ledger", create=True)
