"""Compiled kernels of the samplers, and the tables that they read.

Need the extra: ``pip install 'fedsel[simulation]'``.
"""

from fedsel.extras import needed

with needed("simulation", "simulations"):
    import numba as _numba  # noqa: F401
