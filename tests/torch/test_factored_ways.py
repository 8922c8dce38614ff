"""A forward pass that takes another way, now or later: its gradients are vmap's all the same."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, jvp, vmap
from torch.overrides import TorchFunctionMode

from fedsel.torch import _factored as factored
from tests.torch.support import CLIENTS, Own, check, plain, updates_of

# Modules in TorchScript are deprecated, and around.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def inner_slope(own, x):
    hidden = own.one(x)
    outputs = own.two(hidden.tanh())
    return (
        outputs + torch.autograd.grad(outputs.square().sum(), hidden, create_graph=True)[0][:, :3]
    )


def inner_slope_of_a_weight(own, x):
    outputs = plain(own, x)
    weight = own.two.weight
    (slope,) = torch.autograd.grad(outputs.square().sum(), weight, create_graph=True)
    return outputs + slope.sum(1)


def inner_slope_perhaps(own, x):
    outputs = plain(own, x)
    weights = own.two.weight, own.one.weight
    slopes = torch.autograd.grad(outputs.sum(), weights, create_graph=True, allow_unused=True)
    return outputs * sum(slope.square().sum() for slope in slopes if slope is not None)


def inner_slope_for_sure(own, x):
    outputs = plain(own, x)
    weight = own.two.weight
    slopes = torch.autograd.grad(outputs.sum(), weight, create_graph=True, allow_unused=True)
    return outputs + slopes[0].sum(1)


def inner_transform(own, x):
    return plain(own, x) + grad(lambda x: plain(own, x).square().sum())(x)[:, :3]


def rows_by_vmap(own, x):
    return vmap(lambda row: plain(own, row))(torch.cat([x, -x])).mean(0, True)


def forward_mode(own, x):
    return jvp(lambda x: plain(own, x), (x,), (torch.ones_like(x),))[1]


def dual_numbers(own, x):
    with forward_ad.dual_level():
        made = plain(own, forward_ad.make_dual(x, torch.ones_like(x)))
        return forward_ad.unpack_dual(made).tangent


def hook_of_a_weight(own, x):
    own.one.weight.register_hook(lambda slope: 2 * slope)
    return plain(own, x)


def hook_of_a_node(own, x):
    hidden = own.one(x)
    hidden.grad_fn.register_hook(lambda slopes, _: tuple(s if s is None else 2 * s for s in slopes))
    return own.two(hidden.tanh())


def hook_of_outputs(own, x):
    hidden = own.one(x)
    hidden.register_hook(lambda slope: 2 * slope)
    return own.two(hidden.tanh())


def slope_of_all(own, x):
    """A slope that is the same for all clients, and not zero."""
    norm = 1 * own.one.weight
    norm.register_hook(lambda _slope: torch.ones(6, 6))
    return plain(own, x) + norm.sum()


def half_precision(own, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return plain(own, x).float()


def without_torch_functions(own, x):
    with torch._C.DisableTorchFunction():
        return plain(own, x)


def slope_of(outputs: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    slope = torch.autograd.grad([outputs.sum()], [hidden], create_graph=True)[0]
    assert slope is not None
    return slope


def derivative_in_a_script(own, x):
    hidden = own.one(x)
    return torch.jit.script(slope_of)(own.two(hidden.tanh()).square(), hidden)[:, :3]


WAYS = {
    "a slope": (inner_slope, set()),
    "a slope of a weight": (inner_slope_of_a_weight, set()),
    "a slope of a weight, if any": (inner_slope_perhaps, set()),
    "a slope of a weight, for sure": (inner_slope_for_sure, set()),
    "a transform": (inner_transform, set()),
    "rows by vmap": (rows_by_vmap, set()),
    "forward mode": (forward_mode, set()),
    "dual numbers": (dual_numbers, set()),
    "a hook of a weight": (hook_of_a_weight, set()),
    "a hook of a node": (hook_of_a_node, set()),
    "a hook of outputs": (hook_of_outputs, {"one.weight", "two.weight"}),
    "a slope of all": (slope_of_all, {"two.weight"}),
    "half precision": (half_precision, set()),
    "without torch functions": (without_torch_functions, set()),
    "a derivative in a script": (derivative_in_a_script, set()),
    "a layer used twice": (lambda own, x: plain(own, own.one(x)), {"two.weight"}),
    "several rows": (lambda own, x: plain(own, torch.cat([x, -x])).mean(0, True), set()),
    "another shape": (lambda own, x: plain(own, x[0])[None], set()),
    "a layer left out": (lambda own, x: own.two(x), {"two.weight"}),
    "a layer in vain": (lambda own, x: (own.one(x), own.two(x))[1], {"two.weight"}),
    "another order": (lambda own, x: own.two(x) + own.one(x)[:, :3], {"one.weight", "two.weight"}),
    "a penalty": (lambda own, x: plain(own, x) + own.one.weight.sum(), {"two.weight"}),
    "without gradients": (torch.no_grad()(plain), set()),
}


@pytest.mark.parametrize("what", WAYS)
def test_a_forward_pass_may_take_another_way_later(what):
    way, names = WAYS[what]
    module = Own(plain)
    updates = updates_of(module)
    assert check(updates) == {"one.weight", "two.weight"}
    module.way = way
    assert check(updates) == names
    assert check(updates) == names
    module.way = plain
    assert check(updates) == names  # once it was anything else, it is an ordinary one


@pytest.mark.parametrize("what", WAYS)
def test_or_that_way_from_the_start(what):
    way, names = WAYS[what]
    updates = updates_of(Own(way))
    if what == "another shape":
        names = {"one.weight", "two.weight"}
    assert check(updates) == names
    updates.module.way = plain
    assert check(updates) <= names


def test_a_module_may_be_compiled():
    """Which layers are seen then is the compiler's affair."""
    updates = updates_of(Own(torch.compile(plain, backend="eager")))
    check(updates)
    check(updates)
    updates = updates_of(Own(plain))
    updates.module.way = torch.compile(plain, backend="eager")
    check(updates)
    updates = updates_of(Own(plain))
    updates.module.one = torch.compile(updates.module.one, backend="eager")
    check(updates_of(updates.module))


class Twice(TorchFunctionMode):
    """A mode in which linear layers are other than torch's."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        return 2 * made if func is torch.nn.functional.linear else made


def test_a_mode_may_say_what_a_layer_is():
    updates = updates_of(Own(plain))
    with Twice():
        assert check(updates) == set()
        assert check(updates_of(Own(plain))) == set()

    def within(own, x):
        with Twice():
            return plain(own, x)

    updates = updates_of(Own(plain))
    updates.module.way = within
    assert check(updates) == {"one.weight", "two.weight"}


def test_the_mode_of_a_module_may_change():
    module = Own(lambda own, x: plain(own, x) if own.training else own.two(own.one(own.one(x))))
    updates = updates_of(module)
    assert check(updates) == {"one.weight", "two.weight"}
    module.eval()
    assert check(updates) == {"two.weight"}


def test_inputs_that_are_overwritten_later_are_kept():
    """vmap refuses this; the gradient is that of what the layer has seen."""

    def overwritten(own, x):
        outputs = own.two(x)
        x.mul_(0)
        return outputs

    module = Own(lambda own, x: own.two(x))
    updates = updates_of(module)
    updates.receive(updates.layout.read(module))
    expected = updates.vectors(CLIENTS)[2].rows()
    module.way = overwritten
    np.testing.assert_array_equal(updates.vectors(CLIENTS)[2].rows(), expected)
    assert np.abs(expected).max() > 0
    with pytest.raises(RuntimeError, match="inplace"):
        updates_of(module)


def test_what_is_not_used_has_no_gradient_whatever_it_saw():
    module = Own(lambda own, x: (own.one(x / 0), own.two(x))[1])
    assert check(updates_of(module)) == {"two.weight"}
    module = Own(lambda own, x: own.two(x))
    updates = updates_of(module)
    module.way = lambda own, x: (own.one(x / 0), own.two(x))[1]
    assert check(updates) == {"two.weight"}


def test_without_the_depth_of_transforms_nothing_is_factored(monkeypatch):
    """Another version of torch may not tell it."""
    monkeypatch.setattr(factored, "_level", None)
    assert check(updates_of(Own(plain))) == set()
    assert check(updates_of(Own(rows_by_vmap))) == set()
