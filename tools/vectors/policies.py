"""Policies: which requests they allow, the exact charge of a report, and what no policy is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from fedsel.device import Policy, Reason
from fedsel.errors import InvalidArgument
from fedsel.recipe import Recipe
from fedsel.wire import Intent, Request, check_sendable
from tools.vectors.encoding import Case, rational
from tools.vectors.reports import private_names
from tools.vectors.requests import ANSWERS, recipe

ABOUT = (
    "Charges of reports as fractions, requests that a policy allows (reason null) or refuses, and "
    "tables that are no policy."
)
_RUN = bytes(range(0x20, 0x30))
DEFAULTS: dict[str, Any] = {
    "lifetime": Fraction(8),
    "per_report": Fraction(2),
    "solutions": ("PS-PM", "RJ", "UJ", "PM"),
    "dimensions": (6, 123),
}


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _charges()
    yield from _verdicts()
    yield from _tables()


_UNJUDGED = ("columns", "signing_key")
"""Fields that no request is judged by alone: they stay out."""
_LATER = ("per_window", "menu", "clock_tolerance")
"""Fields that came later: they are written where they are set."""


def policy_fields(policy: Policy) -> Case:
    """A policy, ε as rationals, by the fields that requests are judged by."""
    found = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return {
        name: _written(value)
        for name, value in found.items()
        if name not in _UNJUDGED and not (name in _LATER and value is None)
    }


def _written(value: Any) -> Any:
    if isinstance(value, Fraction):
        return rational(value)
    if isinstance(value, tuple):
        return [_written(part) for part in value]
    if is_dataclass(value):  # an entry of a menu
        return {name: _written(part) for name, part in vars(value).items() if part is not None}
    return value


def _charges() -> Iterator[Case]:
    every = [(name, {"dim": 6, "k": 2}) for name in private_names()]
    special: list[tuple[str, dict[str, Any]]] = [
        ("PS-PM", {"k": 1.0}),
        ("EXP-PM", {"dim": 1}),
        ("J", {"dim": 1, "epsilon": Fraction(1, 1000)}),
        ("J", {"epsilon": Fraction(500), "epochs": 1}),
        ("UJ", {"epsilon": Fraction(500), "epochs": 1}),
        ("RJ", {"epsilon": Fraction(60), "bases": 16}),
        ("PM", {"epsilon": Fraction(40), "epochs": 1}),
        ("EXP-OW", {"epsilon": Fraction(1, 3), "epochs": 7}),
        ("PS-HM-C", {"mu": 0.99}),
        ("PM", {"epsilon": Fraction((1 << 64) - 1, (1 << 62) + 1)}),
        *(("BR", dict(zip(("dim", "k", "words", "bases"), one, strict=True))) for one in ANSWERS),
        ("BR", {"dim": 6, "k": 1, "epsilon": Fraction(500), "epochs": 1}),
        ("BR", {"dim": 6, "k": 3, "epsilon": Fraction(1, 10**18)}),
    ]
    for name, changes in (*every, *special):
        made = recipe(name, **changes)
        privacy = made.build().privacy
        ratio = Fraction(privacy.ratio or 0)
        yield {
            "kind": "charge",
            "request": Request(_RUN, 0, 0, made).encode().hex(),
            "ratio": rational(ratio),
            "charge": rational(made.charge),
        }


def reason_of(policy: Policy, request: Request) -> Reason | None:
    """Why a device with this policy, and nothing spent, refuses a request with right weights."""
    objection = policy.objection(request.recipe, request.intent)
    if objection is not None:
        return objection
    try:
        charge = check_sendable(request.recipe).charge
    except (ValueError, OverflowError):
        return Reason.MALFORMED
    return Reason.TOO_MUCH if charge > policy.most_per_report(request.intent) else None


def _verdicts() -> Iterator[Case]:
    nothing = Intent()
    small = recipe(dim=6, k=2)
    price = small.charge
    hospital = Intent("Find better doses", "A hospital")
    asking = {"solutions": ("BR",)}
    attempts: list[tuple[str, dict[str, Any], Recipe, Intent]] = [
        ("allowed", {}, small, nothing),
        ("another solution", {}, recipe("HM"), nothing),
        ("another dimension", {}, recipe(dim=7), nothing),
        ("a solution that is not private", {}, recipe("NP"), nothing),
        ("a baseline in floating point", {}, recipe("PrivUnit"), nothing),
        ("a clip that is allowed just so", {"clip": 0.5}, small, nothing),
        ("a larger clip", {"clip": 0.49999999999999994}, small, nothing),
        ("the price at the limit", {"per_report": price}, small, nothing),
        ("above the limit", {"per_report": price - Fraction(1, 10**12)}, small, nothing),
        ("a control group costs more", {"solutions": ("PS-PM-C",)}, recipe("PS-PM-C"), nothing),
        ("less loss than claimed", {"per_report": "1/1000"}, recipe(k=123, mu=0.9999), nothing),
        (
            "parameters that do not fit",
            {"solutions": ("RC",)},
            recipe("RC", words=1 << 31),
            nothing,
        ),
        ("a purpose is required", {"require_purpose": True}, small, nothing),
        ("a purpose is stated", {"require_purpose": True}, small, Intent("for this")),
        ("a recipient is required", {"require_recipient": True}, small, Intent("for this")),
        (
            "both are listed",
            {"purposes": ["Find better doses"], "recipients": ["A hospital"]},
            small,
            hospital,
        ),
        (
            "another recipient",
            {"recipients": ["A hospital", "A school"]},
            small,
            Intent("", "a hospital"),
        ),
        ("a listed purpose is required", {"purposes": ["Find better doses"]}, small, nothing),
        ("the solution comes before the purpose", {"require_purpose": True}, recipe("HM"), nothing),
        (
            "more entries than FJ has codewords for",
            {"solutions": ("FJ",), "dimensions": ((1 << 22) + 1,)},
            recipe("FJ", dim=(1 << 22) + 1),
            nothing,
        ),
        ("a question", asking, recipe("BR", dim=6, k=2), nothing),
        ("a question of another size", asking, recipe("BR", dim=7, k=2), nothing),
        ("a question that costs too much", asking, recipe("BR", dim=6, k=2, epochs=2), nothing),
        ("a question without blocks", asking, recipe("BR", dim=6, k=0.1), nothing),
        ("a question without blocks, of any cost", asking, recipe("BR", dim=6, k=6), nothing),
    ]
    for shows, changes, made, stated in attempts:
        given = {**DEFAULTS, **changes}
        given["per_report"] = Fraction(given["per_report"])
        policy = Policy.of(given)
        request = Request(_RUN, 0, 0, made, stated)
        reason = reason_of(policy, request)
        yield {
            "kind": "verdict",
            "shows": shows,
            "policy": policy_fields(policy),
            "request": request.encode().hex(),
            "reason": None if reason is None else reason.name,
        }


def _tables() -> Iterator[Case]:
    good: dict[str, Any] = {
        "lifetime": 8.0,
        "per_report": 0.1,
        "solutions": ["ps-pm", "RJ"],
        "dimensions": [6],
    }
    for values in (
        good,
        {**good, "clip": 2, "runs": 3, "reports_per_day": 4, "weight_bound": 10.0},
        {**good, "lifetime": 501},
        {**good, "per_report": 0},
        {**good, "per_report": True},
        {**good, "solutions": []},
        {**good, "solutions": "RJ"},
        {**good, "solutions": ["NP"]},
        {**good, "solutions": ["RJ", "PS-PN"]},
        {**good, "dimensions": [0]},
        {**good, "dimensions": [1.5]},
        {**good, "dimensions": [(1 << 32) + 1]},
        {**good, "clip": -1.0},
        {**good, "reports_per_epoch": 0},
        {**good, "reports_per_day": 0},
        {**good, "runs": 1 << 32},
        {**good, "least_seconds": 86401.0},
        {**good, "require_purpose": 1},
        {**good, "purposes": []},
        {**good, "purposes": [""]},
        {**good, "recipients": ["two  spaces"]},
        {**good, "unknown": 1},
        {k: v for k, v in good.items() if k != "lifetime"},
    ):
        case: Case = {"kind": "table", "values": values}
        try:
            yield {**case, "policy": policy_fields(Policy.of(values))}
        except InvalidArgument as error:
            yield {**case, "wrong": error.name}
