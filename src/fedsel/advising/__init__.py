"""Advice before anything is collected: which solution to take, and whether training can work."""

from fedsel.advising.advice import Advice, advise
from fedsel.advising.moments import Moments, Updates, moments
from fedsel.advising.outlook import Outlook
from fedsel.advising.simulation import Check
from fedsel.advising.sufficiency import shortage

__all__ = ["Advice", "Check", "Moments", "Outlook", "Updates", "advise", "moments", "shortage"]
