"""The mechanisms: what an auditor reads. Laws first; all else is derived from them."""

from fedsel.mechanisms.base import Mechanism, Selection, Value
from fedsel.mechanisms.certificate import Certificate, certify, certify_by_enumeration
from fedsel.mechanisms.laws import BOTTOM, RankLaw, SymbolLaw, Window
from fedsel.mechanisms.one_symbol import Joint, SignedSampling, UnbiasedJoint
from fedsel.mechanisms.selection import (
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    PublishedPerturbedEncoding,
    TopK,
    Uniform,
)
from fedsel.mechanisms.two_stage import TwoStage
from fedsel.mechanisms.value import Duchi, Hybrid, Identity, OptimalWindow, Piecewise

__all__ = [
    "BOTTOM",
    "Certificate",
    "Duchi",
    "Exponential",
    "Hybrid",
    "Identity",
    "Joint",
    "Mechanism",
    "OptimalWindow",
    "PerturbedEncoding",
    "PerturbedSampling",
    "Piecewise",
    "PublishedPerturbedEncoding",
    "RankLaw",
    "Selection",
    "SignedSampling",
    "SymbolLaw",
    "TopK",
    "TwoStage",
    "UnbiasedJoint",
    "Uniform",
    "Value",
    "Window",
    "certify",
    "certify_by_enumeration",
]
