"""The client mod: the update that any ClientApp returns becomes one private report."""

from __future__ import annotations

import logging
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
    NO_ANSWER,
    NO_BOUNDS,
    NO_RECORDS,
    PREPARING,
    RECORD,
    WRONG_SETTINGS,
    Layout,
    Question,
    RecordPipeline,
    answer_of,
    only_arrays,
)
from fedsel.flower._node import Node, WrongSettings
from fedsel.wire import Request

App = Callable[[Message, Context], Message]
Records = Callable[[Context], Any]
_LOG = logging.getLogger("fedsel.flower")


class FedSelMod:
    """``@app.train(mods=[FedSelMod()])``: nothing leaves but the report, and that only once paid.

    The app is called with a copy of the message as it would be without the mod, and returns the
    trained arrays; metrics and whatever else it returns or writes into the message are dropped. The
    update is (model − returned arrays)/scale, and goes through the node's `Client`: policy and
    ledger come from the node's own ``node_config`` (see `Node`). The app runs only when nothing
    speaks against the request. If it fails, a report on zeros leaves: whether a node answers must
    not depend on its data. The node's log has the type of the exception, and nothing else of it.

    Evaluate and query messages are refused with a fixed sentence: metrics of private data are not
    private. Put the mod first in the list, so that no other sees its reply before it is sent; or
    in ``ClientApp(mods=[FedSelMod()])``, where it stands before every function of the app.

    Where the strategy knows bounds of the records (``feature_range``), ``records`` is a function of
    the context that returns those of this node, raw (n, d). In a round that prepares, the mod asks
    it and reports on the mean over them, and the app does not run; in all others the app trains on
    what `prepared` makes of them. If only one of strategy and mod knows of records, the node
    refuses: nothing is spent on a misunderstanding.

    There is no other parameter, and nothing that an app could loosen.
    """

    def __init__(self, records: Records | None = None) -> None:
        if records is not None and not callable(records):
            raise InvalidArgument("records", records, "a function of the context, or None")
        self._records = records

    def __call__(self, message: Message, context: Context, call_next: App) -> Message:
        """The reply: a report, or one of a few fixed sentences."""
        try:
            outcome = self._outcome(message, context, call_next)
        except Exception:
            # Without the exception: its text, which Flower would send on, may tell of the data.
            _LOG.warning("the node could not answer")
            outcome = Reason.INTERNAL.value
        if isinstance(outcome, bytes):
            return Message(answer_of(outcome), reply_to=message)
        return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, outcome), reply_to=message)

    def _outcome(self, message: Message, context: Context, call_next: App) -> bytes | str:
        question = self._understood(message)
        if isinstance(question, str):
            return question
        arrays = only_arrays(message.content)
        try:
            layout = Layout.of(arrays)
            model: NDArray[np.floating] | None = layout.vector(arrays)
        except Exception:
            model = None  # the client refuses it, if it has no other objection
        try:
            client = self._client(context, question)
        except LedgerError as error:
            _LOG.error("%s", error)  # for the node's owner; the server hears less
            return Reason.LEDGER.value
        except InvalidArgument as error:
            _LOG.error("node_config: %s", error)
            return error.sentence if isinstance(error, WrongSettings) else WRONG_SETTINGS

        def update(weights: NDArray[np.floating]) -> NDArray[np.floating]:
            try:
                own = self._place(context, question)
                if own is not None:
                    return own
                returned = call_next(_for_the_app(message, question.preparing), context)
                after = layout.vector(only_arrays(returned.content), np.float64)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # Also sys.exit: a node that is silent on some data would tell of them.
                failed = type(error).__name__
            else:
                with np.errstate(all="ignore"):  # a warning may be an error: that would tell
                    return (weights.astype(np.float64) - after) / layout.spread(question.scales)
            # For the node's owner, who pays for a report on zeros. The exception itself is gone
            # here: its text may hold data.
            _LOG.warning("the app or its records failed: %s", failed)
            raise ValueError("the app failed")

        try:
            return client.answer(question.request, model, update)
        except Refused as refused:
            return refused.reason.value

    def _understood(self, message: Message) -> Question | str:
        """What the node is asked, or why it cannot be answered, whatever the node's policy."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return NO_ANSWER
        try:
            question = Question.of(message.content, only_arrays(message.content))
        except Exception:
            question = None
        if question is None:
            return Reason.MALFORMED.value
        if (question.preparing is None) != (self._records is None):
            return NO_RECORDS if self._records is None else NO_BOUNDS
        return question

    def _place(self, context: Context, question: Question) -> NDArray[np.floating] | None:
        """What the node's records tell in a round that prepares; None in all others."""
        preparing, number = question.preparing, Request.decode(question.request).round
        if preparing is None or self._records is None or not preparing.learns_in(number):
            return None
        return preparing.vector(number, self._records(context))

    def _client(self, context: Context, question: Question) -> Client:
        """The node's device; tests replace its entropy here, and there is no other way to it."""
        del question
        return Node.of(context.node_config).client()

    def __repr__(self) -> str:
        records = "" if self._records is None else "records=…"
        return f"{type(self).__name__}({records})"


def _for_the_app(message: Message, preparing: RecordPipeline | None) -> Message:
    """The message as it would be without the mod; with it goes how to prepare records.

    It has metadata of its own: Flower makes a reply from those of the message that came, and what
    an app writes must not reach it.
    """
    kept = RecordDict({name: part for name, part in message.content.items() if name != RECORD})
    if preparing is not None:
        kept[RECORD] = ConfigRecord({PREPARING: preparing.encode()})
    return Message(content=kept, metadata=copy(message.metadata))
