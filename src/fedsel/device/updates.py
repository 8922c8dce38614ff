"""A client's update as the device reads it: d finite numbers, however it was computed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Update = Callable[[NDArray[np.floating]], ArrayLike] | ArrayLike
"""A client's update (its gradient): a function of the weights, or the vector itself."""
FloatSettings = Mapping[str, Any]
"""What `numpy.geterr` says and `numpy.errstate` takes."""

_LOG = logging.getLogger("fedsel.device")
_LARGEST = float(np.finfo(np.float32).max)


def evaluated(
    update: Update, weights: NDArray[np.floating], dim: int, settings: FloatSettings
) -> NDArray[np.float32]:
    """The update as d finite float32; zeros where there is none, because silence would tell.

    The update is the program's own code: it runs under the program's own floating-point settings.
    """
    try:
        with np.errstate(**settings):
            value: Any = update(weights) if callable(update) else update
        array = None if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        fits = array is not None and array.shape == (dim,) and array.dtype.kind in "fiub"
        finite = saturated(np.asarray(array)) if fits else None
    except KeyboardInterrupt:
        raise
    except BaseException:  # also sys.exit, a cancelled task, a panic of native code
        finite = None
    if finite is None:
        # No exception and no detail: they may hold what the update was computed from.
        _LOG.warning("the update failed or is no vector of d real numbers: zeros were used")
        return saturated(np.zeros(dim))  # in the same time
    return finite


def saturated(values: NDArray[Any], factor: float = 1.0) -> NDArray[np.float32]:
    """Finite float32 of numbers times a factor: NaN becomes 0, what is too large the largest."""
    scaled = values.astype(np.float64) * factor
    finite = np.nan_to_num(scaled, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
    return np.clip(finite, -_LARGEST, _LARGEST).astype(np.float32)
