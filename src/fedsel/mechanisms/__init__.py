"""The privacy mechanisms. Each is defined by an integer law; all else is derived from it."""

from fedsel.errors import renamed
from fedsel.mechanisms._base import Mechanism, ReportMechanism, Selection, Value
from fedsel.mechanisms._certificate import Certificate, certify
from fedsel.mechanisms._drawing import Entropy
from fedsel.mechanisms._laws import RankLaw, SymbolLaw, Window
from fedsel.mechanisms._one_symbol import OneSymbol, SignedSampling, UnbiasedJoint
from fedsel.mechanisms._registry import ONE_SYMBOL, SELECTIONS, VALUES, mechanism
from fedsel.mechanisms._reports import BOTTOM
from fedsel.mechanisms._selection import (
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    PublishedPerturbedEncoding,
    TopK,
    Uniform,
)
from fedsel.mechanisms._two_stage import FlatPicks, FullGradient, TwoStage, ValueReports
from fedsel.mechanisms._value import Duchi, Hybrid, Identity, OptimalWindow, Piecewise, Unperturbed

__getattr__ = renamed(__name__, {"AsIs": "Unperturbed"}, until="0.2")

__all__ = [
    "BOTTOM",
    "ONE_SYMBOL",
    "SELECTIONS",
    "VALUES",
    "Certificate",
    "Duchi",
    "Entropy",
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
    "Unperturbed",
    "Value",
    "ValueReports",
    "Window",
    "certify",
    "mechanism",
]
