"""What a server and a device say to each other, as bytes: recipes, requests, reports."""

from fedsel.wire.intent import Intent
from fedsel.wire.recipe import check_sendable, decode_recipe, encode_recipe
from fedsel.wire.report import Batch, ReportFormat
from fedsel.wire.request import InvalidMessage, Request, UnknownVersion
from fedsel.wire.sealing import Sealed, Sealing

__all__ = [
    "Batch",
    "Intent",
    "InvalidMessage",
    "ReportFormat",
    "Request",
    "Sealed",
    "Sealing",
    "UnknownVersion",
    "check_sendable",
    "decode_recipe",
    "encode_recipe",
]
