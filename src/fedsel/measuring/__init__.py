"""What answers say together: shares with intervals, and what follows from them."""

from fedsel.measuring._tally import Estimate, Tally, consistent

__all__ = ["Estimate", "Tally", "consistent"]
