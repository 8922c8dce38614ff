"""Draw from mechanisms, for one client or for many.

- `device`: one vector, by default with the operating system's randomness;
- `_batch`: many simulated clients with numpy, readable;
- `simulated`: many simulated clients, by `_batch` or by the compiled kernels.

All draw the same integers in the same order (`mechanisms/_drawing.py`), so the same random words
give the same reports.
"""

from fedsel._internal.random import Stream, stream

__all__ = ["Stream", "device", "simulated", "stream"]
