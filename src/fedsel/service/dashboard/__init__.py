"""The page for people who watch a run: at ``/``, complete without JavaScript, live with it."""

from fedsel.service.dashboard._handlers import Dashboard

__all__ = ["Dashboard"]
