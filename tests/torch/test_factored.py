"""Gradients in two factors: whatever a module does with its weights, they are vmap's gradients."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsel.data.partition import by_groups
from fedsel.errors import InvalidArgument
from fedsel.sampling._batch import Outer, rows_of
from fedsel.torch import ClientUpdates, Local
from fedsel.torch._gradients import CHUNK_BYTES
from tests.torch.support import N, Own, check, plain, updates_of

F = nn.functional
# Modules in TorchScript are deprecated, and around.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def weighted(outputs, targets):
    """A mean that weights cancel from where there is one record: not the batch's mean loss."""
    weight = torch.tensor([1.0, 5.0, 0.2, 1.0, 1.0, 1.0]).to(outputs.dtype)
    return F.cross_entropy(outputs, targets, weight=weight[: outputs.shape[1]])


def frozen(module, *names):
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in names)
    return module


def hooked():
    module = nn.Sequential(nn.Linear(6, 3))
    module[0].register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
    return module


def shared_bias():
    module = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 3))
    module[2].bias = module[0].bias
    return module


def tied():
    module = Own(plain)
    module.two = nn.Linear(6, 6)
    module.two.weight = module.one.weight
    return module


def scripted():
    module = Own(lambda own, x: own.two(own.script(x)))
    module.script = torch.jit.script(module.one)
    return module


def cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(self.words((5 * x.sigmoid()).long()).mean(1))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Centred(nn.Sequential):
    def forward(self, x):
        x = super().forward(x)
        return x - x.mean(0) + 0.1 * x.sum()


def mixed(own, x):
    """What a layer sees of a batch: sums, orders and ranks of its rows."""
    x = own.one(x - 0.5 * x.mean(0)) + x.cumsum(0)
    return own.two(x.sort(0).values) * (1 + len(x))


def on_its_device(own, x):
    x = x.to(own.one.weight.device, own.one.weight.dtype)
    return plain(own, x)


def in_place(own, x):
    return own.two(F.relu_(own.one(x))).mul_(2)


def residual(own, x):
    return own.two(x + own.one(x).tanh())


def a_branch_without_gradient(own, x):
    with torch.no_grad():
        own.one(x)
    return own.two(x)


def a_row(own, x):
    return own.two(own.one(x[0]))[None]


def a_bias_for_all(own, x):
    return F.linear(x, own.two.weight, own.two.bias[:1])


def twice(own, x):
    return own.two(own.one(own.one(x)))


class Twice(torch.Tensor):
    """A tensor with a linear layer of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs)
        return 2 * made.as_subclass(torch.Tensor) if func is F.linear else made


def another_tensor(own, x):
    return own.two(own.one(x.as_subclass(Twice)))


class Single(nn.Linear):
    """A weight that is a vector."""

    def __init__(self):
        super().__init__(6, 3)
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x):
        return F.linear(x, self.weight)[:, None] * self.bias


def detached(own, x):
    return own.two(own.one(x).detach())


MODULES = {
    "one layer": (lambda: nn.Linear(6, 3), {"weight"}),
    "without a bias": (lambda: nn.Sequential(nn.Linear(6, 3, bias=False)), {"0.weight"}),
    "a module of its own": (lambda: Own(plain), {"one.weight", "two.weight"}),
    "nested": (
        lambda: nn.Sequential(
            nn.Sequential(nn.Linear(6, 4), nn.GELU()),
            nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.PReLU(), nn.Linear(4, 3)),
        ),
        {"0.0.weight", "1.0.weight", "1.3.weight"},
    ),
    "some frozen": (
        lambda: frozen(
            nn.Sequential(nn.Linear(6, 5), nn.ELU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)),
            "0.weight", "0.bias", "2.bias", "4.weight",
        ),
        {"2.weight"},
    ),
    "a hook": (hooked, {"0.weight"}),
    "a shared bias": (shared_bias, {"0.weight", "2.weight"}),
    "another class of layer": (lambda: Doubled(6, 3), {"weight"}),
    "records centred": (lambda: Centred(nn.Linear(6, 3)), {"0.weight"}),
    "records mixed": (lambda: Own(mixed), {"one.weight", "two.weight"}),
    "a softmax along records": (
        lambda: nn.Sequential(nn.Linear(6, 3), nn.Softmax(dim=0)),
        {"0.weight"},
    ),
    "a look at a weight": (lambda: Own(on_its_device), {"one.weight", "two.weight"}),
    "in place": (lambda: Own(in_place), {"one.weight", "two.weight"}),
    "a residual": (lambda: Own(residual), {"one.weight", "two.weight"}),
    "names of arguments": (
        lambda: Own(lambda own, x: F.linear(bias=own.two.bias, weight=own.two.weight, input=x)),
        {"two.weight"},
    ),
    "a row": (lambda: Own(a_row), {"one.weight", "two.weight"}),
    "a bias for all": (lambda: Own(a_bias_for_all), {"two.weight"}),
    "strides": (
        lambda: Own(lambda own, x: own.two(x.expand(6, 6).t()[:, :1].t())),
        {"two.weight"},
    ),
    "no gradient": (lambda: Own(a_branch_without_gradient), {"two.weight"}),
    "detached": (lambda: Own(detached), {"two.weight"}),
    "words": (Words, {"layer.weight"}),
    "another tensor": (lambda: Own(another_tensor), {"two.weight"}),
    "a weight of one axis": (Single, set()),
    "a product": (lambda: Own(lambda own, x: own.two(x @ own.one.weight.t())), {"two.weight"}),
    "a layer used twice": (lambda: Own(twice), {"two.weight"}),
    "tied weights": (tied, set()),
    "a penalty": (
        lambda: Own(lambda own, x: plain(own, x) * own.one.weight.norm()),
        {"two.weight"},
    ),
    "its own input": (
        lambda: Own(lambda own, x: plain(own, x) + F.linear(own.two.weight[:1], own.two.weight)),
        {"one.weight"},
    ),
    "a parametrisation": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)),
        set(),
    ),
    "several rows": (
        lambda: Own(lambda own, x: own.two(own.one(torch.cat([x, -x])).tanh().mean(0, True))),
        {"two.weight"},
    ),
    "double precision": (lambda: Own(plain).double(), set()),
    "another call": (
        lambda: Own(lambda own, x: torch.ops.aten.linear(x, own.two.weight, own.two.bias)),
        set(),
    ),
    "a script": (scripted, {"two.weight"}),
}  # fmt: skip


@pytest.mark.parametrize("loss", [F.cross_entropy, weighted])
@pytest.mark.parametrize("what", MODULES)
def test_gradients_are_vmaps(what, loss):
    make, names = MODULES[what]
    updates = updates_of(make(), loss)
    assert check(updates) == names
    assert check(updates) == names
    assert check(updates, np.array([5])) == set()  # of a single client nothing is gained
    assert check(updates) == names


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_images_and_attention():
    images = updates_of(cnn(), shape=(1, 6, 6))
    assert check(images) == {"3.weight"}
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    attention = updates_of(nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 3)), shape=(4, 6))
    assert check(attention) == {"2.weight"}
    assert (
        check(updates_of(nn.Sequential(nn.Conv2d(1, 3, 6), nn.Flatten()), shape=(1, 6, 6))) == set()
    )
    rows = Own(lambda own, x: plain(own, x).mean(1))
    assert check(updates_of(rows, shape=(2, 6))) == set()
    assert check(updates_of(rows, shape=(1, 6))) == {"one.weight", "two.weight"}


def test_a_module_may_return_several_things():
    def both(outputs, targets):
        return F.cross_entropy(outputs[0], targets) + 0.1 * outputs[1].square().sum()

    module = Own(lambda own, x: (plain(own, x), own.one.weight))
    assert check(updates_of(module, both)) == {"two.weight"}
    module = Own(lambda own, x: (plain(own, x), own.one(x)))
    assert check(updates_of(module, both)) == {"two.weight"}
    module = Own(lambda own, x: (plain(own, x), x))
    assert check(updates_of(module, both)) == {"one.weight", "two.weight"}


def test_a_loss_may_know_the_module():
    """It sees the module's own parameters, which are nobody's variables, as it always did."""
    module = Own(plain)

    def loss(outputs, targets):
        return F.cross_entropy(F.linear(outputs, module.one.weight[:3, :3]), targets)

    assert check(updates_of(module, loss)) == {"one.weight", "two.weight"}


@pytest.mark.parametrize("what", MODULES)
def test_records_are_on_their_own_whatever_the_others_are(what):
    updates = updates_of(MODULES[what][0]())
    updates.receive(updates.layout.read(updates.module))
    whole = updates.vectors(np.arange(N))
    for client in range(N):
        for one, other in zip(updates.vectors(np.array([client])), whole, strict=True):
            np.testing.assert_allclose(
                rows_of(one)[0], rows_of(other)[client], rtol=1e-5, atol=1e-7
            )


def test_updates_that_are_more_than_a_gradient_are_numbers():
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    for more in (
        {"reg": 0.1},
        {"local": Local(rate=0.1)},
        {"partition": by_groups([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])},
        {"partition": by_groups(np.arange(N))},  # that nobody holds two records is private
    ):
        updates = ClientUpdates(nn.Linear(6, 3), F.cross_entropy, X, y, **more)
        updates.receive(np.zeros(21))
        assert not any(isinstance(part, Outer) for part in updates.vectors(np.arange(3)))


def test_the_chunk_is_what_fits_of_what_is_held_for_a_client():
    """Two factors of a wide layer, all numbers of a convolution, and all outputs on the way."""
    wide = updates_of(nn.Linear(600, 500), shape=(600,))
    held = 500 + 600 + 500 + 500 + 1  # δ, x, the slope of the bias, the outputs, the loss
    assert wide.chunk == CHUNK_BYTES // (8 * held)
    images = updates_of(nn.Sequential(nn.Conv2d(1, 7, 5), nn.Flatten()), shape=(1, 9, 9))
    assert images.chunk == CHUNK_BYTES // (8 * (7 * 25 + 7 + 2 * 7 * 25 + 1))
    penalised = Own(lambda own, x: plain(own, x) + own.one.weight.norm() + own.two.weight.norm())
    assert updates_of(penalised).chunk < CHUNK_BYTES // (8 * 63)
    assert (
        ClientUpdates(cnn(), F.cross_entropy, torch.randn(N, 1, 6, 6), [0] * N, chunk=5).chunk == 5
    )


def test_the_chunk_of_clients_with_several_records_counts_the_way_to_their_loss_too():
    """Few trainable parameters behind many frozen ones: what is on the way is what fills memory."""
    net = nn.Sequential(nn.Linear(6, 5000), nn.ReLU(), nn.Linear(5000, 1))
    net[0].requires_grad_(False)
    net[2].requires_grad_(False)
    net.append(nn.Linear(1, 3))
    owners = by_groups([0] * 6 + [1] * 4 + [2, 2])
    data = torch.randn(N, 6), torch.randint(0, 3, (N,))
    alone = ClientUpdates(net, F.cross_entropy, *data, reg=0.1).chunk
    assert CHUNK_BYTES // (8 * 11_000) < alone < CHUNK_BYTES // (8 * 10_000)
    together = ClientUpdates(net, F.cross_entropy, *data, partition=owners).chunk
    assert together == pytest.approx(alone / 6, rel=0.05)
    steps = Local(rate=0.1, batch=2)
    stepped = ClientUpdates(net, F.cross_entropy, *data, partition=owners, local=steps).chunk
    assert stepped == pytest.approx(alone / 2, rel=0.05)


def test_not_even_the_sign_of_zero_is_lost():
    """The angle of (-1, -0) is -π, that of (-1, 0) is π."""
    module = nn.Sequential(nn.Linear(1, 3), nn.Identity())
    module[1].forward = lambda x: torch.atan2(x, -torch.ones(3))
    for parameter in module.parameters():
        nn.init.constant_(parameter, -0.0)
    updates = ClientUpdates(module, F.mse_loss, torch.ones(N, 1), torch.zeros(N, 3))
    assert check(updates) == {"0.weight"}


def test_torchs_default_precision_is_of_no_matter():
    module = Own(plain)
    torch.set_default_dtype(torch.float64)
    try:
        assert check(updates_of(module)) == {"one.weight", "two.weight"}
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_loss_of_several_numbers_is_refused():
    def each(outputs, targets):
        return torch.cat([F.cross_entropy(outputs, targets, reduction="none")] * 2)

    with pytest.raises(InvalidArgument, match=r"^loss = 'of shape \(2,\)'"):
        updates_of(nn.Linear(6, 3), each)
