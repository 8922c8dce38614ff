"""Shared settings of the suite.

Statistical tests have fixed seeds and a false-alarm rate of 1e-9 each, far below 1e-6 together.
"""

import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# A shell starts background jobs with SIGINT ignored, and children inherit that: the tests that
# interrupt a process must mean it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A Flower app of its own, which Flower's processes import, not pytest.
collect_ignore = ["flower/replay_app"]

settings.register_profile("fedsel", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fedsel")


@pytest.fixture(autouse=True)
def _own_account_of_fits(monkeypatch):
    """No test is told that another has fitted the same records."""
    from fedsel.simulation import account

    monkeypatch.setattr(account, "ACCOUNT", account.FitAccount())


@pytest.fixture
def quick_path():
    """A folder in memory where there is one: for thousands of flushes that no power cut follows."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def flower_identity(monkeypatch):
    """Who is speaking, without which no Message can be made: Flower's own processes set it."""
    from flwr.supercore.task_identity import TaskIdentity

    from fedsel.flower import NODES_VARIABLE

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.delenv(NODES_VARIABLE, raising=False)
