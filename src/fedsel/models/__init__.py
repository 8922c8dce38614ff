"""Models whose gradients clients report."""

from fedsel.models.linear import LinearModel

__all__ = ["LinearModel"]
