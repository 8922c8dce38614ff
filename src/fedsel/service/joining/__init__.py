"""The page at ``/join``: a person's browser is a device, and their records never leave it."""

from fedsel.service.joining.files import join_routes

__all__ = ["join_routes"]
