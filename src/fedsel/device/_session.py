"""A device that takes part in a run: polls, answers what its client allows, and sends until heard.

A report is charged and durable before it is sent, and the same bytes are sent until the service has
said what became of them. So a device that was killed in between sends them again when it is
started again, and pays once. ``clients/js/src/joining`` is the same loop: the same answers of a
service lead to the same requests, charges and endings (``tests/clients/answers.json``).
"""

from __future__ import annotations

import hashlib
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, final

from fedsel.device._client import Client, Update
from fedsel.device._connection import (
    SHORT,
    Connection,
    Ended,
    Ending,
    Reply,
    Tell,
    check_token,
    jittered,
    random_round,
)
from fedsel.device._entries import History
from fedsel.device._policy import Reason, Refused
from fedsel.device._records import RawRecords, SuitedRecords
from fedsel.device._sealed import check_sealed, check_signed
from fedsel.errors import InvalidArgument, check_count, check_kind, check_positive
from fedsel.preparation._given import most_bytes
from fedsel.solutions import entry
from fedsel.wire import (
    Announcement,
    InvalidMessage,
    RecordPipeline,
    Request,
    Verdict,
    measured_question,
)
from fedsel.wire._contract import MOST_ANNOUNCEMENT_BYTES
from fedsel.wire._model_question import MOST_QUESTION_BYTES
from fedsel.wire._pipeline import measured_text
from fedsel.wire._request import MOST_REQUEST_BYTES
from fedsel.wire._signed import SIGNED_BYTES

EVERY, PATIENCE = 5.0, 600.0
_OVERDUE = 20
"""Polls after which a round that ends by count is taken to wait for more reports."""
_FOR_NOW = (Reason.TOO_OFTEN, Reason.OUT_OF_ORDER)
_UNINVITED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@final
@dataclass(frozen=True)
class Outcome:
    """What taking part has led to.

    ``accepted`` reports were taken, now or before a restart; ``late`` ones came after their round
    was over: they are paid for all the same. ``left_out`` records had a label that the task does
    not know. ``history`` is the whole ledger, earlier runs included.
    """

    ending: Ending
    detail: str
    run: bytes | None
    accepted: int
    late: int
    left_out: int
    history: History

    @property
    def regular(self) -> bool:
        """Whether all went as it should: the run is over, or the budget is spent."""
        return self.ending in (Ending.FINISHED, Ending.DONE, Ending.SPENT)

    def as_dict(self) -> dict[str, Any]:
        """The outcome for JSON, without the ledger."""
        return {
            "ending": self.ending.name.lower(),
            "message": str(Ended(self.ending, self.detail)),
            "run": None if self.run is None else self.run.hex(),
            "accepted": self.accepted,
            "late": self.late,
            "records_left_out": self.left_out,
        }


@final
@dataclass(frozen=True)
class Offer:
    """What a service asks: its task, and the request of the open round (None: the run is over)."""

    task: Announcement
    request: Request | None


@final
class Session:
    """A device at a service: what the service asks, and taking part.

    ``every``: seconds between two polls; ``patience``: seconds without a whole answer after which
    the device gives up; ``ca``: a file of certificates to verify the service by, in place of those
    of the operating system; ``tell`` is called with a sentence now and then.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        every: float = EVERY,
        patience: float = PATIENCE,
        tell: Tell | None = None,
    ) -> None:
        check_kind("url", url, str)
        self._every = check_positive("every", every)
        self._tell: Tell = (lambda _: None) if tell is None else tell
        patience = check_positive("patience", patience)
        self._connection = Connection(url, ca=ca, patience=patience, tell=self._tell)
        self._token = None if token is None else check_token("token", token)
        self._offer: Offer | None = None
        self._task_text = b""  # the task as it came, for its signature
        self._accepted = self._late = self._left_out = 0
        self._answered = -1  # the last round whose report the service has judged
        self._chosen = (-1, -1)  # an epoch, and the round of it to answer
        self._measures = False  # whether this device measures the model, and does not train
        self._measured_epoch = 0  # and in which epoch
        self._seen = (-1, 0.0)  # the open round, and since when we know it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def exposed(self) -> bool:
        """Whether others on the way can read the invitation: http, and not to this machine."""
        return self._connection.exposed

    def offer(self) -> Offer:
        """What the service asks; nothing is spent. Raises `Ended` where that cannot be found out.

        The task is asked for once: one that changed would be another.
        """
        if self._offer is None:
            reply = self._connection.ask("/v1/task", MOST_ANNOUNCEMENT_BYTES)
            try:
                self._task_text = self._expected(reply)
                task = Announcement.decode(self._task_text)
            except InvalidMessage as error:
                raise Ended(Ending.NOT_UNDERSTOOD, str(error)) from None
            message = self._open_request()
            request = None if message is None else _understood(message, task)
            self._offer = Offer(task, request)
        return self._offer

    def reports_so_far(self) -> int | None:
        """How many reports the open round has by the service's word; None where it gives none."""
        try:
            known = self._connection.ask("/v1/rounds/open", SHORT).values
            return check_count("accepted", known["counts"]["accepted"], least=0)
        except (Ended, InvalidArgument, KeyError, TypeError):
            return None

    def asked(self) -> Offer:
        """The old name of `offer`."""
        text = "Session.asked is now Session.offer; the old name works until 0.2"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.offer()

    def _open_request(self) -> bytes | None:
        """The request of the open round; None when the run is over."""
        path = "/v1/rounds/open/request"
        reply = self._connection.ask(path, MOST_REQUEST_BYTES, keep="request")
        return None if reply.status == HTTPStatus.GONE else self._expected(reply)

    def _expected(self, reply: Reply) -> bytes:
        """The body of a reply of status 200; any other ends the session."""
        if reply.status != HTTPStatus.OK:
            raise self._connection.not_understood(reply)
        return reply.body

    def join(self, client: Client, records: RawRecords | Update) -> Outcome:
        """Take part until the run is over, the budget is spent, or nothing more is to be done.

        ``records`` are the device's own; or its update, a function of the weights, where the task
        leaves the model to its devices. Records that do not suit the task raise an
        `InvalidArgument` before anything is spent.
        """
        check_kind("client", client, Client)
        ending, detail = Ending.FINISHED, ""
        try:
            self._take_part(client, records)
        except Ended as ended:
            ending, detail = ended.ending, ended.detail
        run = None if self._offer is None else self._offer.task.run
        counts = (self._accepted, self._late, self._left_out)
        return Outcome(ending, detail, run, *counts, client.history())

    def _take_part(self, client: Client, records: RawRecords | Update) -> None:
        offer = self.offer()
        if offer.request is None:
            return
        check_sealed(client.policy, offer.task)
        self._measures = self._is_to_measure(client, offer)
        if self._is_ours(offer.request):
            try:
                client.earlier(offer.request.encode())
            except Refused as refused:  # before anything else is done for it
                _check_for_now(refused)
        forbidden = client.policy.forbidden(columns_of(offer.task))
        if forbidden is not None:
            detail = f"the policy of this device does not allow {forbidden}"
            raise Ended(Ending.REFUSED, detail)
        work = self._work(offer.task, records)
        self._introduce(client, offer.task)
        while (message := self._open_request()) is not None:
            request = _understood(message, offer.task)
            if request.round != self._seen[0]:
                self._seen = (request.round, time.monotonic())
            if self._measures:
                self._check_measured(client, request.round)
            if request.round > self._answered and self._is_ours(request):
                self._visit(client, message, request, work)
            if request.round <= self._answered:
                self._check_more_to_do(client, request)
            time.sleep(jittered(self._every))

    def _work(self, task: Announcement, records: Any) -> SuitedRecords | Update:
        """What updates are made of, by the names of columns alone: no record is looked at yet."""
        if task.question is not None:
            return records.asked(task.question) if isinstance(records, RawRecords) else records
        if isinstance(records, RawRecords):
            suited = records.suited(task.schema, task.loss or "logistic")
            if suited.unused:
                self._tell(f"columns that the task does not ask for: {', '.join(suited.unused)}")
            return suited
        if task.schema is not None:
            raise InvalidArgument("records", "an update", f"RawRecords: {task.name!r} has a schema")
        return records  # type: ignore[no-any-return]

    def _introduce(self, client: Client, task: Announcement) -> None:
        """Check that the service takes reports of this device, before one is paid for."""
        if self._token is None and task.invitations == "open":
            # The same after a restart, else one report might count twice; another in every run.
            identity = client.history().identity
            self._token = hashlib.sha256(b"fedsel guest" + identity + task.run).hexdigest()
        if self._token is None:
            raise Ended(Ending.UNINVITED, "an invitation is needed")
        reply = self._connection.ask("/v1/invitation", SHORT, token=self._token)
        if reply.status in _UNINVITED:
            raise Ended(Ending.UNINVITED, "the invitation is not valid for this run")
        self._expected(reply)
        if reply.values == {"kind": "gateway"}:
            raise Ended(Ending.UNINVITED, "the invitation is for a gateway")
        if reply.values.get("kind") != "device":
            raise self._connection.not_understood(reply)

    def _visit(
        self, client: Client, message: bytes, request: Request, work: SuitedRecords | Update
    ) -> None:
        """Send the report of a round, if it is paid for already, or may be and it is its turn."""
        try:
            report = client.earlier(message)
            if report is None and self._is_the_turn_of(request):
                report = self._answer(client, message, request, work)
        except Refused as refused:
            _check_for_now(refused)
            self._check_more_to_do(client, request)
            return
        if report is not None:
            self._send(request.round, report)

    def _is_the_turn_of(self, request: Request) -> bool:
        """Whether this is the round to answer: one of its epoch, at random, or one that waits.

        If all devices answered the first round of an epoch, those that it has no room for would
        have paid for nothing, and the rounds after it would have none.
        """
        task = self.offer().task
        epoch = request.round // task.rounds_per_epoch
        if self._measures and epoch < self._measured_epoch:
            return False
        if self._chosen[0] != epoch:
            last = (epoch + 1) * task.rounds_per_epoch - 1
            if task.measure is not None and not self._measures:
                last -= task.measure.rounds
            self._chosen = epoch, random_round(request.round, max(request.round, last))
        waited = time.monotonic() - self._seen[1]
        overdue = task.close_after.seconds or _OVERDUE * self._every
        return request.round >= self._chosen[1] or waited > overdue

    def _is_to_measure(self, client: Client, offer: Offer) -> bool:
        """Whether this device measures the model and does not train: it has, or by chance.

        A device whose policy or lifetime does not allow the questions trains. One that comes when
        an epoch measures and has not trained yet measures, too.
        """
        task = offer.task
        if task.measure is None or offer.request is None:
            return False
        history = client.history()
        runs = {one.run for one in history.entries}
        if task.run in runs:
            return False
        if any(measured_question(task.run, run) is not None for run in runs):
            return True
        policy, asked = client.policy, task.measure
        known = any(entry(name).answers for name in policy.solutions)
        allowed = known and set(asked.answers) <= {*policy.dimensions}
        # Of the decimal that is written: 0.1 is not more than 1/10.
        epsilon, left = Fraction(str(asked.epsilon)), history.left
        if not allowed or epsilon > policy.per_report or (left is not None and epsilon > left):
            return False
        number, epochs = offer.request.round, offer.request.recipe.epochs
        self._measured_epoch = number // task.rounds_per_epoch
        if _measures_in(task, number):
            return True
        # A device measures once: which epoch, chance decides as well.
        self._measured_epoch = random_round(self._measured_epoch, epochs - 1)
        return random_round(1, task.rounds_per_epoch) <= asked.rounds * epochs

    def _is_ours(self, request: Request) -> bool:
        """Whether a round does what this device does: it measures, or it trains."""
        return _measures_in(self.offer().task, request.round) == self._measures

    def _check_measured(self, client: Client, number: int) -> None:
        """End once this device has measured the model: one report is all that it gives."""
        run, over = self.offer().task.run, max(self._answered, number - 1)
        for one in client.history().entries:
            if one.round <= over and measured_question(run, one.run) is not None:
                raise Ended(Ending.DONE, "it has measured the model")

    def _check_more_to_do(self, client: Client, request: Request) -> None:
        """End once this device has given all its reports."""
        if self._measures:
            self._check_measured(client, request.round)
        else:
            _check_more_to_do(client, request)

    def _answer(
        self, client: Client, message: bytes, request: Request, work: SuitedRecords | Update
    ) -> bytes | None:
        """The report; None if the round was over before it was paid for."""
        dim, place = int(request.recipe.dim or 0), f"/v1/rounds/{request.round}"
        features = work.schema.feature_count if isinstance(work, SuitedRecords) else 0
        if isinstance(work, SuitedRecords) and _measures_in(self.offer().task, request.round):
            dim = work.schema.dim
        sizes = {"weights": 8 * dim, "preparing": most_bytes(features) + MOST_QUESTION_BYTES}
        if client.policy.signing_key is not None:
            sizes["signature"] = SIGNED_BYTES
        replies = {
            part: self._connection.ask(f"{place}/{part}", most, keep=part)
            for part, most in sizes.items()
        }
        if HTTPStatus.GONE in (reply.status for reply in replies.values()):
            return None
        parts = {part: self._expected(reply) for part, reply in replies.items()}
        signed = parts.pop("signature", None)
        if signed is not None:
            everything = {"task": self._task_text, "request": message, **parts}
            check_signed(signed, str(client.policy.signing_key), everything)
        update = self._update(work, parts["preparing"], request, dim)
        columns = columns_of(self.offer().task)
        return client.answer(message, parts["weights"], update, columns, signed)

    def _update(
        self, work: SuitedRecords | Update, text: bytes, request: Request, dim: int
    ) -> Update:
        """What to report in a round; what the service says about records is checked before."""
        if not isinstance(work, SuitedRecords):
            if text.strip() != b"null":
                raise Ended(Ending.NOT_UNDERSTOOD, "it prepares records, but its task has none")
            return work
        try:
            features = work.schema.feature_count
            if _measures_in(self.offer().task, request.round):
                pipeline, question = measured_text(text.decode("utf-8"), features)
                if question.count == request.recipe.dim:
                    return work.measuring(pipeline, question, dim)
                raise InvalidArgument("measure", question.count, "as the request has it")
            pipeline = RecordPipeline.decode(text.decode("utf-8"), features)
            if len(pipeline.scale.low) == features and pipeline.fits(dim):
                return work.update(request.round, pipeline, dim, self._leave_out)
        except Exception:  # noqa: S110 - whatever its parts do not bear
            pass
        raise Ended(Ending.NOT_UNDERSTOOD, "how it prepares records does not suit its task")

    def _leave_out(self, records: int) -> None:
        """Note left-out records, within an update: the time it takes belongs to the answer's."""
        if records != self._left_out:
            self._left_out = records
            with suppress(Exception):  # what the owner's own function does changes no report
                self._tell(f"{records} records are left out: the task does not know their label")

    def _send(self, number: int, report: bytes) -> None:
        """Send the same bytes until the service answers with a verdict."""
        patience = self._connection.patience()
        while True:
            reply = self._connection.ask("/v1/reports", SHORT, body=report, token=self._token)
            verdict = Verdict.read(reply.status, reply.body)
            if verdict is not Verdict.EARLY:
                break
            patience.wait("it has gone back to an earlier round")
        if reply.status in _UNINVITED:
            raise Ended(Ending.UNINVITED, "the invitation is not valid any more")
        if verdict is Verdict.CONFLICT:
            raise Ended(Ending.CONFLICT, "does another device use it, too?")
        if verdict is None or verdict is Verdict.REJECTED:
            raise self._connection.not_understood(reply)
        self._answered = number
        if verdict is Verdict.LATE:
            self._late += 1
            self._tell(f"round {number}: too late, the report was paid for and does not count")
        else:
            self._accepted += 1
            self._tell(f"round {number}: {verdict.value}")


def columns_of(task: Announcement) -> tuple[str, ...] | None:
    """The columns of the owner's table that a task uses; None where it does not name them."""
    if task.question is not None:
        return task.question.names
    return None if task.schema is None else task.schema.columns_used


def _measures_in(task: Announcement, number: int) -> bool:
    """Whether a round measures the model."""
    if task.measure is None:
        return False
    return number % task.rounds_per_epoch >= task.rounds_per_epoch - task.measure.rounds


def _understood(message: bytes, task: Announcement) -> Request:
    """The request of these bytes, if it belongs to the task that was announced."""
    try:
        request = Request.decode(message)
    except InvalidMessage:
        raise Ended(Ending.REFUSED, Reason.MALFORMED.value) from None
    if _measures_in(task, request.round):
        number = measured_question(task.run, request.run)
        counts = () if task.measure is None else task.measure.answers
        if number is None or number >= len(counts):
            raise Ended(Ending.FINISHED, "the service leads another one now")
        if request.recipe.dim != counts[number]:
            asked, announced = request.recipe.dim, counts[number]
            detail = f"it asks for one of {asked} answers, its task for one of {announced}"
            raise Ended(Ending.NOT_UNDERSTOOD, detail)
        return request
    if request.run != task.run:
        raise Ended(Ending.FINISHED, "the service leads another one now")
    theirs = task.schema.dim if task.schema is not None else None
    if task.question is not None:
        theirs = task.question.count
    if theirs is not None and theirs != request.recipe.dim:
        detail = f"it asks for d = {request.recipe.dim}, its task has {theirs}"
        raise Ended(Ending.NOT_UNDERSTOOD, detail)
    return request


def _check_for_now(refused: Refused) -> None:
    """End unless the refusal holds for now alone; the owner hears what is wrong with a ledger."""
    if refused.reason is Reason.EXHAUSTED:
        raise Ended(Ending.SPENT) from None
    if refused.reason not in _FOR_NOW:
        raise Ended(Ending.REFUSED, str(refused)) from None


def _check_more_to_do(client: Client, request: Request) -> None:
    """End once this device has given all its reports of the last epoch."""
    if request.epoch < request.recipe.epochs - 1:
        return
    per_epoch = client.policy.reports_per_epoch
    own = [entry for entry in client.history().entries if entry.run == request.run]
    if sum(entry.epoch == request.epoch for entry in own) >= per_epoch:
        detail = f"it has made {len(own)} of {request.recipe.epochs * per_epoch}"
        raise Ended(Ending.DONE, detail)


def join(
    url: str,
    client: Client,
    records: RawRecords | Update,
    *,
    token: str | None = None,
    ca: str | Path | None = None,
    every: float = EVERY,
    patience: float = PATIENCE,
    tell: Tell | None = None,
) -> Outcome:
    """Take part in the run that a service leads, until that is over or the budget is spent.

    ``records`` are the device's own (`RawRecords`), or its update, a function of the weights.
    ``token`` is its invitation. `Session` explains the other options.
    """
    with Session(url, token=token, ca=ca, every=every, patience=patience, tell=tell) as session:
        return session.join(client, records)
