"""Test vectors: what a client in another language must compute from the same bytes and words.

fedsel itself computes them from fixed streams; `SPEC.md` says how they are written.
"""

from tools.vectors.writing import KINDS, VERSION, differences, file_of, text_of, write

__all__ = ["KINDS", "VERSION", "differences", "file_of", "text_of", "write"]
