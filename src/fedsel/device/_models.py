"""Read a model: a file, or what a service has trained."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from fedsel._internal.settings import naming
from fedsel.device._connection import SECONDS, Connection, Ended, Tell
from fedsel.errors import InvalidArgument
from fedsel.wire import Model
from fedsel.wire._model import MOST_MODEL_BYTES

_PLACE = "/v1/model.json"


def read_model(
    source: str | Path,
    *,
    ca: str | Path | None = None,
    patience: float = SECONDS,
    tell: Tell = len,
) -> Model:
    """The model of a file, or of a URL: a service, or the address of its model file.

    Over https the system's certificates count, or those of the file ``ca``. A service that does not
    answer is tried again for ``patience`` seconds.
    """
    text = str(source)
    if not text.lower().startswith(("http://", "https://")):
        return Model.load(source)
    path = "" if urlsplit(text).path.endswith(".json") else _PLACE
    connection = Connection(text, ca=ca, patience=patience, tell=tell)
    try:
        reply = connection.ask(path, MOST_MODEL_BYTES)
    except Ended as ended:
        raise InvalidArgument("model", text, f"a model that can be fetched ({ended})") from None
    finally:
        connection.close()
    if reply.status != HTTPStatus.OK:
        wanted = f"the address of a service or of a model file (status {reply.status})"
        raise InvalidArgument("model", text, wanted)
    with naming(lambda name: f"{name} at {text}"):
        return Model.decode(reply.body)
