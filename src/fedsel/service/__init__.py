"""A service that collects reports over HTTP, closes rounds and serves the model: `fedsel serve`.

Needs the extra: ``pip install 'fedsel[service]'``. Docs: docs/service.md.
"""

from fedsel.service.task import CloseRule, Limits, Task

__all__ = ["CloseRule", "Limits", "Task"]
