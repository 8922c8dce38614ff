"""Logs as lines of JSON: what happened, and never who sent what.

No line holds a client's name, token or address.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

LOG = logging.getLogger("fedsel.service")
Level = Literal["debug", "info", "warning", "error"]


def log_event(event: str, *, level: Level = "info", **values: Any) -> None:
    """Write that something happened, with public values alone."""
    number = logging.getLevelNamesMapping()[level.upper()]
    if LOG.isEnabledFor(number):
        LOG.log(number, event, extra={"values": values})


class JSONLines(logging.Formatter):
    """One object a line: time, level, event and values.

    >>> record = logging.LogRecord("fedsel.service", 20, "", 0, "round closed", (), None)
    >>> record.created, record.values = 0.0, {"round": 3}
    >>> JSONLines().format(record)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "event": "round closed", "round": 3}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; of an error its kind and place, not its text."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.created % 1 * 1000):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "values", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                code = trace.tb_frame.f_code
                line["at"] = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: str) -> None:
    """Write lines of JSON to standard error: ours, and what uvicorn warns of."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    for name, least in (("fedsel.service", level), ("uvicorn", "warning")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least.upper())
