"""The client mod, which turns the update of any ClientApp into one private report."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from numpy.typing import NDArray

from fedsel.device import Client, LedgerError, Reason, Refused
from fedsel.errors import InvalidArgument
from fedsel.flower._messages import (
    PREPARING,
    RECORD,
    Layout,
    NodeRefusal,
    Question,
    answer_of,
    only_arrays,
)
from fedsel.flower._node import Node, WrongSettings
from fedsel.wire import RecordPipeline, Request

App = Callable[[Message, Context], Message]
Records = Callable[[Context], Any]
Scores = Callable[[Message, Context], tuple[Any, Any]]
_LOG = logging.getLogger("fedsel.flower")


class FedSelMod:
    """``ClientApp(mods=[FedSelMod()])``: the node sends only private reports.

    The app gets a copy of the message and returns the trained arrays. The mod drops metrics and
    everything else that the app returns or writes. The update (model − returned arrays)/scale goes
    through the node's `Client`, whose policy and ledger come from ``node_config`` (see `Node`). The
    app runs only if the policy allows the request. If the app fails, the mod reports on zeros,
    because whether a node answers must not depend on its data. The node's log names only the type
    of the exception.

    Evaluate and query messages are refused: metrics of private data are not private. Put the mod
    first in its list, so that no other mod sees the reply before it.

    If the strategy has a ``feature_range``, ``records`` is a function of the context that returns
    the node's raw records (n, d). In a preparing round the mod reports on their mean and the app
    does not run. In all other rounds the app trains on `prepared` records. If only one of strategy
    and mod handles records, the node refuses, and nothing is spent.

    If the strategy has ``measure``, ``scores`` is a function of message and context that returns
    what the model in the message says of the node's records: margins (n, 1), logits (n, C) or
    predictions on [−1, 1] (n, 1), and the class numbers or targets (n,). In a round that measures
    the node reports in which of a few public bins one of its records lies. Without ``scores`` it
    refuses, and nothing is spent.
    """

    def __init__(self, records: Records | None = None, scores: Scores | None = None) -> None:
        if records is not None and not callable(records):
            raise InvalidArgument("records", records, "a function of the context, or None")
        if scores is not None and not callable(scores):
            allowed = "a function of message and context, or None"
            raise InvalidArgument("scores", scores, allowed)
        self._records, self._scores = records, scores

    def __call__(self, message: Message, context: Context, call_next: App) -> Message:
        """Reply with a report, or with one of a few fixed sentences."""
        try:
            outcome = self._outcome(message, context, call_next)
        except Exception:
            # Without the exception: Flower would send its text, which may reveal data.
            _LOG.warning("the node could not answer")
            outcome = Reason.INTERNAL.value
        if isinstance(outcome, bytes):
            return Message(answer_of(outcome), reply_to=message)
        return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, str(outcome)), reply_to=message)

    def _outcome(self, message: Message, context: Context, call_next: App) -> bytes | str:
        question = self._understood(message)
        if isinstance(question, str):
            return question
        arrays = only_arrays(message.content)
        try:
            layout = Layout.of(arrays)
            model: NDArray[np.floating] | None = layout.vector(arrays)
        except Exception:
            model = None  # refused by the client, unless it has another objection
        try:
            client = self._client(context, question)
        except LedgerError as error:
            _LOG.error("%s", error)  # for the node's owner only
            return Reason.LEDGER.value
        except InvalidArgument as error:
            _LOG.error("node_config: %s", error)
            return (
                error.sentence if isinstance(error, WrongSettings) else NodeRefusal.WRONG_SETTINGS
            )

        def update(weights: NDArray[np.floating]) -> Any:
            try:
                own = self._preparing_update(context, question)
                if own is not None:
                    return own
                if question.measure is not None:
                    return self._answer(message, context, question)
                returned = call_next(_for_the_app(message, question.preparing), context)
                after = layout.vector(only_arrays(returned.content), np.float64)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # Also sys.exit: silence that depends on data would reveal them.
                failed = type(error).__name__
            else:
                with np.errstate(all="ignore"):  # a warning may be an error, and reveal data
                    return (weights.astype(np.float64) - after) / layout.per_entry(question.scales)
            # A report on zeros is charged. The exception's text may hold data and is not logged.
            _LOG.warning("the app or its records failed: %s", failed)
            raise ValueError("the app failed")

        try:
            return client.answer(question.request, model, update)
        except Refused as refused:
            return refused.reason.value

    def _understood(self, message: Message) -> Question | str:
        """Return the question, or the sentence of a refusal that needs no policy."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return NodeRefusal.NO_ANSWER
        try:
            question = Question.of(message.content, only_arrays(message.content))
        except Exception:
            question = None
        if question is None:
            return Reason.MALFORMED.value
        if question.measure is not None and self._scores is None:
            return NodeRefusal.NO_SCORES
        if (question.preparing is None) != (self._records is None):
            return NodeRefusal.NO_RECORDS if self._records is None else NodeRefusal.NO_BOUNDS
        return question

    def _preparing_update(
        self, context: Context, question: Question
    ) -> NDArray[np.floating] | None:
        """Return the update of a round that prepares; None in all other rounds."""
        preparing, number = question.preparing, Request.decode(question.request).round
        if question.measure is not None:
            return None
        if preparing is None or self._records is None or not preparing.learns_in(number):
            return None
        return preparing.vector(number, self._records(context))

    def _answer(self, message: Message, context: Context, question: Question) -> Any:
        """Return the answer of one of the node's records, drawn at random."""
        if question.measure is None or self._scores is None:
            raise ValueError("nothing is measured")
        given = self._scores(_for_the_app(message, question.preparing), context)
        margins, labels = (np.asarray(part, dtype=np.float64) for part in given)
        place = secrets.randbelow(len(labels))
        shown = margins.reshape(len(labels), -1)[place : place + 1]
        return int(question.measure.answers(shown, labels[place : place + 1])[0])

    def _client(self, context: Context, question: Question) -> Client:
        """Return the node's device. (Tests replace its entropy here.)"""
        del question
        return Node.of(context.node_config).client()

    def __repr__(self) -> str:
        given = {"records": self._records, "scores": self._scores}
        named = ", ".join(f"{name}=…" for name, own in given.items() if own is not None)
        return f"{type(self).__name__}({named})"


def _for_the_app(message: Message, preparing: RecordPipeline | None) -> Message:
    """Copy the message without our record, but with the preparation of records.

    The copy has its own metadata: Flower makes the reply from the original's, which the app must
    not be able to write to.
    """
    kept = RecordDict({name: part for name, part in message.content.items() if name != RECORD})
    if preparing is not None:
        kept[RECORD] = ConfigRecord({PREPARING: preparing.encode()})
    return Message(content=kept, metadata=copy(message.metadata))
