"""The version of fedsel."""

__version__ = "0.1.0"
