"""Tracking: callbacks at the start of a run, after every round and at its end.

`FedSelClassifier.fit`, `FedSelRegressor.fit`, `fedsel.torch.FederatedTrainer.fit`,
`fedsel.simulation.train` and `fedsel.flower.FedSelStrategy` take ``callbacks=``, a list of
`Callback` objects or of plain functions, which are called with each round's record. `follow` calls
them for the run of a service.

Callbacks see public values only: the recipe, the privacy of its reports, and for each round what
the server itself knows, which is computed from reports and from the evaluation set. That set must
be public.

An error in ``on_start`` stops the run before any ε is spent. Later a run has spent ε that no second
run gives back: errors are logged (logger ``fedsel.tracking``), and the run goes on.
"""

from fedsel.tracking._callbacks import Callback, Callbacks, Record, Run, Tracking
from fedsel.tracking._follow import follow
from fedsel.tracking._trackers import MLflowTracker, TensorBoardTracker

__all__ = [
    "Callback",
    "Callbacks",
    "MLflowTracker",
    "Record",
    "Run",
    "TensorBoardTracker",
    "Tracking",
    "follow",
]
