"""Advice before anything is collected: which solution to take, and whether training can work."""

from fedsel.advising.advice import Advice
from fedsel.advising.asking import advise
from fedsel.advising.central import CentralAdvice, Rung
from fedsel.advising.moments import Moments, Updates, moments
from fedsel.advising.outlook import Outlook
from fedsel.advising.simulation import Check
from fedsel.advising.sufficiency import shortage, warn_about_clients

__all__ = [
    "Advice",
    "CentralAdvice",
    "Check",
    "Moments",
    "Outlook",
    "Rung",
    "Updates",
    "advise",
    "moments",
    "shortage",
    "warn_about_clients",
]
