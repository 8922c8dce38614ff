"""What local reports guarantee centrally, once a shuffler has lost who sent which."""

from fedsel.central.amplification import DELTA, CentralGuarantee, amplify
from fedsel.central.budget import local_budget
from fedsel.central.composition import add_up, compose

__all__ = ["DELTA", "CentralGuarantee", "add_up", "amplify", "compose", "local_budget"]
