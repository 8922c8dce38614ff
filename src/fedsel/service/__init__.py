"""A service that collects reports over HTTP, closes rounds and serves the model: `fedsel serve`.

Needs the extra: ``pip install 'fedsel[service]'``. Docs: docs/service.md.
"""

from fedsel.service._task import Limits, Task
from fedsel.wire import CloseRule

__all__ = ["CloseRule", "Limits", "Task"]
