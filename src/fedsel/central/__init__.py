"""What local reports guarantee centrally, once a shuffler has lost who sent which."""

from fedsel.central.amplification import CentralGuarantee, amplify, local_budget

__all__ = ["CentralGuarantee", "amplify", "local_budget"]
