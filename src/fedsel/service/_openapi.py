"""The OpenAPI document of the service, from a table: most bodies are octets."""

from __future__ import annotations

from typing import Any

from fedsel._version import __version__
from fedsel.server import Counts
from fedsel.service._http import PROBLEMS
from fedsel.service._task import Limits

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_BYTES: _Schema = {"type": "string", "format": "binary"}
_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_OCTETS = {"application/octet-stream": {"schema": _BYTES}}
_OUTCOME = {"outcome": {"type": "string", "enum": ["accepted", "duplicate"]}}
_COUNTS = {name: {"type": "integer", "minimum": 0} for name in Counts._fields}


def _answer(properties: _Schema) -> _Schema:
    schema = {"type": "object", "required": [*properties], "properties": properties}
    return {"application/json": {"schema": schema}}


_GET: list[tuple[Any, ...]] = [
    # path, operation, summary, content, problems, whether a client may keep it
    ("/v1/task", "get_task", "What the run is about", _OBJECT, "", False),
    ("/v1/rounds", "get_rounds", "All rounds", _OBJECT, "", False),
    ("/v1/rounds/open", "get_open", "The open round", _OBJECT, "", False),
    (
        "/v1/rounds/{round}/{part}",
        "get_part",
        "Request, weights (float64, little-endian) or preparing (JSON) of the round",
        {**_OCTETS, "application/json": {"schema": {}}},
        "not_found late finished",
        True,
    ),
    ("/v1/model", "get_model", "The model, as float64", _OCTETS, "", True),
    ("/v1/model.json", "get_model_json", "The model", _OBJECT, "", False),
    ("/v1/openapi.json", "get_openapi", "This document", _OBJECT, "", False),
    (
        "/",
        "get_page",
        "The run for people: the latest rounds, or those before one",
        {"text/html": {"schema": _TEXT}},
        "not_found",
        True,
    ),
    (
        "/v1/events",
        "get_events",
        "Server-sent events without end: change (JSON: now as in /v1/rounds/open, page "
        "for the page), at most two a second, and alive every 15 seconds",
        {"text/event-stream": {"schema": _TEXT}},
        "crowded",
        False,
    ),
    ("/healthz", "get_health", "Whether the process lives", _OBJECT, "", False),
    ("/readyz", "get_ready", "Whether reports are taken", _OBJECT, "", False),
    (
        "/metrics",
        "get_metrics",
        "Figures for Prometheus",
        {"text/plain": {"schema": _TEXT}},
        "",
        False,
    ),
]
_PARAMETERS: dict[str, list[tuple[Any, ...]]] = {
    "/v1/batches/{batch}": [
        (
            "batch",
            "A name of the gateway's own for the batch",
            {**_TEXT, "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
        )
    ],
    "/v1/rounds/{round}/{part}": [
        ("round", "Its number, or open", {**_TEXT, "pattern": "^(open|[0-9]{1,10})$"}),
        (
            "part",
            "What a device needs of it",
            {**_TEXT, "enum": ["request", "weights", "preparing"]},
        ),
    ],
    "/": [
        (
            "before",
            "Show the rounds before this one",
            {"type": "integer", "minimum": 1, "maximum": 9_999_999_999},
        )
    ],
}


def document(name: str, report_bytes: int, limits: Limits) -> dict[str, Any]:
    """The document of a task whose reports have so many bytes."""
    one = {**_BYTES, "minLength": report_bytes, "maxLength": report_bytes}
    many = {**_BYTES, "maxLength": limits.batch_bytes}
    wrong = "malformed not_invited wrong_kind"
    post, put, invitation = (
        _operation(
            "post_report",
            "Send the report of a device; answered when it is durable",
            _answer(_OUTCOME),
            f"{wrong} conflict early late too_large wrong_type",
            body=one,
        ),
        _operation(
            "put_batch",
            "Send many reports, one after another, as a gateway; counted once",
            _answer({**_OUTCOME, **_COUNTS}),
            f"{wrong} not_found conflict length too_large wrong_type",
            body=many,
        ),
        _operation(
            "get_invitation",
            "What a token is an invitation to: device or gateway",
            _OBJECT,
            "not_invited",
        ),
    )
    for secured in (post, put, invitation):
        secured["security"] = [{"invitation": []}]
    paths: dict[str, Any] = {
        "/v1/reports": {"post": post},
        "/v1/batches/{batch}": {"put": put},
        "/v1/invitation": {"get": invitation},
        **{path: {"get": _operation(*about)} for path, *about in _GET},
    }
    for path, parameters in _PARAMETERS.items():
        paths[path]["parameters"] = [_parameter(path, *about) for about in parameters]
    problem = {"error": {**_TEXT, "enum": list(PROBLEMS)}, "message": _TEXT}
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
        "paths": paths,
        "components": {
            "securitySchemes": {"invitation": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _answer(problem)["application/json"]["schema"]},
        },
    }


def _parameter(path: str, name: str, text: str, schema: _Schema) -> _Schema:
    inside = f"{{{name}}}" in path
    place = {"in": "path" if inside else "query", "required": inside}
    return {"name": name, "description": text, "schema": schema, **place}


def _operation(
    name: str,
    summary: str,
    content: _Schema,
    problems: str,
    cached: bool = False,
    *,
    body: _Schema | None = None,
) -> _Schema:
    responses: _Schema = {"200": {"description": "As asked", "content": content}}
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
    operation: _Schema = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        octets = {"application/octet-stream": {"schema": body}}
        operation["requestBody"] = {"required": True, "content": octets}
    return operation
