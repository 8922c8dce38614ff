"""Drawing from one definition of each mechanism, for one client or for many.

- `device`: one vector, by default with the operating system's randomness;
- `batch`: many simulated clients with numpy, readable;
- `simulated`: many simulated clients, by `batch` or by the compiled `kernels`.

All draw the same integers in the same order (`fedsel.mechanisms.drawing`), so that on the same
words they give the same reports.
"""

__all__ = ["batch", "device", "simulated"]
