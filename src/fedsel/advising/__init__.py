"""Advice before anything is collected: which solution to use, and whether training can work."""

from fedsel.advising._advice import Advice, CentralAdvice, Rung, advise
from fedsel.advising._moments import Moments, Updates, moments
from fedsel.advising._outlook import Check, Outlook
from fedsel.advising._questions import QuestionAdvice, advise_question
from fedsel.advising._relay import RelayAdvice
from fedsel.advising._sufficiency import shortage, warn_about_clients

__all__ = [
    "Advice",
    "CentralAdvice",
    "Check",
    "Moments",
    "Outlook",
    "QuestionAdvice",
    "RelayAdvice",
    "Rung",
    "Updates",
    "advise",
    "advise_question",
    "moments",
    "shortage",
    "warn_about_clients",
]
