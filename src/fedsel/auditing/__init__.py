"""Audit by experiment: attacks on mechanisms of fedsel and on anybody's callable."""

from fedsel.auditing.empirical import AuditEntropy, Finding, audit, candidate_inputs
from fedsel.auditing.enumeration import exact_law

__all__ = ["AuditEntropy", "Finding", "audit", "candidate_inputs", "exact_law"]
