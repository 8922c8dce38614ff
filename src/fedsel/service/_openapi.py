"""The OpenAPI document of the service, written by hand: most bodies are octets."""

from __future__ import annotations

from typing import Any

from fedsel._version import __version__
from fedsel.service._http import PROBLEMS
from fedsel.service._task import Limits

_OCTETS = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_COUNTS = {
    name: {"type": "integer", "minimum": 0}
    for name in ("accepted", "rejected", "duplicate", "late")
}


def document(name: str, report_bytes: int, limits: Limits) -> dict[str, Any]:
    """The document of a task whose reports have so many bytes."""
    report = {"type": "string", "format": "binary", "minLength": report_bytes}
    report["maxLength"] = report_bytes
    many = {"type": "string", "format": "binary", "maxLength": limits.batch_bytes}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"fedsel: {name}",
            "version": __version__,
            "description": "Collects reports under local differential privacy. A device asks for "
            "the open round, answers it with one report, and sends that until it is told that it "
            "was accepted or is a duplicate.",
        },
        "servers": [{"url": ".."}],  # relative to this document's own address, wherever it lies
        "paths": {
            "/v1/reports": {
                "post": _operation(
                    "post_report",
                    "Send the report of a device; answered when it is durable",
                    _outcome({}),
                    "malformed not_invited wrong_kind conflict early late too_large wrong_type",
                    body=report,
                    secured=True,
                )
            },
            "/v1/batches/{batch}": {
                "parameters": [
                    _parameter(
                        "batch",
                        "A name of the gateway's own for the batch",
                        pattern="^[A-Za-z0-9_.-]{1,64}$",
                    )
                ],
                "put": _operation(
                    "put_batch",
                    "Send many reports, one after another, as a gateway; counted once",
                    _outcome(_COUNTS),
                    "malformed not_invited wrong_kind not_found conflict length too_large "
                    "wrong_type",
                    body=many,
                    secured=True,
                ),
            },
            "/v1/invitation": {
                "get": _operation(
                    "get_invitation",
                    "What a token is an invitation to: device or gateway",
                    _object(),
                    "not_invited",
                    secured=True,
                )
            },
            "/v1/task": {"get": _operation("get_task", "What the run is about", _object())},
            "/v1/rounds": {"get": _operation("get_rounds", "All rounds", _object())},
            "/v1/rounds/open": {"get": _operation("get_open", "The open round", _object())},
            "/v1/rounds/{round}/{part}": {
                "parameters": [
                    _parameter("round", "Its number, or open", pattern="^(open|[0-9]{1,10})$"),
                    {
                        **_parameter("part", "What a device needs of it"),
                        "schema": {"type": "string", "enum": ["request", "weights", "preparing"]},
                    },
                ],
                "get": _operation(
                    "get_part",
                    "Request, weights (float64, little-endian) or preparing (JSON) of the round",
                    {**_OCTETS, "application/json": {"schema": {}}},
                    "not_found late finished",
                    cached=True,
                ),
            },
            "/v1/model": {
                "get": _operation("get_model", "The model, as float64", _OCTETS, cached=True)
            },
            "/v1/model.json": {"get": _operation("get_model_json", "The model", _object())},
            "/v1/openapi.json": {"get": _operation("get_openapi", "This document", _object())},
            "/": {
                "get": _operation(
                    "get_page",
                    "The run for people: the latest rounds, or those before one",
                    {"text/html": {"schema": {"type": "string"}}},
                    "not_found",
                    cached=True,
                ),
                "parameters": [
                    {
                        **_parameter("before", "Show the rounds before this one"),
                        "in": "query",
                        "required": False,
                        "schema": {"type": "integer", "minimum": 1, "maximum": 9_999_999_999},
                    }
                ],
            },
            "/v1/events": {
                "get": _operation(
                    "get_events",
                    "Server-sent events without end: change (JSON: now as in /v1/rounds/open, page "
                    "for the page), at most two a second, and alive every 15 seconds",
                    {"text/event-stream": {"schema": {"type": "string"}}},
                    "crowded",
                )
            },
            "/healthz": {"get": _operation("get_health", "Whether the process lives", _object())},
            "/readyz": {"get": _operation("get_ready", "Whether reports are taken", _object())},
            "/metrics": {
                "get": _operation(
                    "get_metrics",
                    "Figures for Prometheus",
                    {"text/plain": {"schema": {"type": "string"}}},
                )
            },
        },
        "components": {
            "securitySchemes": {"invitation": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["error", "message"],
                    "properties": {
                        "error": {"type": "string", "enum": list(PROBLEMS)},
                        "message": {"type": "string"},
                    },
                }
            },
        },
    }


def _object() -> dict[str, Any]:
    return {"application/json": {"schema": {"type": "object"}}}


def _outcome(more: dict[str, Any]) -> dict[str, Any]:
    outcome = {"outcome": {"type": "string", "enum": ["accepted", "duplicate"]}}
    schema = {"type": "object", "required": ["outcome", *more], "properties": {**outcome, **more}}
    return {"application/json": {"schema": schema}}


def _parameter(name: str, text: str, pattern: str | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if pattern is not None:
        schema["pattern"] = pattern
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _operation(
    name: str,
    summary: str,
    content: dict[str, Any],
    problems: str = "",
    *,
    body: dict[str, Any] | None = None,
    secured: bool = False,
    cached: bool = False,
) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": "As asked", "content": content}}
    if cached:
        responses["304"] = {"description": "As the client has it"}
    by_status: dict[int, list[str]] = {}
    for code in [*problems.split(), "too_often", "busy", "unavailable"]:
        by_status.setdefault(PROBLEMS[code][0], []).append(code)
    for status, codes in by_status.items():
        responses[str(status)] = {
            "description": "; ".join(f"{code}: {PROBLEMS[code][1]}" for code in codes),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    operation: dict[str, Any] = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        octets = {"application/octet-stream": {"schema": body}}
        operation["requestBody"] = {"required": True, "content": octets}
    if secured:
        operation["security"] = [{"invitation": []}]
    return operation
