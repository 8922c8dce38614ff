"""What a module must be to be trained by clients, and its parameters as one vector."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedsel.errors import InvalidArgument, check_kind, check_positive


def check_module(module: nn.Module) -> None:
    """Refuse what cannot be trained from reports on the parameters alone.

    >>> check_module(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: module = 'BatchNorm1d at "1"': must be without batch norm, ...
    """
    check_kind("module", module, nn.Module)
    for name, part in module.named_modules():
        place = f'{type(part).__name__} at "{name}"'
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise InvalidArgument(
                "module",
                place,
                "without batch norm, which mixes the records of clients and keeps statistics of"
                " them that nobody has made private; use GroupNorm or LayerNorm",
            )
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
            raise InvalidArgument(
                "module",
                place,
                "without dropout: it draws from torch's own generator, and results would depend on"
                " more than the seed",
            )
    buffers = [name for name, _ in module.named_buffers()]
    if buffers:
        raise InvalidArgument(
            "module",
            f"buffers {', '.join(buffers[:3])}{', …' if len(buffers) > 3 else ''}",
            "without buffers: only parameters are reported on",
        )
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidArgument("module", type(module).__name__, "a module with trainable parameters")
    if not all(p.dtype in (torch.float32, torch.float64) for p in parameters):
        raise InvalidArgument("module", type(module).__name__, "of float32 or float64 parameters")
    if not all(bool(torch.isfinite(p).all()) for p in parameters):
        raise InvalidArgument("module", "NaN or infinite parameters", "finite")


class Layout:
    """The trainable parameters of a module as one vector (d,), in the order of the module.

    >>> layout = Layout(nn.Linear(3, 2))
    >>> layout.dim, layout.names
    (8, ['weight', 'bias'])
    """

    def __init__(self, module: nn.Module) -> None:
        trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self.names = [name for name, _ in trainable]
        self.shapes = [p.shape for _, p in trainable]
        self.ends = np.cumsum([p.numel() for _, p in trainable]).tolist()

    @property
    def dim(self) -> int:
        """d, the number of trainable parameters."""
        return int(self.ends[-1])

    @property
    def slices(self) -> list[slice]:
        """Where each parameter lies in the vector."""
        return [slice(a, b) for a, b in zip([0, *self.ends], self.ends, strict=False)]

    def read(self, module: nn.Module) -> NDArray[np.float64]:
        """The parameters of a module as a vector."""
        parameters = dict(module.named_parameters())
        flat = [parameters[name].detach().double().cpu().reshape(-1) for name in self.names]
        vector: NDArray[np.float64] = torch.cat(flat).numpy()
        return vector

    def write(self, module: nn.Module, vector: NDArray[np.float64]) -> None:
        """Set the parameters of a module from a vector."""
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for name, place in zip(self.names, self.slices, strict=True):
                parameter = parameters[name]
                part = torch.from_numpy(vector[place]).reshape(parameter.shape)
                parameter.copy_(part)

    def scales(self, clip_scale: Mapping[str, float] | None) -> NDArray[np.float32] | None:
        """The factor of the clip for each entry (d,), from factors by parameter or submodule.

        >>> net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        >>> Layout(net).scales({"0": 0.5, "1.bias": 2.0}).tolist()
        [0.5, 0.5, 1.0, 2.0]
        """
        if clip_scale is None:
            return None
        factors = np.ones(self.dim, dtype=np.float32)
        # The shorter name first: "1.bias" overrides "1".
        for prefix in sorted(clip_scale, key=len):
            factor = check_positive(f"clip_scale[{prefix!r}]", clip_scale[prefix])
            hits = [n == prefix or n.startswith(prefix + ".") for n in self.names]
            if not any(hits):
                raise InvalidArgument(
                    "clip_scale", prefix, f"names of parameters or submodules: {self.names}"
                )
            for place, hit in zip(self.slices, hits, strict=True):
                if hit:
                    factors[place] = factor
        return factors
