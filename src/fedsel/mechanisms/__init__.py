"""The mechanisms: what an auditor reads. Laws first; all else is derived from them."""

from fedsel.mechanisms.base import Mechanism, Selection, Value
from fedsel.mechanisms.certificate import Certificate, certify
from fedsel.mechanisms.laws import RankLaw, SymbolLaw, Window
from fedsel.mechanisms.one_symbol import OneSymbol, SignedSampling, UnbiasedJoint
from fedsel.mechanisms.registry import ONE_SYMBOL, SELECTIONS, VALUES
from fedsel.mechanisms.reporting import ReportMechanism
from fedsel.mechanisms.selection import (
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    PublishedPerturbedEncoding,
    TopK,
    Uniform,
)
from fedsel.mechanisms.two_stage import FlatPicks, FullGradient, TwoStage, ValueReports
from fedsel.mechanisms.value import AsIs, Duchi, Hybrid, Identity, OptimalWindow, Piecewise
from fedsel.reports import BOTTOM

__all__ = [
    "BOTTOM",
    "ONE_SYMBOL",
    "SELECTIONS",
    "VALUES",
    "AsIs",
    "Certificate",
    "Duchi",
    "Exponential",
    "FlatPicks",
    "FullGradient",
    "Hybrid",
    "Identity",
    "Mechanism",
    "OneSymbol",
    "OptimalWindow",
    "PerturbedEncoding",
    "PerturbedSampling",
    "Piecewise",
    "PublishedPerturbedEncoding",
    "RankLaw",
    "ReportMechanism",
    "Selection",
    "SignedSampling",
    "SymbolLaw",
    "TopK",
    "TwoStage",
    "UnbiasedJoint",
    "Uniform",
    "Value",
    "ValueReports",
    "Window",
    "certify",
]
