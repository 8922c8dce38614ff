"""Test vectors: what a client in another language must make of the same bytes and words."""

from fedsel.vectors.writing import KINDS, VERSION, text_of, write

__all__ = ["KINDS", "VERSION", "text_of", "write"]
