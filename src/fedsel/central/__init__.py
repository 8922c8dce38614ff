"""What local reports guarantee centrally, once a shuffler has lost who sent which."""

from fedsel.central.amplification import CentralGuarantee, amplify, local_budget
from fedsel.central.composition import compose

__all__ = ["CentralGuarantee", "amplify", "compose", "local_budget"]
