"""Shared settings of the suite.

Statistical tests have fixed seeds and a false-alarm rate of 1e-9 each, far below 1e-6 together.
"""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# A shell starts background jobs with SIGINT ignored, and children inherit that: the tests that
# interrupt a process must mean it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers of pytest-xdist share the cores: more threads in each of them only stand in the way.
if "PYTEST_XDIST_WORKER" in os.environ:
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # MLflow would report that the tests use it

# A Flower app of its own, which Flower's processes import, not pytest.
collect_ignore = ["flower/replay_app"]

settings.register_profile("fedsel", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fedsel")


@pytest.fixture(autouse=True)
def _own_account_of_fits(monkeypatch):
    """No test sees that another one has fitted the same records."""
    from fedsel.simulation import _account

    monkeypatch.setattr(_account, "RECORDS", _account.RecordAccount())


@pytest.fixture
def own_solutions_forgotten():
    """What a test imports and registers is gone after it."""
    from fedsel.solutions import names, unregister

    known, modules, path = set(names()), set(sys.modules), list(sys.path)
    yield
    for name in set(names()) - known:
        unregister(name)
    for module in set(sys.modules) - modules:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(tempfile.gettempdir()):
            del sys.modules[module]
    sys.path[:] = path


def pytest_make_parametrize_id(val, argname):
    """Bytes and long texts by their length: readable, and the same in every worker.

    Keys and archives that are made while tests are collected have other bytes in each of them.
    """
    if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 60):
        return f"{argname}-of-{len(val)}"
    return None


LONGEST = ("flower", "processes", "pages", "wheel", "torch")
"""Groups that take long: the first to begin."""
OF_TORCH = tuple(str(Path(*parts)) for parts in (("tests", "torch"), ("src", "fedsel", "torch")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Which tests run in one worker, and in which order, where several workers share them.

    A group that a test names itself stays together: "processes" are those that start servers,
    browsers or many children, one after another; "flower" and "pages" those that mostly wait, for
    Flower's processes and for pages of the service.
    So do the quick tests of a file, which share its fixtures and cached laws, and all of torch's:
    its first gradients take seconds in every process. A slow test is on its own. What takes long
    comes first, and no worker is left alone with it at the end.
    """
    order = []
    for item in items:
        if item.location[0].startswith(OF_TORCH):
            item.add_marker(pytest.mark.xdist_group("torch"))
        slow, grouped = (item.get_closest_marker(name) for name in ("slow", "xdist_group"))
        name = grouped.args[0] if grouped else None
        first = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        order.append((0 if grouped else 1 if slow else 2, first))
        if not grouped and not slow:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
    items[:] = [items[i] for i in sorted(range(len(items)), key=order.__getitem__)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """What is imported and collected stays: Python need not search it for garbage, now or later.

    A fifth of the time of collecting went into that, in each worker.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Parsed data sets lie in a folder of this run, which its workers share; not in the user's."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSEL_CACHE", str(folder / "cache"))
        yield


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    from tests.browsing import started

    with started() as chromium:
        yield chromium


@pytest.fixture
def quick_path():
    """A folder in memory where there is one: for thousands of flushes that no power cut follows.

    Where the folders of all tests lie in a place of their own, it does as well.
    """
    memory = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT", "/dev/shm"))
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
