"""The client mod: the update that any ClientApp returns becomes one private report."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from flwr.app import Context, Error, Message, MessageType
from flwr.common.constant import ErrorCode
from numpy.typing import NDArray

from fedsel.device import Client, LedgerError, Reason, Refused
from fedsel.errors import InvalidArgument
from fedsel.flower.messages import (
    NO_ANSWER,
    RECORD,
    Layout,
    Question,
    answer_of,
    only_arrays,
)
from fedsel.flower.node import Node

App = Callable[[Message, Context], Message]
_LOG = logging.getLogger("fedsel.flower")


class FedSelMod:
    """``@app.train(mods=[FedSelMod()])``: nothing leaves but the report, and that only once paid.

    The app is called with the message as it would be without the mod, and returns the trained
    arrays; metrics and whatever else it returns are dropped. The update is (model − returned
    arrays)/scale, and goes through the node's `Client`: policy and ledger come from the node's own
    ``node_config`` (see `Node`). The app runs only when nothing speaks against the request. If it
    fails, a report on zeros leaves: whether a node answers must not depend on its data.

    Evaluate and query messages are refused with a fixed sentence: metrics of private data are not
    private. Put the mod first in the list, so that no other sees its reply before it is sent; or
    in ``ClientApp(mods=[FedSelMod()])``, where it stands before every function of the app.

    The mod has no parameters: there is nothing that an app could loosen.
    """

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
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return NO_ANSWER
        try:
            arrays = only_arrays(message.content)
            question = Question.of(message.content, len(arrays))
        except Exception:
            question = None
        if question is None:
            return Reason.MALFORMED.value
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
            return Reason.INTERNAL.value

        def update(weights: NDArray[np.floating]) -> NDArray[np.float64]:
            kept = {name: part for name, part in message.content.items() if name != RECORD}
            message.content = type(message.content)(kept)
            try:
                returned = only_arrays(call_next(message, context).content)
                after = layout.vector(returned, np.float64)
            except KeyboardInterrupt:
                raise
            except BaseException:
                # Also sys.exit: a node that is silent on some data would tell of them.
                raise ValueError("the app failed") from None
            with np.errstate(all="ignore"):  # a warning may be an error: that would tell
                return (weights.astype(np.float64) - after) / layout.spread(question.scales)

        try:
            return client.answer(question.request, model, update)
        except Refused as refused:
            return refused.reason.value

    def _client(self, context: Context, question: Question) -> Client:
        """The node's device; tests replace its entropy here, and there is no other way to it."""
        del question
        return Node.of(context.node_config).client()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
