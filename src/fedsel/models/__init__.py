"""Models whose gradients clients report."""

from fedsel.models.linear import LinearModel
from fedsel.models.multiclass import MulticlassModel

__all__ = ["LinearModel", "MulticlassModel"]
