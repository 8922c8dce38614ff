"""Test vectors: what a client in another language must make of the same bytes and words.

They are made by fedsel itself from fixed streams; `SPEC.md` says how they are written.
"""

from fedsel.vectors.writing import KINDS, VERSION, differences, file_of, text_of, write

__all__ = ["KINDS", "VERSION", "differences", "file_of", "text_of", "write"]
