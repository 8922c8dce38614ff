"""A relay and its service, each in a thread, and sealed reports for them."""

import tomllib
from contextlib import contextmanager

from fedsel.service.inviting import relay_settings
from fedsel.service.relay import RelayConfig
from fedsel.wire import Request, Sealing
from tests.service.support import FREE, reports_for, running, task_of

SHUFFLED = {"shuffle": {"n_min": 4, "dishonest": 0.0}}


def relay_config(**changes):
    """The settings of a relay; nothing is where they say."""
    values = {
        "name": "test",
        "service": "http://127.0.0.1:9",
        "run": "ab" * 16,
        "server_key": "0a" * 32,
        "signing_key": "0b" * 32,
        "token": "a.b.c",
        "limits": FREE,
    }
    return RelayConfig.of({k: v for k, v in {**values, **changes}.items() if v is not None})


def config_for(task, store, address, **changes):
    """The settings of a relay as ``fedsel invite --relay`` writes them."""
    return relay_config(**{**tomllib.loads(relay_settings(task, store, address)), **changes})


@contextmanager
def relayed(folder, *, store=None, task=None, **changes):
    """Clients of a service and of its relay; ``config`` has the relay's settings."""
    task = task_of(**{**SHUFFLED, **changes}) if task is None else task
    store = folder / "relay" if store is None else store
    with running(task, folder / "service") as service:
        config = config_for(task, folder / "service", service.address)
        with running(config, store) as relay:
            relay.config = config
            yield service, relay


def sealed_for(message, key, count, seed=0):
    """Sealed reports of a request's bytes, one for each of so many clients."""
    sealing = Sealing(message, key)
    return [sealing.seal(row) for row in reports_for(Request.decode(message), count, seed)]
