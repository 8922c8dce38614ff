"""What servers and devices say to each other: requests and reports in bytes, tasks in JSON."""

from fedsel.wire._columns import Category, Number
from fedsel.wire._contract import Announcement, CloseRule, Shuffled, ShuffleRule, Verdict
from fedsel.wire._dates import Date
from fedsel.wire._model import Model
from fedsel.wire._model_question import ModelQuestion, measured_question, measuring_run
from fedsel.wire._pipeline import RecordPipeline
from fedsel.wire._question import Question
from fedsel.wire._report import Batch, ReportFormat, Sealed, Sealing
from fedsel.wire._request import (
    Intent,
    InvalidMessage,
    Request,
    UnknownVersion,
    check_sendable,
    decode_recipe,
    encode_recipe,
)
from fedsel.wire._schema import Schema
from fedsel.wire._signed import SignedRound

__all__ = [
    "Announcement",
    "Batch",
    "Category",
    "CloseRule",
    "Date",
    "Intent",
    "InvalidMessage",
    "Model",
    "ModelQuestion",
    "Number",
    "Question",
    "RecordPipeline",
    "ReportFormat",
    "Request",
    "Schema",
    "Sealed",
    "Sealing",
    "ShuffleRule",
    "Shuffled",
    "SignedRound",
    "UnknownVersion",
    "Verdict",
    "check_sendable",
    "decode_recipe",
    "encode_recipe",
    "measured_question",
    "measuring_run",
]
