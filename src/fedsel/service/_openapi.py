"""The OpenAPI document of the service, written by hand: most bodies are octets."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fedsel import __version__
from fedsel.server import Counts
from fedsel.service._http import PROBLEMS
from fedsel.service._task import Limits
from fedsel.wire import Announcement, Verdict
from fedsel.wire._report import TAG_BYTES

_Json = dict[str, Any]
_BINARY: _Json = {"type": "string", "format": "binary"}
_TEXT: _Json = {"schema": {"type": "string"}}
_OBJECT: _Json = {"application/json": {"schema": {"type": "object"}}}
_OCTETS: _Json = {"application/octet-stream": {"schema": _BINARY}}
_TASK = {"type": "object", "required": [one.name for one in fields(Announcement)]}
_ABOUT = (
    "Collects reports under local differential privacy. A device asks for the open round, answers "
    "it with one report, and sends that until the service accepts it or has it already."
)
_EVENTS = (
    "Server-sent events without end: change (JSON: now as in /v1/rounds/open, page for the page), "
    "at most two a second, and alive every 15 seconds"
)


_RUNS = (
    "get_runs",
    "All runs: what each is called and for, its path, and which round is open",
)


def document(
    name: str, report_bytes: int, limits: Limits, *, alone: bool, shuffled: bool = False
) -> _Json:
    """Describe a run whose reports have ``report_bytes`` bytes; ``alone``, it is at the root."""
    many = {**_BINARY, "maxLength": limits.batch_bytes}
    sent = _by_relay(many) if shuffled else {**_by_device(report_bytes), **_by_gateway(many)}
    paths = {
        **sent,
        **_of_round(("request", "weights", "preparing")),
        **_about("relay" if shuffled else "device or gateway"),
        "/v1/answers": _path("get_answers", "What devices have answered or measured, by epoch"),
        "/v1/model": _path("get_model", "The model, as float64", _OCTETS, cached=True),
        **_pages(),
    }
    return _described(name, paths | ({"/v1/runs": _path(*_RUNS)} if alone else {}))


def relay_document(name: str, sealed_bytes: int, *, alone: bool) -> _Json:
    """Describe a relay, whose reports have ``sealed_bytes`` bytes beside version and tag."""
    paths = {
        **_by_device(1 + TAG_BYTES + sealed_bytes),
        **_of_round(("request", "weights", "preparing", "signature")),
        **_about("device"),
        **_pages(),
    }
    return _described(name, paths | ({"/v1/runs": _path(*_RUNS)} if alone else {}))


def _pages() -> _Json:
    before = _parameter("before", "Show the rounds before this one") | {
        "in": "query",
        "required": False,
        "schema": {"type": "integer", "minimum": 1, "maximum": 9_999_999_999},
    }
    return {
        "/": _path(
            "get_page",
            "The run for people: the latest rounds, or those before one",
            {"text/html": _TEXT},
            "not_found",
            cached=True,
            parameters=[before],
        ),
        "/v1/events": _path("get_events", _EVENTS, {"text/event-stream": _TEXT}, "crowded"),
    }


def _by_device(size: int) -> _Json:
    return {
        "/v1/reports": _path(
            "post_report",
            "Send the report of a device; answered when it is durable",
            _outcome(),
            "malformed not_invited wrong_kind conflict early late too_large wrong_type",
            body={**_BINARY, "minLength": size, "maxLength": size},
            secured=True,
        )
    }


def _by_gateway(many: _Json) -> _Json:
    batch = _parameter("batch", "A name of the gateway's own for the batch")
    batch["schema"]["pattern"] = "^[A-Za-z0-9_.-]{1,64}$"
    return {
        "/v1/batches/{batch}": _path(
            "put_batch",
            "Send many reports, one after another, as a gateway; counted once",
            _outcome(*Counts._fields),
            "malformed not_invited wrong_kind not_found conflict length too_large wrong_type",
            body=many,
            secured=True,
            parameters=[batch],
        )
    }


def _by_relay(many: _Json) -> _Json:
    number = _parameter("round", "Its number")
    problems = "not_invited wrong_kind not_found conflict early late wrong_type"
    about: _Json = {"secured": True, "body": many}
    return {
        "/v1/rounds/{round}/shuffled/{part}": _path(
            "post_part",
            "Send a part of a released round, sealed reports one after another; counted once",
            _outcome(*Counts._fields),
            f"malformed length too_large {problems}",
            parameters=[number, _parameter("part", "Its number")],
            **about,
        ),
        "/v1/rounds/{round}/released/{count}": _path(
            "post_released",
            "Say that all parts of a round were sent: it is over",
            _outcome(),
            f"too_large {problems}",
            parameters=[number, _parameter("count", "How many reports they had")],
            **about,
        ),
        "/v1/rounds/{round}/signature": _path(
            "get_signature",
            "What the service signs of the round, for devices behind a relay",
            _OCTETS,
            "not_found late finished",
            parameters=[_round()],
        ),
    }


def _round() -> _Json:
    number = _parameter("round", "Its number, or open")
    number["schema"]["pattern"] = "^(open|[0-9]{1,10})$"
    return number


def _of_round(parts: tuple[str, ...]) -> _Json:
    part = _parameter("part", "What a device needs of it")
    part["schema"]["enum"] = list(parts)
    return {
        "/v1/rounds": _path("get_rounds", "All rounds"),
        "/v1/rounds/open": _path("get_open", "The open round"),
        "/v1/rounds/{round}/{part}": _path(
            "get_part",
            "Request, weights (float64, little-endian) or preparing (JSON) of the round",
            {**_OCTETS, "application/json": {"schema": {}}},
            "not_found late finished",
            cached=True,
            parameters=[_round(), part],
        ),
    }


def _about(kinds: str) -> _Json:
    return {
        "/v1/invitation": _path(
            "get_invitation",
            f"What a token is an invitation to: {kinds}",
            problems="not_invited",
            secured=True,
        ),
        "/v1/task": _path(
            "get_task", "What the run is about", {"application/json": {"schema": _TASK}}
        ),
        "/v1/model.json": _path("get_model_json", "The model"),
        "/v1/openapi.json": _path("get_openapi", "This document"),
        **_watched("Whether reports are taken"),
    }


def root_document() -> _Json:
    """Describe the root of a service with several runs; each run has a document of its own."""
    run = _parameter("run", "The last part of its path in /v1/runs")
    paths = {
        "/v1/runs": _path(*_RUNS),
        "/runs/{run}/v1/openapi.json": _path(
            "get_openapi_of_run", "The interface of a run", problems="not_found", parameters=[run]
        ),
        "/v1/openapi.json": _path("get_openapi", "This document"),
        "/": _path("get_page", "The runs for people", {"text/html": _TEXT}, cached=True),
        **_watched("Whether any run takes reports, and which"),
    }
    return _described("several runs", paths)


def _watched(ready: str) -> _Json:
    return {
        "/healthz": _path("get_health", "Whether the process lives"),
        "/readyz": _path("get_ready", ready),
        "/metrics": _path("get_metrics", "Figures for Prometheus", {"text/plain": _TEXT}),
    }


def _described(name: str, paths: _Json) -> _Json:
    problem = {"error": {"type": "string", "enum": list(PROBLEMS)}, "message": {"type": "string"}}
    schema = {"type": "object", "required": list(problem), "properties": problem}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"fedsel: {name}", "version": __version__, "description": _ABOUT},
        "servers": [{"url": ".."}],  # relative to this document's own address, wherever it lies
        "paths": paths,
        "components": {
            "securitySchemes": {"invitation": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": schema},
        },
    }


def _outcome(*counts: str) -> _Json:
    taken = [verdict.value for verdict in Verdict if verdict.taken]
    known: _Json = {"outcome": {"type": "string", "enum": taken}}
    known |= {name: {"type": "integer", "minimum": 0} for name in counts}
    schema = {"type": "object", "required": list(known), "properties": known}
    return {"application/json": {"schema": schema}}


def _parameter(name: str, text: str) -> _Json:
    schema = {"type": "string"}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _path(
    name: str,
    summary: str,
    content: _Json = _OBJECT,
    problems: str = "",
    *,
    body: _Json | None = None,
    secured: bool = False,
    cached: bool = False,
    parameters: list[_Json] | None = None,
) -> _Json:
    """A path with one operation, whose name begins with its method."""
    responses: _Json = {"200": {"description": "As asked", "content": content}}
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
    operation: _Json = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        octets = {"application/octet-stream": {"schema": body}}
        operation["requestBody"] = {"required": True, "content": octets}
    if secured:
        operation["security"] = [{"invitation": []}]
    path: _Json = {name.partition("_")[0]: operation}
    return path if parameters is None else {**path, "parameters": parameters}
