"""Compiled kernels of the samplers, and the tables that they read.

They are compiled when the package is built (`native/`, C). An installation without them serves
devices and servers all the same; simulations need them.
"""

from fedsel._compiled import native
from fedsel._internal.extras import MissingExtra

if native is None:
    raise MissingExtra(
        "simulations need fedsel's compiled kernels, which this installation lacks: install a "
        "wheel of this platform, or a C compiler and then: pip install --force-reinstall fedsel"
    )

__all__ = ["native"]
