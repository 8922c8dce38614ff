"""Audits of solutions, mechanisms and any callable: exact by enumeration, or by experiment."""

from fedsel.auditing._enumeration import exact_law
from fedsel.auditing._experiment import AuditEntropy, Finding, audit, candidate_inputs, experiment
from fedsel.auditing._program import (
    ProgramAudit,
    ProgramError,
    audit_program,
    audit_solution,
    values_within,
)
from fedsel.auditing._transcripts import certify_by_enumeration, report_law

__all__ = [
    "AuditEntropy",
    "Finding",
    "ProgramAudit",
    "ProgramError",
    "audit",
    "audit_program",
    "audit_solution",
    "candidate_inputs",
    "certify_by_enumeration",
    "exact_law",
    "experiment",
    "report_law",
    "values_within",
]
