"""fedsel on Flower: a client mod that sends only private reports, and its strategy.

Needs the extra: ``pip install 'fedsel[flower]'``, or ``'fedsel[flower-simulation]'`` with the
simulation engine. Docs: docs/flower.md.
"""

from fedsel._internal.extras import needed

with needed("flower", "fedsel.flower"):
    import flwr as _flwr  # noqa: F401

from fedsel.errors import renamed
from fedsel.flower._messages import prepared
from fedsel.flower._mod import FedSelMod
from fedsel.flower._node import NODES_VARIABLE, Node
from fedsel.flower._session import NoReports
from fedsel.flower._strategy import FedSelStrategy
from fedsel.wire import RecordPipeline

__all__ = [
    "NODES_VARIABLE",
    "FedSelMod",
    "FedSelStrategy",
    "NoReports",
    "Node",
    "RecordPipeline",
    "prepared",
]
__getattr__ = renamed(__name__, {"Preparing": "RecordPipeline"}, until="0.2")
