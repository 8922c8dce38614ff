"""The relay between devices and a service: it knows who reports, and not what: `fedsel relay`.

Needs the extras: ``pip install 'fedsel[service,shuffling]'``. Docs: docs/relay.md.
"""

from fedsel.service.relay._config import RelayConfig

__all__ = ["RelayConfig"]
