"""Audit: proofs by exhaustion, and attacks by experiment on solutions and on anybody's callable."""

from fedsel.auditing.empirical import AuditEntropy, Finding, audit, candidate_inputs
from fedsel.auditing.enumeration import exact_law
from fedsel.auditing.experiment import FALSE_ALARM
from fedsel.auditing.program import ProgramAudit, ProgramError, audit_program
from fedsel.auditing.shuffled import Attack, attack_shuffled, worst_attack
from fedsel.auditing.transcripts import certify_by_enumeration, report_law

__all__ = [
    "FALSE_ALARM",
    "Attack",
    "AuditEntropy",
    "Finding",
    "ProgramAudit",
    "ProgramError",
    "attack_shuffled",
    "audit",
    "audit_program",
    "candidate_inputs",
    "certify_by_enumeration",
    "exact_law",
    "report_law",
    "worst_attack",
]
