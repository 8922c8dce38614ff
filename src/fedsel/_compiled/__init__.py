"""The compiled kernels: C, in `sampling/kernels/native`; None in an installation without them.

Such an installation serves devices and servers, more slowly, and simulates nothing.
"""

try:
    from fedsel._compiled import _native as native
except ImportError:
    native = None  # type: ignore[assignment]

__all__ = ["native"]
