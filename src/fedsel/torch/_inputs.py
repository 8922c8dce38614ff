"""Inputs on a public scale, and the layer of a module that takes scale and centre up again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from fedsel.errors import InvalidArgument
from fedsel.preparation import FeatureScale, Preparation, PublicMeans
from fedsel.preparation._given import check_rows
from fedsel.torch._modules import Layout, Untouched
from fedsel.torch._records import Records

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""loss(outputs (n, …), targets (n, …)) → the mean loss, a scalar."""
_JUDGED_AT_A_TIME = 4096

Doubles = NDArray[np.float64]
NEEDED = (
    "where the first layer is not a trainable nn.Linear with a bias that alone sees the flattened"
    " input: nothing in the module could take up {} after training"
)
_PROBES = 4


@dataclass(frozen=True, eq=False)
class Inputs:
    """The public scale of inputs of one ``shape``, and where the first layer lies in the weights.

    ``weight`` and ``bias`` are its places in the vector of all parameters; None where no layer can
    take up a scale.
    """

    scale: FeatureScale
    shape: tuple[int, ...]
    weight: slice | None
    bias: slice | None

    @classmethod
    def of(cls, feature_range: Any, module: nn.Module, layout: Layout, X: torch.Tensor) -> Self:
        """The scale for inputs of the shape of X (n, …); their values are not read."""
        shape = tuple(X.shape[1:])
        scale = _scale(feature_range, shape)
        layer = _only_reader(module, X)
        names = {id(p): name for name, p in module.named_parameters()}
        places = dict(zip(layout.names, layout.slices, strict=True))
        ends = () if layer is None else (layer.weight, layer.bias)
        found = [places.get(names.get(id(p), "")) for p in ends]
        if len(found) == 2 and None not in found:
            inputs = cls(scale, shape, *found)
            if inputs._folds(module, layout, X):
                return inputs
        if scale.centre.any() or (scale.factor != 1).any():
            actual = f"bounds with another scale than [-1, 1] and {type(module).__name__}"
            allowed = f"None or bounds such as (0, 1) or (-1, 1) {NEEDED.format('the scale')}"
            raise InvalidArgument("feature_range", actual, allowed)
        return cls(scale, shape, None, None)

    @property
    def features(self) -> int:
        """The entries of one input."""
        return len(self.scale.low)

    @property
    def foldable(self) -> bool:
        """Whether a layer can take up scale and centre."""
        return self.weight is not None

    @property
    def unprepared(self) -> Preparation:
        """The preparation where nothing is learnt: inputs on their scale stay as they are."""
        return Preparation.plain(self.features, intercept=0.0, unit=False)

    def means(self, public_mean: Any) -> PublicMeans:
        """Published means of an input's entries: an array of its shape, or by flat number."""
        if not self.foldable:
            allowed = f"omitted {NEEDED.format('the centre')}"
            raise InvalidArgument("public_mean", public_mean, allowed)
        if not isinstance(public_mean, Mapping) and np.shape(public_mean) == self.shape:
            public_mean = np.reshape(public_mean, -1)
        return PublicMeans.of(public_mean, self.scale)

    def rows(self, public_rows: Any) -> NDArray[np.float32]:
        """Public rows (m, …) as flat records (m, features) on the public scale."""
        if not self.foldable:
            allowed = f"omitted {NEEDED.format('what they tell')}"
            raise InvalidArgument("public_rows", "rows", allowed)
        given = np.asarray(public_rows)
        if given.shape[1:] == self.shape:
            given = given.reshape(len(given), -1)
        scaled: NDArray[np.float32] = self.scale.apply(check_rows(given, self.features))
        return scaled

    def check_shape(self, name: str, X: torch.Tensor) -> None:
        """Refuse inputs (n, …) of another shape."""
        if tuple(X.shape[1:]) != self.shape:
            raise InvalidArgument(name, f"of shape {tuple(X.shape[1:])}", f"{self.shape}, as X")

    def records(self, X: torch.Tensor) -> NDArray[np.float32]:
        """Inputs (n, …) as flat records (n, features) on the public scale."""
        flat = X.detach().cpu().reshape(len(X), -1).numpy()
        scaled: NDArray[np.float32] = self.scale.apply(flat)
        return scaled

    def prepared(self, X: torch.Tensor, preparation: Preparation) -> torch.Tensor:
        """Raw inputs (n, …) as clients train on them, in their type."""
        return torch.from_numpy(preparation.records(self.records(X))).to(X.dtype).reshape(X.shape)

    def folded(self, weights: Doubles, preparation: Preparation) -> Doubles:
        """Weights (d,) of a module on raw inputs, from those of one on prepared inputs.

        The outputs are the same wherever nothing is clipped: within the bounds and the spread.
        """
        if self.weight is None or self.bias is None:
            return weights
        folded = weights.copy()
        slopes, constants = preparation.linear(weights[self.weight].reshape(-1, self.features))
        slopes *= self.scale.factor
        folded[self.weight] = slopes.reshape(-1)
        folded[self.bias] += constants - slopes @ self.scale.centre
        return folded

    def unfolded(self, weights: Doubles, preparation: Preparation) -> Doubles:
        """The inverse of `folded`: where a second training begins."""
        if self.weight is None or self.bias is None:
            return weights
        unfolded = weights.copy()
        slopes = weights[self.weight].reshape(-1, self.features)
        rows = slopes / self.scale.factor * preparation.spread
        unfolded[self.bias] += slopes @ self.scale.centre + rows @ preparation.centre
        if preparation.mixing is not None:
            solved = np.linalg.solve(preparation.mixing.T, rows.T)
            rows = solved.T.astype(np.float64)
        unfolded[self.weight] = rows.reshape(-1) / preparation.factor
        return unfolded

    def _folds(self, module: nn.Module, layout: Layout, X: torch.Tensor) -> bool:
        """Whether folding does what it should: nothing else in the module sees its input."""
        rng = np.random.default_rng(0)
        scaled = rng.uniform(-0.5, 0.5, (_PROBES, self.features))
        centre = rng.uniform(-0.5, 0.5, self.features)
        preparation = Preparation(np.full(self.features, 0.75), centre, 0.0, False)
        weights = layout.read(module)
        raw = scaled / self.scale.factor + self.scale.centre
        with Untouched(module):
            expected = _outputs(module, layout, weights, self._like(scaled / 0.75 - centre, X))
            made = _outputs(module, layout, self.folded(weights, preparation), self._like(raw, X))
        return bool(torch.allclose(made, expected, rtol=1e-3, atol=1e-4))

    def _like(self, rows: Doubles, X: torch.Tensor) -> torch.Tensor:
        dtype = X.dtype if X.is_floating_point() else torch.get_default_dtype()
        return torch.from_numpy(rows).to(dtype).reshape(len(rows), *self.shape)


def _scale(feature_range: Any, shape: tuple[int, ...]) -> FeatureScale:
    """Bounds are numbers, or arrays that have, or broadcast to, the shape of an input."""
    features = int(np.prod(shape))
    try:
        low, high = feature_range
        if np.ndim(low) or np.ndim(high):
            ends = (np.asarray(end, np.float64) for end in (low, high))
            feature_range = [np.broadcast_to(end, shape).reshape(-1) for end in ends]
    except (TypeError, ValueError):
        pass  # one flat array each, or an error
    return FeatureScale.of(feature_range, features)


def _only_reader(module: nn.Module, X: torch.Tensor) -> nn.Linear | None:
    """The nn.Linear that is given a whole input, flattened or not; None if there is none or more.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> _only_reader(net, torch.ones(5, 2, 2)) is net[1]
    True
    """
    parameter = next(module.parameters())
    generator = torch.Generator().manual_seed(0)
    probe = torch.rand((2, *X.shape[1:]), generator=generator)
    probe = probe.to(parameter.device, parameter.dtype)
    found: list[nn.Linear] = []

    def look(part: nn.Module, given: tuple[Any, ...]) -> None:
        whole = given[0] if given else None
        flat = probe.reshape(2, -1)
        if isinstance(part, nn.Linear) and whole is not None and torch.equal(whole, flat):
            found.append(part)

    with torch.no_grad(), Untouched(module):  # which removes the hooks
        for part in module.modules():
            part.register_forward_pre_hook(look)
        module(probe)
    return found[0] if len(found) == 1 else None


def _outputs(
    module: nn.Module, layout: Layout, weights: Doubles, inputs: torch.Tensor
) -> torch.Tensor:
    parameters = dict(module.named_parameters())
    own = {}
    for name, place in zip(layout.names, layout.slices, strict=True):
        parameter = parameters[name]
        part = torch.from_numpy(weights[place]).to(parameter.device, parameter.dtype)
        own[name] = part.reshape(parameter.shape)
    device = next(iter(own.values())).device
    with torch.no_grad():
        outputs: torch.Tensor = functional_call(module, own, (inputs.to(device),))
    return outputs


class ModuleJudge:
    """Accuracy and regularised loss of a module with given weights, on test records."""

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        reg: float,
        test: Records,
        inputs: Inputs | None,
        known: Preparation | None,
        chunk: int = _JUDGED_AT_A_TIME,
    ) -> None:
        self._module, self._loss, self._reg, self._inputs = module, loss, reg, inputs
        self._chunk = min(chunk, _JUDGED_AT_A_TIME)
        self._records, self._preparation = test, known
        self._layout, self._untouched = Layout(module), Untouched(module, loss)
        if inputs is not None:
            inputs.check_shape("eval_set", test.like[0])
        x, y = test.like
        try:  # on a record of nobody, before anything is spent
            with self._untouched:
                self._scored(self._layout.read(module), x, y)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            actual = f"inputs of shape {tuple(x.shape[1:])} and targets of {tuple(y.shape[1:])}"
            allowed = "of shapes and types that module and loss take, as those of clients"
            raise InvalidArgument("eval_set", actual, allowed) from error

    def prepared(self, preparation: Preparation) -> ModuleJudge:
        """The same judge, its records prepared as clients prepare theirs."""
        other = copy(self)
        other._preparation = preparation
        return other

    def __call__(self, weights: NDArray[np.float64], /) -> tuple[list[float], list[float]]:
        results = [self._judged(one) for one in weights]
        return [hit for hit, _ in results], [loss for _, loss in results]

    def _judged(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        count, hits, total = len(self._records), 0.0, 0.0
        with self._untouched:
            for at in range(0, count, self._chunk):
                x, t = self._records.read(np.arange(at, min(at + self._chunk, count)))
                if self._inputs is not None and self._preparation is not None:
                    x = self._inputs.prepared(x, self._preparation)
                right, loss = self._scored(weights, x, t)
                hits, total = hits + right, total + loss * len(x)
        penalty = self._reg / 2 * float(weights @ weights)
        return hits / count, total / count + penalty

    def _scored(self, weights: Doubles, x: torch.Tensor, t: torch.Tensor) -> tuple[float, float]:
        """The right answers, and the mean loss, on inputs (n, …) and targets (n, …)."""
        outputs = _outputs(self._module, self._layout, weights, x)
        t = t.to(outputs.device)
        return hits_of(outputs, t), float(self._loss(outputs, t))


def outputs_of(module: nn.Module, X: torch.Tensor) -> int:
    """How many classes a module tells apart: by the shape of its outputs, whatever the records.

    >>> outputs_of(nn.Linear(3, 5), torch.ones(2, 3)), outputs_of(nn.Linear(3, 1), torch.ones(2, 3))
    (5, 2)
    """
    return max(2, width_of(module, X))


def width_of(module: nn.Module, X: torch.Tensor) -> int:
    """How many numbers a module gives for a record."""
    parameter = next(module.parameters())
    nothing = torch.zeros_like(X[:1]).to(parameter.device)
    with torch.no_grad(), Untouched(module):
        outputs = module(nothing)
    return int(outputs.shape[1]) if outputs.ndim > 1 else 1


def hits_of(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """How many answers are right: the largest of several outputs, or the sign of a single one.

    NaN where targets are no class numbers: several outputs of a regression are neither.

    >>> hits_of(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    1
    >>> hits_of(torch.tensor([[0.3], [-2.0]]), torch.tensor([1, -1]))
    2
    """
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        return int(((outputs.reshape(-1) >= 0) == (targets.reshape(-1) > 0)).sum())
    answers = outputs.argmax(dim=1)
    return int((answers == targets).sum()) if answers.shape == targets.shape else math.nan
