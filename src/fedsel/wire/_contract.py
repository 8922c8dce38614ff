"""What a service tells its devices in JSON: the announcement of a task, and verdicts on reports.

Both ends use these records: a service writes them, a device reads them. What counts for a report is
the request alone; a device believes an announcement as far as it makes sense.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, Self, final, get_args

from fedsel._internal.display import upper_bound
from fedsel._internal.models import REGRESSING, LinearModel, Loss
from fedsel.errors import InvalidArgument, check_count, check_float, check_positive
from fedsel.mechanisms.central import DELTA, CentralGuarantee, add_up, compose
from fedsel.recipe import Recipe, check_at_least_zero
from fedsel.solutions._blocks import MOST_ANSWERS
from fedsel.wire._model_question import MOST_QUESTIONS
from fedsel.wire._question import Question
from fedsel.wire._report import RUN_BYTES, check_public_key
from fedsel.wire._request import InvalidMessage
from fedsel.wire._schema import Schema

Invitations = Literal["signed", "open"]
MOST_ANNOUNCEMENT_BYTES = 64 << 20
"""The names of a task's features may be many."""
_MOST_ROUNDS = (1 << 32) - 1


class Verdict(Enum):
    """The outcome of a report; ``value`` is its word on the wire."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """It was accepted before: as good as accepted."""
    LATE = "late"
    """Its round is over."""
    EARLY = "early"
    """Its round has not begun: nobody was asked for it."""
    CONFLICT = "conflict"
    """Its sender has sent another report in this round."""
    REJECTED = "rejected"
    """It is no report of this run, or its sender may not send one."""

    @property
    def taken(self) -> bool:
        """Whether the report is in the sum."""
        return self in (Verdict.ACCEPTED, Verdict.DUPLICATE)

    @classmethod
    def read(cls, status: int, body: bytes) -> Verdict | None:
        """The verdict of an HTTP answer to a report; None if the answer holds none.

        >>> Verdict.read(200, b'{"outcome": "duplicate"}')
        <Verdict.DUPLICATE: 'duplicate'>
        >>> Verdict.read(200, b"<html>Welcome to our network") is None
        True
        """
        word = word_of(body)
        if status == 200:
            return next((v for v in (cls.ACCEPTED, cls.DUPLICATE) if v.value == word), None)
        if status == 409:
            return cls.EARLY if word == cls.EARLY.value else cls.CONFLICT
        return {400: cls.REJECTED, 410: cls.LATE}.get(status)


def word_of(body: bytes) -> str:
    """The outcome or the error code in a service's JSON answer; "" if there is none."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    known = values if isinstance(values, dict) else {}
    return str(known.get("outcome", known.get("error", "")))[:40]


@final
@dataclass(frozen=True)
class CloseRule:
    """A round ends with ``reports`` reports, or after ``seconds`` if it has ``least`` of them.

    Reports that arrive together with the last one count too: their devices have paid for them.

    >>> rule = CloseRule(reports=100, seconds=60.0)
    >>> rule.due(99, 59.9), rule.due(100, 0.0), rule.due(1, 60.0), rule.due(0, 60.0)
    (False, True, True, False)
    """

    reports: int | None = None
    seconds: float | None = None
    least: int = 1

    def __post_init__(self) -> None:
        if self.reports is None and self.seconds is None:
            raise InvalidArgument("close_after", {}, "a table with reports, seconds or both")
        if self.reports is not None:
            check_count("close_after.reports", self.reports)
        if self.seconds is not None:
            check_positive("close_after.seconds", self.seconds)
        check_count("close_after.least", self.least, least=0)

    def due(self, accepted: int, seconds: float) -> bool:
        """Whether a round with this many reports is over after this time."""
        if self.reports is not None and accepted >= self.reports:
            return True
        return self.seconds is not None and seconds >= self.seconds and accepted >= self.least

    def relayed(self, n_min: int) -> CloseRule:
        """When a relay releases a round: by the same rule, and never with fewer than ``n_min``."""
        reports = None if self.reports is None else max(self.reports, n_min)
        return CloseRule(reports, self.seconds, max(self.least, n_min))


def both_numbers(local: float | Fraction, central: float, delta: float, honest: int) -> str:
    """What so many honest reports guarantee behind a relay, for people: numbers are rounded up."""
    return (
        f"ε = {upper_bound(local)} against everybody; ε = {upper_bound(central)},"
        f" δ = {upper_bound(delta)} if relay and service do not work together, among at least"
        f" {honest:,} honest report{'s' * (honest > 1)}"
    )


@final
@dataclass(frozen=True)
class ShuffleRule:
    """A relay releases a round with ``n_min`` reports at least, or never.

    Up to the share ``dishonest`` of them may come from clients who work for the service; the
    central guarantee, at this ``delta``, counts the others.

    >>> ShuffleRule(n_min=100, dishonest=0.1).honest
    90
    """

    n_min: int
    dishonest: float = 0.1
    delta: float = DELTA

    def __post_init__(self) -> None:
        check_count("shuffle.n_min", self.n_min, least=2, most=_MOST_ROUNDS)
        check_float("shuffle.dishonest", self.dishonest)
        if not 0 <= self.dishonest < 1:
            raise InvalidArgument("shuffle.dishonest", self.dishonest, "a share in [0, 1)")
        check_positive("shuffle.delta", self.delta)
        if not 1e-100 <= self.delta < 1:
            raise InvalidArgument("shuffle.delta", self.delta, "in [1e-100, 1)")

    @property
    def honest(self) -> int:
        """How many of ``n_min`` reports are honest, if no more than the allowed share is not."""
        return max(1, self.n_min - math.floor(Fraction(repr(self.dishonest)) * self.n_min))

    @property
    def most_dishonest(self) -> int:
        """How many of ``n_min`` reports may come from clients who work for the service."""
        return self.n_min - self.honest

    def guarantee(self, recipe: Recipe, *, composed: bool = False) -> CentralGuarantee:
        """What shuffling proves for a client that reports once in each epoch, in any round.

        Rounds that prepare count like all others: their reports come from the same mechanism.
        Epochs are added up, unless ``composed``, for which dp_accounting is needed.

        Proof: docs/proofs/shuffling.md, S9.

        >>> recipe = Recipe("FJ", epsilon=4.0, dim=128, rho=0.4)
        >>> print(ShuffleRule(n_min=6667, dishonest=0.1).guarantee(recipe))
        central ε = 0.48... at δ = 1e-06 among 6,001 shuffled reports of one round, ...
        """
        prove = compose if composed else add_up
        return prove(recipe.build(), reports=self.honest, epochs=recipe.epochs, delta=self.delta)

    def said(self, central: float, local: float | Fraction) -> str:
        """Both ε of all reports of a client, for people, rounded up.

        >>> print(ShuffleRule(6667).said(0.19998, 4))
        ε = 4 against everybody; ε = 0.2, δ = 10⁻⁶ if relay and service do not work together, among
        at least 6,001 honest reports
        """
        return both_numbers(local, central, self.delta, self.honest)

    @property
    def condition(self) -> str:
        """What the central number counts on, for people.

        >>> print(ShuffleRule(6667).condition)
        The relay releases a round with at least 6,667 reports, or never; at most 666 of them may
        come from clients who work for the service.
        """
        return (
            f"The relay releases a round with at least {self.n_min:,} reports, or never; at most"
            f" {self.most_dishonest:,} of them may come from clients who work for the service."
        )


@final
@dataclass(frozen=True)
class Shuffled:
    """How the reports of a run are shuffled, and what that guarantees.

    ``epsilon``: central, for a client that reports once in each epoch, if relay and service do not
    work together. ``server_key`` and ``signing_key`` are the service's, for policies to name.
    """

    rule: ShuffleRule
    epsilon: float
    server_key: str
    signing_key: str

    @property
    def keys(self) -> tuple[str, str]:
        """Both public keys."""
        return self.server_key, self.signing_key

    def said(self, local: float | Fraction) -> str:
        """Both numbers for people; ``local`` is the ε of all reports of a client."""
        return self.rule.said(self.epsilon, local)

    @property
    def condition(self) -> str:
        """What the central number counts on, for people."""
        return self.rule.condition

    def to_dict(self) -> dict[str, Any]:
        """The values of its JSON."""
        known = {"honest": self.rule.honest, "epsilon": self.epsilon}
        keys = {"server_key": self.server_key, "signing_key": self.signing_key}
        return {**vars(self.rule), **known, **keys}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """The values of a service's JSON, checked."""
        rule = ShuffleRule(values["n_min"], values["dishonest"], values["delta"])
        server_key = check_public_key("shuffle.server_key", values["server_key"])
        signing_key = check_public_key("shuffle.signing_key", values["signing_key"])
        return cls(
            rule, check_at_least_zero("shuffle.epsilon", values["epsilon"]), server_key, signing_key
        )


@final
@dataclass(frozen=True)
class Measures:
    """How the last ``rounds`` of each epoch measure the model: with one report of ``epsilon``.

    A device that measures spends all on it and trains in no round. ``answers`` has M of each
    question, which `ModelQuestion` asks in its round.
    """

    rounds: int
    epsilon: float
    answers: tuple[int, ...]

    def __post_init__(self) -> None:
        check_count("measure.rounds", self.rounds, most=_MOST_ROUNDS)
        check_positive("measure.epsilon", self.epsilon)
        if not 1 <= len(self.answers) <= MOST_QUESTIONS:
            raise InvalidArgument("measure.answers", list(self.answers), "one to three numbers")
        for count in self.answers:
            check_count("measure.answers", count, least=2, most=MOST_ANSWERS)

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """The values of a service's JSON, checked."""
        return cls(values["rounds"], values["epsilon"], tuple(values["answers"]))


@final
@dataclass(frozen=True, kw_only=True)
class Announcement:
    """A task as its service announces it at ``/v1/task``; the fields are the keys of its JSON.

    ``schema`` says what devices make of their records, None that they bring updates of their own.
    ``shuffle`` says that reports leave sealed, by way of a relay; None that they go to the service.
    ``measure`` says which rounds measure the model, ``question`` what is asked instead of training.
    The fields with a default are for people. A device does not read them: it takes ε, d and the
    rest from the request.
    """

    name: str
    run: bytes
    purpose: str = ""
    recipient: str = ""
    invitations: Invitations
    solution: str = ""
    dim: int | None = None
    epsilon_per_report: float | None = None
    epsilon: float | None = None
    charge: str = ""
    bits: float | None = None
    report_bytes: int | None = None
    epochs: int | None = None
    rounds_per_epoch: int
    rounds: int | None = None
    clients: int | None = None
    close_after: CloseRule
    schema: Schema | None
    loss: Loss | None
    learning_rate: float | None = None
    averaging: float | None = None
    public_rows: str = ""
    shuffle: Shuffled | None = None
    measure: Measures | None = None
    question: Question | None = None

    def __post_init__(self) -> None:
        check_labels(self.schema, self.loss)

    def encode(self) -> bytes:
        """The announcement as JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["run"] = self.run.hex()
        values["schema"] = None if self.schema is None else self.schema.to_dict()
        values["shuffle"] = None if self.shuffle is None else self.shuffle.to_dict()
        values["measure"] = None if self.measure is None else vars(self.measure)
        values["question"] = None if self.question is None else self.question.to_dict()
        values["close_after"] = {k: v for k, v in vars(self.close_after).items() if v is not None}
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The announcement of a service's JSON; anything else raises `InvalidMessage`."""
        try:
            return cls._read(json.loads(data))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError):
            raise InvalidMessage("not the announcement of a task") from None

    @classmethod
    def _read(cls, values: Mapping[str, Any]) -> Self:
        run, schema = bytes.fromhex(values["run"]), values["schema"]
        shuffle, measure = values.get("shuffle"), values.get("measure")
        question = values.get("question")
        known = {f.name for f in fields(CloseRule)}
        if len(run) != RUN_BYTES or values["invitations"] not in get_args(Invitations):
            raise ValueError
        rounds = values["rounds_per_epoch"]
        return cls(
            name=_text(values["name"]),
            run=run,
            invitations=values["invitations"],
            rounds_per_epoch=check_count("rounds_per_epoch", rounds, most=_MOST_ROUNDS),
            close_after=CloseRule(**{k: v for k, v in values["close_after"].items() if k in known}),
            schema=None if schema is None else Schema.of_dict(schema),
            loss=values["loss"],
            shuffle=None if shuffle is None else Shuffled.of_dict(shuffle),
            measure=None if measure is None else Measures.of_dict(measure),
            question=None if question is None else Question.of_dict(question),
        )


def check_labels(schema: Schema | None, loss: Loss | None) -> None:
    """Refuse labels that do not suit a loss: classes, or bounds of a number."""
    if schema is None or loss is None:
        if schema is not None or loss is not None:
            raise InvalidArgument("loss", loss, "set with a schema, and omitted without one")
        return
    LinearModel(loss)
    if loss in REGRESSING and schema.target_range is None:
        allowed = f"[low, high] of the target, which {loss} predicts"
        raise InvalidArgument("target_range", None, allowed)
    if loss not in REGRESSING and schema.target_range is not None:
        raise InvalidArgument("target_range", schema.target_range, f"omitted with {loss}")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value
