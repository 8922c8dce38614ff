"""The compiled kernels (C, in `sampling/native`); None in an installation without them.

Such an installation serves devices and servers, more slowly, and cannot simulate.
"""

try:
    from fedsel._internal import _native as native
except ImportError:
    native = None  # type: ignore[assignment]

__all__ = ["native"]
