"""Records whose public bounds the strategy knows: what a node does with them, and how it is told.

A message of such a strategy holds bounds, preparation and plan (`RecordPipeline`) beside the
request. They are public. In the first rounds the mod reports on the records themselves, in all
others the app trains on what `prepared` returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.wire import RecordPipeline
from fedsel.wire._pipeline import rows_of

__all__ = ["PREPARING", "RECORD", "RecordPipeline", "prepared"]

RECORD = "fedsel"
"""The name of our own record in a message."""
PREPARING = "preparing"
"""Where a message tells of it, in our record."""


def prepared(message: Message, X: Any) -> NDArray[np.float32]:
    """A node's raw records X (n, d) as it trains on them in this round: (n, size), float32.

    Clipped to the strategy's ``feature_range``, centred as far as that is learnt and, for a linear
    model, with the intercept's entry at the end and of norm 1. Call it in ``@app.train()``; the mod
    needs ``FedSelMod(records=…)``.
    """
    record = message.content.get(RECORD)
    if not isinstance(record, ConfigRecord) or PREPARING not in record:
        allowed = "one of a FedSelStrategy(feature_range=…), behind FedSelMod(records=…)"
        raise InvalidArgument("message", "a message without preparation", allowed)
    rows = rows_of(X)
    return RecordPipeline.decode(str(record[PREPARING]), rows.shape[1]).records(rows)
