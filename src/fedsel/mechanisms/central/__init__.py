"""The central guarantee of local reports, once a shuffler has dropped their senders."""

from fedsel.mechanisms.central._budget import local_budget
from fedsel.mechanisms.central._guarantee import DELTA, CentralGuarantee, add_up, amplify, compose

__all__ = ["DELTA", "CentralGuarantee", "add_up", "amplify", "compose", "local_budget"]
